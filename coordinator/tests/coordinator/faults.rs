//! Kills, impostors, late rows, foreign files: nothing acknowledged is lost, nothing is stored twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use fleetcal_coordinator::clock::ManualClock;
use fleetcal_coordinator::rows::{RowFilter, read_part, read_parts};
use fleetcal_coordinator::{Coordinator, CoordinatorError};
use fleetcal_core::event::Timestamp;
use fleetcal_model::row::ROW_SCHEMA_VERSION;
use fleetcal_proto::rows::schema_message;
use fleetcal_proto::status::{ErrorKind, error_kind};
use fleetcal_proto::v1;
use fleetcal_proto::v1::upload_response::Body as Answer;

use crate::agent::{FakeAgent, chunk, control, held, session};
use crate::{bandwidth, config, rows, start, submit, watch};

/// What a kill at this moment would leave: the files as they are, with no goodbye to anybody.
fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("readable") {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// What a coordinator wrote into a run's folder.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).expect("readable").map(|entry| entry.expect("readable").path());
    paths.filter(|path| !path.ends_with("foreign.parquet")).collect()
}

#[tokio::test]
async fn a_killed_coordinator_goes_on_where_it_was() {
    let (folder, after_kill) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let killed = start(folder.path()).await;
    let mut agent = FakeAgent::join(killed.address(), "one").await;
    let run = submit(&killed).await.run_id;
    let task = agent.work().await;
    let measured = rows::measured(&task, "one", &agent.device, 1.0);
    let first = chunk("chunk-1", &task, &measured[..2]);
    agent.upload(vec![first.clone()]).await.expect("acknowledged before the kill");
    copy_folder(folder.path(), after_kill.path());
    // A part that was written, and not named before the kill.
    let [named] = &parts(&after_kill.path().join("rows").join(&run))[..] else { panic!("one part") };
    fs::copy(named, named.with_file_name("unnamed.parquet")).expect("copied");

    let coordinator = start(after_kill.path()).await;
    assert!(after_kill.path().join("orphans").join(&run).join("unnamed.parquet").exists(), "it must be kept aside");
    let mut agent = FakeAgent::join_holding(coordinator.address(), "one", vec![held(&task)]).await;
    assert_eq!(agent.welcome.lost, [], "nobody else took the lease");
    let second = chunk("chunk-2", &task, &measured[2..]);
    let answers = agent.upload(vec![first, second]).await.expect("stored");
    assert!(matches!(answers[..], [Answer::Acknowledged(_), Answer::Acknowledged(_)]), "{answers:?}");
    agent.end(&task).await;
    let (_, ended) = watch(&coordinator, &run).await;
    assert_eq!(ended.status.expect("a status").done, 1);
    assert_eq!(ended.problems, Vec::<String>::new());
    assert_eq!(read_parts(after_kill.path(), &RowFilter::All).rows.len(), 4, "a row was lost or stored twice");
}

#[tokio::test]
async fn rows_of_a_lease_that_expired_are_stored_and_feed_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Arc::new(ManualClock::at(Timestamp(1_000_000_000)));
    let config = config(folder.path());
    let lease = config.lease;
    let coordinator = Coordinator::start_with(config, Arc::clone(&clock) as _).await.expect("it starts");
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let lost = agent.work().await;
    clock.advance(lease + Duration::from_secs(1));
    let revoked = agent.incoming.message().await.expect("whole").expect("it goes on").body;
    let Some(v1::coordinator_message::Body::Revoke(revoke)) = revoked else { panic!("no revoke: {revoked:?}") };
    assert_eq!(revoke.lease, Some(held(&lost)));

    // Half the time a byte: were these rows counted, the bandwidth would double.
    let late = rows::measured(&lost, "one", &agent.device, 0.5);
    let answers = agent.upload(vec![chunk("late", &lost, &late)]).await.expect("stored");
    assert!(matches!(answers[..], [Answer::Acknowledged(_)]), "late rows are stored as well: {answers:?}");
    let task = agent.work().await;
    assert_eq!(task.task_id, lost.task_id);
    assert!(task.epoch > lost.epoch, "{} does not fence {}", task.epoch, lost.epoch);
    agent.end(&lost).await;
    agent.complete(&task).await;
    let (_, ended) = watch(&coordinator, &run).await;
    assert_eq!(ended.status.expect("a status").done, 1);
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS);
    assert_eq!(read_parts(folder.path(), &RowFilter::All).rows.len(), 8);
}

#[tokio::test]
async fn files_that_are_no_parts_are_named_and_skipped() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let task = agent.work().await;
    let rows_folder = folder.path().join("rows").join(&run);
    fs::create_dir_all(&rows_folder).expect("a folder");
    fs::write(rows_folder.join("foreign.parquet"), "PAR1 and nothing else").expect("written");
    let measured = rows::measured(&task, "one", &agent.device, 1.0);
    agent.upload(vec![chunk("chunk-1", &task, &measured)]).await.expect("stored");
    let [part] = &parts(&rows_folder)[..] else { panic!("one part") };
    fs::copy(part, rows_folder.join("copied.parquet")).expect("copied");
    agent.end(&task).await;
    let (_, ended) = watch(&coordinator, &run).await;
    assert_eq!(bandwidth(&ended.documents), rows::BYTES_PER_NS, "the rest must be fitted");
    let [copied, foreign] = &ended.problems[..] else { panic!("two problems: {:?}", ended.problems) };
    assert!(copied.contains("copied.parquet") && copied.contains("does not name it"), "{copied}");
    assert!(foreign.contains("foreign.parquet"), "{foreign}");
}

/// As its error advises.
#[tokio::test]
async fn a_journal_that_was_moved_away_leaves_every_row_readable() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let task = agent.work().await;
    agent.complete(&task).await;
    coordinator.stop().await.expect("it stops");
    let [part] = &parts(&folder.path().join("rows").join(&run))[..] else { panic!("one part") };
    let journal = folder.path().join("journal.sqlite");
    fs::write(&journal, "damaged ".repeat(1000)).expect("written");
    Coordinator::start(config(folder.path())).await.err().expect("it is damaged");
    assert!(part.exists(), "nothing may be moved before a person decides");
    fs::remove_file(&journal).expect("moved away");
    start(folder.path()).await;
    let orphan = folder.path().join("orphans").join(&run).join(part.file_name().expect("a name"));
    assert_eq!(read_part(&orphan).expect("whole").len(), 4);
}

#[tokio::test]
async fn chunks_that_cannot_be_used_are_rejected_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    submit(&coordinator).await;
    let task = agent.work().await;
    let measured = rows::measured(&task, "one", &agent.device, 1.0);
    let good = chunk("good", &task, &measured);
    let mut truncated = chunk("truncated", &task, &measured);
    truncated.record_batches.truncate(100);
    let mut miscounted = chunk("miscounted", &task, &measured);
    miscounted.segments[0].rows = 3;
    let mut escaping = measured.clone();
    escaping.iter_mut().for_each(|row| row.identity.run_id = "../../outside".into());
    let escaping = chunk("escaping", &task, &escaping);
    let answers = agent.upload(vec![truncated, miscounted, escaping, good]).await.expect("the stream goes on");
    let rejected: Vec<_> = answers
        .iter()
        .filter_map(|answer| match answer {
            Answer::Rejected(rejected) => Some(rejected.chunk_id.as_str()),
            Answer::Acknowledged(acknowledged) => {
                assert_eq!(acknowledged.chunk_id, "good");
                None
            }
        })
        .collect();
    assert_eq!(rejected, ["truncated", "miscounted", "escaping"], "{answers:?}");

    let other_version = v1::UploadStart {
        session_id: agent.welcome.session_id.clone(),
        agent_id: "one".to_owned(),
        row_schema_version: ROW_SCHEMA_VERSION + 1,
        schema: schema_message().expect("our schema"),
    };
    let refused = agent.upload_after(other_version, Vec::new()).await.expect_err("another schema");
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused:?}");
}

#[tokio::test]
async fn a_part_that_cannot_be_written_is_not_acknowledged_and_comes_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run = submit(&coordinator).await.run_id;
    let task = agent.work().await;
    let measured = rows::measured(&task, "one", &agent.device, 1.0);
    let chunk = chunk("chunk-1", &task, &measured);
    // A file where the run's folder should be.
    let in_the_way = folder.path().join("rows").join(&run);
    fs::write(&in_the_way, "").expect("written");
    let failed = agent.upload(vec![chunk.clone()]).await.expect_err("nothing can be written there");
    assert!(failed.message().contains(&run), "the path is not named: {}", failed.message());
    fs::remove_file(&in_the_way).expect("removed");
    let answers = agent.upload(vec![chunk]).await.expect("stored");
    assert!(matches!(answers[..], [Answer::Acknowledged(_)]), "{answers:?}");
    assert_eq!(read_parts(folder.path(), &RowFilter::All).rows.len(), 4);
}

#[tokio::test]
async fn an_agent_of_another_version_is_told_so_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let versions = Some(v1::VersionRange { min: 2, max: 3 });
    // Nothing else of it can be understood.
    let hello = v1::HelloRequest { versions, ..v1::HelloRequest::default() };
    let refused = session(coordinator.address()).await.hello(hello).await.expect_err("version 1 is spoken here");
    assert_eq!(error_kind(&refused), ErrorKind::VersionMismatch, "{refused:?}");
}

#[tokio::test]
async fn a_second_session_of_an_agent_replaces_the_first() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut first = FakeAgent::join(coordinator.address(), "one").await;
    let mut second = FakeAgent::join(coordinator.address(), "one").await;
    let ended = first.incoming.message().await.expect_err("the first stream ends");
    assert_eq!(error_kind(&ended), ErrorKind::UnknownSession, "{ended:?}");
    submit(&coordinator).await;
    second.work().await;
    let stale = v1::UploadStart {
        session_id: first.welcome.session_id.clone(),
        agent_id: "one".to_owned(),
        row_schema_version: ROW_SCHEMA_VERSION,
        schema: schema_message().expect("our schema"),
    };
    let refused = second.upload_after(stale, Vec::new()).await.expect_err("the session is over");
    assert_eq!(error_kind(&refused), ErrorKind::UnknownSession, "{refused:?}");
}

#[tokio::test]
async fn a_folder_and_a_port_are_for_one_coordinator() {
    let (folder, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let coordinator = start(folder.path()).await;
    let second = Coordinator::start(config(folder.path())).await.err().expect("the folder is in use");
    assert!(matches!(second, CoordinatorError::FolderInUse { .. }), "{second}");
    let mut same_port = config(other.path());
    same_port.listen = coordinator.address();
    let third = Coordinator::start(same_port).await.err().expect("the port is in use");
    assert!(third.to_string().contains(&coordinator.address().to_string()), "the address is not named: {third}");
    coordinator.stop().await.expect("it stops");
    start(folder.path()).await.stop().await.expect("the folder is free again");
}

#[tokio::test]
async fn stopping_ends_every_stream_and_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let coordinator = start(folder.path()).await;
    let mut agent = FakeAgent::join(coordinator.address(), "one").await;
    let run_id = submit(&coordinator).await.run_id;
    let mut news =
        control(coordinator.address()).await.watch(v1::WatchRequest { run_id }).await.expect("a run").into_inner();
    news.message().await.expect("whole").expect("the present state");
    coordinator.stop().await.expect("it stops");
    let detached = agent.incoming.message().await.expect_err("the stream ends");
    assert_eq!(error_kind(&detached), ErrorKind::Unavailable, "{detached:?}");
    let unwatched = news.message().await.expect_err("the stream ends");
    assert_eq!(error_kind(&unwatched), ErrorKind::Unavailable, "{unwatched:?}");
    assert!(!folder.path().join("journal.sqlite-wal").exists(), "the journal must be one file");
}
