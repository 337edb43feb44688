//! Fits: rows of a class in, constants with verdicts out.
//!
//! A fit never panics and never answers NaN. Where rows do not determine a constant, the outcome is a
//! [`NotIdentified`] that says what is missing; a wrong constant costs its users more than a missing one. The order of
//! the rows does not matter: they are sorted first.

use crate::device::DRAM_FOOTPRINT_FACTOR;
use crate::id::{DeviceId, RowId};
use crate::statistics::Interval;
use crate::units::{Bytes, BytesPerSecond, Seconds};
use crate::vocabulary;

pub mod attribute;
pub mod bandwidth;
pub mod capacity;
pub mod class;
pub mod devices;
pub mod estimated;
pub mod fill;
pub mod humps;
pub mod intake;
pub mod interval;
pub mod line;
pub mod pool;
pub mod record;
pub mod regime;
pub mod residual;
pub mod sweeps;
pub mod variance;
pub mod workers;

#[cfg(test)]
mod tests;

/// Version of the formulas in this crate. It stands in each document, and changes whenever the same rows would give
/// other constants.
pub const MODEL_VERSION: u64 = 4;

/// Fewest sizes that tell latency from bandwidth and leave one to contradict them.
pub const SIZES_MIN: u64 = 3;

vocabulary! {
    /// Which fits are made.
    Mode, "mode" {
        /// Fits for data as it is: medians over devices, residual filtering, regimes, intervals and sets.
        Robust => "robust",
        /// The original's fits exactly, of the shortest samples: for comparison with its constants.
        Seed => "seed",
    }
}

#[allow(clippy::derivable_impls, reason = "the vocabulary has no place for a default")]
impl Default for Mode {
    fn default() -> Self {
        Self::Robust
    }
}

/// What a user may decide of a fit. They stand in the document: the same rows and options give the same constants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Options {
    /// A row speaks for main memory if its distinct bytes are at least this many times the last-level cache. Fewer
    /// than [`DRAM_FOOTPRINT_FACTOR`], the default, would take rows of the cache for rows of memory.
    pub footprint_factor: u64,
    /// Sizes that an asymptote needs. Fewer than [`SIZES_MIN`], the default, could not contradict it.
    pub sizes_min: u64,
    /// Which fits are made; robust ones in a document older than the choice.
    #[cfg_attr(feature = "serde", serde(default))]
    pub mode: Mode,
}

impl Default for Options {
    fn default() -> Self {
        Self { footprint_factor: DRAM_FOOTPRINT_FACTOR, sizes_min: SIZES_MIN, mode: Mode::default() }
    }
}

/// Why rows do not determine a constant.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NotIdentified {
    /// No row feeds it.
    #[error(
        "no row measured for it passed: {rejected} were rejected, and solutions that were only screened feed nothing"
    )]
    NoRows {
        /// Rows measured for it, and rejected.
        rejected: usize,
    },
    /// No byte count is exact.
    #[error("none of its {rows} rows has an exact byte count")]
    NoExactRows {
        /// Rows that feed fits.
        rows: usize,
    },
    /// No row's footprint speaks for main memory.
    #[error(
        "no row passes the footprint rule: the largest touches {largest}, and {needed} are needed \
         ({factor} times the last-level cache); measure larger sizes"
    )]
    SmallFootprint {
        /// Largest distinct bytes of an exact row.
        largest: Bytes,
        /// Distinct bytes from which a row of that device speaks for main memory.
        needed: Bytes,
        /// How many times the last-level cache that is.
        factor: u64,
    },
    /// A line needs more sizes.
    #[error(
        "{needed} sizes that speak for main memory are needed to tell latency from bandwidth, and there are {sizes}"
    )]
    TooFewSizes {
        /// Distinct sizes found.
        sizes: usize,
        /// Distinct sizes needed.
        needed: u64,
    },
    /// Time does not grow with bytes.
    #[error("time does not grow with bytes (slope {slope:.3e} s/B): the rows do not show a bandwidth")]
    NoGrowth {
        /// The fitted slope, seconds per byte.
        slope: f64,
    },
    /// The line meets time zero before it meets no bytes.
    #[error("the fitted latency is {seconds}, not above zero: these sizes are too large to show one")]
    NoLatency {
        /// The fitted intercept.
        seconds: Seconds,
    },
    /// Points of the line show more than what it tends to: they are of different things, or noise has bent it.
    #[error("its own points show {shown}, and the line through them tends to {bandwidth}: it is not of one thing")]
    BelowItsPoints {
        /// The largest rate of its points.
        shown: BytesPerSecond,
        /// What the line says.
        bandwidth: BytesPerSecond,
    },
    /// The numbers determine no line.
    #[error("no line fits: {0}")]
    NoLine(#[from] line::NoLine),
}

vocabulary! {
    /// How a constant's interval was computed, or why it has none.
    ConstantInterval, "interval method" {
        /// Student's t on the logarithms of refits of each round; it holds for this device only.
        StudentTLogRounds => "student_t_log_rounds",
        /// Student's t on refits of each round, for a quantity that may be negative; it holds for this device only.
        StudentTRounds => "student_t_rounds",
        /// Student's t on the logarithms of each device's own fit.
        StudentTLogDevices => "student_t_log_devices",
        /// Student's t on each device's own fit, for a quantity that may be negative.
        StudentTDevices => "student_t_devices",
        /// Interpolated order statistics of each device's own fit: eight devices or more.
        OrderStatisticsDevices => "order_statistics_devices",
        /// Interpolated order statistics of refits of each round, eight or more; it holds for this device only.
        OrderStatisticsRounds => "order_statistics_rounds",
        /// None: fewer than three rounds are shared by all sizes of the one device.
        TooFewRounds => "too_few_rounds",
        /// None: two devices, or fewer than three that fit by themselves.
        TooFewDevices => "too_few_devices",
        /// None: a replicate's own fit failed, and leaving it out would flatter the rest.
        ReplicateFailed => "replicate_failed",
        /// None: a demonstrated maximum has a witness instead.
        Witness => "witness",
        /// None: the set beside the value says where it lies.
        Set => "set",
        /// None: the original's fits state no interval.
        SeedMode => "seed_mode",
    }
}

/// The row that shows a demonstrated maximum.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Witness {
    /// The row.
    pub row_id: RowId,
    /// Its device.
    pub device_uuid: DeviceId,
    /// Its point.
    pub point: String,
    /// Its solution.
    pub solution: String,
    /// Its own value, in the constant's unit.
    pub value: f64,
    /// The row's own 95% interval, in the constant's unit, if it has one. It says how well this row is known, not how
    /// well the constant is.
    pub interval: Option<Interval>,
}

/// What a fit rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Devices behind the value.
    pub devices_used: usize,
    /// Devices that measured for the fit, rejected rows included.
    pub devices_total: usize,
    /// Points behind the value: (point, solution) pairs for a maximum, sizes for a line.
    pub points_used: usize,
    /// Points that fed the fit, those that rules took out included.
    pub points_total: usize,
}
