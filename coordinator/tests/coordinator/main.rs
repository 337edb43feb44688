//! A coordinator in this process, and scripted agents over real gRPC.

#![allow(clippy::expect_used, clippy::panic, reason = "a helper of a test fails as a test does")]

mod agent;
mod cancelled;
mod faults;
mod rows;

use std::path::Path;

use agent::{FakeAgent, chunk, control};
use fleetcal_coordinator::rows::{RowFilter, read_parts};
use fleetcal_coordinator::{Coordinator, CoordinatorConfig};
use fleetcal_model::constants::{Document, MEMORY_BANDWIDTH};
use fleetcal_model::id::RunId;
use fleetcal_proto::status::{ErrorKind, error_kind};
use fleetcal_proto::v1;
use fleetcal_proto::v1::run_event::Body;
use fleetcal_proto::v1::upload_response::Body as Answer;
use fleetcal_proto::version::supported;

const PLAN: &str = r#"
name = "test"
[[sweep]]
family = "stream"
kernels = ["copy"]
dtypes = ["f32"]
elements = ["2^24", "2^25", "2^26", "2^27"]
[fit]
footprint_factor = 5
"#;

pub(crate) fn config(folder: &Path) -> CoordinatorConfig {
    CoordinatorConfig::new(([127, 0, 0, 1], 0).into(), folder)
}

pub(crate) async fn start(folder: &Path) -> Coordinator {
    Coordinator::start(config(folder)).await.expect("it starts")
}

pub(crate) async fn submit(coordinator: &Coordinator) -> v1::SubmitResponse {
    let request =
        v1::SubmitRequest { versions: Some(supported()), plan: PLAN.to_owned(), ..v1::SubmitRequest::default() };
    control(coordinator.address()).await.submit(request).await.expect("accepted").into_inner()
}

/// Watches a run to its end. The events before it, and the end.
pub(crate) async fn watch(coordinator: &Coordinator, run: &str) -> (Vec<Body>, v1::RunEnded) {
    let request = v1::WatchRequest { run_id: run.to_owned() };
    let mut news = control(coordinator.address()).await.watch(request).await.expect("there is such a run").into_inner();
    let mut events = Vec::new();
    while let Some(event) = news.message().await.expect("the stream is whole") {
        match event.body.expect("an event says something") {
            Body::Ended(ended) => return (events, ended),
            other @ (Body::Status(_) | Body::Progress(_) | Body::Task(_)) => events.push(other),
        }
    }
    panic!("the stream ended before the run, after {events:?}");
}

/// The demonstrated bandwidth of the one document, in whole 1e9 B/s: the device's is [`rows::BYTES_PER_NS`].
pub(crate) fn bandwidth(documents: &[String]) -> f64 {
    let [document] = documents else { panic!("{} documents, not one", documents.len()) };
    let document = Document::from_json(document).expect("a document");
    let found = document.body.constants.iter().find(|constant| constant.name == MEMORY_BANDWIDTH).expect("a bandwidth");
    (found.value.expect("it is measured") / 1e9).round()
}

#[tokio::test]
async fn a_run_goes_from_its_plan_to_constants() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let submitted = submit(&coordinator).await;
    assert_eq!(submitted.tasks, 1);
    let [estimate] = &submitted.estimates[..] else { panic!("one class takes part: {submitted:?}") };
    assert!(estimate.device_minutes > 0.0, "{estimate:?}");

    let task = agent.work().await;
    assert_eq!((task.run_id.as_str(), task.points.len()), (submitted.run_id.as_str(), 4));
    let (watched, ()) = tokio::join!(watch(&coordinator, &submitted.run_id), agent.complete(&task));
    let (events, ended) = watched;
    assert!(matches!(events.first(), Some(Body::Status(_))), "the present state comes first: {events:?}");
    let status = ended.status.expect("a status");
    assert_eq!((status.state(), status.done, status.rows), (v1::RunState::Ended, 1, 4));
    assert_eq!(ended.problems, Vec::<String>::new());
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS);

    let request = v1::ConstantsRequest { run_id: submitted.run_id.clone() };
    let constants = control(coordinator.address()).await.constants(request).await.expect("they are made").into_inner();
    assert_eq!(constants.documents, ended.documents);
    let document = Document::from_json(&constants.documents[0]).expect("a document");
    assert_eq!(document.body.fit_options.footprint_factor, 5, "the plan's options do not reach the fit");
    let kept = folder.path().join("constants/runs").join(format!("{}.json", submitted.run_id));
    assert!(std::fs::read_to_string(kept).expect("kept").contains(MEMORY_BANDWIDTH));
    coordinator.stop().await.expect("it stops");

    let report = read_parts(folder.path(), &RowFilter::All);
    assert_eq!((report.rows.len(), report.skipped.len()), (4, 0));
    let again = fleetcal_coordinator::fit_folder(folder.path(), &RunId::new(submitted.run_id)).expect("it fits");
    assert_eq!(bandwidth(&again.documents), rows::BYTES_PER_NS, "the folder alone must give the same constants");
}

#[tokio::test]
async fn a_watcher_who_comes_after_the_end_is_told_of_it_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let task = agent.work().await;
    agent.complete(&task).await;
    let (_, first) = watch(&coordinator, &run).await;
    coordinator.stop().await.expect("it stops");

    let coordinator = start(folder.path()).await;
    let (events, second) = watch(&coordinator, &run).await;
    assert!(matches!(events[..], [Body::Status(_)]), "{events:?}");
    assert_eq!(bandwidth(&second.documents), bandwidth(&first.documents), "made anew from the parts");
}

#[tokio::test]
async fn a_chunk_that_comes_again_is_acknowledged_again_and_stored_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    submit(&coordinator).await;
    let task = agent.work().await;
    let chunk = chunk("chunk-1", &task, &rows::measured(&task, "one", &agent.device, 1.0));
    for chunks in [vec![chunk.clone(), chunk.clone()], vec![chunk]] {
        let sent = chunks.len();
        let answers = agent.upload(chunks).await.expect("stored");
        let acknowledged = answers.iter().filter(|answer| matches!(answer, Answer::Acknowledged(_))).count();
        assert_eq!(acknowledged, sent, "{answers:?}");
    }
    assert_eq!(read_parts(folder.path(), &RowFilter::All).rows.len(), 4, "a row was stored twice, or not at all");
}

#[tokio::test]
async fn a_users_mistakes_are_answered_with_their_kind_and_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut control = control(coordinator.address()).await;
    let plan = |plan: &str| v1::SubmitRequest {
        versions: Some(supported()),
        plan: plan.to_owned(),
        ..v1::SubmitRequest::default()
    };
    let wrong = control.submit(plan("nam = 1\n[[swep]]\n")).await.expect_err("two keys are unknown");
    assert_eq!(error_kind(&wrong), ErrorKind::InvalidRequest);
    assert!(wrong.message().contains("nam") && wrong.message().contains("swep"), "not every line: {}", wrong.message());
    let refused = control.submit(plan(PLAN)).await.expect_err("there are no devices");
    assert_eq!(error_kind(&refused), ErrorKind::NotPossible, "{refused:?}");
    let old = v1::SubmitRequest { versions: Some(v1::VersionRange { min: 99, max: 99 }), ..plan(PLAN) };
    assert_eq!(error_kind(&control.submit(old).await.expect_err("no such version")), ErrorKind::VersionMismatch);
    let resumed = v1::SubmitRequest { resume_run_id: Some("nowhere".to_owned()), ..plan("") };
    for unknown in [
        control.submit(resumed).await.map(drop),
        control.watch(v1::WatchRequest { run_id: "nowhere".to_owned() }).await.map(drop),
        control.constants(v1::ConstantsRequest { run_id: "nowhere".to_owned() }).await.map(drop),
        control.cancel(v1::CancelRequest { run_id: "nowhere".to_owned(), reason: String::new() }).await.map(drop),
    ] {
        let status = unknown.expect_err("there is no such run");
        assert_eq!(error_kind(&status), ErrorKind::NotFound, "{status:?}");
        assert!(status.message().contains("nowhere"), "{}", status.message());
    }
}

#[tokio::test]
async fn agents_and_devices_are_shown_while_connected_and_after() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    submit(&coordinator).await;
    let task = agent.work().await;
    let mut control = control(coordinator.address()).await;
    let devices = control.devices(v1::DevicesRequest {}).await.expect("devices").into_inner().devices;
    let [device] = &devices[..] else { panic!("one device: {devices:?}") };
    assert!(device.connected);
    assert_eq!(device.task_id.as_deref(), Some(task.task_id.as_str()));
    let status = control.status(v1::StatusRequest {}).await.expect("status").into_inner();
    assert_eq!((status.runs.len(), status.agents.len(), status.tasks.len()), (1, 1, 1));
    assert_eq!((status.agents[0].connected, status.agents[0].busy_devices), (true, 1));

    agent.send(v1::agent_message::Body::Goodbye(v1::Goodbye {})).await;
    assert!(agent.incoming.message().await.expect("whole").is_none(), "a goodbye ends the stream");
    let status = control.status(v1::StatusRequest {}).await.expect("status").into_inner();
    assert_eq!((status.agents[0].connected, status.runs[0].leased), (false, 0), "{status:?}");
}
