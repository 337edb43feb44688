//! Listener: how many warm-ups, samples and rounds, and why a visit ends.

use fleetcal_model::policy::VISIT_SAMPLES_MAX;

use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::stop::{Criterion, Never, Progress, StopRule, criterion};
use crate::device::Device;

/// A screening visit gets this part of a visit's time: it ranks solutions, it does not measure them.
const SCREENING_SHARE: u64 = 10;

/// Asks for what the policy says, within the limits in force.
#[derive(Debug)]
pub(super) struct Timer {
    criterion: Box<dyn Criterion>,
    /// Samples of the visit in hand that the criterion has seen, or that do not count.
    seen: usize,
}

impl Default for Timer {
    fn default() -> Self {
        Self { criterion: Box::new(Never), seen: 0 }
    }
}

impl Timer {
    /// The rule of the visit in hand.
    fn rule<D: Device>(bench: &Bench<'_, D>) -> StopRule {
        let policy = &bench.setting.task.policy;
        if bench.is_screening() {
            let samples = policy.screening_samples.clamp(1, VISIT_SAMPLES_MAX);
            let visit_ns_max = policy.visit_ns_max / SCREENING_SHARE;
            return StopRule { samples_min: samples, samples_max: samples, visit_ns_max };
        }
        StopRule {
            samples_min: bench.limits.samples_min,
            samples_max: bench.limits.samples_max,
            visit_ns_max: bench.visit_ns_max(),
        }
    }

    /// How far the visit in hand is.
    fn progress<D: Device>(bench: &Bench<'_, D>) -> Progress {
        let samples = &bench.visit.samples;
        Progress {
            taken: samples.len() as u64,
            accepted: samples.iter().filter(|sample| sample.accepted).count() as u64,
            timed_ns: bench.visit.timed_ns,
            expected_ns: bench.visit.expected_sample_ns(bench.records[bench.position.record].launches()),
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

    fn pre_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        self.seen = 0;
        // Every solution is ranked by the same number of samples.
        self.criterion = if bench.is_screening() { Box::new(Never) } else { criterion(&bench.setting.task.policy) };
        Ok(())
    }

    fn needs_more_rounds(&mut self, bench: &Bench<'_, D>) -> bool {
        let wants_next =
            |record: usize| bench.is_wanted(record) && bench.next_round <= bench.records[record].plan.rounds;
        (0..bench.records.len()).any(wants_next)
    }

    /// Samples are looked at here and not when they come: by now the monitor has marked their batch by the readings that
    /// ended with it. What is found out later still, by a reading that was under way or about the whole visit, costs
    /// samples that the rule has counted.
    fn needs_more_samples(&mut self, bench: &mut Bench<'_, D>) -> bool {
        let fresh = bench.visit.samples.iter().skip(self.seen);
        fresh.filter(|sample| sample.accepted).for_each(|sample| self.criterion.add(sample.ns));
        self.seen = bench.visit.samples.len();
        bench.visit.stop_reason = Self::rule(bench).verdict(Self::progress(bench), self.criterion.verdict());
        bench.visit.stop_reason.is_none()
    }
}
