//! Runs that a user cancels: what was measured is stored and shown, and nothing of it becomes current.

use std::path::Path;

use fleetcal_proto::v1;
use fleetcal_proto::version::supported;

use crate::agent::{FakeAgent, chunk, control};
use crate::{bandwidth, rows, start, submit, watch};

/// Whether anything was published, or kept as a run's.
fn is_published(folder: &Path) -> bool {
    let constants = std::fs::read_dir(folder.join("constants")).expect("readable");
    constants.map(|entry| entry.expect("readable").path()).filter(|path| path.is_dir()).any(|path| {
        let mut entries = std::fs::read_dir(path).expect("readable");
        entries.next().is_some()
    })
}

#[tokio::test]
async fn a_cancelled_run_shows_what_was_measured_and_publishes_only_once_it_was_resumed_and_has_ended() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let task = agent.work().await;
    let mut control = control(coordinator.address()).await;
    let request = v1::CancelRequest { run_id: run.clone(), reason: "enough".to_owned() };
    control.cancel(request).await.expect("cancelled");
    let revoked = agent.incoming.message().await.expect("whole").expect("it goes on").body;
    assert!(matches!(revoked, Some(v1::coordinator_message::Body::Revoke(_))), "{revoked:?}");
    let constants = v1::ConstantsRequest { run_id: run.clone() };
    control.constants(constants.clone()).await.expect_err("the run is not over while it is leased");

    // Half the speed, so that a fit that was kept would show later.
    let measured = rows::measured(&task, "one", &agent.device, 2.0);
    agent.upload(vec![chunk("chunk-1", &task, &measured)]).await.expect("stored");
    let given_up = agent.end_as(&task, v1::TaskOutcome::Released);
    let ((_, ended), ()) = tokio::join!(watch(&coordinator, &run), given_up);
    let status = ended.status.expect("a status");
    assert_eq!((status.state(), status.set_aside, status.rows), (v1::RunState::Cancelled, 1, 4));
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS / 2.0, "it shows what came after the revoke");
    assert_eq!(control.constants(constants.clone()).await.expect("it is over").into_inner().documents.len(), 1);
    assert!(!is_published(folder.path()), "a cancelled run became current");
    coordinator.stop().await.expect("it stops");

    let coordinator = start(folder.path()).await;
    let (_, ended) = watch(&coordinator, &run).await;
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS / 2.0);
    assert!(!is_published(folder.path()), "a cancelled run became current at the next start");
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let resume =
        v1::SubmitRequest { versions: Some(supported()), resume_run_id: Some(run.clone()), ..Default::default() };
    crate::agent::control(coordinator.address()).await.submit(resume).await.expect("it goes on");
    let task = agent.work().await;
    let measured = rows::measured(&task, "one", &agent.device, 1.0);
    agent.upload(vec![chunk("chunk-2", &task, &measured)]).await.expect("stored");
    agent.end(&task).await;
    let (_, ended) = watch(&coordinator, &run).await;
    assert_eq!(ended.status.expect("a status").state(), v1::RunState::Ended);
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS, "the fit from before the resumption was kept");
    assert!(is_published(folder.path()), "the run has ended");
}
