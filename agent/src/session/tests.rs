//! A session against a scripted coordinator over real gRPC, and scripted workers.

#![allow(clippy::wildcard_enum_match_arm, reason = "in a test, anything else is a failure")]

use std::collections::BTreeMap;
use std::sync::Arc;

use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_proto::convert::LeasedTask;
use fleetcal_proto::v1;
use fleetcal_proto::v1::coordinator_message::Body as Order;
use tempfile::TempDir;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::runner::script::{Script, ScriptedWorker};
use crate::testing::{device, in_time, labels, lease, next, template, visit};
use crate::worker::message::{Event, Request};
use coordinator::{Coordinator, Seen};

mod coordinator;
mod endings;
mod reconnecting;

/// An agent under test, with the other ends of everything that it holds.
struct Agent {
    data: TempDir,
    workers: UnboundedReceiver<ScriptedWorker>,
    shutdown: CancellationToken,
    run: AbortOnDropHandle<Result<(), AgentError>>,
}

impl Agent {
    /// Starts a session towards an address, with these devices.
    fn start(address: impl std::fmt::Display, devices: &[&str]) -> Self {
        Self::start_with(address, devices, true)
    }

    /// The same, with sensors allowed or not.
    fn start_with(address: impl std::fmt::Display, devices: &[&str], monitor: bool) -> Self {
        let data = tempfile::tempdir().expect("a folder");
        let (script, workers) = Script::new();
        let coordinator = format!("http://{address}");
        let setup = Setup {
            endpoint: Endpoint::from_shared(coordinator.clone()).expect("it is an address"),
            coordinator,
            auth: ClientAuth::new(None).expect("no token needs no check"),
            labels: labels(),
            devices: devices.iter().map(|uuid| device(uuid)).collect(),
            backend_notes: BTreeMap::new(),
            sim: SimSpec::default(),
            monitor,
            deadlines: Deadlines::default(),
            spool: Spool::open(data.path(), crate::spool::LIMIT_BYTES).expect("the spool opens"),
            workers: Arc::new(script),
        };
        let shutdown = CancellationToken::new();
        let run = AbortOnDropHandle::new(tokio::spawn(run(setup, shutdown.clone())));
        Self { data, workers, shutdown, run }
    }

    async fn worker(&mut self) -> ScriptedWorker {
        next("a worker", &mut self.workers).await
    }

    async fn end(self) -> Result<(), AgentError> {
        in_time("the session", self.run).await.expect("it does not panic")
    }

    /// File names of a folder of the spool.
    fn spooled(&self, folder: &str) -> usize {
        std::fs::read_dir(self.data.path().join("spool").join(folder)).expect("the folder is there").count()
    }
}

fn grant(task: &str, device: &str) -> Order {
    let point: Point = "stream/copy/f32/elements=1024".parse().expect("it is a point");
    let task = LeasedTask {
        lease: lease(task),
        run_id: "run-1".into(),
        plan_digest: "plan".into(),
        devices: vec![device.into()],
        points: vec![point],
        policy: MeasuringPolicy::default(),
        seed: 1,
        label: None,
        alone_on_node: true,
        selected: Vec::new(),
    };
    Order::Grant((&task).into())
}

/// A coordinator with one attached agent of one device, that works on `task-1`.
async fn at_work() -> (Coordinator, Agent, ScriptedWorker) {
    let mut coordinator = Coordinator::start().await;
    let mut agent = Agent::start(coordinator.address, &["SIM-1"]);
    let hello = coordinator.accept().await;
    assert_eq!((hello.agent_id.as_str(), hello.devices.len()), ("agent-1", 1));
    assert_eq!(hello.roles, [i32::from(v1::Role::Agent)]);
    assert_eq!(coordinator.work_request().await, ["SIM-1"]);
    coordinator.tell(grant("task-1", "SIM-1"));
    let worker = agent.worker().await;
    (coordinator, agent, worker)
}

/// One row, opened and visited in some rounds.
fn measure(worker: &ScriptedWorker, row: u64, rounds: u64) {
    worker.say(Event::RowOpened(Box::new(template(&lease("task-1"), &format!("s{row}")))));
    (1..=rounds).for_each(|round| worker.say(Event::Visited(visit(row, round))));
}

fn close(worker: &ScriptedWorker, row: u64) {
    let template = Box::new(template(&lease("task-1"), &format!("s{row}")));
    worker.say(Event::RowClosed { row, template });
}

#[tokio::test]
async fn sensors_that_are_off_on_the_node_are_off_whatever_the_plan_says() {
    for allowed in [true, false] {
        let mut coordinator = Coordinator::start().await;
        let mut agent = Agent::start_with(coordinator.address, &["SIM-1"], allowed);
        coordinator.accept().await;
        coordinator.work_request().await;
        coordinator.tell(grant("task-1", "SIM-1"));
        let worker = agent.worker().await;
        let Request::Measure { task, .. } = &worker.request else { panic!("not a task: {:?}", worker.request) };
        let expected = MeasuringPolicy { monitor: allowed, ..MeasuringPolicy::default() };
        assert_eq!(task.policy, expected, "the plan asks for sensors; nothing else of it may change");
    }
}

#[tokio::test]
async fn a_task_is_measured_uploaded_and_told_only_once_its_rows_are_acknowledged() {
    let (mut coordinator, agent, worker) = at_work().await;
    measure(&worker, 0, 3);
    close(&worker, 0);
    worker.say(Event::Done);
    worker.leave();

    let mut seen = vec![coordinator.next("a chunk").await, coordinator.next("a request for work").await];
    seen.sort_by_key(|seen| !matches!(seen, Seen::Chunk(_)));
    let [Seen::Chunk(chunk), Seen::Message(_)] = &seen[..] else { panic!("not a chunk and a request: {seen:?}") };
    let segments: Vec<_> = chunk.segments.iter().map(|segment| (segment.lease.clone(), segment.rows)).collect();
    assert_eq!(segments, [(Some((&lease("task-1")).into()), 1)]);
    coordinator.quiet("the end of the task must wait for the acknowledgement").await;
    assert_eq!(agent.spooled("chunks"), 1, "an unacknowledged chunk stays in the spool");

    coordinator.acknowledge(chunk);
    let ended = coordinator.ended().await;
    assert_eq!(ended.outcome(), v1::TaskOutcome::Done, "{ended:?}");
    assert_eq!((agent.spooled("chunks"), agent.spooled("visits")), (0, 0), "nothing is kept that is acknowledged");
}

#[tokio::test]
async fn devices_are_asked_for_one_by_one_and_no_device_works_on_two_tasks() {
    let mut coordinator = Coordinator::start().await;
    let mut agent = Agent::start(coordinator.address, &["SIM-1", "SIM-2"]);
    coordinator.accept().await;
    assert_eq!(coordinator.work_request().await, ["SIM-1", "SIM-2"]);
    coordinator.tell(grant("task-1", "SIM-1"));
    assert_eq!(coordinator.work_request().await, ["SIM-2"], "a busy device is not offered");
    let _worker = agent.worker().await;

    coordinator.tell(grant("task-2", "SIM-1"));
    let refused = coordinator.ended().await;
    assert_eq!(refused.outcome(), v1::TaskOutcome::Released);
    assert!(refused.reason.contains("SIM-1 is not idle"), "{}", refused.reason);
    assert_eq!(coordinator.work_request().await, ["SIM-2"]);

    coordinator.tell(Order::NoWork(v1::NoWork { retry_ms: 20 }));
    assert_eq!(coordinator.work_request().await, ["SIM-2"], "it asks again after the wait");
}
