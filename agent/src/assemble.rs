//! From a row's template and its visits to the finished row, the same way for a row that closed and for one cut short.

use fleetcal_model::estimate::{SealError, Visit as VisitSummary, finish, seal, withdraw};
use fleetcal_model::row::{Role, Row, Status, Timing};
use fleetcal_model::throttle::Throttling;

use crate::harness::bench::SCREENING_ROUND;
use crate::harness::template::ALONE;
use crate::worker::message::{CoRunning, Visit};

/// The condition of a row during whose every visit all other devices of the node were measured.
const NODE_FULL: &str = "node_full";

/// Puts visits into a row: rounds, samples, estimate, interval, start, end, rounds done; then seals it.
///
/// Visits may come in any order. A row whose visits were all screening visits gets the role `screening`: the choice
/// among many solutions was made from it, so it may feed no fit.
///
/// # Errors
/// [`SealError`].
pub fn assemble(template: Row, visits: &[Visit]) -> Result<Row, SealError> {
    let mut row = template;
    let mut visits: Vec<&Visit> = visits.iter().collect();
    visits.sort_by_key(|visit| (visit.round, visit.order));
    if !visits.is_empty() && visits.iter().all(|visit| visit.round == SCREENING_ROUND) {
        row.identity.role = Role::Screening;
        row.timing.rounds_planned = 0;
        // Screening visits are taken as they come, whatever load the plan names.
        row.conditions.load = None;
    }
    note_plan(&mut row.timing, &visits);
    let enqueues_per_sample = row.timing.enqueues_per_sample;
    let summary = |visit: &&Visit| {
        let about = VisitSummary {
            round: visit.round,
            order: visit.order,
            buffer_offset_bytes: visit.buffer_offset_bytes,
            enqueues_per_sample,
            stop_reason: visit.stop_reason,
        };
        about.summarise(&visit.samples)
    };
    row.timing.rounds = visits.iter().filter_map(summary).collect();
    row.timing.samples = visits.iter().flat_map(|visit| visit.samples.iter().copied()).collect();
    let role = row.identity.role;
    finish(&mut row.timing, role);
    judge_throttling(&mut row);
    if matches!(row.outcome.status, Status::Failed | Status::Invalid) {
        withdraw(&mut row.timing);
    }
    note_neighbours(&mut row, &visits);
    row.outcome.started_utc_ns = visits.iter().map(|visit| visit.started_utc_ns).min().unwrap_or(0);
    row.outcome.ended_utc_ns = visits.iter().map(|visit| visit.ended_utc_ns).max().unwrap_or(0);
    seal(&mut row)?;
    Ok(row)
}

/// A row that closed has heard its verdict from the harness; one cut short has not, and its samples know.
fn judge_throttling(row: &mut Row) {
    if !matches!(row.outcome.status, Status::Passed | Status::NoCheck) {
        return;
    }
    let mut throttling = Throttling::default();
    // Where rounds measured the row, the one that only screened it has no say.
    let only_screened = row.timing.samples.iter().all(|sample| sample.round == SCREENING_ROUND);
    let judged = row.timing.samples.iter().filter(|sample| only_screened || sample.round != SCREENING_ROUND);
    judged.for_each(|sample| throttling.add(sample));
    if let Some(reason) = throttling.verdict() {
        row.outcome.status = Status::Throttled;
        row.outcome.reason = Some(reason);
    }
}

/// A row cut short has the template of its opening. What it was cut short of stands with its last visit: fewer rounds
/// where the task's time was short, more once a pilot asked for them.
fn note_plan(timing: &mut Timing, visits: &[&Visit]) {
    let Some(last) = visits.iter().rev().find(|visit| visit.round != SCREENING_ROUND) else { return };
    if last.plan.pilot.is_some() {
        (timing.rounds_planned, timing.pilot_rounds) = (last.plan.rounds, last.plan.pilot);
    } else if timing.pilot_rounds.is_none() {
        timing.rounds_planned = timing.rounds_planned.min(last.plan.rounds);
    }
}

/// What the agent saw of other devices during the visits. The template says `alone` where the coordinator saw to it that
/// no other device of the node is measured; where one was all the same, nobody was alone.
fn note_neighbours(row: &mut Row, visits: &[&Visit]) {
    let seen: Vec<CoRunning> = visits.iter().filter_map(|visit| visit.co_running).collect();
    let Some(fewest) = seen.iter().map(|seen| seen.fewest).min() else { return };
    row.conditions.co_running_devices = Some(fewest);
    let alone = row.conditions.neighbours.as_deref() == Some(ALONE) && seen.iter().all(|seen| seen.most == 0);
    let node_full = seen.iter().all(|seen| seen.others > 0 && seen.fewest >= seen.others);
    let condition = if alone { Some(ALONE) } else { node_full.then_some(NODE_FULL) };
    row.conditions.neighbours = condition.map(str::to_owned);
}

#[cfg(test)]
mod tests;
