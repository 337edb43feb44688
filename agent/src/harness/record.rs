//! One record a (point, solution): measured, validated, then published as one row.

use fleetcal_kernels::BufferSpec;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::{Row, Sample, Status, StopReason, TimingMode};
use fleetcal_model::statistics::median;

use super::budget::VisitCost;
use super::flush::Flush;
use super::monitor::{VisitSeen, Watch};
use crate::device::Prepared;
use crate::worker::message::{RoundPlan, Vote};

/// A point that will be measured.
#[derive(Debug)]
pub struct PointWork {
    /// The point.
    pub point: Point,
    /// Its arrays.
    pub buffers: Vec<BufferSpec>,
    /// What is done about caches.
    pub flush: Flush,
    /// How launches of all of its solutions are timed; none until the first of them is.
    pub timing_mode: Option<TimingMode>,
    /// Indices of its records.
    pub records: Vec<usize>,
}

/// The largest difference from the reference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Worst {
    /// Relative error; absolute where the right value is zero; infinite where the result is no number.
    pub error: f64,
    /// The element.
    pub element: u64,
}

/// What comparing with the reference found.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Checked {
    /// Elements compared.
    pub elements: u64,
    /// The largest difference; none where nothing differed.
    pub worst: Option<Worst>,
}

impl Checked {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        let worst = match (self.worst, other.worst) {
            (Some(left), Some(right)) => Some(if right.error > left.error { right } else { left }),
            (left, right) => left.or(right),
        };
        Self { elements: self.elements + other.elements, worst }
    }
}

/// What is known of a solution's results.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Nothing yet.
    Pending,
    /// Nothing was compared, as the plan asked.
    NoCheck,
    /// Right as far as looked at.
    Passed(Checked),
    /// Wrong.
    Failed {
        /// What was compared.
        checked: Checked,
        /// What was wrong.
        reason: String,
    },
    /// It could not run.
    Invalid(String),
    /// It was not tried, or not to its end.
    Skipped(String),
    /// Right, and too many of its samples fell under a throttle reason.
    Throttled {
        /// What was compared.
        checked: Checked,
        /// The reasons.
        reason: String,
    },
    /// Right, and somebody else used the device.
    Contended {
        /// What was compared.
        checked: Checked,
        /// Who, or how much.
        reason: String,
    },
}

impl Verdict {
    /// Whether the solution may be run and timed.
    pub fn is_live(&self) -> bool {
        matches!(self, Self::Pending | Self::NoCheck | Self::Passed(_))
    }

    /// Whether its times may be published.
    pub fn is_sound(&self) -> bool {
        matches!(self, Self::NoCheck | Self::Passed(_))
    }

    /// Why it is not live.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Failed { reason, .. }
            | Self::Invalid(reason)
            | Self::Skipped(reason)
            | Self::Throttled { reason, .. }
            | Self::Contended { reason, .. } => Some(reason),
            Self::Pending | Self::NoCheck | Self::Passed(_) => None,
        }
    }

    /// What was compared.
    pub fn checked(&self) -> Checked {
        match self {
            Self::Passed(checked)
            | Self::Failed { checked, .. }
            | Self::Throttled { checked, .. }
            | Self::Contended { checked, .. } => *checked,
            Self::Pending | Self::NoCheck | Self::Invalid(_) | Self::Skipped(_) => Checked::default(),
        }
    }

    /// What a row's outcome said.
    pub fn of_row(row: &Row) -> Self {
        let outcome = &row.outcome;
        let reason = || outcome.reason.clone().unwrap_or_default();
        let worst = |element| Worst { error: outcome.max_error.unwrap_or(f64::INFINITY), element };
        let checked = Checked { elements: outcome.validated_elements, worst: outcome.max_error_index.map(worst) };
        match outcome.status {
            Status::Passed => Self::Passed(checked),
            Status::NoCheck => Self::NoCheck,
            Status::Failed => Self::Failed { checked, reason: reason() },
            Status::Invalid => Self::Invalid(reason()),
            Status::Skipped | Status::Throttled | Status::Contended => Self::Skipped(reason()),
        }
    }

    /// Writes it into a row's outcome.
    pub fn apply(&self, row: &mut Row) {
        let checked = self.checked();
        row.outcome.status = match self {
            Self::Pending | Self::Skipped(_) => Status::Skipped,
            Self::NoCheck => Status::NoCheck,
            Self::Passed(_) => Status::Passed,
            Self::Failed { .. } => Status::Failed,
            Self::Invalid(_) => Status::Invalid,
            Self::Throttled { .. } => Status::Throttled,
            Self::Contended { .. } => Status::Contended,
        };
        row.outcome.reason = self.reason().map(str::to_owned);
        row.outcome.validated_elements = checked.elements;
        let exact = (checked.elements > 0).then_some(0.0);
        // An error that is no finite number has no column; the reason names what was found.
        row.outcome.max_error =
            checked.worst.map_or(exact, |worst| Some(worst.error)).filter(|error| error.is_finite());
        row.outcome.max_error_index = checked.worst.map(|worst| worst.element);
    }
}

/// Where a record is on its way to being a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Publication {
    /// Not said yet.
    Unsaid,
    /// Opened under this index.
    Open(u64),
    /// Closed: nothing more will be said of it.
    Closed,
}

/// One (point, solution).
#[derive(Debug)]
pub struct Record<Program> {
    /// Index of its point.
    pub point: usize,
    /// The solution.
    pub solution: Solution,
    /// Ready to run; none where it could not be prepared.
    pub prepared: Option<Prepared<Program>>,
    /// What is known of its results.
    pub verdict: Verdict,
    /// The row without its visits.
    pub template: Row,
    /// What has been said of it.
    pub publication: Publication,
    /// Whether rounds to come visit it.
    pub selected: bool,
    /// Measuring rounds that visited it; the screening round is none.
    pub rounds_done: u64,
    /// Measuring rounds that it gets.
    pub plan: RoundPlan,
    /// Medians of its measuring visits so far, nanoseconds a launch.
    pub medians_ns: Vec<f64>,
    /// The last round in which an earlier worker visited it.
    pub resumed_after: Option<u64>,
    /// Median of its screening visit, nanoseconds a launch.
    pub screening_ns: Option<f64>,
    /// Cost of its last visit.
    pub cost: Option<VisitCost>,
    /// What the monitor saw during its visits.
    pub watch: Watch,
}

impl<Program> Record<Program> {
    /// Launches of one timed interval.
    pub fn launches(&self) -> u64 {
        self.template.timing.enqueues_per_sample.max(1)
    }
}

/// The visit in hand.
#[derive(Debug, Default)]
pub struct VisitState {
    /// Start, on the monotonic clock, nanoseconds.
    pub started_ns: u64,
    /// Start, nanoseconds since 1970 UTC.
    pub started_utc_ns: u64,
    /// Duration of the last warm-up as the host saw it, nanoseconds.
    pub warmup_ns: u64,
    /// Samples so far.
    pub samples: Vec<Sample>,
    /// Whether the clock could show any of them, counted or not.
    pub shown: bool,
    /// Time of the timed part so far, nanoseconds.
    pub timed_ns: u64,
    /// What the monitor saw of it.
    pub seen: Option<Box<VisitSeen>>,
    /// Who wanted more of it.
    pub votes: Vec<Vote>,
    /// Why it ended.
    pub stop_reason: Option<StopReason>,
}

impl VisitState {
    /// What one more sample of so many launches may take, nanoseconds.
    pub fn expected_sample_ns(&self, launches: u64) -> u64 {
        match self.samples.len() as u64 {
            0 => self.warmup_ns.saturating_mul(launches),
            taken => self.timed_ns / taken,
        }
    }

    /// Median of the accepted samples, nanoseconds an interval.
    pub fn median_ns(&self) -> Option<f64> {
        let accepted = self.samples.iter().filter(|sample| sample.accepted);
        median(&accepted.map(|sample| sample.ns as f64).collect::<Vec<_>>())
    }
}
