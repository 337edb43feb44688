//! A family, a device and a clock that do as they are told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fleetcal_kernels::Family;
use fleetcal_kernels::data::InputData;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::policy::{Batching, MeasuringPolicy};
use fleetcal_model::row::Origin;

use crate::device::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use crate::harness::clock::Clock;
use crate::harness::zones::ZONE_NAME;
use crate::harness::{HarnessError, Setting, measure_family};
use crate::task::TaskSpec;
use crate::telemetry::{Processors, Sensor};
use crate::worker::resume::Resume;

pub(crate) use super::about::{facts, labels};
pub(crate) use super::copies::{Copies, point};
use super::memory::{FakeBuffer, Held};
pub(crate) use super::said::Said;

/// Step of the fake device's clock, nanoseconds.
const RESOLUTION_NS: u64 = 2;

/// How a solution misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    DoesNotCompile,
    DoesNotLoad,
    FailsWhenTimed,
    LosesTheContext,
    IsWrong,
    IsWrongOnceTimed,
    WritesNothing,
    WritesNothingOnceTimed,
    /// Reads the element behind its input's last into its output's last.
    ReadsBeyond,
    WritesBeyond,
    WritesBefore,
    /// Writes the first element behind its output's first row.
    WritesIntoAGap,
    /// Writes beyond, but only when it is timed.
    WritesBeyondOnceTimed,
    TakesNoTime,
    /// Takes no time in every third interval, as far as the clock can tell.
    TakesNoTimeNowAndThen,
    /// Takes one and a half steps of the clock.
    TakesHardlyAnyTime,
}

/// Does what its faults say, in a time of its own, and writes down what it was asked.
pub(crate) struct FakeDevice {
    facts: DeviceFacts,
    pub(crate) origin: Origin,
    pub(crate) faults: BTreeMap<String, Fault>,
    pub(crate) log: Vec<String>,
    pub(crate) memory_bytes: u64,
    /// Allocations that still succeed; the next one finds no memory.
    pub(crate) allocations_left: u64,
    pub(crate) peak_bytes: u64,
    /// The clock jumps by so much in the call of `time` of this number.
    pub(crate) clock_jump: Option<(u64, i64)>,
    /// What earlier workers did.
    pub(crate) resume: Resume,
    /// Calls of `time` after which `interrupt` is set.
    pub(crate) interrupt_after: Option<u64>,
    /// Relative spread of samples, percent.
    pub(crate) spread_percent: u64,
    /// Difference from one round to the next on arrays of so many elements, per mille.
    pub(crate) wobble_permille: BTreeMap<u64, u64>,
    /// Duration of everything, times this.
    pub(crate) slowness: u64,
    /// Whether kernels look at their inputs: tests with large arrays have better things to do.
    pub(crate) reads_inputs: bool,
    pub(crate) clock: Rc<Cell<u64>>,
    /// What its sensor is, if it has one; `None` once it was asked for.
    pub(crate) sensor: RefCell<Option<Box<dyn Sensor>>>,
    /// When its time began on the host's clock; `None` where its time is its own.
    pub(crate) opened_at: Option<Instant>,
    /// Processors that it pretends to be.
    pub(crate) processors: Option<Processors>,
    /// Called with the number of timed batches so far, before each.
    pub(crate) before_time: Option<Box<dyn FnMut(u64)>>,
    interrupt: Rc<AtomicBool>,
    held: Rc<Cell<u64>>,
    output_offset_bytes: u64,
    /// Rounds seen: buffers lie elsewhere in each.
    rounds: u64,
}

impl FakeDevice {
    pub(crate) fn new() -> Self {
        Self {
            facts: facts(),
            origin: Origin::Simulated,
            faults: BTreeMap::new(),
            log: Vec::new(),
            memory_bytes: 1 << 40,
            allocations_left: u64::MAX,
            peak_bytes: 0,
            clock_jump: None,
            resume: Resume::default(),
            interrupt_after: None,
            spread_percent: 0,
            wobble_permille: BTreeMap::new(),
            slowness: 1,
            reads_inputs: false,
            clock: Rc::default(),
            sensor: RefCell::new(None),
            opened_at: None,
            processors: None,
            before_time: None,
            interrupt: Rc::default(),
            held: Rc::default(),
            output_offset_bytes: 0,
            rounds: 0,
        }
    }

    pub(crate) fn with_fault(mut self, solution: &str, fault: Fault) -> Self {
        self.faults.insert(solution.to_owned(), fault);
        self
    }

    /// Bytes of all allocations that live.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.held.get()
    }

    /// Lines of the log that begin with a word, without it.
    pub(crate) fn logged(&self, word: &str) -> Vec<&str> {
        self.log.iter().filter_map(|line| line.strip_prefix(word)).map(str::trim).collect()
    }

    /// Measures a task with everything else of the fake kind.
    pub(crate) fn measure(&mut self, task: &TaskSpec) -> (Result<(), HarnessError>, Said) {
        let mut events = Vec::new();
        let interrupt = Rc::clone(&self.interrupt);
        let clock = FakeClock(Rc::clone(&self.clock));
        let labels = labels();
        let setting =
            Setting { task, labels: &labels, resume: &self.resume.clone(), interrupt: &interrupt, clock: &clock };
        let outcome = measure_family(self, &Copies, setting, &mut events);
        (outcome, Said(events))
    }

    fn fault(&self, program: &str) -> Option<Fault> {
        self.faults.get(program).copied()
    }

    /// One launch; its time.
    fn work(
        &mut self,
        prepared: &Prepared<(String, u64)>,
        arrays: &[Array<'_, FakeBuffer>],
        timed: bool,
    ) -> Result<u64, DeviceError> {
        let fault = self.fault(&prepared.program.0);
        if self.output_offset_bytes != arrays[0].offset_bytes {
            self.rounds += 1;
        }
        self.output_offset_bytes = arrays[0].offset_bytes;
        let (output, input) = (&arrays[0], &arrays[1]);
        let written = match fault {
            Some(Fault::WritesNothing) => None,
            Some(Fault::WritesNothingOnceTimed) if timed => None,
            Some(Fault::IsWrong) => Some(Held::Wrong),
            Some(Fault::IsWrongOnceTimed) if timed => Some(Held::Wrong),
            _ if self.reads_inputs && !FakeBuffer::is_filled(input) => Some(Held::Wrong),
            _ => Some(Held::Right),
        };
        if let Some(held) = written {
            FakeBuffer::write(output, held, 0, false);
        }
        let end = output.spec.elements as i64;
        match fault {
            Some(Fault::WritesBeyond) => FakeBuffer::stray(output, end, Some(7.0))?,
            Some(Fault::WritesBeyondOnceTimed) if timed => FakeBuffer::stray(output, end, Some(7.0))?,
            Some(Fault::WritesBefore) => FakeBuffer::stray(output, -1, Some(7.0))?,
            Some(Fault::WritesIntoAGap) => {
                let row = output.spec.rows.map_or(0, |rows| rows.elements as i64);
                FakeBuffer::stray(output, row, Some(7.0))?
            }
            Some(Fault::ReadsBeyond) => {
                let last = output.spec.position(output.spec.logical_elements() - 1) as i64;
                let beyond = FakeBuffer::stray(input, end, None)?;
                // Added to the right result, where it is a number at all, it makes no difference.
                FakeBuffer::stray(output, last, Some(last as f64 + 1.0 + 0.0 * beyond))?
            }
            _ => 0.0,
        };
        let ns = match fault {
            Some(Fault::TakesNoTime) => 0,
            Some(Fault::TakesHardlyAnyTime) => 3 * RESOLUTION_NS / 2,
            _ => prepared.program.1 * self.slowness,
        };
        let wobble =
            self.wobble_permille.get(&arrays[0].spec.elements).map_or(0, |permille| permille * (self.rounds % 3));
        let ns = ns + ns * wobble / 1000;
        self.clock.set(self.clock.get() + ns);
        Ok(ns)
    }
}

impl Device for FakeDevice {
    type Buffer = FakeBuffer;
    type Program = (String, u64);

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }
    fn origin(&self) -> Origin {
        self.origin
    }
    fn clock_source(&self) -> &'static str {
        "fake"
    }
    fn opened_at(&self) -> Option<Instant> {
        self.opened_at
    }
    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        self.sensor.take().ok_or_else(|| "the fake has none".to_owned())
    }
    fn processors(&self) -> Option<Processors> {
        self.processors.clone()
    }
    fn instrument(&mut self) -> Result<Instrument, DeviceError> {
        Ok(Instrument { clock_resolution_ns: RESOLUTION_NS as f64, clock_overhead_ns: 2.0, empty_launch_ns: 3.0 })
    }
    fn memory_available_bytes(&self) -> Result<u64, DeviceError> {
        Ok(self.memory_bytes)
    }
    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<Self::Program>, DeviceError>> {
        self.log.push(format!("prepare {}", work.len()));
        let one = |(point, solution): &(Point, Solution)| {
            if self.fault(&solution.name) == Some(Fault::DoesNotCompile) {
                return Err(DeviceError::Compile {
                    entry: solution.name.clone(),
                    log: "a bracket is missing".to_owned(),
                });
            }
            if self.fault(&solution.name) == Some(Fault::DoesNotLoad) {
                let reason = "no kernel image for this device".to_owned();
                return Err(DeviceError::Load { entry: solution.name.clone(), reason });
            }
            Ok(Prepared {
                program: (solution.name.clone(), solution.parameter("ns").unwrap_or(0)),
                launches: Copies.launches(point, solution, &self.facts),
                source_digest: None,
                code_digest: Some("c0de".to_owned()),
                compile_options: None,
            })
        };
        work.iter().map(one).collect()
    }
    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<FakeBuffer, DeviceError> {
        if self.allocations_left == 0 {
            self.allocations_left = u64::MAX;
            return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: 0 });
        }
        self.allocations_left -= 1;
        let buffer = FakeBuffer::new(bytes, guard, &self.held);
        self.peak_bytes = self.peak_bytes.max(self.held.get());
        Ok(buffer)
    }
    fn fill(&mut self, array: &Array<'_, FakeBuffer>, data: &InputData) -> Result<(), DeviceError> {
        self.log.push(format!("fill {} seed {}", array.spec.elements, data.seed));
        FakeBuffer::write(array, Held::Input, data.first_element, true);
        Ok(())
    }
    fn set(&mut self, array: &Array<'_, FakeBuffer>, bits: u64) -> Result<(), DeviceError> {
        let word = if array.spec.name == ZONE_NAME { "guard" } else { "poison" };
        self.log.push(format!("{word} {}", array.spec.elements));
        FakeBuffer::write(array, Held::Value(f64::from(f32::from_bits(bits as u32))), 0, false);
        Ok(())
    }
    fn gather(&mut self, array: &Array<'_, FakeBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        let word = if array.spec.name == ZONE_NAME { "look" } else { "gather" };
        self.log.push(format!("{word} {} stride {stride}", array.spec.elements));
        Ok(FakeBuffer::read(array, stride))
    }
    fn run(&mut self, prepared: &Prepared<Self::Program>, arrays: &[Array<'_, FakeBuffer>]) -> Result<(), DeviceError> {
        self.log
            .push(format!("run {} of {} at {}", prepared.program.0, arrays[0].spec.elements, arrays[0].offset_bytes));
        if self.fault(&prepared.program.0) == Some(Fault::LosesTheContext) {
            return Err(DeviceError::Lost { reason: "an illegal address".to_owned() });
        }
        self.work(prepared, arrays, false).map(drop)
    }
    fn time(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, FakeBuffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let Series { intervals: count, launches, .. } = series;
        let of = if launches > 1 { format!(" of {launches}") } else { String::new() };
        self.log.push(format!("time {} x {count}{of}", prepared.program.0));
        if self.fault(&prepared.program.0) == Some(Fault::FailsWhenTimed) {
            return Err(DeviceError::Launch { what: "timing".to_owned(), reason: "too many resources".to_owned() });
        }
        let calls = self.logged("time").len() as u64;
        if let Some(before_time) = &mut self.before_time {
            before_time(calls - 1);
        }
        if let Some((_, ns)) = self.clock_jump.filter(|(call, _)| *call == calls) {
            self.clock.set(self.clock.get().saturating_add_signed(ns));
        }
        if self.interrupt_after.is_some_and(|limit| calls >= limit) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        let sample = |index: u64, device: &mut Self| {
            let ns = (0..launches).try_fold(0, |ns, _| Ok(ns + device.work(prepared, arrays, true)?))?;
            let spread = ns * device.spread_percent * (index % 5) / 100;
            let unseen = device.fault(&prepared.program.0) == Some(Fault::TakesNoTimeNowAndThen)
                && (device.clock.get() / ns.max(1)).is_multiple_of(3);
            Ok(RawSample { start_ns: device.clock.get() - ns, ns: if unseen { 0 } else { ns + spread } })
        };
        (0..count).map(|index| sample(index, self)).collect()
    }
}

/// A clock that only the device moves.
pub(crate) struct FakeClock(pub(crate) Rc<Cell<u64>>);

impl Clock for FakeClock {
    fn monotonic_ns(&self) -> u64 {
        self.0.get()
    }
    fn sleep(&self, ns: u64) {
        self.0.set(self.0.get() + ns);
    }
    fn utc_ns(&self) -> u64 {
        1_800_000_000_000_000_000 + self.0.get()
    }
}

/// A task of these points under a small policy.
pub(crate) fn task(points: Vec<Point>) -> TaskSpec {
    TaskSpec {
        task_id: "task".into(),
        run_id: "run".into(),
        plan_digest: "plan".to_owned(),
        attempt: 1,
        epoch: 1,
        devices: vec![DeviceId::new("fake")],
        points,
        policy: MeasuringPolicy {
            rounds: 3,
            finalists: 2,
            validate_elements: -1,
            batching: Batching::Never,
            ..MeasuringPolicy::default()
        },
        seed: 7,
        label: None,
        selected: Vec::new(),
        alone_on_node: true,
    }
}

/// A log that listeners share.
pub(crate) type SharedLog = Rc<RefCell<Vec<String>>>;
