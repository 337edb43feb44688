//! Attempts against workers that misbehave.

#![allow(clippy::wildcard_enum_match_arm, reason = "in a test, anything else is a failure")]

use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;

use super::script::{Script, ScriptedWorker};
use super::*;

mod faults;
mod processor;
mod sizes;

use crate::spool::{LIMIT_BYTES, Spool};
use crate::testing::{device, in_time, labels, lease, next, template, visit};
use crate::worker::message::Event;

/// A runner under test.
struct Stage {
    data: TempDir,
    workers: UnboundedReceiver<ScriptedWorker>,
    told: mpsc::Receiver<SessionInput>,
    runner: Runner,
    stop: CancellationToken,
}

impl Stage {
    fn new(limit_bytes: u64) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let spool = Spool::open(data.path(), limit_bytes).expect("the spool opens");
        let (script, workers) = Script::new();
        let (session, told) = mpsc::channel(256);
        let collector = Collector::start(spool.chunks, session.clone());
        let runner = Runner {
            workers: Arc::new(script),
            visits: spool.visits,
            kept: spool.kept,
            deadlines: Deadlines::default(),
            neighbours: Neighbours::of(1),
            collector,
            session,
        };
        Self { data, workers, told, runner, stop: CancellationToken::new() }
    }

    /// Starts an attempt; its worker.
    async fn start(&mut self) -> ScriptedWorker {
        self.begin();
        next("a worker", &mut self.workers).await
    }

    fn begin(&self) {
        self.begin_with(job());
    }

    fn begin_with(&self, job: Job) {
        tokio::spawn(self.runner.clone().run(job, self.stop.clone()));
    }

    async fn ending(&mut self) -> TaskEnding {
        loop {
            match in_time("the attempt", self.told.recv()).await.expect("a runner tells the end") {
                SessionInput::TaskEnded { ending, .. } => return ending,
                SessionInput::Progress { .. } | SessionInput::ChunkReady { .. } | SessionInput::SpoolFault(_) => {}
                other @ SessionInput::Link { .. } => panic!("there is no link: {other:?}"),
            }
        }
    }

    /// The reason of an attempt that has to fail.
    async fn failure(&mut self) -> String {
        match self.ending().await.outcome {
            TaskOutcome::Failed { reason, retry: true } => reason,
            other => panic!("it has to fail, and to be tried again: {other:?}"),
        }
    }
}

fn job() -> Job {
    let lease = lease("task-1");
    let point: Point = "stream/copy/f32/elements=1024".parse().expect("it is a point");
    let task = TaskSpec {
        task_id: lease.task_id,
        run_id: "run-1".into(),
        plan_digest: "plan".into(),
        attempt: lease.attempt,
        epoch: lease.epoch,
        devices: vec!["SIM-1".into()],
        points: vec![point],
        policy: MeasuringPolicy::default(),
        seed: 1,
        label: None,
        selected: Vec::new(),
        alone_on_node: true,
    };
    Job { task, devices: vec![device("SIM-1")], sim: SimSpec::default(), labels: labels() }
}

fn measure_a_row(worker: &ScriptedWorker) {
    let row = || Box::new(template(&lease("task-1"), "s0"));
    worker.say(Event::RowOpened(row()));
    (1..=3).for_each(|round| worker.say(Event::Visited(visit(0, round))));
    worker.say(Event::RowClosed { row: 0, template: row() });
}

#[tokio::test]
async fn a_worker_gets_its_task_and_its_visits_are_seen() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    let Request::Measure { task, devices, .. } = &worker.request else { panic!("not a task: {:?}", worker.request) };
    assert_eq!((task.as_ref(), devices.len()), (&job().task, 1));
    worker.say(Event::Planned { visits: 3, rounds: 3 });
    measure_a_row(&worker);
    worker.say(Event::Done);
    worker.leave();
    let mut last = Progress::default();
    let outcome = loop {
        match stage.told.recv().await.expect("a runner tells the end") {
            SessionInput::Progress { progress, .. } => last = progress,
            SessionInput::TaskEnded { ending, .. } => break ending.outcome,
            _ => {}
        }
    };
    assert_eq!(outcome, TaskOutcome::Done);
    assert_eq!((last.visits_done, last.visits_planned, last.round, last.rounds_planned), (3, 3, 3, 3));
    assert_eq!((last.solution.as_str(), last.median_ns), ("s0", Some(1_001.0)));
    let rate = last.bytes_per_second.expect("the row moves bytes");
    assert!((rate / (3_000.0 / 1_001e-9) - 1.0).abs() < 1e-12, "{rate}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_worker_is_stopped_and_one_that_cannot_be_stopped_costs_its_devices() {
    let mut stage = Stage::new(LIMIT_BYTES);
    stage.begin();
    let worker = stage.workers.recv().await.expect("a worker is started");
    worker.stopped().await;
    let Some(SessionInput::TaskEnded { ending, .. }) = stage.told.recv().await else { panic!("nothing else happened") };
    assert!(ending.quarantine.is_some(), "{ending:?}");
    let TaskOutcome::Failed { reason, retry: true } = ending.outcome else { panic!("it failed: {ending:?}") };
    assert!(reason.contains("took longer than 92 s") && reason.contains("cannot be stopped"), "{reason}");
}

#[tokio::test]
async fn a_worker_that_speaks_of_what_is_not_there_is_stopped() {
    let events = [
        Event::Visited(visit(7, 1)),
        Event::RowClosed { row: 7, template: Box::new(template(&lease("task-1"), "s7")) },
        Event::Devices(Vec::new()),
    ];
    for event in events {
        let mut stage = Stage::new(LIMIT_BYTES);
        let worker = stage.start().await;
        worker.say(event.clone());
        in_time("the worker", worker.stopped()).await;
        worker.leave();
        let reason = stage.failure().await;
        assert!(reason.contains("row 7") || reason.contains("devices"), "{event:?}: {reason}");
    }
}

/// Failing here would cost the device a strike, and the row would say that its solution cannot run.
#[tokio::test]
async fn a_stopped_task_is_no_failure_whatever_its_worker_calls_it() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    worker.say(Event::RowOpened(Box::new(template(&lease("task-1"), "s0"))));
    stage.stop.cancel();
    in_time("the worker", worker.stopped()).await;
    worker.say(Event::Failed { reason: "the task was stopped before its end".into(), retry: true });
    worker.leave();
    let outcome = loop {
        match in_time("the attempt", stage.told.recv()).await.expect("a runner tells the end") {
            SessionInput::TaskEnded { ending, .. } => break ending.outcome,
            SessionInput::ChunkReady { .. } => panic!("a row that was never visited is no row"),
            _ => {}
        }
    };
    assert_eq!(outcome, TaskOutcome::Stopped);
}

#[tokio::test]
async fn dropped_points_are_told_at_the_end() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let worker = stage.start().await;
    let point = job().task.points[0].clone();
    worker.say(Event::PointDropped { point, reason: "too little memory".into() });
    worker.say(Event::Done);
    worker.leave();
    let dropped = stage.ending().await.dropped;
    assert_eq!(dropped, ["stream/copy/f32/elements=1024: too little memory"]);
}

#[tokio::test]
async fn rows_that_cannot_be_kept_fail_the_task_with_the_place_and_stay_in_the_journal() {
    let mut stage = Stage::new(100);
    let worker = stage.start().await;
    measure_a_row(&worker);
    worker.say(Event::Done);
    worker.leave();
    let reason = stage.failure().await;
    assert!(reason.contains("is full") && reason.contains("chunks"), "{reason}");

    std::fs::remove_dir_all(&stage.runner.visits).expect("it is there, with the journal");
    stage.begin();
    let reason = stage.failure().await;
    assert!(reason.contains(&stage.data.path().display().to_string()), "{reason}");
}
