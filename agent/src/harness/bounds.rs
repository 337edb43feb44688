//! Looks for accesses outside of arrays, in one of two ways.
//!
//! *Values*, a listener: guard zones lie around every array ([`super::zones`]); they are set before a visit where they are
//! not already, and looked at after its timed launches, and in a solution's first visit before any of them too. What is
//! found is found in one solution: what a solution that failed may have left elsewhere is trusted no more.
//!
//! *Pages*, before the first round: each solution runs once with every array flush against an unmapped page behind it,
//! and once in front. An access there ends the worker or its context; results are compared too.

use fleetcal_model::policy::BoundsCheck;

use super::HarnessError;
use super::arena::Arena;
use super::bench::{Bench, Position};
use super::listener::{HookResult, Listener};
use super::record::{Publication, Verdict};
use super::validator::ReferenceValidator;
use super::zones::{self, Zone};
use crate::device::{Device, DeviceError, PageGuard};
use crate::worker::resume::Stage;

/// Looks at guard zones. It stands behind the validator, so that a warm-up's wrong result is called that.
#[derive(Debug)]
pub(super) struct GuardZones;

impl<D: Device> Listener<D> for GuardZones {
    fn name(&self) -> &'static str {
        "guard zones"
    }

    /// Behind the data: a fill may reach into zones of smaller arrays.
    fn pre_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        Ok(bench.arena.guard(bench.device, &bench.points[bench.position.point].buffers)?)
    }

    /// In a solution's first visit, before anything is timed. Later ones are looked at once, at their end, which sees what
    /// the warm-up did too: each look waits for the device several times, and short visits would be little else.
    fn validate_warmup(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        match bench.record().publication {
            Publication::Unsaid => check(bench, "after a warm-up"),
            Publication::Open(_) | Publication::Closed => Ok(()),
        }
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let timed = !bench.visit.samples.is_empty();
        if timed { check(bench, "after timed launches") } else { distrust_failed(bench) }
    }
}

/// Fails the solution in hand where a zone around an array of its is not what it was.
fn check<D: Device>(bench: &mut Bench<'_, D>, when: &str) -> HookResult {
    let looked = bench.arena.is_guarded() && bench.record().verdict.is_live();
    if let Some(found) = if looked { broken_zone(bench)? } else { None } {
        let checked = bench.record().verdict.checked();
        let reason = format!("{found} {when}: the kernel writes outside of its arrays");
        bench.record().verdict = Verdict::Failed { checked, reason };
    }
    distrust_failed(bench)
}

/// A solution that failed may have written anywhere: the next one gets its data and zones anew.
fn distrust_failed<D: Device>(bench: &mut Bench<'_, D>) -> HookResult {
    if matches!(bench.record().verdict, Verdict::Failed { .. } | Verdict::Invalid(_)) {
        bench.arena.forget();
    }
    Ok(())
}

/// The first element of a zone that does not hold its sentinel, in words.
fn broken_zone<D: Device>(bench: &mut Bench<'_, D>) -> Result<Option<String>, HarnessError> {
    let buffers = &bench.points[bench.position.point].buffers;
    let zones: Vec<Zone> = buffers.iter().enumerate().flat_map(|(array, spec)| zones::around(array, spec)).collect();
    for (zone, found) in zones.iter().zip(bench.arena.look(bench.device, &zones)?) {
        let sentinel = zone.sentinel();
        if let Some((index, value)) = (0..).zip(found).find(|(_, value)| !sentinel.is(*value)) {
            let (name, element) = (buffers[zone.array].name, zone.element(index));
            return Ok(Some(format!("{name}[{element}], {}, is {value}, not {}", zone.place(), sentinel.value)));
        }
    }
    Ok(None)
}

/// Runs every solution next to unmapped pages, where the plan wants that. Nothing else is allocated meanwhile, so that
/// what fits into a round fits here.
///
/// # Errors
/// A lost context, which is what an access outside of arrays comes to; a sink that is gone; or somebody stopped the task.
pub(super) fn check_at_pages<D: Device>(bench: &mut Bench<'_, D>) -> HookResult {
    if bench.setting.task.policy.bounds != BoundsCheck::Pages {
        return Ok(());
    }
    for point in 0..bench.points.len() {
        for guard in [PageGuard::Back, PageGuard::Front] {
            let outcome = check_point(bench, point, guard);
            bench.arena = Arena::default();
            outcome?;
        }
    }
    bench.position = Position::default();
    Ok(())
}

fn check_point<D: Device>(bench: &mut Bench<'_, D>, point: usize, guard: PageGuard) -> HookResult {
    let mut validator = ReferenceValidator::new(bench.setting.task.policy.validate_elements);
    // What an earlier worker has judged ran here then.
    let unknown = |record: &usize| bench.records[*record].verdict == Verdict::Pending;
    let records: Vec<usize> = bench.wanted_of(point).into_iter().filter(unknown).collect();
    if records.is_empty() {
        return Ok(());
    }
    bench.begin(Stage::Data, None, 0)?;
    let allocated = bench.arena.renew_between_pages(bench.device, &bench.points[point].buffers, guard);
    for record in records {
        if bench.interrupted() {
            return Err(HarnessError::Interrupted);
        }
        bench.position = Position { point, record, ..Position::default() };
        let outcome = match &allocated {
            Ok(()) => run_once(bench, &mut validator, guard),
            Err(error) => Err(error.clone().into()),
        };
        match outcome {
            Ok(()) => distrust_failed(bench)?,
            Err(HarnessError::Device(
                error @ (DeviceError::Launch { .. }
                | DeviceError::Compile { .. }
                | DeviceError::Load { .. }
                | DeviceError::OutOfMemory { .. }),
            )) => bench.spoil(&error),
            other => return other,
        }
    }
    Ok(())
}

/// Runs the solution in hand once in guarded memory, and compares its results.
fn run_once<D: Device>(bench: &mut Bench<'_, D>, validator: &mut ReferenceValidator, guard: PageGuard) -> HookResult {
    bench.fill_inputs()?;
    bench.poison_outputs()?;
    bench.begin_with_solution(Stage::Bounds, 0)?;
    bench.warm_up()?;
    bench.begin_with_solution(Stage::Check, 0)?;
    let when = match guard {
        PageGuard::Front => "with an unmapped page in front of each array",
        PageGuard::None | PageGuard::Back => "with an unmapped page behind each array",
    };
    validator.judge_all(bench, when)?;
    if bench.record().verdict.is_live() {
        // What is right here is still to be judged in the buffers that are timed.
        bench.record().verdict = Verdict::Pending;
    }
    Ok(())
}
