//! When a visit has enough samples, and how many to take next.

use fleetcal_model::row::StopReason;

mod criterion;

pub use criterion::{Criterion, IntervalWidth, Never, StableNoise, criterion};

/// So many samples without one that counts are enough: the clock does not show what there is to see, or the device is
/// held back.
const HOPELESS_SAMPLES: u64 = 64;

/// Limits of one visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopRule {
    /// Fewest samples that count, unless time is up.
    pub samples_min: u64,
    /// Most samples, those that do not count included.
    pub samples_max: u64,
    /// Longest time of the timed part, nanoseconds.
    pub visit_ns_max: u64,
}

/// What a visit has so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Samples.
    pub taken: u64,
    /// Samples that count.
    pub accepted: u64,
    /// Time that its timed part took, flushes included, nanoseconds.
    pub timed_ns: u64,
    /// What one more sample may take, nanoseconds.
    pub expected_ns: u64,
}

impl StopRule {
    /// Why the visit is over, or `None` while it is not, given what the criterion says. Never over without a sample; never
    /// endless, whatever the samples are.
    pub fn verdict(&self, progress: Progress, criterion: Option<StopReason>) -> Option<StopReason> {
        let Progress { taken, accepted, timed_ns, .. } = progress;
        if taken == 0 {
            return None;
        }
        if accepted >= self.samples_min.max(1) && criterion.is_some() {
            return criterion;
        }
        if taken >= self.samples_max.max(self.samples_min) || (accepted == 0 && taken >= HOPELESS_SAMPLES) {
            return Some(StopReason::Count);
        }
        (timed_ns >= self.visit_ns_max).then_some(StopReason::TimeUp)
    }

    /// Samples of the next batch: as many as the smallest visit still lacks, later as many again, but no more than
    /// the time and the count left allow. At least one.
    pub fn batch(&self, progress: Progress) -> u64 {
        let lacking = self.samples_min.saturating_sub(progress.accepted);
        let left = self.samples_max.max(self.samples_min).saturating_sub(progress.taken);
        let wanted = if lacking > 0 { lacking } else { self.samples_min }.min(left);
        let affordable = self.visit_ns_max.saturating_sub(progress.timed_ns) / progress.expected_ns.max(1);
        wanted.min(affordable).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: StopRule = StopRule { samples_min: 10, samples_max: 100, visit_ns_max: 1_000_000 };

    fn progress(taken: u64, timed_ns: u64) -> Progress {
        Progress { taken, accepted: taken, timed_ns, expected_ns: 1000 }
    }

    #[test]
    fn each_end_has_its_label() {
        let narrow = Some(StopReason::Converged);
        assert_eq!(RULE.verdict(progress(10, 0), narrow), narrow);
        assert_eq!(RULE.verdict(progress(20, 0), Some(StopReason::Stable)), Some(StopReason::Stable));
        assert_eq!(RULE.verdict(progress(100, 0), None), Some(StopReason::Count));
        assert_eq!(RULE.verdict(progress(20, 0), None), None);
        assert_eq!(RULE.verdict(progress(20, 1_000_000), None), Some(StopReason::TimeUp));
        assert_eq!(RULE.verdict(progress(9, 0), narrow), None, "nine of ten samples are too few, however still");
    }

    #[test]
    fn samples_that_do_not_count_end_a_visit_and_do_not_complete_it() {
        let rejected = |taken, accepted| Progress { accepted, ..progress(taken, 0) };
        assert_eq!(RULE.verdict(rejected(20, 9), Some(StopReason::Converged)), None);
        assert_eq!(RULE.batch(rejected(20, 9)), 1, "what it lacks");
        assert_eq!(RULE.verdict(rejected(100, 9), None), Some(StopReason::Count));
        let patient = StopRule { samples_max: u64::MAX, ..RULE };
        assert_eq!(patient.verdict(rejected(64, 0), None), Some(StopReason::Count), "no time, no end");
    }

    #[test]
    fn a_visit_never_ends_empty_and_batches_fit_the_time_left() {
        assert_eq!(RULE.verdict(progress(0, u64::MAX), Some(StopReason::Converged)), None);
        assert_eq!(RULE.batch(progress(0, u64::MAX)), 1);
        assert_eq!(RULE.batch(progress(0, 0)), 10);
        assert_eq!(RULE.batch(progress(0, 996_000)), 4);
        assert_eq!(RULE.batch(progress(96, 0)), 4, "no more than the largest count");
        assert_eq!(RULE.batch(progress(3, 0)), 7, "first what the smallest visit lacks");
    }
}
