//! Two rows of the same work: is one faster, are they the same, or can it not be told?
//!
//! Everything happens on logarithms, where a ratio is a difference. The interval of the difference has the root of the sum
//! of both rows' squared half-widths as its own half-width, because their rounds are independent. Three answers stand on
//! it, and none is the default of another:
//!
//! - **same**: the whole interval lies within the margin (1%): the rows are close, and known well enough to say so;
//! - **faster** or **slower**: the whole interval lies beyond the margin on one side;
//! - **ambiguous**: everything else, with the reason. Two wide rows that overlap are not the same.
//!
//! A difference that is real but within the margin is called same: nobody acts on it. Of many comparisons at once some go
//! wrong by chance; [`Options::comparisons`] says how many there are, and each is then held to a wider interval, so that
//! all of them are right together with 95% (Bonferroni).

#[cfg(test)]
mod tests;

use crate::row::{IntervalMethod, Row, Status};
use crate::statistics::{Interval, student_t_factor};

/// Coverage of rows' intervals, and of all answers together.
const COVERAGE: f64 = 0.95;

/// How strict a comparison is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Relative difference that matters.
    pub margin: f64,
    /// Comparisons that are made together; at least one.
    pub comparisons: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { margin: 0.01, comparisons: 1 }
    }
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// The estimate, nanoseconds.
    pub estimate_ns: f64,
    /// Its 95% interval, nanoseconds.
    pub interval_ns: Interval,
    /// Degrees of freedom of the interval.
    pub degrees_of_freedom: u64,
}

impl Measured {
    /// What a row says; `None` where it has no interval.
    pub fn of_row(row: &Row) -> Option<Self> {
        let timing = &row.timing;
        let interval_ns = Interval { low: timing.interval_low_ns?, high: timing.interval_high_ns? };
        let estimate_ns = timing.estimate_ns.filter(|ns| ns.is_finite() && *ns > 0.0)?;
        let rounds = match timing.interval_method {
            IntervalMethod::StudentTLogRounds => timing.rounds_done,
            IntervalMethod::StudentTLogTwoStage => timing.pilot_rounds?.min(timing.rounds_done),
            IntervalMethod::SingleVisit | IntervalMethod::TooFewRounds | IntervalMethod::NotSound => return None,
        };
        let sound = interval_ns.low > 0.0 && interval_ns.low <= interval_ns.high && interval_ns.high.is_finite();
        sound.then_some(Self { estimate_ns, interval_ns, degrees_of_freedom: rounds.saturating_sub(1).max(1) })
    }

    /// Half-width of the interval as a logarithm, widened from 95% to `coverage`.
    fn log_half_width(&self, coverage: f64) -> Option<f64> {
        let factor = |coverage| student_t_factor(coverage, self.degrees_of_freedom);
        Some(libm::log(self.interval_ns.high / self.interval_ns.low) / 2.0 * factor(coverage)? / factor(COVERAGE)?)
    }
}

/// Whether a second, independent estimate lies in the prediction interval of the first: not further away than the root of
/// the sum of both squared half-widths. `None` where either interval is not positive and finite.
pub fn predicts(first: &Measured, second: &Measured) -> Option<bool> {
    let (difference, half_width) = difference(first, second, COVERAGE)?;
    Some(difference.abs() <= half_width)
}

/// Difference of the logarithms, second less first, and its half-width.
fn difference(first: &Measured, second: &Measured, coverage: f64) -> Option<(f64, f64)> {
    let half_width = libm::hypot(first.log_half_width(coverage)?, second.log_half_width(coverage)?);
    let difference = libm::log(second.estimate_ns / first.estimate_ns);
    (difference.is_finite() && half_width.is_finite()).then_some((difference, half_width))
}

/// Why a comparison has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// One of them has no interval: one visit, too few rounds, or no sound time.
    NoInterval,
    /// One of them did not pass: its times are of something else, or of a device that was held back.
    NotPassed,
    /// Their rounds fall into two groups: an estimate says which group won.
    TwoGroups,
    /// They are not the same kind of measurement: the column that differs is named.
    DifferentKind(&'static str),
    /// The interval of the difference is wider than the margin: measure more rounds.
    TooWide,
    /// The interval of the difference is narrow and holds the margin itself.
    AtTheMargin,
}

/// The answer, for the second against the first. Ratios are times, second over first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Comparison {
    /// The second takes less time, by more than the margin.
    Faster {
        /// Second over first.
        ratio: f64,
    },
    /// The second takes more time, by more than the margin.
    Slower {
        /// Second over first.
        ratio: f64,
    },
    /// They differ by less than the margin.
    Same {
        /// Second over first.
        ratio: f64,
    },
    /// It cannot be told.
    Ambiguous(Reason),
}

/// Compares two rows. Class and device may differ, that is what comparing is for; the work, the way it was timed and the
/// conditions may not.
pub fn compare_rows(first: &Row, second: &Row, options: Options) -> Comparison {
    let passed = |row: &Row| matches!(row.outcome.status, Status::Passed | Status::NoCheck);
    if !passed(first) || !passed(second) {
        return Comparison::Ambiguous(Reason::NotPassed);
    }
    if let Some(column) = different_kind(first, second) {
        return Comparison::Ambiguous(Reason::DifferentKind(column));
    }
    let (Some(one), Some(other)) = (Measured::of_row(first), Measured::of_row(second)) else {
        return Comparison::Ambiguous(Reason::NoInterval);
    };
    let two_groups = |row: &Row| row.timing.bimodal == Some(true);
    if two_groups(first) || two_groups(second) {
        return Comparison::Ambiguous(Reason::TwoGroups);
    }
    compare(&one, &other, options)
}

/// Compares two estimates.
pub fn compare(first: &Measured, second: &Measured, options: Options) -> Comparison {
    let coverage = 1.0 - (1.0 - COVERAGE) / options.comparisons.max(1) as f64;
    let Some((difference, half_width)) = difference(first, second, coverage) else {
        return Comparison::Ambiguous(Reason::NoInterval);
    };
    let (low, high, ratio) = (difference - half_width, difference + half_width, libm::exp(difference));
    let margin = libm::log1p(options.margin);
    if -margin <= low && high <= margin {
        Comparison::Same { ratio }
    } else if high < -margin {
        Comparison::Faster { ratio }
    } else if low > margin {
        Comparison::Slower { ratio }
    } else if half_width > margin {
        Comparison::Ambiguous(Reason::TooWide)
    } else {
        Comparison::Ambiguous(Reason::AtTheMargin)
    }
}

/// The first column that makes two rows incomparable.
fn different_kind(first: &Row, second: &Row) -> Option<&'static str> {
    let columns = [
        ("point", first.work.point == second.work.point),
        ("origin", first.identity.origin == second.identity.origin),
        ("data_pattern", first.work.data_pattern == second.work.data_pattern),
        ("timing_mode", first.timing.timing_mode == second.timing.timing_mode),
        ("flush_mode", first.timing.flush_mode == second.timing.flush_mode),
        ("load", first.conditions.load == second.conditions.load),
        ("neighbours", first.conditions.neighbours == second.conditions.neighbours),
    ];
    columns.into_iter().find_map(|(name, same)| (!same).then_some(name))
}
