//! The proxy's cache capacity, from data as it is: the launch is a term of its own, sides have at least two points, and
//! one-sided answers of several devices are merged as bounds.
//!
//! [`crate::seed::capacity`] is the definition that this keeps on clean data. It differs where that one guesses: short
//! points are not dropped for being short, their launch is subtracted; and a capacity is a bracket, not a number.

use super::regime::{RegimeRule, find};
use crate::seed::capacity::{CONTRAST_MIN, WorkingSetPoint};
use crate::statistics::median;
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Points of a side that make it a side.
const SIDE_MIN: usize = 2;

/// A point whose launch is more than this part of its time says nothing of rates.
const LAUNCH_PART_MAX: f64 = 0.5;

/// Largest part of the points that may be slow at the small end without having spilled; more are an answer themselves.
const SHORT_PART_MAX: f64 = 0.25;

/// Where the capacity lies: at least `low`, below `high`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bracket {
    /// The largest working set up to which every point was served at the cache's rate; none where none was shown.
    pub low: Option<Bytes>,
    /// The smallest working set from which every point was served at main memory's rate; none where none was shown.
    pub high: Option<Bytes>,
}

/// What a sweep on one device says.
#[derive(Debug, Clone, PartialEq)]
pub struct CapacityFit {
    /// The capacity's bracket: two-sided for a transition, one-sided where one side has fewer than two points.
    pub bracket: Bracket,
    /// Time of a launch that moves nothing; zero where the line says less.
    pub latency: Seconds,
    /// Median rate of the cached points without their launch; none where there are fewer than two.
    pub cache_rate: Option<BytesPerSecond>,
    /// Whether every cached working set is smaller than every spilled one. If not, the bracket spans their overlap.
    pub monotone: bool,
    /// Indices of points that are mostly launch, and were not judged.
    pub launch_bound: Vec<usize>,
    /// Indices of points that are slow at a working set below those that the cache serves: whatever binds them, they
    /// have not spilled, and are on no side. An H200 reads 1 MiB at half of the rate of 2 MiB.
    pub short: Vec<usize>,
    /// Points on the cached side.
    pub cached_points: usize,
    /// Points on the spilled side.
    pub spilled_points: usize,
}

/// Why nothing can be said.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoCapacity {
    /// Too few points with a positive, finite time and requested bytes that are not mostly launch.
    #[error("{points} points are no sweep: {SIDE_MIN} that are not mostly launch are needed")]
    TooFewPoints {
        /// How many there are.
        points: usize,
    },
    /// No rate of main memory is known, and rates are too much alike to tell a side.
    #[error("rates differ by a factor of {contrast:.2} only, and no rate of main memory is known to compare with")]
    NoTransition {
        /// The fastest rate over the slowest.
        contrast: f64,
    },
}

impl Bracket {
    /// The geometric mean of both ends, if there are both.
    pub fn center(self) -> Option<Bytes> {
        let (low, high) = self.low.zip(self.high)?;
        Some(Bytes(((low.0 as f64).sqrt() * (high.0 as f64).sqrt()).round() as u64))
    }
}

/// Fits the capacity of one device.
///
/// Points on one line in requested bytes (see [`super::regime`]) give launch and cache rate; the rates of all points are
/// then taken without the launch, and a point is cached if its rate is at least the geometric mean of the cache's and of
/// `dram_rate`, or of the slowest where that is not known.
///
/// # Errors
/// [`NoCapacity`].
pub fn fit(points: &[WorkingSetPoint], dram_rate: Option<BytesPerSecond>) -> Result<CapacityFit, NoCapacity> {
    let is_sound = |point: &WorkingSetPoint| point.time.0.is_finite() && point.time.0 > 0.0 && point.requested.0 > 0;
    let sound: Vec<usize> = (0..points.len()).filter(|&index| is_sound(&points[index])).collect();
    let line: Vec<(f64, f64)> =
        sound.iter().map(|&index| (points[index].requested.0 as f64, points[index].time.0)).collect();
    let latency_s = find(&line, RegimeRule::default()).map_or(0.0, |regime| regime.line.intercept.max(0.0));
    let (judged, launch_bound): (Vec<usize>, Vec<usize>) =
        sound.into_iter().partition(|&index| latency_s <= LAUNCH_PART_MAX * points[index].time.0);
    let rate = |index: usize| points[index].requested.0 as f64 / (points[index].time.0 - latency_s);
    let mut rated: Vec<Rated> =
        judged.iter().map(|&index| Rated { set: points[index].working_set, rate: rate(index), index }).collect();
    rated.retain(|point| point.rate.is_finite());
    if rated.len() < SIDE_MIN {
        return Err(NoCapacity::TooFewPoints { points: rated.len() });
    }
    rated.sort_by(|left, right| left.set.cmp(&right.set).then(left.rate.total_cmp(&right.rate)));
    let fastest = rated.iter().map(|point| point.rate).fold(0.0, f64::max);
    let slowest = rated.iter().map(|point| point.rate).fold(f64::INFINITY, f64::min);
    let low_rate = match dram_rate.filter(|rate| rate.0.is_finite() && rate.0 > 0.0) {
        Some(rate) => rate.0,
        None if fastest / slowest < CONTRAST_MIN => {
            return Err(NoCapacity::NoTransition { contrast: fastest / slowest });
        }
        None => slowest,
    };
    let threshold = fastest.sqrt() * low_rate.sqrt();
    let short = leading_slow(&rated, threshold);
    let (short, rated) = rated.split_at(short);
    let (bracket, monotone) = bracket(rated, threshold);
    let rates: Vec<f64> = rated.iter().map(|point| point.rate).filter(|rate| *rate >= threshold).collect();
    Ok(CapacityFit {
        bracket,
        latency: Seconds(latency_s),
        cache_rate: median(&rates).filter(|_| rates.len() >= SIDE_MIN).map(BytesPerSecond),
        monotone,
        launch_bound,
        short: short.iter().map(|point| point.index).collect(),
        cached_points: rates.len(),
        spilled_points: rated.len() - rates.len(),
    })
}

/// A point that is judged.
#[derive(Debug, Clone, Copy)]
struct Rated {
    set: Bytes,
    rate: f64,
    index: usize,
}

/// How many points at the small end are slow and followed by a cached side, with no more of them than may be left out.
fn leading_slow(rated: &[Rated], threshold: f64) -> usize {
    let is_cached = |point: &&Rated| point.rate >= threshold;
    let slow = rated.iter().take_while(|point| !is_cached(point)).count();
    let cached = rated.iter().skip(slow).take_while(is_cached).count();
    let few = slow as f64 <= SHORT_PART_MAX * rated.len() as f64;
    if cached >= SIDE_MIN && few { slow } else { 0 }
}

/// The bracket of points in the order of their working sets, and whether every cached set is below every spilled one.
fn bracket(rated: &[Rated], threshold: f64) -> (Bracket, bool) {
    let is_cached = |point: &&Rated| point.rate >= threshold;
    let cached_points = rated.iter().filter(is_cached).count();
    let spilled_points = rated.len() - cached_points;
    let first_spilled = rated.iter().find(|point| !is_cached(point)).map(|point| point.set);
    let last_cached = rated.iter().rfind(is_cached).map(|point| point.set);
    let sets = || rated.iter().map(|point| point.set);
    let low = sets().rfind(|set| first_spilled.is_none_or(|spilled| *set < spilled));
    let high = sets().find(|set| last_cached.is_none_or(|cached| *set > cached));
    let monotone = first_spilled.zip(last_cached).is_none_or(|(spilled, cached)| cached < spilled);
    let low = low.filter(|_| cached_points >= SIDE_MIN);
    (Bracket { low, high: high.filter(|_| spilled_points >= SIDE_MIN) }, monotone)
}

/// The bracket of a class, from those of its devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Merged {
    /// The bracket.
    pub bracket: Bracket,
    /// Whether some capacity lies in all devices' brackets. If not, the bracket runs from the median of the lower ends to
    /// the median of the upper ones.
    pub consistent: bool,
}

/// Merges brackets: what a device could not see bounds nothing, and everything that was seen narrows the answer.
pub fn merge(brackets: &[Bracket]) -> Merged {
    let lows: Vec<u64> = brackets.iter().filter_map(|bracket| Some(bracket.low?.0)).collect();
    let highs: Vec<u64> = brackets.iter().filter_map(|bracket| Some(bracket.high?.0)).collect();
    let (low, high) = (lows.iter().max().copied(), highs.iter().min().copied());
    if low.zip(high).is_none_or(|(low, high)| low < high) {
        return Merged { bracket: Bracket { low: low.map(Bytes), high: high.map(Bytes) }, consistent: true };
    }
    // The lower of two middle values for the low end, the upper for the high one: an end that was seen.
    let middle = |mut ends: Vec<u64>, upper: bool| {
        ends.sort_unstable();
        let at = if upper { ends.len() / 2 } else { ends.len().saturating_sub(1) / 2 };
        ends.get(at).copied().map(Bytes)
    };
    let (low, high) = (middle(lows, false), middle(highs, true));
    let bracket = if low < high { Bracket { low, high } } else { Bracket { low: high, high: low } };
    Merged { bracket, consistent: false }
}

#[cfg(test)]
mod tests;
