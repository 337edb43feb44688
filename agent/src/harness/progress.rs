//! Listener: how much there is to do, for people who wait.

use super::bench::Bench;
use super::listener::{HookResult, Listener};
use crate::device::Device;
use crate::worker::message::Event;
use crate::worker::resume::Resume;

/// Says how many visits there will be in all, and says it again when that changes.
#[derive(Debug, Default)]
pub(super) struct ProgressListener {
    visits_done: u64,
    said: Option<(u64, u64)>,
}

impl ProgressListener {
    /// One that counts the visits of earlier workers too.
    pub(super) fn of(resume: &Resume) -> Self {
        Self { visits_done: resume.visits_done(), said: None }
    }

    /// Says the plan where it is not what was said last. `round` is the next round.
    fn tell<D: Device>(&mut self, bench: &mut Bench<'_, D>, next_round: u64) -> HookResult {
        let wanted: Vec<Vec<usize>> = (0..bench.points.len()).map(|point| bench.wanted_of(point)).collect();
        let planned = |record: &usize| bench.records[*record].plan.rounds;
        let rounds = wanted.iter().flatten().map(planned).max().unwrap_or(bench.limits.rounds);
        let to_come: u64 = match next_round {
            super::bench::SCREENING_ROUND => {
                let visits = |records: &Vec<usize>| {
                    let all = records.len() as u64;
                    all + bench.limits.rounds * all.min(bench.limits.finalists)
                };
                wanted.iter().map(visits).sum()
            }
            next => wanted.iter().flatten().map(|record| (planned(record) + 1).saturating_sub(next)).sum(),
        };
        let resumed = (0..bench.records.len()).filter(|&record| bench.is_wanted(record));
        let done_before = resumed.filter(|&record| bench.was_visited(record, next_round)).count() as u64;
        let plan = (self.visits_done + to_come.saturating_sub(done_before), rounds);
        if self.said.replace(plan) == Some(plan) {
            return Ok(());
        }
        bench.say(Event::Planned { visits: plan.0, rounds })
    }
}

impl<D: Device> Listener<D> for ProgressListener {
    fn name(&self) -> &'static str {
        "progress"
    }

    fn pre_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let round = bench.position.round;
        self.tell(bench, round)
    }

    fn post_visit(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.visits_done += 1;
        Ok(())
    }
}
