//! What listeners may look at and touch: the device, the points, the records and the place in the loop.

use std::sync::atomic::Ordering;

use fleetcal_kernels::{BufferRole, BufferSpec, Family};
use fleetcal_model::policy::VISIT_SAMPLES_MAX;
use fleetcal_model::row::Sample;

use super::arena::Arena;
use super::budget::Limits;
use super::look::Look;
use super::record::{PointWork, Record, Verdict, VisitState};
use super::{HarnessError, Setting, Sink};
use crate::device::{Array, Device, DeviceError, RawSample, Series, nan_bits};
use crate::worker::message::Event;
use crate::worker::resume::{InHand, Stage, Subject};

/// The screening round.
pub const SCREENING_ROUND: u64 = 0;

/// The same stage of the same solution is said again after so long, nanoseconds.
const SAY_AGAIN_NS: u64 = 1_000_000_000;

/// A sample is at least so many steps of its clock.
const RESOLUTIONS_MIN: f64 = 2.0;

/// Where the loop is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The round.
    pub round: u64,
    /// Visits of this round before this one.
    pub order: u64,
    /// Index of the point in hand.
    pub point: usize,
    /// Index of the record in hand.
    pub record: usize,
}

/// The state of a task.
pub struct Bench<'a, D: Device> {
    /// The device.
    pub device: &'a mut D,
    /// The kernels.
    pub family: &'a dyn Family,
    /// Task, labels, time.
    pub setting: Setting<'a>,
    /// Points that will be measured.
    pub points: Vec<PointWork>,
    /// Every (point, solution).
    pub records: Vec<Record<D::Program>>,
    /// Buffers of the round.
    pub arena: Arena<D::Buffer>,
    /// Counts in force.
    pub limits: Limits,
    /// The round that the task began with: 0 where solutions are screened, else 1.
    pub first_round: u64,
    /// The round that comes next.
    pub next_round: u64,
    /// Time that allocating and filling took in this round, nanoseconds.
    pub round_ns: u64,
    /// Rows opened so far.
    pub rows_opened: u64,
    /// Where the loop is.
    pub position: Position,
    /// The visit in hand.
    pub visit: VisitState,
    /// Start of this worker's part of the task on the monotonic clock, nanoseconds.
    pub started_ns: u64,
    /// What was said to be in hand last, and when.
    said_in_hand: Option<(InHand, u64)>,
    sink: &'a mut dyn Sink,
}

impl<'a, D: Device> Bench<'a, D> {
    /// A task before anything happened.
    pub fn new(device: &'a mut D, family: &'a dyn Family, setting: Setting<'a>, sink: &'a mut dyn Sink) -> Self {
        let policy = &setting.task.policy;
        let limits = Limits {
            rounds: policy.rounds.max(1),
            finalists: policy.finalists.max(1),
            samples_min: policy.samples_min.clamp(1, VISIT_SAMPLES_MAX),
            samples_max: policy.samples_max.max(policy.samples_min).clamp(1, VISIT_SAMPLES_MAX),
        };
        Self {
            device,
            family,
            setting,
            points: Vec::new(),
            records: Vec::new(),
            arena: Arena::default(),
            limits,
            first_round: 1,
            next_round: 1,
            round_ns: 0,
            rows_opened: setting.resume.rows_opened,
            position: Position::default(),
            visit: VisitState::default(),
            started_ns: setting.clock.monotonic_ns(),
            said_in_hand: None,
            sink,
        }
    }

    /// Says something.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub fn say(&mut self, event: Event) -> Result<(), HarnessError> {
        Ok(self.sink.event(event)?)
    }

    /// Says what comes next, before it starts. Not said again within a second where nothing but the time has
    /// changed: a pipe is quick, but not free.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub fn begin(&mut self, stage: Stage, subject: Option<Subject>, expected_ns: u64) -> Result<(), HarnessError> {
        let now_ns = self.setting.clock.monotonic_ns();
        let next = InHand { stage, subject, expected_ns };
        if let Some((last, at_ns)) = &self.said_in_hand {
            let same = last.stage == stage && last.subject == next.subject && last.expected_ns >= expected_ns;
            if same && now_ns.saturating_sub(*at_ns) < SAY_AGAIN_NS {
                return Ok(());
            }
        }
        self.said_in_hand = Some((next.clone(), now_ns));
        self.say(Event::InHand(next))
    }

    /// [`Bench::begin`] for the solution in hand.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub fn begin_with_solution(&mut self, stage: Stage, expected_ns: u64) -> Result<(), HarnessError> {
        let subject = self.subject(self.position.record);
        self.begin(stage, Some(subject), expected_ns)
    }

    /// What a record is about.
    pub fn subject(&self, record: usize) -> Subject {
        let record = &self.records[record];
        Subject { point: self.points[record.point].point.to_string(), solution: record.solution.name.clone() }
    }

    /// Time that the task has taken so far, earlier workers included, nanoseconds.
    pub fn spent_ns(&self) -> u64 {
        self.since_ns(self.started_ns).saturating_add(self.setting.resume.spent_ns())
    }

    /// The point in hand.
    pub fn point(&self) -> &PointWork {
        &self.points[self.position.point]
    }

    /// The record in hand.
    pub fn record(&mut self) -> &mut Record<D::Program> {
        &mut self.records[self.position.record]
    }

    /// Whether somebody wants the task to stop.
    pub fn interrupted(&self) -> bool {
        self.setting.interrupt.load(Ordering::Relaxed)
    }

    /// Whether this round screens.
    pub fn is_screening(&self) -> bool {
        self.position.round == SCREENING_ROUND
    }

    /// Whether a record is to be visited.
    pub fn is_wanted(&self, record: usize) -> bool {
        let record = &self.records[record];
        record.selected && record.verdict.is_live()
    }

    /// Indices of the records of a point that are to be visited.
    pub fn wanted_of(&self, point: usize) -> Vec<usize> {
        self.points[point].records.iter().copied().filter(|&record| self.is_wanted(record)).collect()
    }

    /// Gives the solution in hand up for a fault of its own.
    pub fn spoil(&mut self, error: &DeviceError) {
        let record = self.record();
        tracing::debug!(solution = %record.solution, %error, "solution is invalid");
        record.verdict = Verdict::Invalid(error.to_string());
    }

    /// Time since `started_ns` on the monotonic clock, nanoseconds.
    pub fn since_ns(&self, started_ns: u64) -> u64 {
        self.setting.clock.monotonic_ns().saturating_sub(started_ns)
    }

    /// Launches the solution in hand once, untimed, and notes how long it took.
    ///
    /// # Errors
    /// What the device says.
    pub fn warm_up(&mut self) -> Result<(), HarnessError> {
        let started_ns = self.setting.clock.monotonic_ns();
        let arrays = self.arena.arrays(&self.points[self.position.point].buffers);
        if let Some(prepared) = &self.records[self.position.record].prepared {
            self.device.run(prepared, &arrays)?;
        }
        self.visit.warmup_ns = self.since_ns(started_ns);
        Ok(())
    }

    /// Times a series of the solution in hand; keeps nothing of it.
    ///
    /// # Errors
    /// What the device says, or [`DeviceError::Launch`] where it took no sample.
    pub fn time(&mut self, series: Series) -> Result<Vec<RawSample>, HarnessError> {
        let arrays = self.arena.arrays(&self.points[self.position.point].buffers);
        let samples = match &self.records[self.position.record].prepared {
            Some(prepared) => self.device.time(prepared, &arrays, series)?,
            None => Vec::new(),
        };
        if samples.is_empty() {
            let what = format!("timing {}", self.records[self.position.record].solution);
            return Err(DeviceError::Launch { what, reason: "the device returned no sample".to_owned() }.into());
        }
        Ok(samples)
    }

    /// Times a batch of intervals of the solution in hand, each with the launches that its row says.
    ///
    /// # Errors
    /// See [`Bench::time`].
    pub fn time_batch(&mut self, count: u64) -> Result<Vec<RawSample>, HarnessError> {
        let started_ns = self.setting.clock.monotonic_ns();
        let (launches, flush_bytes) = (self.record().launches(), self.point().flush.bytes);
        let samples = self.time(Series { intervals: count, launches, flush_bytes })?;
        let wall_ns = self.since_ns(started_ns);
        // A simulated device takes no time of the host's, so its own sum stands in.
        let device_ns = samples.iter().fold(0_u64, |total, sample| total.saturating_add(sample.ns));
        self.visit.timed_ns = self.visit.timed_ns.saturating_add(wall_ns.max(device_ns));
        // Anything shorter is the clock's resolution showing, not a time.
        let resolution_ns = self.records[self.position.record].template.timing.clock_resolution_ns;
        let shortest_ns = RESOLUTIONS_MIN * resolution_ns.unwrap_or(0.0);
        let shown = |raw: &RawSample| raw.ns > 0 && raw.ns as f64 >= shortest_ns;
        self.visit.shown |= samples.iter().any(shown);
        let round = self.position.round;
        self.visit.samples.extend(samples.iter().map(|raw| Sample {
            ns: raw.ns,
            round,
            start_ns: raw.start_ns,
            accepted: shown(raw),
            throttle_bits: None,
            clock_khz: None,
        }));
        Ok(samples)
    }

    /// Reads logical elements of arrays of the point in hand: of each look its array, the first, how many from there on,
    /// and the distance from one to the next. Where an array has rows, the first begins one.
    ///
    /// # Errors
    /// What the device says.
    pub fn gather(&mut self, looks: impl Iterator<Item = (usize, Look)>) -> Result<Vec<Vec<f64>>, HarnessError> {
        let arrays = self.arena.arrays(&self.points[self.position.point].buffers);
        let views = looks.map(|(array, Look { first, elements, stride })| {
            let Array { buffer, offset_bytes, spec } = &arrays[array];
            let whole = Array { buffer: *buffer, offset_bytes: *offset_bytes, spec: spec.clone() };
            (part(whole, first, elements), stride)
        });
        let views: Vec<_> = views.collect();
        Ok(self.device.gather_all(&views)?)
    }

    /// Fills the inputs of the point in hand where their data is not there already, for all points at once that want
    /// the same.
    ///
    /// # Errors
    /// What the device says.
    pub fn fill_inputs(&mut self) -> Result<(), HarnessError> {
        let points = &self.points;
        let elements_wanted = |spec: &BufferSpec| {
            let same = |other: &&BufferSpec| other.role == spec.role && other.dtype == spec.dtype;
            points.iter().flat_map(|work| &work.buffers).filter(same).map(|other| other.elements).max().unwrap_or(0)
        };
        let pattern = self.setting.task.policy.data;
        Ok(self.arena.fill(self.device, &points[self.position.point].buffers, pattern, elements_wanted)?)
    }

    /// Poisons the outputs of the point in hand.
    ///
    /// # Errors
    /// What the device says.
    pub fn poison_outputs(&mut self) -> Result<(), HarnessError> {
        for array in self.arena.arrays(&self.points[self.position.point].buffers) {
            if matches!(array.spec.role, BufferRole::Output | BufferRole::Scratch) {
                self.device.set(&array, nan_bits(array.spec.dtype))?;
            }
        }
        Ok(())
    }

    /// Poisons logical elements of an output of the point in hand. Where the array has rows, `first` begins one.
    ///
    /// # Errors
    /// What the device says.
    pub fn poison_part(&mut self, array: usize, first: u64, elements: u64) -> Result<(), HarnessError> {
        let mut arrays = self.arena.arrays(&self.points[self.position.point].buffers);
        let view = part(arrays.swap_remove(array), first, elements);
        Ok(self.device.set(&view, nan_bits(view.spec.dtype))?)
    }
}

/// The part of an array with so many logical elements from `first`, gaps between them included.
fn part<Buffer>(mut array: Array<'_, Buffer>, first: u64, elements: u64) -> Array<'_, Buffer> {
    let (spec, last) = (&array.spec, first.saturating_add(elements.saturating_sub(1)));
    let start = spec.position(first);
    array.offset_bytes += start * spec.dtype.bytes();
    array.spec.elements = spec.position(last).saturating_sub(start).saturating_add(u64::from(elements > 0));
    array
}
