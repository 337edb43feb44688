//! Kernels that access what is outside of their arrays are caught on real backends, in both ways of looking.
//!
//! On a CUDA device a launch is given one tile more than its arrays have, or an output that begins one element early:
//! the kernels themselves are right. Where there is no device it is said.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::sync::atomic::AtomicBool;

use fleetcal_agent::device::discovery::{self, DeviceVisitor};
use fleetcal_agent::device::sim::SimSpec;
use fleetcal_agent::device::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use fleetcal_agent::harness::clock::SystemClock;
use fleetcal_agent::harness::{HarnessError, Setting, measure};
use fleetcal_agent::task::TaskSpec;
use fleetcal_agent::worker::message::{Event, RowLabels};
use fleetcal_agent::worker::resume::Resume;
use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{Argument, BufferRole, parameter};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::policy::{BoundsCheck, DataPattern, MeasuringPolicy};
use fleetcal_model::row::{Origin, Row, Status};

const POINT: &str = "stream/copy/f32/elements=32768";

/// How launches go astray.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Astray {
    /// Not at all.
    No,
    /// One tile too many is read and written.
    TileBeyond,
    /// The output is written from one element before its first.
    OneBefore,
}

/// A device whose launches go astray, all of small tiles of single elements, which may begin anywhere: the other
/// solutions are not there.
struct Planted<D> {
    inner: D,
    astray: Astray,
}

/// Elements of a tile that stray launches reach beyond: fewer than a guard zone has.
const TILE_ELEMENTS_MAX: u64 = 512;

impl<D: Device> Planted<D> {
    fn shifted<'a>(&self, arrays: &[Array<'a, D::Buffer>]) -> Vec<Array<'a, D::Buffer>> {
        let place = |array: &Array<'a, D::Buffer>| {
            let early = self.astray == Astray::OneBefore && array.spec.role == BufferRole::Output;
            let offset_bytes = array.offset_bytes - if early { array.spec.dtype.bytes() } else { 0 };
            Array { buffer: array.buffer, offset_bytes, spec: array.spec.clone() }
        };
        arrays.iter().map(place).collect()
    }

    fn plant(&self, prepared: &mut Prepared<D::Program>) {
        if self.astray != Astray::TileBeyond {
            return;
        }
        for launch in &mut prepared.launches {
            launch.blocks += 1;
            if let Some(Argument::U64(tiles)) = launch.arguments.last_mut() {
                *tiles += 1;
            }
        }
    }
}

impl<D: Device> Device for Planted<D> {
    type Buffer = D::Buffer;
    type Program = D::Program;

    fn facts(&self) -> &DeviceFacts {
        self.inner.facts()
    }
    fn origin(&self) -> Origin {
        self.inner.origin()
    }
    fn clock_source(&self) -> &'static str {
        self.inner.clock_source()
    }
    fn instrument(&mut self) -> Result<Instrument, DeviceError> {
        self.inner.instrument()
    }
    fn memory_available_bytes(&self) -> Result<u64, DeviceError> {
        self.inner.memory_available_bytes()
    }
    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<Self::Program>, DeviceError>> {
        let mut prepared = self.inner.prepare(work);
        for ((_, solution), answer) in work.iter().zip(&mut prepared) {
            let is_narrow = solution.parameter(parameter::VECTOR_WIDTH) == Some(1);
            let tile_elements = answer.as_ref().ok().and_then(|prepared| match prepared.launches[0].arguments.last() {
                Some(Argument::U64(tiles)) => 32_768_u64.checked_div(*tiles),
                Some(Argument::Buffer(_)) | None => None,
            });
            match answer {
                Ok(prepared) if is_narrow && tile_elements.is_some_and(|tile| tile <= TILE_ELEMENTS_MAX) => {
                    self.plant(prepared);
                }
                Ok(_) | Err(_) => {
                    let log = "left out of this test".to_owned();
                    *answer = Err(DeviceError::Compile { entry: "a solution of another shape".to_owned(), log });
                }
            }
        }
        prepared
    }
    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<Self::Buffer, DeviceError> {
        self.inner.allocate(bytes, guard)
    }
    fn fill(&mut self, array: &Array<'_, Self::Buffer>, data: &InputData) -> Result<(), DeviceError> {
        self.inner.fill(array, data)
    }
    fn set(&mut self, array: &Array<'_, Self::Buffer>, bits: u64) -> Result<(), DeviceError> {
        self.inner.set(array, bits)
    }
    fn gather(&mut self, array: &Array<'_, Self::Buffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        self.inner.gather(array, stride)
    }
    fn run(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
    ) -> Result<(), DeviceError> {
        let arrays = self.shifted(arrays);
        self.inner.run(prepared, &arrays)
    }
    fn time(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let arrays = self.shifted(arrays);
        self.inner.time(prepared, &arrays, series)
    }
}

/// Measures one point, and hands back how the task ended and what its rows say at the end.
fn measured(
    device: &mut impl Device,
    point: &str,
    bounds: BoundsCheck,
    data: DataPattern,
    validate_elements: i64,
) -> (Result<(), HarnessError>, Vec<Row>) {
    let policy = MeasuringPolicy {
        rounds: 3,
        rounds_max: 3,
        screening_samples: 1,
        samples_min: 1,
        samples_max: 1,
        finalists: 1,
        bounds,
        data,
        monitor: false,
        validate_elements,
        ..MeasuringPolicy::default()
    };
    let task = TaskSpec {
        task_id: "task".into(),
        run_id: "run".into(),
        plan_digest: "plan".to_owned(),
        attempt: 1,
        epoch: 1,
        devices: vec![device.facts().uuid.clone()],
        points: vec![point.parse().expect("a point")],
        policy,
        seed: 7,
        label: None,
        selected: Vec::new(),
        alone_on_node: false,
    };
    let labels =
        RowLabels { agent_id: "agent".to_owned(), node: "node".to_owned(), host: "host".to_owned(), rack: None };
    let (interrupt, clock, resume) = (AtomicBool::new(false), SystemClock::start(), Resume::default());
    let setting = Setting { task: &task, labels: &labels, interrupt: &interrupt, clock: &clock, resume: &resume };
    let mut events: Vec<Event> = Vec::new();
    let outcome = measure(device, setting, &mut events);
    let rows = events.into_iter().filter_map(|event| {
        let Event::RowClosed { template, .. } = event else { return None };
        Some(*template)
    });
    (outcome, rows.collect())
}

/// Opens the first device of a backend, and hands it to a test; says so where there is none.
fn on_device<V: DeviceVisitor<Output = ()>>(backend: Backend, spec: &str, visitor: V) {
    let (folder, spec) =
        (tempfile::tempdir().expect("a temporary folder"), spec.parse::<SimSpec>().expect("a specification"));
    let reports = discovery::discover(folder.path(), &spec);
    let report = reports.into_iter().find(|report| report.backend == backend.name()).expect("every backend reports");
    let Some(facts) = report.devices.first() else {
        assert_ne!(backend, Backend::Sim, "simulated devices were asked for: {:?}", report.note);
        println!("skipped: no {backend} device: {}", report.note.unwrap_or_default());
        return;
    };
    discovery::with_device(facts, &spec, visitor).unwrap_or_else(|error| panic!("{}: {error}", facts.name));
}

/// What guard zones say of a simulated kernel, and what unmapped pages do to it.
struct Simulated(&'static str);

impl DeviceVisitor for Simulated {
    type Output = ();

    fn visit<D: Device>(self, mut device: D) {
        let (outcome, rows) = measured(&mut device, POINT, BoundsCheck::Values, DataPattern::Random, -1);
        outcome.expect("a stray kernel costs its solutions alone");
        assert!(!rows.is_empty());
        for row in rows {
            let reason = row.outcome.reason.unwrap_or_default();
            assert!(row.outcome.status == Status::Failed && reason.contains(self.0), "{}: {reason}", row.work.solution);
        }
        let (outcome, _) = measured(&mut device, POINT, BoundsCheck::Pages, DataPattern::Random, -1);
        assert!(matches!(outcome, Err(HarnessError::Device(DeviceError::Lost { .. }))), "{outcome:?}");
    }
}

#[test]
fn a_simulated_kernel_that_is_off_by_one_is_caught_in_both_ways() {
    for (access, said) in [
        ("reads_beyond", "c[32767] is NaN after a warm-up"),
        ("writes_beyond", "c[32768], behind its last element"),
        ("writes_before", "c[-1], before its first element"),
    ] {
        on_device(Backend::Sim, &format!("1,fault=off_by_one:copy:{access}"), Simulated(said));
    }
}

/// Every pattern passes every check.
struct Patterns(&'static str);

impl DeviceVisitor for Patterns {
    type Output = ();

    fn visit<D: Device>(self, mut device: D) {
        for pattern in DataPattern::ALL {
            let bounds = if *pattern == DataPattern::Serial { BoundsCheck::Pages } else { BoundsCheck::Values };
            let (outcome, rows) = measured(&mut device, self.0, bounds, *pattern, -1);
            outcome.unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert!(!rows.is_empty());
            for row in rows {
                let (solution, outcome) = (row.work.solution, row.outcome);
                assert_eq!(outcome.status, Status::Passed, "{pattern}, {solution}: {:?}", outcome.reason);
                assert_eq!((row.work.data_pattern.as_str(), outcome.bounds_check), (pattern.name(), bounds));
            }
        }
    }
}

#[test]
fn right_kernels_pass_on_every_data_pattern() {
    on_device(Backend::Sim, "1", Patterns("stream/triad/f64/elements=32768"));
    on_device(Backend::Cpu, "0", Patterns("stream/triad/f32/elements=32768"));
}

/// All of CUDA's in one test: the last part loses the context of the whole process.
struct Cuda;

impl DeviceVisitor for Cuda {
    type Output = ();

    fn visit<D: Device>(self, inner: D) {
        let mut device = Planted { inner, astray: Astray::No };
        let patterns = [DataPattern::Random, DataPattern::NotANumber, DataPattern::Denormal, DataPattern::Identity];
        for (pattern, bounds) in patterns
            .into_iter()
            .flat_map(|pattern| [BoundsCheck::Values, BoundsCheck::Pages].map(|bounds| (pattern, bounds)))
        {
            let rows = planted(&mut device, bounds, pattern, -1);
            assert!(rows.iter().all(|row| row.outcome.status == Status::Passed), "{pattern}, {bounds}");
        }
        // All results are wrong where the output begins early; unchecked, what lies before it still says so.
        for (astray, validate_elements, said) in [
            (Astray::TileBeyond, -1, "c[32768], behind its last element"),
            (Astray::OneBefore, -1, "expected"),
            (Astray::OneBefore, 0, "c[-1], before its first element"),
        ] {
            device.astray = astray;
            for row in planted(&mut device, BoundsCheck::Values, DataPattern::Random, validate_elements) {
                let reason = row.outcome.reason.unwrap_or_default();
                let caught = row.outcome.status == Status::Failed && reason.contains(said);
                assert!(caught, "{astray:?}, {}: {:?} {reason}", row.work.solution, row.outcome.status);
            }
        }
        device.astray = Astray::TileBeyond;
        let (outcome, _) = measured(&mut device, POINT, BoundsCheck::Pages, DataPattern::Random, -1);
        assert!(matches!(outcome, Err(HarnessError::Device(DeviceError::Lost { .. }))), "{outcome:?}");
    }
}

/// The rows of the solutions that the test is about.
fn planted<D: Device>(
    device: &mut Planted<D>,
    bounds: BoundsCheck,
    data: DataPattern,
    validate_elements: i64,
) -> Vec<Row> {
    let (outcome, mut rows) = measured(device, POINT, bounds, data, validate_elements);
    outcome.unwrap_or_else(|error| panic!("{data}, {bounds}, {:?}: {error}", device.astray));
    rows.retain(|row| row.outcome.reason.as_ref().is_none_or(|reason| !reason.contains("left out of this test")));
    assert!(!rows.is_empty(), "no solution has a tile of {TILE_ELEMENTS_MAX} single elements");
    rows
}

#[test]
fn cuda_kernels_that_go_astray_are_caught_in_both_ways() {
    on_device(Backend::Cuda, "0", Cuda);
}
