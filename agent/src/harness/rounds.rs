//! The loop itself: rounds > problems > solutions > visits > warm-ups, syncs, enqueues.

use fleetcal_model::row::StopReason;

use super::HarnessError;
use super::bench::{Bench, Position};
use super::listener::{HookResult, Listeners};
use super::order::{RoundRandom, Stop};
use super::record::{Verdict, VisitState};
use crate::device::{Device, DeviceError};
use crate::worker::resume::Stage;

/// Runs rounds as long as any listener wants one.
///
/// # Errors
/// See [`HarnessError`].
pub(super) fn run<D: Device>(bench: &mut Bench<'_, D>, listeners: &mut Listeners<'_, D>) -> Result<(), HarnessError> {
    stop_on_failure(bench, 0..bench.records.len())?;
    while listeners.needs_more_rounds(bench) {
        bench.position = Position { round: bench.next_round, ..Position::default() };
        bench.begin(Stage::Data, None, 0)?;
        listeners.pre_round(bench)?;
        let order = order(bench);
        for stop in order {
            problem(bench, listeners, stop)?;
        }
        listeners.post_round(bench)?;
        bench.next_round += 1;
        bench.say_checkpoint()?;
    }
    Ok(())
}

/// The order of the round in hand. Where an earlier worker began the round, its visits keep their places, and are
/// passed over.
fn order<D: Device>(bench: &Bench<'_, D>) -> Vec<Stop> {
    let stops: Vec<Stop> = (0..bench.points.len())
        .map(|point| Stop { point, records: bench.wanted_of(point) })
        .filter(|stop| !stop.records.is_empty())
        .collect();
    let mut random = RoundRandom::new(bench.setting.task.seed, bench.position.round);
    if bench.is_screening() { random.screening(stops) } else { random.measuring(&stops) }
}

/// The visits of one point that follow each other.
fn problem<D: Device>(bench: &mut Bench<'_, D>, listeners: &mut Listeners<'_, D>, stop: Stop) -> HookResult {
    bench.position.point = stop.point;
    heed_interrupt(bench)?;
    let round = bench.position.round;
    if stop.records.iter().all(|&record| bench.was_visited(record, round)) {
        bench.position.order += stop.records.len() as u64;
        return Ok(());
    }
    bench.begin(Stage::Data, None, 0)?;
    listeners.pre_problem(bench)?;
    for record in stop.records {
        if bench.was_visited(record, round) {
            bench.position.order += 1;
            continue;
        }
        bench.position.record = record;
        solution(bench, listeners)?;
        heed_interrupt(bench)?;
        stop_on_failure(bench, std::iter::once(record))?;
        bench.position.order += 1;
    }
    listeners.post_problem(bench)
}

/// Ends the task where somebody wants that.
fn heed_interrupt<D: Device>(bench: &Bench<'_, D>) -> HookResult {
    if bench.interrupted() { Err(HarnessError::Interrupted) } else { Ok(()) }
}

/// One solution's part of a round: one visit.
fn solution<D: Device>(bench: &mut Bench<'_, D>, listeners: &mut Listeners<'_, D>) -> HookResult {
    bench.visit = VisitState {
        started_ns: bench.setting.clock.monotonic_ns(),
        started_utc_ns: bench.setting.clock.utc_ns(),
        ..VisitState::default()
    };
    let outcome = listeners.pre_solution(bench).and_then(|()| visit(bench, listeners));
    spare_task(bench, outcome)?;
    listeners.post_solution(bench)
}

/// One visit, its hooks included.
fn visit<D: Device>(bench: &mut Bench<'_, D>, listeners: &mut Listeners<'_, D>) -> HookResult {
    bench.begin_with_solution(Stage::WarmUp, 0)?;
    let outcome = listeners.pre_visit(bench).and_then(|()| launches(bench, listeners));
    spare_task(bench, outcome)?;
    bench.visit.votes = listeners.take_votes();
    // Results are looked at again, the chosen visit's in full: that may take longer than any batch of launches.
    bench.begin_with_solution(Stage::Check, 0)?;
    listeners.post_visit(bench)
}

/// Warm-ups with validation after the first, then batches of timed launches.
fn launches<D: Device>(bench: &mut Bench<'_, D>, listeners: &mut Listeners<'_, D>) -> HookResult {
    let warmups = listeners.warmups(bench);
    let mut warmup = 0;
    // Asked even where the fixed count wants more: a vote that nobody hears is no vote.
    while listeners.needs_more_warmups(bench) || warmup < warmups {
        bench.begin_with_solution(Stage::WarmUp, bench.visit.warmup_ns)?;
        bench.warm_up()?;
        if warmup == 0 {
            bench.begin_with_solution(Stage::Check, 0)?;
            listeners.validate_warmup(bench)?;
            if !bench.record().verdict.is_live() {
                return Ok(());
            }
        }
        warmup += 1;
    }
    let syncs = listeners.syncs(bench);
    let mut sync = 0;
    loop {
        let more = listeners.needs_more_samples(bench) || sync < syncs;
        if !more {
            break;
        }
        if bench.interrupted() {
            bench.visit.stop_reason = Some(StopReason::Interrupted);
            return Ok(());
        }
        let count = listeners.enqueues_per_sync(bench);
        let launches = bench.record().launches();
        let expected_ns = bench.visit.expected_sample_ns(launches).saturating_mul(count);
        bench.begin_with_solution(Stage::Timing, expected_ns)?;
        listeners.pre_sync(bench)?;
        let samples = bench.time_batch(count)?;
        listeners.post_sync(bench, &samples)?;
        sync += 1;
    }
    if !bench.visit.shown {
        let reason = "every timed interval was shorter than the clock can show".to_owned();
        bench.record().verdict = Verdict::Invalid(reason);
    }
    Ok(())
}

/// Turns a failure that concerns only the solution in hand into its verdict; passes on what ends the task.
fn spare_task<D: Device>(bench: &mut Bench<'_, D>, outcome: HookResult) -> HookResult {
    match outcome {
        Err(HarnessError::Device(error)) => match error {
            DeviceError::Launch { .. }
            | DeviceError::Compile { .. }
            | DeviceError::Load { .. }
            | DeviceError::OutOfMemory { .. } => {
                bench.spoil(&error);
                Ok(())
            }
            DeviceError::Lost { .. } | DeviceError::Library { .. } => Err(error.into()),
        },
        other => other,
    }
}

/// Ends the task at the first failed solution, where the plan wants that.
fn stop_on_failure<D: Device>(bench: &Bench<'_, D>, mut records: impl Iterator<Item = usize>) -> HookResult {
    if !bench.setting.task.policy.exit_on_error {
        return Ok(());
    }
    let failed = records.find_map(|index| {
        let record = &bench.records[index];
        match &record.verdict {
            Verdict::Failed { reason, .. } | Verdict::Invalid(reason) => Some((record, reason.clone())),
            Verdict::Pending
            | Verdict::NoCheck
            | Verdict::Passed(_)
            | Verdict::Skipped(_)
            | Verdict::Throttled { .. }
            | Verdict::Contended { .. } => None,
        }
    });
    match failed {
        Some((record, reason)) => Err(HarnessError::FailedSolution {
            solution: record.solution.to_string(),
            point: bench.points[record.point].point.to_string(),
            reason,
        }),
        None => Ok(()),
    }
}
