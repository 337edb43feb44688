//! The simulated device: a seeded model with known constants, so that everything above it can be tested against the
//! truth, on any machine. Its rows say `simulated`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, BufferSpec, cache, family};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::point::{Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, Origin};

pub use self::memory::SimBuffer;
use self::memory::{Content, SimMemory};
pub use self::model::{SimConstants, SimModel, solution_slowdown};
pub use self::spec::{SimFault, SimSpec, SimSpecError, StrayAccess};
use super::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series, nan_bits};
use crate::identity::Identity;
use crate::telemetry::Sensor;

mod memory;
mod model;
mod sensor;
mod spec;

/// What the simulated clock shows of an empty interval, nanoseconds.
const CLOCK_OVERHEAD_NS: f64 = 40.0;
/// What a shell reports of a process that died of a segmentation fault.
const EXIT_OF_A_CRASH: i32 = 139;
/// What stray writes leave: neither number nor sentinel of any format.
const STRAY_BITS: u64 = 0x4242_4242_4242_4242;

/// A solution with what the model needs to time it.
#[derive(Debug, Clone, PartialEq)]
pub struct SimProgram {
    point: Point,
    solution: String,
    counts: Counts,
}

/// A simulated device. Its time is its own: it passes only when something runs.
#[derive(Debug)]
pub struct SimDevice {
    facts: DeviceFacts,
    spec: SimSpec,
    memory: SimMemory,
    now_ns: u64,
    /// Calls of [`Device::time`] so far.
    visits: u64,
    /// Times that memory was allocated or filled anew after something was timed: a round's fresh buffers.
    rounds: u64,
    timed_since_fresh: bool,
    /// What killed the context, if anything did: nothing works any more.
    lost: Option<String>,
    /// `visits`, for the thread that reads its sensor.
    visits_seen: Arc<AtomicU64>,
}

/// The devices that a specification asks for. Their UUIDs belong to the data folder of the identity.
pub fn discover(spec: &SimSpec, identity: &Identity) -> Vec<DeviceFacts> {
    (0..spec.devices).map(|index| spec.model.facts(identity.sim_uuid(index))).collect()
}

impl SimDevice {
    /// Opens the device of these facts.
    pub fn open(facts: &DeviceFacts, spec: &SimSpec) -> Self {
        Self {
            memory: SimMemory::new(facts.memory_bytes),
            facts: facts.clone(),
            spec: spec.clone(),
            now_ns: 0,
            visits: 0,
            rounds: 0,
            timed_since_fresh: false,
            lost: None,
            visits_seen: Arc::default(),
        }
    }

    /// # Errors
    /// [`DeviceError::Lost`] once the context is.
    fn alive(&self) -> Result<(), DeviceError> {
        self.lost.clone().map_or(Ok(()), |reason| Err(DeviceError::Lost { reason }))
    }

    /// Launches, and remembers the end of the context.
    fn launch(&mut self, program: &SimProgram, arrays: &[Array<'_, SimBuffer>]) -> Result<(), DeviceError> {
        self.alive()?;
        self.end_worker(program);
        let outcome = self.note_result(program, arrays).and_then(|()| self.stray(program, arrays));
        if let Err(DeviceError::Lost { reason }) = &outcome {
            self.lost = Some(reason.clone());
        }
        outcome
    }

    /// Never returns where a fault says so.
    fn end_worker(&self, program: &SimProgram) {
        let is = |solution: &String| *solution == program.solution;
        if self.faults().any(|fault| matches!(fault, SimFault::Exit { solution } if is(solution))) {
            std::process::exit(EXIT_OF_A_CRASH);
        }
        while self.faults().any(|fault| matches!(fault, SimFault::Spin { solution } if is(solution))) {
            thread::park();
        }
    }

    /// Accesses one element too many, where a fault says so.
    fn stray(&self, program: &SimProgram, arrays: &[Array<'_, SimBuffer>]) -> Result<(), DeviceError> {
        let planted = self.faults().find_map(|fault| match fault {
            SimFault::OffByOne { kernel, access } if *kernel == program.point.kernel => Some(*access),
            SimFault::OffByOne { .. }
            | SimFault::WrongResult { .. }
            | SimFault::Compile { .. }
            | SimFault::Unloadable { .. }
            | SimFault::OutOfMemory
            | SimFault::Lost { .. }
            | SimFault::Hang { .. }
            | SimFault::Spin { .. }
            | SimFault::Exit { .. }
            | SimFault::Throttled { .. }
            | SimFault::SensorLost { .. }
            | SimFault::Foreign { .. } => None,
        });
        let output = arrays.iter().find(|array| array.spec.role == BufferRole::Output);
        let (Some(access), Some(output)) = (planted, output) else { return Ok(()) };
        match access {
            StrayAccess::WritesBeyond => output.buffer.write_stray(output, PageGuard::Back, STRAY_BITS),
            StrayAccess::WritesBefore => output.buffer.write_stray(output, PageGuard::Front, STRAY_BITS),
            StrayAccess::ReadsBeyond => {
                let Some(input) = arrays.iter().find(|array| matches!(array.spec.role, BufferRole::Input { .. }))
                else {
                    return Ok(());
                };
                // What is read beyond adds nothing to the result, unless it is no number.
                if input.buffer.read_stray(input, PageGuard::Back)?.is_nan() {
                    let BufferSpec { dtype, elements, .. } = output.spec;
                    let offset_bytes = output.offset_bytes + elements.saturating_sub(1) * dtype.bytes();
                    let spec = BufferSpec { elements: 1, rows: None, ..output.spec.clone() };
                    let last = Array { buffer: output.buffer, offset_bytes, spec };
                    output.buffer.write(&last, Content::Bits(nan_bits(dtype)))?;
                }
                Ok(())
            }
        }
    }

    fn faults(&self) -> impl Iterator<Item = &SimFault> {
        self.spec.faults.iter()
    }

    fn freshen(&mut self) {
        if std::mem::take(&mut self.timed_since_fresh) {
            self.rounds += 1;
        }
    }

    fn prepare_one(&self, point: &Point, solution: &Solution) -> Result<Prepared<SimProgram>, DeviceError> {
        let invalid = |log: String| DeviceError::Compile { entry: format!("{point} {solution}"), log };
        let family = family(point.sweep).ok_or_else(|| invalid("its sweep has no kernels yet".to_owned()))?;
        family.check(point).map_err(|error| invalid(error.to_string()))?;
        let is = |broken: &String| *broken == solution.name;
        if self.faults().any(|fault| matches!(fault, SimFault::Compile { solution } if is(solution))) {
            return Err(invalid("injected fault: this solution does not compile".to_owned()));
        }
        if self.faults().any(|fault| matches!(fault, SimFault::Unloadable { solution } if is(solution))) {
            let entry = format!("{point} {solution}");
            return Err(DeviceError::Load { entry, reason: "injected fault: it is of another device".to_owned() });
        }
        let counts = family.counts(point, solution, &self.facts);
        Ok(Prepared {
            program: SimProgram { point: point.clone(), solution: solution.name.clone(), counts },
            launches: family.launches(point, solution, &self.facts),
            source_digest: Some(Sha256Digest::of(family.source().text.as_bytes()).to_hex()),
            code_digest: None,
            compile_options: None,
        })
    }

    /// Notes the result in the outputs. It is worked out when somebody looks, and it is right only if the inputs hold
    /// what the reference presumes.
    fn note_result(&self, program: &SimProgram, arrays: &[Array<'_, SimBuffer>]) -> Result<(), DeviceError> {
        let failed = |reason: String| DeviceError::Launch { what: format!("launching {}", program.point), reason };
        let wanted = family(program.point.sweep).map(|family| family.buffers(&program.point)).unwrap_or_default();
        if wanted.len() != arrays.len() || wanted.iter().zip(arrays).any(|(spec, array)| *spec != array.spec) {
            return Err(failed("its arrays are not those of its point".to_owned()));
        }
        for array in arrays {
            array.buffer.check(array.offset_bytes, array.spec.bytes())?;
        }
        let inputs: Vec<(u64, Option<InputData>)> = arrays
            .iter()
            .filter_map(|array| match array.spec.role {
                BufferRole::Input { seed } => Some((seed, array.buffer.input(array))),
                BufferRole::Output | BufferRole::Scratch => None,
            })
            .collect();
        let pattern = inputs.first().and_then(|(_, data)| *data).map_or(DataPattern::Random, |data| data.pattern);
        let inputs_right =
            inputs.iter().all(|(seed, data)| data.is_some_and(|data| data.seed == *seed && data.pattern == pattern));
        let told_wrong = self
            .faults()
            .any(|fault| matches!(fault, SimFault::WrongResult { kernel } if *kernel == program.point.kernel));
        for (index, array) in arrays.iter().enumerate() {
            if array.spec.role == BufferRole::Output {
                let content = Content::Computed {
                    point: program.point.clone(),
                    pattern,
                    buffer: index,
                    right: inputs_right && !told_wrong,
                };
                array.buffer.write(array, content)?;
            }
        }
        Ok(())
    }

    /// Faults that wait for a number of visits.
    fn fail_late(&self) -> Result<(), DeviceError> {
        for fault in self.faults() {
            match fault {
                SimFault::Lost { after_visits } if self.visits >= *after_visits => {
                    return Err(DeviceError::Lost {
                        reason: format!("injected fault: lost after {after_visits} visits"),
                    });
                }
                SimFault::Hang { after_visits } if self.visits >= *after_visits => loop {
                    thread::park();
                },
                SimFault::Lost { .. }
                | SimFault::Hang { .. }
                | SimFault::Spin { .. }
                | SimFault::Exit { .. }
                | SimFault::WrongResult { .. }
                | SimFault::OffByOne { .. }
                | SimFault::OutOfMemory
                | SimFault::Compile { .. }
                | SimFault::Unloadable { .. }
                | SimFault::Throttled { .. }
                | SimFault::SensorLost { .. }
                | SimFault::Foreign { .. } => {}
            }
        }
        Ok(())
    }

    /// Spends the share of simulated time, and the least time of a visit, that the specification wants spent for real.
    fn spend(&self, simulated_ns: u64) {
        let paced = Duration::from_nanos(simulated_ns).as_secs_f64() * self.spec.pace;
        let paced = Duration::try_from_secs_f64(paced).unwrap_or_default();
        let spent = paced.max(Duration::from_millis(self.spec.visit_ms));
        if !spent.is_zero() {
            thread::sleep(spent);
        }
    }
}

impl Device for SimDevice {
    type Buffer = SimBuffer;
    type Program = SimProgram;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn origin(&self) -> Origin {
        Origin::Simulated
    }

    fn clock_source(&self) -> &'static str {
        "simulated"
    }

    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        Ok(Box::new(sensor::SimSensor {
            visits: Arc::clone(&self.visits_seen),
            faults: self.spec.faults.clone(),
            power_mw: self.facts.power_limit_mw,
            readings: 0,
        }))
    }

    fn instrument(&mut self) -> Result<Instrument, DeviceError> {
        let launch_ns = self.spec.model.constants().launch_latency_s * 1e9;
        Ok(Instrument { clock_resolution_ns: 1.0, clock_overhead_ns: CLOCK_OVERHEAD_NS, empty_launch_ns: launch_ns })
    }

    fn memory_available_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.memory.free_bytes())
    }

    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<SimProgram>, DeviceError>> {
        work.iter().map(|(point, solution)| self.prepare_one(point, solution)).collect()
    }

    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<SimBuffer, DeviceError> {
        self.alive()?;
        self.freshen();
        if self.faults().any(|fault| *fault == SimFault::OutOfMemory) {
            return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: 0 });
        }
        self.memory.allocate(bytes, guard)
    }

    fn fill(&mut self, array: &Array<'_, SimBuffer>, data: &InputData) -> Result<(), DeviceError> {
        self.alive()?;
        self.freshen();
        array.buffer.write(array, Content::Input(*data))
    }

    fn set(&mut self, array: &Array<'_, SimBuffer>, bits: u64) -> Result<(), DeviceError> {
        self.alive()?;
        array.buffer.write(array, Content::Bits(bits))
    }

    fn gather(&mut self, array: &Array<'_, SimBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        self.alive()?;
        array.buffer.gather(array, stride)
    }

    fn run(&mut self, prepared: &Prepared<SimProgram>, arrays: &[Array<'_, SimBuffer>]) -> Result<(), DeviceError> {
        self.launch(&prepared.program, arrays)
    }

    fn time(
        &mut self,
        prepared: &Prepared<SimProgram>,
        arrays: &[Array<'_, SimBuffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let Series { intervals, launches, flush_bytes } = series;
        self.fail_late()?;
        self.launch(&prepared.program, arrays)?;
        let began_ns = self.now_ns;
        let program = &prepared.program;
        let mut noise = model::Noise::new(&self.spec, &self.facts, self.rounds, self.visits, program);
        let flush_s = flush_bytes.map_or(0.0, |bytes| bytes as f64 / self.spec.model.constants().memory_bandwidth);
        let model = self.spec.model;
        let best_s = match (program.point.sweep, program.point.kernel.as_str()) {
            (Sweep::Cache, cache::CHASE) => model.seconds_of_chain(&program.counts),
            _ => model.seconds(&program.counts, flush_bytes.is_some()),
        };
        let truth_s = best_s * solution_slowdown(&program.solution);
        let mut samples = Vec::new();
        for _ in 0..intervals {
            self.now_ns += nanoseconds(flush_s);
            let ns = nanoseconds(launches as f64 * truth_s * noise.factor());
            samples.push(RawSample { start_ns: self.now_ns, ns });
            self.now_ns += ns;
        }
        self.visits += 1;
        self.visits_seen.store(self.visits, Ordering::Relaxed);
        self.timed_since_fresh = true;
        self.spend(self.now_ns - began_ns);
        Ok(samples)
    }
}

/// Whole nanoseconds; a duration beyond `u64` saturates.
fn nanoseconds(seconds: f64) -> u64 {
    (seconds * 1e9).round() as u64
}

#[cfg(test)]
mod tests;
