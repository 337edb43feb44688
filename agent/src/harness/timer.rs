//! Listener: how many warm-ups, samples and rounds, and why a visit ends.

use super::bench::Bench;
use super::listener::Listener;
use super::stop::{Progress, StopRule};
use crate::device::Device;

/// A screening visit gets this part of a visit's time: it ranks solutions, it does not measure them.
const SCREENING_SHARE: u64 = 10;

/// Asks for what the policy says, within the limits in force.
#[derive(Debug)]
pub(super) struct Timer;

impl Timer {
    /// The rule of the visit in hand.
    fn rule<D: Device>(bench: &Bench<'_, D>) -> StopRule {
        let policy = &bench.setting.task.policy;
        if bench.is_screening() {
            let samples = policy.screening_samples.max(1);
            let visit_ns_max = policy.visit_ns_max / SCREENING_SHARE;
            // A negative target is never met: every solution is ranked by the same number of samples.
            return StopRule { samples_min: samples, samples_max: samples, noise_target: -1.0, visit_ns_max };
        }
        StopRule {
            samples_min: bench.limits.samples_min,
            samples_max: bench.limits.samples_max,
            noise_target: policy.noise_target,
            visit_ns_max: policy.visit_ns_max,
        }
    }

    /// How far the visit in hand is.
    fn progress<'b, D: Device>(bench: &'b Bench<'_, D>) -> Progress<'b> {
        Progress {
            samples_ns: &bench.visit.samples_ns,
            timed_ns: bench.visit.timed_ns,
            expected_ns: bench.visit.expected_sample_ns(),
        }
    }
}

impl<D: Device> Listener<D> for Timer {
    fn name(&self) -> &'static str {
        "timer"
    }

    fn warmups(&self, bench: &Bench<'_, D>) -> Option<u64> {
        Some(bench.setting.task.policy.warmups)
    }

    /// One batch at least, so that no visit ends empty.
    fn syncs(&self, _bench: &Bench<'_, D>) -> Option<u64> {
        Some(1)
    }

    fn enqueues_per_sync(&self, bench: &Bench<'_, D>) -> Option<u64> {
        Some(Self::rule(bench).batch(Self::progress(bench)))
    }

    fn needs_more_rounds(&mut self, bench: &Bench<'_, D>) -> bool {
        let wants_next =
            |record: usize| bench.is_wanted(record) && bench.next_round <= bench.records[record].plan.rounds;
        (0..bench.records.len()).any(wants_next)
    }

    fn needs_more_samples(&mut self, bench: &mut Bench<'_, D>) -> bool {
        bench.visit.stop_reason = Self::rule(bench).verdict(Self::progress(bench));
        bench.visit.stop_reason.is_none()
    }
}
