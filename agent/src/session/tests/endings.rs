//! Tasks that end badly, and sessions that end.

use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1::agent_message::Body;
use fleetcal_proto::v1::upload_response;

use super::*;

#[tokio::test]
async fn another_protocol_version_ends_the_agent_with_both_versions_named() {
    let mut coordinator = Coordinator::start().await;
    let mismatch = "the agent or client speaks protocol version 1, the coordinator speaks protocol version 2";
    coordinator.answer_hello(Err(ErrorKind::VersionMismatch.status(mismatch)));
    let agent = Agent::start(coordinator.address, &["SIM-1"]);
    assert!(matches!(coordinator.next("a hello").await, Seen::Hello(_)));
    let error = agent.end().await.expect_err("it cannot work");
    assert!(matches!(error, AgentError::Version { .. }), "{error}");
    assert!(error.to_string().contains(mismatch), "{error}");
}

#[tokio::test]
async fn a_refused_agent_ends_with_the_coordinators_reason() {
    let coordinator = Coordinator::start().await;
    coordinator.answer_hello(Err(ErrorKind::Unauthenticated.status("wrong token")));
    let error = Agent::start(coordinator.address, &["SIM-1"]).end().await.expect_err("it cannot work");
    assert!(matches!(&error, AgentError::Refused { reason, .. } if reason.contains("wrong token")), "{error}");
}

#[tokio::test]
async fn workers_that_crash_again_and_again_fail_their_task_with_the_reason_and_its_rows_are_kept() {
    let (mut coordinator, mut agent, worker) = at_work().await;
    measure(&worker, 0, 2);
    measure(&worker, 1, 0);
    worker.crash("worker died of signal 11 (SIGSEGV)");
    for _ in 0..2 {
        agent.worker().await.crash("worker died of signal 11 (SIGSEGV)");
    }
    let (rows, ended) = coordinator.finish().await;
    assert_eq!((ended.outcome(), ended.retry), (v1::TaskOutcome::Failed, true), "{ended:?}");
    assert!(ended.reason.contains("SIGSEGV"), "{}", ended.reason);
    assert_eq!(rows, 2, "one row cut short, one that says why it was never measured");
}

#[tokio::test]
async fn a_rejected_chunk_is_kept_aside_and_its_task_is_not_done() {
    let (mut coordinator, agent, worker) = at_work().await;
    measure(&worker, 0, 3);
    close(&worker, 0);
    let chunk_id = coordinator.chunk().await.chunk_id;
    let reason = "column `point` is missing".to_owned();
    coordinator.answer_upload(upload_response::Body::Rejected(v1::ChunkRejected { chunk_id, reason }));
    worker.say(Event::Done);
    worker.leave();
    let (_, ended) = coordinator.finish().await;
    assert_eq!((ended.outcome(), ended.retry), (v1::TaskOutcome::Failed, true), "another's row may be to blame");
    assert!(ended.reason.contains("column `point` is missing"), "{}", ended.reason);
    assert_eq!((agent.spooled("chunks"), agent.spooled("rejected")), (0, 1));
}

#[tokio::test]
async fn a_revoked_task_is_stopped_and_released_with_its_rows() {
    let (mut coordinator, _agent, worker) = at_work().await;
    measure(&worker, 0, 1);
    let revoke = v1::Revoke { lease: Some((&lease("task-1")).into()), reason: "the run was cancelled".into() };
    coordinator.tell(Order::Revoke(revoke));
    in_time("the task", worker.stopped()).await;
    // A real worker's last word on that.
    worker.say(Event::Failed { reason: "the task was stopped before its end".into(), retry: true });
    worker.leave();
    let (rows, ended) = coordinator.finish().await;
    assert_eq!((ended.outcome(), ended.reason.as_str()), (v1::TaskOutcome::Released, "the run was cancelled"));
    assert_eq!(rows, 1, "what was measured is kept");
}

#[tokio::test]
async fn a_stopping_agent_uploads_releases_and_says_goodbye() {
    let (mut coordinator, agent, worker) = at_work().await;
    measure(&worker, 0, 2);
    agent.shutdown.cancel();
    in_time("the task", worker.stopped()).await;
    worker.leave();
    let chunk = coordinator.chunk().await;
    coordinator.acknowledge(&chunk);
    let ended = coordinator.ended().await;
    assert_eq!((ended.outcome(), ended.reason.as_str()), (v1::TaskOutcome::Released, "the agent is stopping"));
    assert!(matches!(coordinator.next("goodbye").await, Seen::Message(Body::Goodbye(_))));
    assert!(matches!(coordinator.next("the end of the stream").await, Seen::Detached));
    coordinator.break_streams();
    agent.end().await.expect("being asked to stop is no error");
}

#[tokio::test]
async fn a_stopping_agent_waits_neither_for_a_deaf_coordinator_nor_for_a_stubborn_worker() {
    let (mut coordinator, agent, worker) = at_work().await;
    measure(&worker, 0, 3);
    close(&worker, 0);
    let _never_acknowledged = coordinator.chunk().await;
    let (data, shutdown) = (agent.data.path().to_owned(), agent.shutdown.clone());
    let kept = || Spool::open(&data, crate::spool::LIMIT_BYTES).expect("it opens").chunks.list().expect("it is read");
    let Agent { data: _folder, run, .. } = agent;
    shutdown.cancel();
    in_time("the session", run).await.expect("it does not panic").expect("being asked to stop is no error");
    assert_eq!(kept().len(), 1, "what is not acknowledged is sent after the next start");
    drop(worker);
}
