//! A family, a device and a clock that do as they are told.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::{Batching, DataPattern, MeasuringPolicy};
use fleetcal_model::row::{Counts, Origin};

use crate::device::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use crate::harness::clock::Clock;
use crate::harness::{HarnessError, Setting, measure_family};
use crate::task::TaskSpec;
use crate::telemetry::{Processors, Sensor};
use crate::worker::resume::Resume;

pub(crate) use super::about::{facts, labels};
pub(crate) use super::said::Said;

/// A point of so many elements with so many solutions.
pub(crate) fn point(elements: u64, solutions: u64) -> Point {
    let sizes = BTreeMap::from([("elements".to_owned(), elements), ("solutions".to_owned(), solutions)]);
    Point { sweep: Sweep::Stream, kernel: "copy".to_owned(), dtype: Dtype::F32, sizes }
}

/// Copies, with the solutions `s0`, `s1`, …: `s0` is the fastest.
pub(crate) struct Copies;

impl Family for Copies {
    fn sweep(&self) -> Sweep {
        Sweep::Stream
    }
    fn kernels(&self) -> &'static [&'static str] {
        &["copy"]
    }
    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32]
    }
    fn check(&self, point: &Point) -> Result<(), PointError> {
        match point.size("elements") {
            Some(elements) if elements > 0 => Ok(()),
            _ => Err(PointError::BadSize { size: "elements".to_owned(), value: 0, reason: "it is nothing".to_owned() }),
        }
    }
    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let elements = point.size("elements").unwrap_or(0);
        let spec = |name, role| BufferSpec { name, role, dtype: point.dtype, elements, rows: None };
        vec![spec("c", BufferRole::Output), spec("a", BufferRole::Input { seed: 1 })]
    }
    fn counts(&self, point: &Point, _solution: &Solution) -> Counts {
        Counts { bytes_distinct: 8 * point.size("elements").unwrap_or(0), ..Counts::default() }
    }
    fn solutions(&self, point: &Point, _device: &DeviceFacts) -> Vec<Solution> {
        let parameters =
            |index: u64| BTreeMap::from([("block".to_owned(), 128), ("ns".to_owned(), 1000 + 100 * index)]);
        let solution = |index: u64| Solution { name: format!("s{index}"), parameters: parameters(index) };
        (0..point.size("solutions").unwrap_or(1)).map(solution).collect()
    }
    fn source(&self) -> DeviceSource {
        DeviceSource { name: "copies", text: String::new() }
    }
    fn launch(&self, _point: &Point, _solution: &Solution, _device: &DeviceFacts) -> Launch {
        Launch { entry: "copy".to_owned(), blocks: 1, threads: 1, arguments: Vec::new() }
    }
    fn reference(&self, _point: &Point, _pattern: DataPattern, _buffer: usize, element: u64) -> Expected {
        Expected { value: element as f64 + 1.0, relative_tolerance: 0.0 }
    }
}

/// How a solution misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    DoesNotCompile,
    FailsWhenTimed,
    LosesTheContext,
    IsWrong,
    IsWrongOnceTimed,
    WritesNothing,
    TakesNoTime,
}

/// An allocation that counts itself.
#[derive(Debug)]
pub(crate) struct FakeBuffer {
    bytes: u64,
    held: Rc<Cell<u64>>,
}

impl Drop for FakeBuffer {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.bytes);
    }
}

/// What arrays hold, as far as a check can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Output {
    Poison,
    Right,
    Wrong,
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
    output: Output,
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
            resume: Resume::default(),
            interrupt_after: None,
            spread_percent: 0,
            wobble_permille: BTreeMap::new(),
            slowness: 1,
            clock: Rc::default(),
            sensor: RefCell::new(None),
            opened_at: None,
            processors: None,
            before_time: None,
            interrupt: Rc::default(),
            held: Rc::default(),
            output: Output::Poison,
            output_offset_bytes: 0,
            rounds: 0,
        }
    }

    pub(crate) fn with_fault(mut self, solution: &str, fault: Fault) -> Self {
        self.faults.insert(solution.to_owned(), fault);
        self
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

    fn work(&mut self, prepared: &Prepared<(String, u64)>, arrays: &[Array<'_, FakeBuffer>], timed: bool) -> u64 {
        let fault = self.fault(&prepared.program.0);
        if self.output_offset_bytes != arrays[0].offset_bytes {
            self.rounds += 1;
        }
        self.output_offset_bytes = arrays[0].offset_bytes;
        self.output = match fault {
            Some(Fault::WritesNothing) => self.output,
            Some(Fault::IsWrong) => Output::Wrong,
            Some(Fault::IsWrongOnceTimed) if timed => Output::Wrong,
            _ => Output::Right,
        };
        let ns = if fault == Some(Fault::TakesNoTime) { 0 } else { prepared.program.1 * self.slowness };
        let wobble =
            self.wobble_permille.get(&arrays[0].spec.elements).map_or(0, |permille| permille * (self.rounds % 3));
        let ns = ns + ns * wobble / 1000;
        self.clock.set(self.clock.get() + ns);
        ns
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
        Ok(Instrument { clock_resolution_ns: 1.0, clock_overhead_ns: 2.0, empty_launch_ns: 3.0 })
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
            Ok(Prepared {
                program: (solution.name.clone(), solution.parameter("ns").unwrap_or(0)),
                launch: Copies.launch(point, solution, &self.facts),
                source_digest: None,
                code_digest: Some("c0de".to_owned()),
                compile_options: None,
            })
        };
        work.iter().map(one).collect()
    }
    fn allocate(&mut self, bytes: u64, _guard: PageGuard) -> Result<FakeBuffer, DeviceError> {
        if self.allocations_left == 0 {
            self.allocations_left = u64::MAX;
            return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: 0 });
        }
        self.allocations_left -= 1;
        self.held.set(self.held.get() + bytes);
        self.peak_bytes = self.peak_bytes.max(self.held.get());
        Ok(FakeBuffer { bytes, held: Rc::clone(&self.held) })
    }
    fn fill(&mut self, array: &Array<'_, FakeBuffer>, data: &InputData) -> Result<(), DeviceError> {
        self.log.push(format!("fill {} seed {}", array.spec.elements, data.seed));
        Ok(())
    }
    fn set(&mut self, array: &Array<'_, FakeBuffer>, _bits: u64) -> Result<(), DeviceError> {
        self.log.push(format!("poison {}", array.spec.elements));
        self.output = Output::Poison;
        Ok(())
    }
    fn gather(&mut self, array: &Array<'_, FakeBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        self.log.push(format!("gather {} stride {stride}", array.spec.elements));
        let first = (array.offset_bytes - self.output_offset_bytes) / array.spec.dtype.bytes();
        let value = |element: u64| match self.output {
            Output::Poison => f64::NAN,
            Output::Right => element as f64 + 1.0,
            Output::Wrong => 0.0,
        };
        Ok((0..array.spec.elements.div_ceil(stride)).map(|index| value(first + index * stride)).collect())
    }
    fn run(&mut self, prepared: &Prepared<Self::Program>, arrays: &[Array<'_, FakeBuffer>]) -> Result<(), DeviceError> {
        self.log
            .push(format!("run {} of {} at {}", prepared.program.0, arrays[0].spec.elements, arrays[0].offset_bytes));
        if self.fault(&prepared.program.0) == Some(Fault::LosesTheContext) {
            return Err(DeviceError::Lost { reason: "an illegal address".to_owned() });
        }
        self.work(prepared, arrays, false);
        Ok(())
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
        if self.interrupt_after.is_some_and(|limit| calls >= limit) {
            self.interrupt.store(true, Ordering::Relaxed);
        }
        let sample = |index: u64, device: &mut Self| {
            let ns = (0..launches).map(|_| device.work(prepared, arrays, true)).sum::<u64>();
            RawSample { start_ns: device.clock.get() - ns, ns: ns + ns * device.spread_percent * (index % 5) / 100 }
        };
        Ok((0..count).map(|index| sample(index, self)).collect())
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
