//! Listener: judges the pilot round. Chooses finalists, and makes the task fit its time.

use super::HarnessError;
use super::bench::Bench;
use super::budget::{Forecast, VisitCost};
use super::listener::{HookResult, Listener};
use crate::device::Device;
use crate::worker::message::Event;

/// Acts once, after the first round, whichever that was.
#[derive(Debug, Default)]
pub(super) struct Selector {
    settled: bool,
}

impl<D: Device> Listener<D> for Selector {
    fn name(&self) -> &'static str {
        "selector"
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let (screening, median_ns) = (bench.is_screening(), bench.visit.median_ns());
        let cost = VisitCost {
            fixed_ns: bench.since_ns(bench.visit.started_ns).saturating_sub(bench.visit.timed_ns),
            sample_ns: bench.visit.expected_sample_ns(),
        };
        let record = bench.record();
        record.cost = Some(cost);
        if screening {
            record.screening_ns = median_ns;
        }
        Ok(())
    }

    fn post_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if std::mem::replace(&mut self.settled, true) {
            return Ok(());
        }
        let ranked: Vec<Vec<usize>> = (0..bench.points.len()).map(|point| ranked(bench, point)).collect();
        keep_best(bench, &ranked);
        fit_to_time(bench, &ranked)?;
        keep_best(bench, &ranked);
        Ok(())
    }
}

/// Records of a point that may go on, fastest first; equal ones in the family's order. A solution that failed, or that
/// screening could not time, is none of them.
fn ranked<D: Device>(bench: &Bench<'_, D>, point: usize) -> Vec<usize> {
    let screening = bench.is_screening();
    let mut records = bench.wanted_of(point);
    records.retain(|&record| bench.records[record].verdict.is_sound());
    if screening {
        records.retain(|&record| bench.records[record].screening_ns.is_some());
        let key = |record: usize| bench.records[record].screening_ns.unwrap_or(f64::INFINITY);
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
        visit_ns_max: bench.setting.task.policy.visit_ns_max,
        rounds_done: bench.position.round,
    };
    let left_ns = bench.setting.task.policy.task_ns_max.saturating_sub(bench.since_ns(bench.started_ns));
    let (limits, said) = forecast.fit(bench.limits, left_ns);
    bench.limits = limits;
    match said {
        Some(sentence) => bench.say(Event::Note(sentence)),
        None => Ok(()),
    }
}
