//! Chunks: their order, their damage, a full disk, and deaths between their steps.

use super::*;
use crate::session::SessionInput;
use crate::spool::chunk::{CHUNK_BYTES, MESSAGE_BYTES_MAX};
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
    let half = &chunk(vec![row(&lease, 0)]).to_bytes().expect("JSON holds it")[..100];
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
    let limit_bytes = first.to_bytes().expect("JSON holds it").len() as u64 + 10;
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

#[tokio::test]
async fn a_chunk_that_one_journal_could_not_note_loses_no_row_of_the_others_and_makes_none_twice() {
    let data = tempfile::tempdir().expect("a folder");
    let spool = open(&data);
    let (good, bad) = (lease("task-1"), lease("task-2"));
    // Noted in the order of leases: one journal before the broken one, which is the case that may lose rows.
    let journals = [interrupted(&spool, &good).await, interrupted(&spool, &bad).await];
    journals[1].break_down();
    let (session, mut told) = mpsc::channel(8);
    let collector = Collector::start(spool.chunks.clone(), session);
    collector.add(row(&good, 0), &journals[0]).await.expect("nothing failed before");
    collector.add(row(&bad, 0), &journals[1]).await.expect("nothing failed before");
    assert!(collector.flush(&good).await.is_err() && collector.flush(&bad).await.is_err(), "neither task is done");
    let told = told.recv().await.expect("the session is told");
    assert!(matches!(told, SessionInput::SpoolFault(_)), "what a journal could not note must not be sent: {told:?}");

    let spool = open(&data);
    let mut rows = summary(&spool);
    rows.sort();
    let each = |name: &str, rounds| [(name.to_owned(), rounds), (name.to_owned(), rounds)];
    assert_eq!(rows, [each("s0", 3), each("s1", 1)].concat(), "every row of both tasks, once");
}

#[tokio::test]
async fn a_journal_that_a_full_spool_left_behind_knows_what_was_sent_meanwhile() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("task-1"));
    drop(interrupted(&spool, &lease).await);
    fs::OpenOptions::new()
        .append(true)
        .open(&journals(&spool)[0])
        .and_then(|mut file| std::io::Write::write_all(&mut file, b"half a li"))
        .expect("it can be written");
    let sent = chunk(vec![row(&lease, 0)]);
    spool.chunks.write(&sent).expect("there is room");
    let full = Spool::open(data.path(), 10).expect("a full spool opens");
    assert_eq!(summary(&full).len(), 1, "there is no room for the other row");
    full.chunks.remove(&sent.id).expect("an acknowledged chunk can be removed");

    assert_eq!(summary(&open(&data)), [("s1".to_owned(), 1)], "the row that was acknowledged is not made again");
}

#[test]
fn chunks_are_cut_by_bytes_too() {
    let lease = lease("task-1");
    let rows = (0..5).map(|index| with_label(row(&lease, index), 3 << 20)).collect();
    let chunks = Chunk::cut(rows).expect("rows fit the table");
    let indices: Vec<Vec<u64>> = chunks.iter().flat_map(|chunk| &chunk.segments).map(|one| one.rows.clone()).collect();
    assert_eq!(indices.concat(), [0, 1, 2, 3, 4], "every row, in order");
    let largest = chunks.iter().map(|chunk| chunk.record_batches.len()).max();
    assert!(largest.is_some_and(|bytes| bytes <= CHUNK_BYTES), "{largest:?} bytes");
}

#[tokio::test]
async fn a_row_too_large_for_a_message_is_set_aside_and_fails_its_task_alone() {
    let data = tempfile::tempdir().expect("a folder");
    let spool = open(&data);
    let (good, bad) = (lease("task-1"), lease("task-2"));
    let (first, second) = (interrupted(&spool, &good).await, interrupted(&spool, &bad).await);
    let (session, mut told) = mpsc::channel(8);
    let collector = Collector::start(spool.chunks.clone(), session);
    collector.add(row(&good, 0), &first).await.expect("nothing failed before");
    collector.add(with_label(row(&bad, 0), MESSAGE_BYTES_MAX), &second).await.expect("nothing failed before");
    collector.flush(&good).await.expect("its rows are kept");
    let error = collector.flush(&bad).await.expect_err("its row can never be sent").to_string();
    assert!(error.contains("row [0] of task task-2") && error.contains("samples_max"), "{error}");
    assert_eq!(files_of(&data.path().join("spool/rejected")).expect("it can be read").len(), 1);
    let told = told.recv().await.expect("the session is told");
    assert!(matches!(&told, SessionInput::ChunkReady { leases, .. } if *leases == [good]), "{told:?}");
    drop(collector);

    let solutions: Vec<String> = summary(&open(&data)).into_iter().map(|(solution, _)| solution).collect();
    assert_eq!(solutions, ["s0", "s1", "s1"], "it is not tried again at every start");
}

fn with_label(numbered: NumberedRow, bytes: usize) -> NumberedRow {
    let mut numbered = numbered;
    numbered.row.work.label = Some("x".repeat(bytes));
    numbered
}

fn open_again(data_folder: &Path) -> Spool {
    Spool::open(data_folder, ROOM).expect("the spool opens")
}
