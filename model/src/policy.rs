//! How a plan wants its points measured.

/// Measuring policy: the counts and targets that the harness works to.
///
/// Defaults: five rounds, two more than the fewest that have an interval; at least ten samples a visit, the interval of a
/// visit's median within 0.25%, at most one second a visit, four finalists.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MeasuringPolicy {
    /// Rounds of every point; at least three give an interval.
    pub rounds: u64,
    /// Launches before the timed ones of a visit; at least one, because validation happens on it.
    pub warmups: u64,
    /// Fewest timed samples of a visit.
    pub samples_min: u64,
    /// Most timed samples of a visit.
    pub samples_max: u64,
    /// A visit ends once the half-width of the interval of its median, relative to it, is at most this.
    pub noise_target: f64,
    /// A visit ends after this long, whatever its noise, nanoseconds.
    pub visit_ns_max: u64,
    /// Fewest timed samples of a screening visit.
    pub screening_samples: u64,
    /// Solutions of a point that are measured anew after screening.
    pub finalists: u64,
    /// Elements compared with the reference: −1 all, 0 none, else about so many at a prime stride.
    pub validate_elements: i64,
    /// Whether the first failure ends the task.
    pub exit_on_error: bool,
    /// A task on one device should not take longer than this, nanoseconds; sizes of visits shrink to fit it.
    pub task_ns_max: u64,
}

impl Default for MeasuringPolicy {
    fn default() -> Self {
        Self {
            rounds: 5,
            warmups: 1,
            samples_min: 10,
            samples_max: 100,
            noise_target: 0.0025,
            visit_ns_max: 1_000_000_000,
            screening_samples: 3,
            finalists: 4,
            validate_elements: 1 << 20,
            exit_on_error: false,
            task_ns_max: 1_800_000_000_000,
        }
    }
}
