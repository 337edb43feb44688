//! Listener: judges the first round, and the pilot. Chooses finalists, makes the task fit its time, and gives each record
//! the rounds that it needs.
//!
//! The pilot is the plan's rounds; after it each record gets further rounds from the spread of its own medians, once
//! (see [`fleetcal_model::pilot`]). Records that are narrow enough are not visited again: a task of a hundred points, one of
//! which is noisy, would else pay for a hundred. What that changes for the others is that fewer kernels run between
//! two of their visits; buffers and orders stay fresh, and the interval never gets narrower than the spread of the pilot,
//! where all kernels ran, allows.

use fleetcal_model::pilot::rounds_needed;

use super::HarnessError;
use super::bench::Bench;
use super::budget::{Forecast, VisitCost, rounds_within};
use super::listener::{HookResult, Listener};
use super::record::Record;
use crate::device::Device;
use crate::worker::message::{Event, RoundPlan};
use crate::worker::resume::{Checkpoint, Resume};

/// Acts after the first round, whichever that was, and after the last one of the pilot.
#[derive(Debug, Default)]
pub(super) struct Selector {
    settled: bool,
}

impl Selector {
    /// One that leaves alone what an earlier worker settled.
    pub(super) fn of(resume: &Resume) -> Self {
        Self { settled: resume.checkpoint.as_ref().is_some_and(Checkpoint::is_settled) }
    }
}

impl<D: Device> Listener<D> for Selector {
    fn name(&self) -> &'static str {
        "selector"
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let (screening, launches) = (bench.is_screening(), bench.record().launches());
        let median_ns = bench.visit.median_ns().map(|ns| ns / launches as f64);
        let cost = VisitCost {
            fixed_ns: bench.since_ns(bench.visit.started_ns).saturating_sub(bench.visit.timed_ns),
            sample_ns: bench.visit.expected_sample_ns(launches),
        };
        let record = bench.record();
        record.cost = Some(cost);
        if screening {
            record.screening_ns = median_ns;
        } else {
            record.medians_ns.extend(median_ns);
        }
        Ok(())
    }

    fn post_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if !std::mem::replace(&mut self.settled, true) {
            let ranked: Vec<Vec<usize>> = (0..bench.points.len()).map(|point| ranked(bench, point)).collect();
            keep_best(bench, &ranked);
            fit_to_time(bench, &ranked)?;
            keep_best(bench, &ranked);
        }
        if bench.position.round == bench.limits.rounds { plan_further_rounds(bench) } else { Ok(()) }
    }
}

/// Gives every record the rounds that the spread of its pilot asks for, as far as the plan and the task's time allow, and
/// says where time did not.
fn plan_further_rounds<D: Device>(bench: &mut Bench<'_, D>) -> Result<(), HarnessError> {
    let (policy, pilot) = (&bench.setting.task.policy, bench.limits.rounds);
    if policy.rounds_max <= pilot {
        return Ok(());
    }
    let needs: Vec<(usize, u64)> = (0..bench.records.len())
        .filter(|&record| bench.is_wanted(record))
        .filter_map(|record| {
            let medians_ns = &bench.records[record].medians_ns;
            let needed = rounds_needed(medians_ns, policy.interval_target, policy.rounds_max)?;
            // A record that missed a round of the pilot gets no more than the others that need as many.
            Some((record, needed.max(pilot)))
        })
        .collect();
    let further: Vec<(u64, VisitCost)> =
        needs.iter().filter_map(|&(record, rounds)| Some((rounds - pilot, bench.records[record].cost?))).collect();
    let left_ns = policy.task_ns_max.saturating_sub(bench.spent_ns());
    let visit_ns = |cost: &VisitCost| cost.visit_ns(bench.limits.samples_max, bench.visit_ns_max());
    let affordable = pilot + rounds_within(&further, bench.round_ns, visit_ns, left_ns);
    let all = needs.len();
    let short = needs.iter().filter(|(_, rounds)| *rounds > affordable).count();
    for (record, rounds) in needs {
        bench.records[record].plan = RoundPlan { rounds: rounds.min(affordable), pilot: Some(pilot) };
    }
    if short == 0 {
        return Ok(());
    }
    let percent = 100.0 * policy.interval_target;
    bench.say(Event::Note(format!(
        "{short} of {all} rows need more rounds than the task has time for to be within {percent}%: they get {affordable}"
    )))
}

/// Records of a point that may go on, fastest first; equal ones in the family's order. A solution that failed, or that
/// screening could not time, is none of them.
fn ranked<D: Device>(bench: &Bench<'_, D>, point: usize) -> Vec<usize> {
    let screening = bench.is_screening();
    let mut records = bench.wanted_of(point);
    records.retain(|&record| bench.records[record].verdict.is_sound());
    if screening {
        records.retain(|&record| bench.records[record].screening_ns.is_some());
        // Solutions of one point may do different amounts of its work: chains of arithmetic are as many as a device holds.
        let key = |record: usize| {
            let Record { screening_ns, template, .. } = &bench.records[record];
            screening_ns.unwrap_or(f64::INFINITY) / template.counts.amount()
        };
        records.sort_by(|&left, &right| key(left).total_cmp(&key(right)));
    }
    records
}

/// Leaves only the finalists selected.
fn keep_best<D: Device>(bench: &mut Bench<'_, D>, ranked: &[Vec<usize>]) {
    let finalists = usize::try_from(bench.limits.finalists).unwrap_or(usize::MAX);
    bench.records.iter_mut().for_each(|record| record.selected = false);
    for record in ranked.iter().flat_map(|records| records.iter().take(finalists)) {
        bench.records[*record].selected = true;
    }
}

/// What one visit of each of a point's records will cost. The fixed part is the median of theirs: the pilot's first
/// visits paid for touching memory first and for the point's reference, which no later visit does.
fn costs<D: Device>(bench: &Bench<'_, D>, records: &[usize]) -> Vec<VisitCost> {
    let mut costs: Vec<VisitCost> = records.iter().filter_map(|&record| bench.records[record].cost).collect();
    let mut fixed_ns: Vec<u64> = costs.iter().map(|cost| cost.fixed_ns).collect();
    fixed_ns.sort_unstable();
    if let Some(&median_ns) = fixed_ns.get(fixed_ns.len() / 2) {
        costs.iter_mut().for_each(|cost| cost.fixed_ns = median_ns);
    }
    costs
}

/// Shrinks the limits in force until the rounds to come fit the task's time, and says so.
fn fit_to_time<D: Device>(bench: &mut Bench<'_, D>, ranked: &[Vec<usize>]) -> Result<(), HarnessError> {
    let points: Vec<Vec<VisitCost>> = ranked.iter().map(|records| costs(bench, records)).collect();
    let forecast = Forecast {
        points: &points,
        round_ns: bench.round_ns,
        visit_ns_max: bench.visit_ns_max(),
        rounds_done: bench.position.round,
    };
    let left_ns = bench.setting.task.policy.task_ns_max.saturating_sub(bench.spent_ns());
    let (limits, said) = forecast.fit(bench.limits, left_ns);
    bench.limits = limits;
    bench.records.iter_mut().for_each(|record| record.plan.rounds = limits.rounds);
    match said {
        Some(sentence) => bench.say(Event::Note(sentence)),
        None => Ok(()),
    }
}
