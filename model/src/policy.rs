//! How a plan wants its points measured.

use crate::vocabulary;

vocabulary! {
    /// What ends a visit before its time and its largest count of samples.
    StopCriterion, "stop criterion" {
        /// The order-statistic interval of the samples' median is narrow enough.
        Interval => "interval",
        /// The noise of the samples no longer changes (nvbench's `stdrel`).
        StableNoise => "stable_noise",
        /// Nothing: every visit takes the largest count.
        Count => "count",
    }
}

vocabulary! {
    /// What inputs hold.
    DataPattern, "data pattern" {
        /// Seeded random numbers in [−0.5, 0.5).
        Random => "random",
        /// One number everywhere.
        Constant => "constant",
        /// The element's own index, from 0 again after 2048: exact from 16 bits on.
        Serial => "serial",
        /// 1 where row and column agree, else 0.
        Identity => "identity",
        /// Sines, a period of 1024 elements.
        Trigonometric => "trigonometric",
        /// The number of the element's row.
        Dimension => "dimension",
        /// Not a number.
        NotANumber => "nan",
        /// Infinity.
        Infinity => "infinity",
        /// The smallest number with full precision, halved: below the normal range.
        Denormal => "denormal",
    }
}

vocabulary! {
    /// How accesses outside of arrays are looked for.
    BoundsCheck, "bounds check" {
        /// Not at all.
        None => "none",
        /// Zones of NaN around inputs and of infinity around outputs, looked at after every visit.
        Values => "values",
        /// Each solution also runs once with every array flush against an unmapped page behind it, and once in front.
        Pages => "pages",
    }
}

vocabulary! {
    /// Which solutions of a point are measured.
    SolutionChoice, "solution choice" {
        /// Every one; the best are kept.
        All => "all",
        /// Those that the constants in force would select, to test a selection.
        Best => "best",
    }
}

vocabulary! {
    /// What caches hold when a timed interval begins.
    Caches, "cache state" {
        /// What the sweep asks about: see each family.
        Auto => "auto",
        /// Nothing of the arrays: a flush precedes every interval, whatever the footprint.
        Cold => "cold",
        /// What the launch before left.
        Warm => "warm",
    }
}

vocabulary! {
    /// How many launches one timed interval holds.
    Batching, "batching" {
        /// Short kernels are timed many at a time, long ones one by one.
        Auto => "auto",
        /// One launch an interval, however short.
        Never => "never",
    }
}

vocabulary! {
    /// The load that a device is under when samples are taken.
    Load, "load" {
        /// The first launches after idleness: clocks as high as they go.
        Burst => "burst",
        /// After a time of load, at clocks and power that no longer change.
        Sustained => "sustained",
    }
}

/// Most timed samples of one visit: all of them are told at once, and a median of more would say the same.
pub const VISIT_SAMPLES_MAX: u64 = 100_000;

/// Measuring policy: the counts and targets that the harness works to.
///
/// Defaults: five rounds, two more than the fewest that have an interval, and up to 15 where the pilot says that fewer
/// would miss ±0.5%; at least ten samples a visit, the interval of a visit's median within 0.25%, at most one second a
/// visit, four finalists.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MeasuringPolicy {
    /// Rounds of every point; at least three give an interval.
    pub rounds: u64,
    /// Most rounds that the pilot's spread may ask for. Where it is not above `rounds`, no pilot asks.
    pub rounds_max: u64,
    /// Half-width of a row's interval, relative to its estimate, that rounds beyond `rounds` are meant to reach.
    pub interval_target: f64,
    /// Launches before the timed ones of a visit; at least one, because validation happens on it.
    pub warmups: u64,
    /// Fewest timed samples of a visit.
    pub samples_min: u64,
    /// Most timed samples of a visit, itself at most [`VISIT_SAMPLES_MAX`].
    pub samples_max: u64,
    /// What ends a visit before that.
    pub stop: StopCriterion,
    /// A visit ends once the half-width of the interval of its median, relative to it, is at most this.
    pub noise_target: f64,
    /// A visit ends after this long, whatever its noise, nanoseconds.
    pub visit_ns_max: u64,
    /// What caches hold when a timed interval begins.
    pub caches: Caches,
    /// Launches of one timed interval.
    pub batching: Batching,
    /// Which solutions are measured.
    pub solutions: SolutionChoice,
    /// Fewest timed samples of a screening visit.
    pub screening_samples: u64,
    /// Solutions of a point that are measured anew after screening.
    pub finalists: u64,
    /// What inputs hold.
    pub data: DataPattern,
    /// Elements compared with the reference: −1 all, 0 none, else about so many at a prime stride.
    pub validate_elements: i64,
    /// How accesses outside of arrays are looked for.
    pub bounds: BoundsCheck,
    /// Whether the first failure ends the task.
    pub exit_on_error: bool,
    /// The load under which samples are taken; `None` takes them as they come, after a short settling.
    pub load: Option<Load>,
    /// Load before a round's first sample where `load` is sustained, nanoseconds; idleness before each visit where it is
    /// burst.
    pub load_ns: u64,
    /// Whether sensors are read meanwhile.
    pub monitor: bool,
    /// Longest wait before a task for the device to be idle and cool, nanoseconds.
    pub settle_ns_max: u64,
    /// A task on one device should not take longer than this, nanoseconds; sizes of visits shrink to fit it.
    pub task_ns_max: u64,
}

impl Default for MeasuringPolicy {
    fn default() -> Self {
        Self {
            rounds: 5,
            rounds_max: 15,
            interval_target: 0.005,
            warmups: 1,
            samples_min: 10,
            samples_max: 100,
            stop: StopCriterion::Interval,
            noise_target: 0.0025,
            visit_ns_max: 1_000_000_000,
            caches: Caches::Auto,
            batching: Batching::Auto,
            solutions: SolutionChoice::All,
            screening_samples: 3,
            finalists: 4,
            data: DataPattern::Random,
            validate_elements: 1 << 20,
            bounds: BoundsCheck::Values,
            exit_on_error: false,
            load: None,
            load_ns: 1_000_000_000,
            monitor: true,
            settle_ns_max: 2_000_000_000,
            task_ns_max: 1_800_000_000_000,
        }
    }
}
