//! When a visit has enough samples, and how many to take next.

use fleetcal_model::row::StopReason;
use fleetcal_model::statistics;

/// Limits of one visit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StopRule {
    /// Fewest samples, unless time is up.
    pub samples_min: u64,
    /// Most samples.
    pub samples_max: u64,
    /// Half-width of the median's interval, relative to the median, that is narrow enough.
    pub noise_target: f64,
    /// Longest time of the timed part, nanoseconds.
    pub visit_ns_max: u64,
}

/// What a visit has so far.
#[derive(Debug, Clone, Copy)]
pub struct Progress<'a> {
    /// Its samples, nanoseconds, in the order taken.
    pub samples_ns: &'a [u64],
    /// Time that its timed part took, flushes included, nanoseconds.
    pub timed_ns: u64,
    /// What one more sample may take, nanoseconds.
    pub expected_ns: u64,
}

impl StopRule {
    /// Why the visit is over, or `None` while it is not. Never over without a sample.
    pub fn verdict(&self, progress: Progress<'_>) -> Option<StopReason> {
        let taken = progress.samples_ns.len() as u64;
        if taken == 0 {
            return None;
        }
        if taken >= self.samples_min.max(1) {
            if half_width(progress.samples_ns).is_some_and(|width| width <= self.noise_target) {
                return Some(StopReason::Converged);
            }
            if taken >= self.samples_max {
                return Some(StopReason::Count);
            }
        }
        (progress.timed_ns >= self.visit_ns_max).then_some(StopReason::TimeUp)
    }

    /// Samples of the next batch: as many as the smallest visit still lacks, later as many again, but no more than
    /// the time left allows. At least one.
    pub fn batch(&self, progress: Progress<'_>) -> u64 {
        let taken = progress.samples_ns.len() as u64;
        let lacking = self.samples_min.saturating_sub(taken);
        let wanted = if lacking > 0 { lacking } else { self.samples_min.min(self.samples_max.saturating_sub(taken)) };
        let affordable = self.visit_ns_max.saturating_sub(progress.timed_ns) / progress.expected_ns.max(1);
        wanted.min(affordable).max(1)
    }
}

/// Relative half-width of the interval of the samples' median, see [`statistics::median_half_width`].
fn half_width(samples_ns: &[u64]) -> Option<f64> {
    let mut sorted: Vec<f64> = samples_ns.iter().map(|ns| *ns as f64).collect();
    sorted.sort_by(f64::total_cmp);
    statistics::median_half_width(&sorted)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StopRule =
        StopRule { samples_min: 10, samples_max: 100, noise_target: 0.0025, visit_ns_max: 1_000_000 };

    fn progress(samples_ns: &[u64], timed_ns: u64) -> Progress<'_> {
        Progress { samples_ns, timed_ns, expected_ns: 1000 }
    }

    #[test]
    fn each_end_has_its_label() {
        let still = [1000_u64; 10];
        let noisy: Vec<u64> = (0..100).map(|index| 1000 + 100 * (index % 7)).collect();
        assert_eq!(RULE.verdict(progress(&still, 0)), Some(StopReason::Converged));
        assert_eq!(RULE.verdict(progress(&noisy, 0)), Some(StopReason::Count));
        assert_eq!(RULE.verdict(progress(&noisy[..20], 0)), None);
        assert_eq!(RULE.verdict(progress(&noisy[..20], 1_000_000)), Some(StopReason::TimeUp));
        assert_eq!(RULE.verdict(progress(&still[..9], 0)), None, "nine of ten samples are too few, however still");
    }

    #[test]
    fn a_visit_never_ends_empty_and_batches_fit_the_time_left() {
        assert_eq!(RULE.verdict(progress(&[], u64::MAX)), None);
        assert_eq!(RULE.batch(progress(&[], u64::MAX)), 1);
        assert_eq!(RULE.batch(progress(&[], 0)), 10);
        assert_eq!(RULE.batch(progress(&[], 996_000)), 4);
        assert_eq!(RULE.batch(progress(&[1; 96], 0)), 4, "no more than the largest count");
        assert_eq!(RULE.batch(progress(&[1; 3], 0)), 7, "first what the smallest visit lacks");
    }
}
