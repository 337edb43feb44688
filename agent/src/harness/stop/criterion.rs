//! What may end a visit before its limits do. Each takes samples one by one, and answers in a time that does not grow with
//! the samples behind it.

use std::collections::VecDeque;

use fleetcal_model::policy::{MeasuringPolicy, StopCriterion};
use fleetcal_model::row::StopReason;
use fleetcal_model::statistics::{Moments, median_half_width};

/// A rule that watches the samples of one visit.
pub trait Criterion: std::fmt::Debug {
    /// Takes the next sample that counts, nanoseconds.
    fn add(&mut self, ns: u64);

    /// Why the visit may end now; `None` while it may not.
    fn verdict(&self) -> Option<StopReason>;
}

/// The criterion that a policy names, at the start of a visit.
pub fn criterion(policy: &MeasuringPolicy) -> Box<dyn Criterion> {
    match policy.stop {
        StopCriterion::Interval => Box::new(IntervalWidth::new(policy.noise_target)),
        StopCriterion::StableNoise => Box::new(StableNoise::new(policy.noise_target, policy.visit_ns_max / 2)),
        StopCriterion::Count => Box::new(Never),
    }
}

/// Nothing ends the visit but its limits.
#[derive(Debug)]
pub struct Never;

impl Criterion for Never {
    fn add(&mut self, _ns: u64) {}

    fn verdict(&self) -> Option<StopReason> {
        None
    }
}

/// The order-statistic interval of the median is narrow enough.
#[derive(Debug)]
pub struct IntervalWidth {
    target: f64,
    sorted: Vec<f64>,
}

impl IntervalWidth {
    /// One that waits for a half-width of `target`, relative to the median.
    pub fn new(target: f64) -> Self {
        Self { target, sorted: Vec::new() }
    }
}

impl Criterion for IntervalWidth {
    fn add(&mut self, ns: u64) {
        let ns = ns as f64;
        let place = self.sorted.partition_point(|other| *other < ns);
        self.sorted.insert(place, ns);
    }

    fn verdict(&self) -> Option<StopReason> {
        let narrow = median_half_width(&self.sorted).is_some_and(|width| width <= self.target);
        narrow.then_some(StopReason::Converged)
    }
}

/// Fewest samples that have a noise.
const NOISE_SAMPLES_MIN: u64 = 5;

/// Noise values that are looked back on.
const WINDOW: usize = 512;

/// More noise values than this must be there before they can be called stable.
const WINDOW_MIN: usize = 64;

/// Stability is looked at every so many samples.
const STABILITY_STEP: u64 = 16;

/// Noise is stable where its standard deviation over the window is below this part of its mean.
const STABLE: f64 = 0.05;

/// The rule of nvbench's `stdrel`. Noise is the standard deviation of the samples so far, relative to their mean. The
/// visit may end once noise is low and the samples took long enough together, or once noise stays where it is: some
/// kernels are noisy, and no number of samples makes them less so.
#[derive(Debug)]
pub struct StableNoise {
    target: f64,
    total_ns_min: f64,
    count: u64,
    mean: f64,
    /// Sum of squared deviations from the mean, after Welford.
    squares: f64,
    window: VecDeque<f64>,
    stable: bool,
}

impl StableNoise {
    /// One that waits for a noise of `target` over samples that took `total_ns_min` together.
    pub fn new(target: f64, total_ns_min: u64) -> Self {
        let (count, mean, squares) = (0, 0.0, 0.0);
        Self { target, total_ns_min: total_ns_min as f64, count, mean, squares, window: VecDeque::new(), stable: false }
    }

    /// The noise of the samples so far; `None` for too few, and where they are no times.
    fn noise(&self) -> Option<f64> {
        let noise = (self.squares / (self.count.saturating_sub(1)) as f64).sqrt() / self.mean;
        (self.count >= NOISE_SAMPLES_MIN && noise.is_finite()).then_some(noise)
    }
}

impl Criterion for StableNoise {
    fn add(&mut self, ns: u64) {
        self.count += 1;
        let deviation = ns as f64 - self.mean;
        self.mean += deviation / self.count as f64;
        self.squares += deviation * (ns as f64 - self.mean);
        if let Some(noise) = self.noise() {
            self.window.push_back(noise);
        }
        if self.window.len() > WINDOW {
            self.window.pop_front();
        }
        if self.count.is_multiple_of(STABILITY_STEP) {
            let moments = Moments::of(self.window.make_contiguous());
            let settled = |moments: Moments| moments.variance < STABLE * STABLE * moments.mean * moments.mean;
            self.stable = self.window.len() > WINDOW_MIN && moments.is_some_and(settled);
        }
    }

    fn verdict(&self) -> Option<StopReason> {
        let low = self.noise().is_some_and(|noise| noise <= self.target);
        if low && self.mean * self.count as f64 >= self.total_ns_min {
            return Some(StopReason::Converged);
        }
        self.stable.then_some(StopReason::Stable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(mut criterion: impl Criterion, samples: impl IntoIterator<Item = u64>) -> Option<StopReason> {
        samples.into_iter().for_each(|ns| criterion.add(ns));
        criterion.verdict()
    }

    fn noisy(count: u64) -> impl Iterator<Item = u64> {
        (0..count).map(|index| 1000 + 100 * (index * 7 % 13))
    }

    #[test]
    fn an_interval_ends_a_visit_once_it_is_narrow_whatever_the_order() {
        assert_eq!(after(IntervalWidth::new(0.0025), [1000; 10]), Some(StopReason::Converged));
        assert_eq!(after(IntervalWidth::new(0.0025), noisy(60)), None);
        assert_eq!(after(IntervalWidth::new(0.0025), [1000; 5]), None, "five samples have no interval");
        let shuffled = [1004, 1001, 1000, 1003, 1002, 1000, 1004, 1001, 1002, 1003];
        assert_eq!(after(IntervalWidth::new(0.002), shuffled), Some(StopReason::Converged));
        assert_eq!(after(IntervalWidth::new(0.0005), shuffled), None);
    }

    #[test]
    fn low_noise_ends_a_visit_once_it_lasted_long_enough() {
        let still = |total_ns_min, count| after(StableNoise::new(0.0025, total_ns_min), vec![1000; count]);
        assert_eq!(still(10_000, 10), Some(StopReason::Converged));
        assert_eq!(still(10_001, 10), None, "the samples took less time together than they should");
        assert_eq!(still(0, 4), None, "four samples have no noise");
    }

    #[test]
    fn noise_that_stays_high_and_the_same_ends_a_visit() {
        let watch = |count| after(StableNoise::new(0.0025, 0), noisy(count));
        assert_eq!(watch(64), None, "too few to look back on");
        assert_eq!(watch(160), Some(StopReason::Stable));
        let growing = (0..600_u64).map(|index| 1000 + index * index);
        assert_eq!(after(StableNoise::new(0.0025, u64::MAX), growing), None, "noise that grows is not stable");
    }

    #[test]
    fn samples_of_no_time_are_neither_low_noise_nor_stable() {
        assert_eq!(after(StableNoise::new(0.0025, 0), vec![0; 1000]), None);
        assert_eq!(after(IntervalWidth::new(0.0025), vec![0; 1000]), None);
        assert_eq!(after(Never, [1000; 1000]), None);
    }

    #[test]
    fn many_samples_keep_a_window_and_the_moments_right() {
        let mut criterion = StableNoise::new(0.0, 0);
        noisy(5_000).for_each(|ns| criterion.add(ns));
        assert_eq!(criterion.window.len(), WINDOW);
        let moments = Moments::of(&noisy(5_000).map(|ns| ns as f64).collect::<Vec<_>>()).expect("they are finite");
        let expected = moments.variance.sqrt() / moments.mean;
        let noise = criterion.noise().expect("there are samples");
        assert!((noise - expected).abs() < 1e-12, "online {noise}, in one go {expected}");
    }
}
