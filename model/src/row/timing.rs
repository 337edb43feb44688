//! Group `timing`: samples, rounds, and what they say together.

use super::{FlushMode, IntervalMethod, StopReason, TimingMode};

/// One timed interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Duration of the interval, nanoseconds, over all its launches.
    pub ns: u64,
    /// The round it belongs to; 0 is the screening round.
    pub round: u64,
    /// Start, nanoseconds since the worker that took it opened the device: a task that another worker took up begins anew.
    pub start_ns: u64,
    /// Whether it counts.
    pub accepted: bool,
    /// Throttle reasons, bits of [`crate::throttle::ThrottleReasons`]: of the sensor's readings that overlap the sample, else
    /// of the one that is nearest in time among those that overlap its batch. Absent where none does.
    pub throttle_bits: Option<u64>,
    /// Core clock, kHz, of the first of the same readings that says one.
    pub clock_khz: Option<u64>,
}

/// One visit, as it enters a row.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Round {
    /// Number of the round; 0 is the screening round.
    pub round: u64,
    /// Position of this visit within its round, from 0.
    pub order: u64,
    /// Offset of the buffers within their allocations, bytes.
    pub buffer_offset_bytes: u64,
    /// Median of the accepted samples, nanoseconds a launch.
    pub median_ns: f64,
    /// Median absolute deviation from it, nanoseconds a launch.
    pub mad_ns: f64,
    /// Accepted samples.
    pub samples: u64,
    /// Why it ended.
    pub stop_reason: StopReason,
}

/// Group `timing`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timing {
    /// Every sample of every round.
    pub samples: Vec<Sample>,
    /// Every visit.
    pub rounds: Vec<Round>,
    /// Rounds asked for.
    pub rounds_planned: u64,
    /// First rounds whose spread set `rounds_planned`; absent where the plan alone did.
    pub pilot_rounds: Option<u64>,
    /// Rounds measured.
    pub rounds_done: u64,
    /// Launches before the timed ones of a visit, as the loop asked for them; the load that settles a device before a
    /// round's first visit comes on top.
    pub warmups: u64,
    /// How launches were timed.
    pub timing_mode: TimingMode,
    /// Launches within one timed interval.
    pub enqueues_per_sample: u64,
    /// What was done about caches.
    pub flush_mode: FlushMode,
    /// Bytes written to flush them.
    pub flush_bytes: u64,
    /// The clock: `cuda_event`, `hip_event`, `monotonic`, `sim`.
    pub clock_source: String,
    /// Its resolution, nanoseconds.
    pub clock_resolution_ns: Option<f64>,
    /// An empty interval on it, nanoseconds. Stored, never subtracted.
    pub clock_overhead_ns: Option<f64>,
    /// An empty launch, nanoseconds.
    pub empty_launch_ns: Option<f64>,
    /// The row's estimate: median of its rounds' medians, nanoseconds a launch.
    pub estimate_ns: Option<f64>,
    /// Lower end of its 95% interval, nanoseconds.
    pub interval_low_ns: Option<f64>,
    /// Upper end.
    pub interval_high_ns: Option<f64>,
    /// How the interval was computed, or why there is none.
    pub interval_method: IntervalMethod,
    /// Half-width of the interval that the plan wanted, relative to the estimate.
    pub interval_target: Option<f64>,
    /// Whether the interval is as narrow as the plan wanted; unknown where there is no interval.
    pub converged: Option<bool>,
    /// Whether the rounds' medians fall into two groups, see [`crate::modes::two_groups`]; unknown where they are too few
    /// to tell.
    pub bimodal: Option<bool>,
    /// Samples that do not count: taken under a throttle reason, or shorter than the clock can show.
    pub samples_discarded: u64,
}
