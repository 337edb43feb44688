//! The proxy's cache capacity: where requested rates fall from the cache's to main memory's.
//!
//! A fitted constant of the ranking score, not the size of a cache of the device.

use super::is_time;
use crate::statistics::median;
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Without a rate of main memory, fastest and slowest rate must differ by this factor to be on two sides of anything.
pub const CONTRAST_MIN: f64 = 2.0;

/// Fewest points that can lie on two sides. The original states no number.
const POINTS_MIN: usize = 2;

/// One point of a working-set sweep.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WorkingSetPoint {
    /// Read bytes of a block times resident blocks.
    pub working_set: Bytes,
    /// Read bytes that all blocks request.
    pub requested: Bytes,
    /// Best time.
    pub time: Seconds,
}

/// What a sweep says of the capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CapacityFit {
    /// Points lie on both sides.
    Transition {
        /// The largest working set that is still served at the cache's rate.
        cached: Bytes,
        /// The smallest working set that is served at main memory's.
        spilled: Bytes,
        /// The geometric mean of both, rounded to whole bytes.
        capacity: Bytes,
        /// Whether every cached working set is smaller than every spilled one. If not, the capacity is a guess.
        monotone: bool,
        /// Median of the cached points' requested rates.
        cache_rate: BytesPerSecond,
    },
    /// Every point is served at the cache's rate: the capacity is at least this, and no capacity is invented.
    AllCached {
        /// The largest working set.
        largest: Bytes,
        /// Median of the requested rates.
        cache_rate: BytesPerSecond,
    },
    /// Every point is served at main memory's rate: the capacity is below this.
    AllSpilled {
        /// The smallest working set.
        smallest: Bytes,
    },
    /// No rate of main memory was given, and rates are too much alike to tell a side.
    NoTransition {
        /// The fastest rate over the slowest.
        contrast: f64,
    },
    /// Fewer than two points with a time and requested bytes are left.
    TooFewPoints,
}

/// Fits the capacity.
///
/// Points with a smaller working set than the fastest one are dropped first: a kernel too short to amortise its launch is
/// slow for a reason that is no cache. A point is cached if its rate is at least the geometric mean of the fastest rate
/// and `dram_rate`; without one, of the fastest and the slowest. Points without a positive, finite time or without
/// requested bytes are no points. Of several fastest points the one with the smallest working set counts.
pub fn fit(points: &[WorkingSetPoint], dram_rate: Option<BytesPerSecond>) -> CapacityFit {
    let mut rated: Vec<(Bytes, f64)> = points
        .iter()
        .filter(|point| is_time(point.time.0) && point.requested.0 > 0)
        .map(|point| (point.working_set, (point.requested / point.time).0))
        .filter(|(_, rate)| rate.is_finite())
        .collect();
    rated.sort_by(|left, right| left.0.cmp(&right.0).then(left.1.total_cmp(&right.1)));
    let fastest = rated.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best });
    let Some((fastest_set, fastest_rate)) = fastest else { return CapacityFit::TooFewPoints };
    let kept: Vec<(Bytes, f64)> = rated.into_iter().filter(|(set, _)| *set >= fastest_set).collect();
    let slowest_rate = kept.iter().map(|(_, rate)| *rate).fold(f64::INFINITY, f64::min);
    if kept.len() < POINTS_MIN {
        return CapacityFit::TooFewPoints;
    }
    let low_rate = match dram_rate.filter(|rate| rate.0.is_finite() && rate.0 > 0.0) {
        Some(rate) => rate.0,
        None if fastest_rate / slowest_rate < CONTRAST_MIN => {
            return CapacityFit::NoTransition { contrast: fastest_rate / slowest_rate };
        }
        None => slowest_rate,
    };
    // The root of each factor: the product of two rates may be beyond the numbers.
    let threshold = fastest_rate.sqrt() * low_rate.sqrt();
    split(&kept, threshold)
}

/// Sorts points, which are in the order of their working sets, by their rates.
fn split(kept: &[(Bytes, f64)], threshold: f64) -> CapacityFit {
    let (cached, spilled): (Vec<_>, Vec<_>) = kept.iter().partition(|(_, rate)| *rate >= threshold);
    let rates: Vec<f64> = cached.iter().map(|(_, rate)| *rate).collect();
    let cache_rate = median(&rates).map(BytesPerSecond);
    match (cached.last(), spilled.first(), cache_rate) {
        (Some((largest_cached, _)), Some((smallest_spilled, _)), Some(cache_rate)) => {
            let capacity = (largest_cached.0 as f64).sqrt() * (smallest_spilled.0 as f64).sqrt();
            CapacityFit::Transition {
                cached: *largest_cached,
                spilled: *smallest_spilled,
                capacity: Bytes(capacity.round() as u64),
                monotone: largest_cached < smallest_spilled,
                cache_rate,
            }
        }
        (Some((largest, _)), None, Some(cache_rate)) => CapacityFit::AllCached { largest: *largest, cache_rate },
        (_, Some((smallest, _)), _) => CapacityFit::AllSpilled { smallest: *smallest },
        (_, None, _) => CapacityFit::TooFewPoints,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points of these working sets that request their bytes at these rates.
    fn points(rates: &[(u64, f64)]) -> Vec<WorkingSetPoint> {
        let point = |&(set, rate): &(u64, f64)| WorkingSetPoint {
            working_set: Bytes(set),
            requested: Bytes(1 << 30),
            time: Seconds((1_u64 << 30) as f64 / rate),
        };
        rates.iter().map(point).collect()
    }

    fn rate_of(fit: CapacityFit) -> Option<f64> {
        match fit {
            CapacityFit::Transition { cache_rate, .. } | CapacityFit::AllCached { cache_rate, .. } => {
                Some(cache_rate.0)
            }
            CapacityFit::AllSpilled { .. } | CapacityFit::NoTransition { .. } | CapacityFit::TooFewPoints => None,
        }
    }

    #[test]
    fn a_clean_sweep_has_a_transition() {
        let sweep = points(&[(100, 1e12), (200, 8e12), (400, 9e12), (800, 8.8e12), (1600, 2.1e12), (3200, 2e12)]);
        for dram_rate in [None, Some(BytesPerSecond(2e12))] {
            let fit = fit(&sweep, dram_rate);
            let CapacityFit::Transition { cached, spilled, capacity, monotone, cache_rate } = fit else {
                panic!("{fit:?}")
            };
            // The points before the fastest one are launch, not cache: neither spilled nor in the median.
            assert_eq!((cached, spilled, capacity, monotone), (Bytes(800), Bytes(1600), Bytes(1131), true));
            assert!((cache_rate.0 / 8.9e12 - 1.0).abs() < 1e-12, "{cache_rate:?}");
        }
    }

    #[test]
    fn rates_that_cross_are_no_clean_split() {
        let fit = fit(&points(&[(100, 9e12), (200, 2e12), (400, 8e12), (800, 2e12)]), None);
        let CapacityFit::Transition { cached, spilled, capacity, monotone: false, .. } = fit else { panic!("{fit:?}") };
        assert_eq!((cached, spilled, capacity), (Bytes(400), Bytes(200), Bytes(283)));
    }

    #[test]
    fn one_side_alone_bounds_the_capacity() {
        let sweep = points(&[(100, 9e12), (200, 8.5e12), (400, 8e12)]);
        let cached = fit(&sweep, Some(BytesPerSecond(2e12)));
        assert!(matches!(cached, CapacityFit::AllCached { largest: Bytes(400), .. }), "{cached:?}");
        assert!(rate_of(cached).is_some_and(|rate| (rate / 8.5e12 - 1.0).abs() < 1e-12));
        let spilled = fit(&sweep, Some(BytesPerSecond(20e12)));
        assert_eq!(spilled, CapacityFit::AllSpilled { smallest: Bytes(100) });
        let unknown = fit(&sweep, None);
        assert!(matches!(unknown, CapacityFit::NoTransition { contrast } if (contrast - 1.125).abs() < 1e-12));
    }

    #[test]
    fn a_contrast_of_two_is_enough() {
        assert!(matches!(fit(&points(&[(1, 4.0), (2, 2.0)]), None), CapacityFit::Transition { .. }));
    }

    #[test]
    fn too_few_and_odd_points_say_so() {
        assert_eq!(fit(&[], None), CapacityFit::TooFewPoints);
        assert_eq!(fit(&points(&[(1, 1e12)]), Some(BytesPerSecond(1e9))), CapacityFit::TooFewPoints);
        // The fastest point is the last: everything before it is launch.
        assert_eq!(fit(&points(&[(1, 1e12), (2, 2e12), (3, 9e12)]), None), CapacityFit::TooFewPoints);
        let odd = [0.0, -1.0, f64::NAN, f64::INFINITY].map(|seconds| WorkingSetPoint {
            working_set: Bytes(1),
            requested: Bytes(1),
            time: Seconds(seconds),
        });
        assert_eq!(fit(&odd, None), CapacityFit::TooFewPoints);
    }
}
