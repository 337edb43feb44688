//! Chunks: their order, their damage, a full disk, and deaths between their steps.

use super::*;
use crate::session::SessionInput;
use crate::spool::collector::Collector;
use tokio::sync::mpsc;

#[test]
fn chunks_are_listed_in_the_order_of_their_making_after_a_restart_too() {
    let data = tempfile::tempdir().expect("a folder");
    let spool = open(&data);
    let written: Vec<_> = (0..20)
        .map(|index| {
            let chunk = chunk(vec![row(&lease("task-1"), index)]);
            spool.chunks.write(&chunk).expect("there is room");
            chunk.id
        })
        .collect();
    assert_eq!(open(&data).chunks.list().expect("it can be read"), written);
}

#[test]
fn a_chunk_comes_back_as_it_was() {
    let data = tempfile::tempdir().expect("a folder");
    let spool = open(&data);
    let (one, two) = (lease("task-1"), lease("task-2"));
    let chunk = chunk(vec![row(&one, 0), row(&one, 3), row(&two, 0), row(&one, 4)]);
    spool.chunks.write(&chunk).expect("there is room");
    let back = spool.chunks.read(&chunk.id).expect("it can be read");
    assert_eq!(back, chunk);
    let segments: Vec<_> = back.segments.iter().map(|segment| (&segment.lease, segment.rows.as_slice())).collect();
    assert_eq!(segments, [(&one, &[0, 3][..]), (&two, &[0][..]), (&one, &[4][..])]);
    assert_eq!(back.leases(), [one, two]);
}

#[tokio::test]
async fn a_death_before_the_rename_leaves_no_half_chunk_and_loses_no_row() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("task-1"));
    drop(interrupted(&spool, &lease).await);
    let half = &chunk(vec![row(&lease, 0)]).to_bytes()[..100];
    let path = data.path().join("spool/chunks/half.tmp");
    fs::write(&path, half).expect("it can be written");

    let spool = open(&data);
    assert!(!path.exists(), "an unfinished chunk is removed");
    assert_eq!(summary(&spool), [("s0".to_owned(), 3), ("s1".to_owned(), 1)], "its row comes from the journal");
}

#[tokio::test]
async fn a_death_between_chunk_and_note_makes_no_row_twice() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("task-1"));
    drop(interrupted(&spool, &lease).await);
    spool.chunks.write(&chunk(vec![row(&lease, 0)])).expect("there is room");

    assert_eq!(summary(&open(&data)), [("s0".to_owned(), 3), ("s1".to_owned(), 1)]);
}

#[tokio::test]
async fn a_row_whose_chunk_was_acknowledged_is_not_made_again() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("task-1"));
    let journal = interrupted(&spool, &lease).await;
    let chunk = chunk(vec![row(&lease, 0)]);
    spool.chunks.write(&chunk).expect("there is room");
    journal.note_spooled(vec![0]).expect("the journal can be written");
    spool.chunks.remove(&chunk.id).expect("an acknowledged chunk can be removed");

    assert_eq!(summary(&open(&data)), [("s1".to_owned(), 1)]);
}

#[tokio::test]
async fn a_damaged_chunk_is_named_set_aside_and_made_anew_from_its_journal() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("task-1"));
    drop(interrupted(&spool, &lease).await);
    let chunk = chunk(vec![row(&lease, 0)]);
    spool.chunks.write(&chunk).expect("there is room");
    let path = data.path().join(format!("spool/chunks/{}.chunk", chunk.id));
    let whole = fs::read(&path).expect("it can be read");
    for cut in [0, 10, 90, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).expect("it can be written");
        let error = spool.chunks.read(&chunk.id).expect_err("a chunk cut short is damaged");
        assert!(matches!(&error, SpoolError::Corrupt { path: named, .. } if *named == path), "cut at {cut}: {error}");
    }
    let spool = open(&data);
    let target = spool.chunks.set_aside(&chunk.id).expect("it can be moved");
    assert!(target.exists() && !path.exists(), "it is kept at {}", target.display());
    assert_eq!(summary(&spool), [("s0".to_owned(), 3), ("s1".to_owned(), 1)]);
}

#[test]
fn a_full_spool_says_so_keeps_nothing_by_halves_and_takes_rows_again() {
    let data = tempfile::tempdir().expect("a folder");
    let (first, second) = (chunk(vec![row(&lease("task-1"), 0)]), chunk(vec![row(&lease("task-1"), 1)]));
    let limit_bytes = first.to_bytes().len() as u64 + 10;
    let spool = Spool::open(data.path(), limit_bytes).expect("the spool opens");
    spool.chunks.write(&first).expect("there is room for one");
    let error = spool.chunks.write(&second).expect_err("there is no room for two");
    assert!(matches!(error, SpoolError::Full { limit_bytes: limit, .. } if limit == limit_bytes), "{error}");
    assert!(spool.chunks.check_room_for_a_task().is_err(), "no task should be taken");
    assert_eq!(files_of(&data.path().join("spool/chunks")).expect("it can be read").len(), 1);

    let spool = Spool::open(data.path(), limit_bytes).expect("a full spool opens");
    assert!(spool.chunks.write(&second).is_err(), "what is kept counts after a restart");
    spool.chunks.remove(&first.id).expect("it can be removed");
    spool.chunks.check_room_for_a_task().expect("an acknowledgement makes room");
    spool.chunks.write(&second).expect("there is room again");
}

#[tokio::test]
async fn the_collector_tells_the_session_of_chunks_and_fails_the_tasks_whose_rows_it_cannot_keep() {
    let data = tempfile::tempdir().expect("a folder");
    let lease = lease("task-1");
    for (limit_bytes, fits) in [(ROOM, true), (10, false)] {
        let spool = Spool::open(&data.path().join(format!("limit-{limit_bytes}")), limit_bytes).expect("it opens");
        let journal = interrupted(&spool, &lease).await;
        let (session, mut told) = mpsc::channel(8);
        let collector = Collector::start(spool.chunks.clone(), session);
        collector.add(row(&lease, 0), &journal).await.expect("nothing failed before");
        assert_eq!(collector.flush(&lease).await.is_ok(), fits, "with a limit of {limit_bytes} bytes");
        match told.recv().await.expect("the session is told") {
            SessionInput::ChunkReady { leases, .. } => assert!(fits && leases == std::slice::from_ref(&lease)),
            SessionInput::SpoolFault(error) => assert!(!fits && matches!(*error, SpoolError::Full { .. })),
            other => panic!("neither a chunk nor a fault: {other:?}"),
        }
        // After a death: a row in a chunk is noted, a row that was refused is still in its journal.
        let spool = open_again(&data.path().join(format!("limit-{limit_bytes}")));
        assert_eq!(summary(&spool), [("s0".to_owned(), 3), ("s1".to_owned(), 1)]);
    }
}

fn open_again(data_folder: &Path) -> Spool {
    Spool::open(data_folder, ROOM).expect("the spool opens")
}
