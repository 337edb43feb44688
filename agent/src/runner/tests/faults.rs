//! Workers that die, and attempts that end before their task: who goes on, and from where.

use std::time::Duration;

use fleetcal_model::row::{Row, StopReason};

use super::*;
use crate::harness::budget::Limits;
use crate::testing::rows_of;
use crate::worker::message::{RoundPlan, Visit};
use crate::worker::resume::{Checkpoint, Chosen, InHand, Resume, Stage as Part, Subject};

fn subject(solution: &str) -> Subject {
    Subject { point: "stream/copy/f32/elements=1024".into(), solution: solution.into() }
}

fn begin(worker: &ScriptedWorker, stage: Part, solution: Option<&str>) {
    worker.say(Event::InHand(InHand { stage, subject: solution.map(subject), expected_ns: 0 }));
}

fn open(worker: &ScriptedWorker, solution: &str) {
    worker.say(Event::RowOpened(Box::new(template(&lease("task-1"), solution))));
}

fn close(worker: &ScriptedWorker, row: u64, solution: &str) {
    worker.say(Event::RowClosed { row, template: Box::new(template(&lease("task-1"), solution)) });
}

fn resume_of(worker: &ScriptedWorker) -> Resume {
    let Request::Measure { resume, .. } = &worker.request else { panic!("not a task: {:?}", worker.request) };
    resume.as_ref().clone()
}

fn checkpoint() -> Checkpoint {
    let plan = RoundPlan { rounds: 3, pilot: None };
    let limits = Limits { rounds: 3, finalists: 1, samples_min: 3, samples_max: 3 };
    Checkpoint {
        first_round: 0,
        next_round: 2,
        limits,
        selected: vec![Chosen { subject: subject("s0"), plan }],
        spent_ns: 7,
    }
}

impl Stage {
    async fn next_worker(&mut self) -> ScriptedWorker {
        next("a fresh worker", &mut self.workers).await
    }

    /// Rows of every chunk that became ready up to the attempt's end, and that end.
    async fn rows(&mut self) -> (Vec<Row>, TaskEnding) {
        let spool = Spool::open(self.data.path(), LIMIT_BYTES).expect("the spool opens");
        let mut rows = Vec::new();
        loop {
            match in_time("the attempt", self.told.recv()).await.expect("a runner tells the end") {
                SessionInput::ChunkReady { id, .. } => {
                    rows.extend(rows_of(&spool.chunks.read(&id).expect("it is there")));
                }
                SessionInput::TaskEnded { ending, .. } => return (rows, ending),
                _ => {}
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_fresh_worker_goes_on_at_the_next_visit_and_rows_hold_every_visit_once() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    assert_eq!(resume_of(&worker), Resume::default(), "nothing was done before");
    open(&worker, "s0");
    worker.say(Event::Visited(visit(0, 1)));
    worker.say(Event::Decided(checkpoint()));
    open(&worker, "s1");
    close(&worker, 1, "s1");
    begin(&worker, Part::Timing, Some("s0"));
    worker.crash("worker died of signal 11 (SIGSEGV)");

    let worker = stage.next_worker().await;
    let resume = resume_of(&worker);
    assert_eq!((resume.restarts, resume.rows_opened, resume.closed), (1, 2, vec![subject("s1")]));
    assert_eq!(resume.checkpoint, Some(checkpoint()));
    let [known] = &resume.open[..] else { panic!("one row is open: {:?}", resume.open) };
    let visits: Vec<_> = known.visits.iter().map(|visit| (visit.round, visit.median_ns, visit.samples)).collect();
    assert_eq!((known.row, &visits[..]), (0, &[(1, Some(1_001.0), 3)][..]));
    assert!(resume.set_aside.is_empty(), "one death is one strike");
    (2..=3).for_each(|round| worker.say(Event::Visited(visit(0, round))));
    close(&worker, 0, "s0");
    worker.say(Event::Done);
    worker.leave();

    let (rows, ending) = stage.rows().await;
    assert_eq!(ending.outcome, TaskOutcome::Done);
    let summary: Vec<_> = rows.iter().map(|row| (row.work.solution.as_str(), row.timing.rounds_done)).collect();
    assert_eq!(summary, [("s1", 0), ("s0", 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_solution_that_ends_three_workers_is_set_aside_with_its_reason_and_the_rest_goes_on() {
    let mut stage = Stage::new(LIMIT_BYTES);
    stage.begin();
    for stage_of_death in [Part::WarmUp, Part::Timing, Part::WarmUp] {
        let worker = stage.next_worker().await;
        assert!(resume_of(&worker).set_aside.is_empty());
        begin(&worker, stage_of_death, Some("s0"));
        worker.crash("worker ended with exit code 139 and without a last word");
    }
    let worker = stage.next_worker().await;
    let aside = resume_of(&worker).set_aside;
    assert_eq!(aside.len(), 1);
    assert_eq!(aside[0].subject, subject("s0"));
    assert!(aside[0].reason.contains("3 workers") && aside[0].reason.contains("exit code 139"), "{}", aside[0].reason);
    worker.say(Event::Done);
    worker.leave();
    assert_eq!(stage.ending().await.outcome, TaskOutcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_never_returns_costs_its_worker_and_one_strike() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    open(&worker, "s0");
    begin(&worker, Part::WarmUp, Some("s0"));
    let started = tokio::time::Instant::now();
    worker.stopped().await;
    assert!(started.elapsed() < Duration::from_secs(60), "a launch is given up well before its visit");
    // Killed in the middle, it may still say what it had.
    worker.say(Event::Visited(Visit { stop_reason: StopReason::Interrupted, ..visit(0, 1) }));
    worker.say(Event::Failed { reason: "the task was stopped before its end".into(), retry: true });
    worker.leave();
    let worker = stage.next_worker().await;
    let resume = resume_of(&worker);
    assert_eq!((resume.restarts, resume.open[0].visits.len()), (1, 0), "a visit that was cut short is made anew");
    worker.say(Event::Done);
    worker.leave();
    assert_eq!(stage.ending().await.outcome, TaskOutcome::Done);
}

#[tokio::test(start_paused = true)]
async fn workers_that_get_nowhere_fail_the_attempt_and_leave_it_to_be_tried_again() {
    let mut stage = Stage::new(LIMIT_BYTES);
    stage.begin();
    for _ in 0..3 {
        let worker = stage.next_worker().await;
        worker.say(Event::Lost { reason: "the device context is lost: it fell off the bus".into() });
        worker.leave();
    }
    let reason = stage.failure().await;
    assert!(reason.contains("fell off the bus") && reason.contains("while the device was opened"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_worker_killed_by_preparing_makes_the_next_one_prepare_one_by_one() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    begin(&worker, Part::Prepare, None);
    worker.crash("worker died of signal 6 (SIGABRT)");
    let worker = stage.next_worker().await;
    assert!(resume_of(&worker).one_by_one);
}

/// A worker that starts, and no worker after it, while the agent is told to stop in between.
#[tokio::test(start_paused = true)]
async fn an_attempt_that_is_stopped_between_two_workers_starts_no_other() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    stage.stop.cancel();
    worker.crash("worker died of signal 15 (SIGTERM)");
    assert_eq!(stage.ending().await.outcome, TaskOutcome::Stopped);
    assert!(stage.workers.try_recv().is_err(), "nothing is to be measured any more");
}

/// Both by hand and after the agent's death, see `spool/tests.rs`.
#[tokio::test(start_paused = true)]
async fn the_next_attempt_goes_on_from_the_visits_of_one_that_was_stopped() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    open(&worker, "s0");
    worker.say(Event::Visited(visit(0, 1)));
    worker.say(Event::Decided(checkpoint()));
    open(&worker, "s1");
    close(&worker, 1, "s1");
    worker.say(Event::Visited(Visit { stop_reason: StopReason::Interrupted, ..visit(0, 2) }));
    stage.stop.cancel();
    worker.leave();
    let (rows, ending) = stage.rows().await;
    assert_eq!((rows.len(), ending.outcome), (2, TaskOutcome::Stopped), "what was measured is handed in");

    stage.stop = CancellationToken::new();
    let mut second = job();
    (second.task.attempt, second.task.epoch) = (2, 5);
    stage.begin_with(second);
    let worker = stage.next_worker().await;
    let resume = resume_of(&worker);
    let known: Vec<_> = resume.open.iter().flat_map(|row| row.visits.iter().map(|visit| visit.round)).collect();
    assert_eq!((known, resume.closed, resume.checkpoint), (vec![1], vec![subject("s1")], Some(checkpoint())));
    let index = resume.open[0].row;
    (2..=3).for_each(|round| worker.say(Event::Visited(visit(index, round))));
    close(&worker, index, "s0");
    worker.say(Event::Done);
    worker.leave();
    let (second, ending) = stage.rows().await;
    assert_eq!(ending.outcome, TaskOutcome::Done);
    let mut solutions: Vec<_> = second.iter().map(|row| (row.work.solution.as_str(), row.timing.rounds_done)).collect();
    solutions.sort_unstable();
    assert_eq!(solutions, [("s0", 3), ("s1", 0)], "the new attempt hands in every row, with every visit");
    assert!(stage.runner.kept.find(&"task-1".into(), &job().work()).is_none(), "a task that is done is forgotten");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_at_other_work_begins_anew() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    measure_a_row(&worker);
    stage.stop.cancel();
    worker.leave();
    assert_eq!(stage.ending().await.outcome, TaskOutcome::Stopped);
    stage.stop = CancellationToken::new();
    let mut other = job();
    other.task.attempt = 2;
    other.task.policy.samples_max += 1;
    stage.begin_with(other);
    assert_eq!(resume_of(&stage.next_worker().await), Resume::default());
}
