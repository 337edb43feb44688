//! Before the first round: which points can be measured, and which solutions run at all.

use fleetcal_kernels::BufferSpec;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::Counts;

use super::HarnessError;
use super::arena::{Guards, allocated_bytes, slot_bytes};
use super::bench::{Bench, SCREENING_ROUND};
use super::bounds::check_at_pages;
use super::flush::Flush;
use super::monitor::{HardwareMonitor, Watch};
use super::record::{PointWork, Publication, Record, Verdict};
use super::resume::settled_before;
use super::solutions::{Choice, SolutionIterator};
use super::template::RowSource;
use crate::device::{Device, DeviceError, Instrument, Prepared};
use crate::worker::message::{Event, RoundPlan};
use crate::worker::resume::{Stage, Subject};

/// What compiling and loading one solution may take, nanoseconds.
const PREPARE_NS: u64 = 500_000_000;

/// Drops points that cannot be measured, prepares every solution of the others, waits until the device is quiet, measures
/// the instrument, publishes the rows of solutions that do not compile, and, where the plan wants that, runs all next to
/// unmapped pages. Nothing runs on the device before it is quiet.
///
/// # Errors
/// [`HarnessError::Busy`] where others use the device, a lost device, a sink that is gone, or somebody stopped the task.
pub(super) fn set_up<D: Device>(bench: &mut Bench<'_, D>, monitor: &HardwareMonitor) -> Result<(), HarnessError> {
    let mut points = checked_points(bench)?;
    let free_bytes = bench.device.memory_available_bytes()?;
    drop_too_large(bench, &mut points, free_bytes)?;
    bench.points = points;
    let tried = prepare(bench)?;
    monitor.wait_until_quiet(bench)?;
    let instrument = bench.device.instrument()?;
    for candidate in tried {
        add_record(bench, &instrument, candidate);
    }
    let has_choice = (0..bench.points.len()).any(|point| bench.wanted_of(point).len() > 1);
    bench.first_round = if has_choice { SCREENING_ROUND } else { SCREENING_ROUND + 1 };
    bench.next_round = bench.first_round;
    bench.take_up()?;
    bench.say_checkpoint()?;
    check_at_pages(bench)?;
    bench.close_settled_rows()
}

/// The points that the family accepts and the device can run; the others are said to be dropped.
fn checked_points<D: Device>(bench: &mut Bench<'_, D>) -> Result<Vec<PointWork>, HarnessError> {
    let mut points = Vec::new();
    for point in &bench.setting.task.points {
        let facts = bench.device.facts();
        let refused = match bench.family.check(point) {
            Ok(()) if bench.family.solutions(point, facts).is_empty() => Some(bench.family.declined(point, facts)),
            Ok(()) => None,
            Err(error) => Some(error.to_string()),
        };
        match refused {
            None => points.push(point_work(bench, point)),
            Some(reason) => bench.say(Event::PointDropped { point: point.clone(), reason })?,
        }
    }
    Ok(points)
}

/// A point with its arrays and cache rule.
fn point_work<D: Device>(bench: &Bench<'_, D>, point: &Point) -> PointWork {
    let facts = bench.device.facts();
    let bytes_distinct = bench
        .family
        .solutions(point, facts)
        .first()
        .map_or(0, |solution| bench.family.counts(point, solution, facts).bytes_distinct);
    PointWork {
        point: point.clone(),
        buffers: bench.family.buffers(point),
        flush: Flush::of(bench.setting.task.policy.caches, point.sweep, bytes_distinct, facts),
        timing_mode: None,
        records: Vec::new(),
    }
}

/// Bytes that these points need at once: their shared arrays and the largest flush buffer.
fn needed_bytes<'a>(points: impl Iterator<Item = &'a PointWork> + Clone, guards: Guards) -> u64 {
    let flush_bytes = points.clone().filter_map(|work| work.flush.bytes).max().unwrap_or(0);
    allocated_bytes(&slot_bytes(points.map(|work| work.buffers.as_slice())), guards).saturating_add(flush_bytes)
}

/// Drops points, the largest first, until the others fit in `free_bytes` together.
pub(super) fn drop_too_large<D: Device>(
    bench: &mut Bench<'_, D>,
    points: &mut Vec<PointWork>,
    free_bytes: u64,
) -> Result<(), HarnessError> {
    let guards = Guards::of(bench.setting.task.policy.bounds);
    while needed_bytes(points.iter(), guards) > free_bytes {
        let sizes = points.iter().map(|work| needed_bytes(std::iter::once(work), guards));
        let Some((largest, wanted_bytes)) = sizes.enumerate().max_by_key(|(_, bytes)| *bytes) else { break };
        let dropped = points.remove(largest);
        let reason = format!("needs {wanted_bytes} bytes, {free_bytes} free");
        bench.say(Event::PointDropped { point: dropped.point, reason })?;
    }
    Ok(())
}

/// A solution of a point on its way to being a record.
struct Candidate {
    point: usize,
    solution: Solution,
    counts: Counts,
    /// What settled it before anything is prepared, if anything did.
    settled: Option<(Verdict, Publication)>,
}

/// Every solution of every point that is to be tried or spoken of, in the order of their records.
fn candidates<D: Device>(bench: &Bench<'_, D>) -> Vec<Candidate> {
    let iterator = SolutionIterator::of(bench.setting.task);
    let mut candidates = Vec::new();
    for (index, PointWork { point, .. }) in bench.points.iter().enumerate() {
        let before = |solution: &Solution| {
            let subject = Subject { point: point.to_string(), solution: solution.name.clone() };
            settled_before(bench.setting.resume, &subject)
        };
        match iterator.choice(bench.family, point, bench.device.facts()) {
            Choice::Try(solutions) => candidates.extend(solutions.into_iter().map(|solution| Candidate {
                point: index,
                counts: bench.family.counts(point, &solution, bench.device.facts()),
                settled: before(&solution),
                solution,
            })),
            Choice::Skip { solution, reason } => {
                let skipped = (Verdict::Skipped(reason), Publication::Unsaid);
                let settled = Some(before(&solution).unwrap_or(skipped));
                // What a solution that is none of the family's would move is not known.
                candidates.push(Candidate { point: index, counts: Counts::default(), settled, solution });
            }
        }
    }
    candidates
}

type Answers<Program> = Vec<Result<Prepared<Program>, DeviceError>>;

/// Prepares solutions: all in one call, so that the backend can compile several at once, or, where that killed an
/// earlier worker, one by one, so that the next death names its cause.
fn compile<D: Device>(
    bench: &mut Bench<'_, D>,
    work: &[(Point, Solution)],
) -> Result<Answers<D::Program>, HarnessError> {
    if !bench.setting.resume.one_by_one {
        bench.begin(Stage::Prepare, None, PREPARE_NS.saturating_mul(work.len() as u64))?;
        return Ok(bench.device.prepare(work));
    }
    let mut answers = Vec::new();
    for (point, solution) in work {
        let subject = Subject { point: point.to_string(), solution: solution.name.clone() };
        bench.begin(Stage::Prepare, Some(subject), PREPARE_NS)?;
        answers.extend(bench.device.prepare(&[(point.clone(), solution.clone())]));
    }
    Ok(answers)
}

/// A solution of a point, prepared if it could be, with what is known of it before its first visit.
struct Tried<Program> {
    candidate: Candidate,
    prepared: Option<Prepared<Program>>,
    verdict: Verdict,
    publication: Publication,
}

/// Prepares every solution that is not settled.
fn prepare<D: Device>(bench: &mut Bench<'_, D>) -> Result<Vec<Tried<D::Program>>, HarnessError> {
    let candidates = candidates(bench);
    let open = candidates.iter().filter(|candidate| candidate.settled.is_none());
    let work: Vec<(Point, Solution)> =
        open.map(|candidate| (bench.points[candidate.point].point.clone(), candidate.solution.clone())).collect();
    let mut answers = compile(bench, &work)?.into_iter();
    let mut tried = Vec::with_capacity(candidates.len());
    for mut candidate in candidates {
        let (prepared, verdict, publication) = match candidate.settled.take() {
            Some((verdict, publication)) => (None, verdict, publication),
            None => match answers.next().unwrap_or_else(|| Err(unanswered(&candidate.solution))) {
                Ok(prepared) => (Some(prepared), Verdict::Pending, Publication::Unsaid),
                Err(error @ (DeviceError::Lost { .. } | DeviceError::Library { .. })) => return Err(error.into()),
                Err(error) => (None, Verdict::Invalid(error.to_string()), Publication::Unsaid),
            },
        };
        tried.push(Tried { candidate, prepared, verdict, publication });
    }
    Ok(tried)
}

fn unanswered(solution: &Solution) -> DeviceError {
    DeviceError::Launch { what: format!("preparing {solution}"), reason: "no answer".to_owned() }
}

/// Makes the record of one (point, solution).
fn add_record<D: Device>(bench: &mut Bench<'_, D>, instrument: &Instrument, tried: Tried<D::Program>) {
    let Tried { candidate: Candidate { point, solution, counts, settled: _ }, prepared, verdict, publication } = tried;
    let source = RowSource {
        setting: bench.setting,
        facts: bench.device.facts(),
        origin: bench.device.origin(),
        clock_source: bench.device.clock_source(),
        instrument,
        point: &bench.points[point].point,
        solution: &solution,
        flush: bench.points[point].flush,
        counts,
        rounds_planned: bench.limits.rounds,
    };
    let template = source.template(prepared.as_ref());
    bench.points[point].records.push(bench.records.len());
    bench.records.push(Record {
        point,
        solution,
        prepared,
        verdict,
        template,
        publication,
        selected: true,
        rounds_done: 0,
        plan: RoundPlan { rounds: bench.limits.rounds, pilot: None },
        medians_ns: Vec::new(),
        resumed_after: None,
        screening_ns: None,
        cost: None,
        watch: Watch::default(),
    });
}

/// Makes the arena of the coming round fit by giving up the largest point still wanted, after the device said that it
/// has not enough memory after all. `false` where no point is left to give up.
///
/// # Errors
/// A sink that is gone.
pub(super) fn give_up_largest<D: Device>(bench: &mut Bench<'_, D>, error: &DeviceError) -> Result<bool, HarnessError> {
    let wanted = (0..bench.points.len()).filter(|&point| !bench.wanted_of(point).is_empty());
    let bytes = |point: usize| -> u64 { bench.points[point].buffers.iter().map(BufferSpec::bytes).sum() };
    let Some(largest) = wanted.max_by_key(|&point| bytes(point)) else { return Ok(false) };
    let reason = error.to_string();
    for record in bench.wanted_of(largest) {
        let record = &mut bench.records[record];
        record.selected = false;
        // What earlier rounds measured stays true: such a row closes with fewer rounds than planned.
        if record.rounds_done == 0 {
            record.verdict = Verdict::Skipped(reason.clone());
        }
    }
    let point = bench.points[largest].point.clone();
    bench.say(Event::PointDropped { point, reason })?;
    Ok(true)
}
