//! The spool against deaths at every moment, damage, and a full disk.

#![allow(clippy::wildcard_enum_match_arm, reason = "in a test, anything else is a failure")]

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use fleetcal_model::estimate::verify_seal;
use fleetcal_model::row::Row;
use fleetcal_proto::convert::Lease;
use tempfile::TempDir;

use super::chunk::{Chunk, NumberedRow};
use super::folder::files_of;
use super::journal::{Entry, VisitJournal};
use super::*;
use crate::assemble::assemble;
use crate::testing::{lease, rows_of, template, visit};
use crate::worker::message::Visit;

mod faults;

const ROOM: u64 = 1 << 30;

fn open(data: &TempDir) -> Spool {
    Spool::open(data.path(), ROOM).expect("the spool opens")
}

/// A finished row.
fn row(lease: &Lease, index: u64) -> NumberedRow {
    let visits: Vec<Visit> = (1..=3).map(|round| visit(index, round)).collect();
    let row = assemble(template(lease, &format!("s{index}")), &visits).expect("JSON holds a row");
    NumberedRow { lease: lease.clone(), index, row }
}

fn chunk(rows: Vec<NumberedRow>) -> Chunk {
    Chunk::of_rows(rows).expect("rows fit the table")
}

/// All rows in the spool's chunks, in order.
fn all_rows(spool: &Spool) -> Vec<Row> {
    let ids = spool.chunks.list().expect("the folder can be read");
    ids.iter().flat_map(|id| rows_of(&spool.chunks.read(id).expect("the chunk is whole"))).collect()
}

/// Solutions and rounds done of all rows.
fn summary(spool: &Spool) -> Vec<(String, u64)> {
    all_rows(spool).into_iter().map(|row| (row.work.solution, row.timing.rounds_done)).collect()
}

fn journals(spool: &Spool) -> Vec<PathBuf> {
    files_of(&spool.visits).expect("the folder can be read")
}

async fn add(journal: &Arc<VisitJournal>, entry: Entry<'_>) {
    journal.add(&entry).await.expect("the journal can be written");
}

/// A journal of row 0, closed after three rounds, and row 1, cut short after one.
async fn interrupted(spool: &Spool, lease: &Lease) -> Arc<VisitJournal> {
    let journal = Arc::new(VisitJournal::create(&spool.visits, lease, "work").expect("the journal is made"));
    for row in 0..2 {
        let template = Cow::Owned(template(lease, &format!("s{row}")));
        add(&journal, Entry::Opened { row, template }).await;
    }
    for (row, round) in [(0, 1), (1, 1), (0, 2), (0, 3)] {
        add(&journal, Entry::Visited(Cow::Owned(visit(row, round)))).await;
    }
    add(&journal, Entry::Closed { row: 0, template: Cow::Owned(template(lease, "s0")) }).await;
    journal
}

#[tokio::test]
async fn what_a_dead_agent_measured_becomes_rows_once() {
    let data = tempfile::tempdir().expect("a folder");
    let lease = lease("task-1");
    drop(interrupted(&open(&data), &lease).await);

    let spool = open(&data);
    assert_eq!(summary(&spool), [("s0".to_owned(), 3), ("s1".to_owned(), 1)]);
    let rows = all_rows(&spool);
    assert!(rows.iter().all(verify_seal), "recovered rows are sealed");
    assert!(rows[1].timing.rounds_done < rows[1].timing.rounds_planned, "a row cut short says so");
    assert!(journals(&spool).is_empty(), "a journal whose rows are in chunks is gone");
    assert_eq!(summary(&open(&data)).len(), 2, "a further start makes no row twice");
}

#[tokio::test]
async fn a_line_cut_short_loses_that_visit_only() {
    let data = tempfile::tempdir().expect("a folder");
    let spool = open(&data);
    drop(interrupted(&spool, &lease("task-1")).await);
    let path = &journals(&spool)[0];
    let text = fs::read_to_string(path).expect("it can be read");
    // The last line closes row 0, the one before is its third visit.
    let end = text.trim_end().rfind('\n').expect("there are lines");
    let visit_end = text[..end].rfind('\n').expect("there are lines");
    fs::write(path, &text[..visit_end + 20]).expect("it can be written");

    assert_eq!(summary(&open(&data)), [("s0".to_owned(), 2), ("s1".to_owned(), 1)]);
}

#[tokio::test]
async fn a_row_never_visited_is_no_row_and_a_foreign_journal_is_set_aside() {
    let data = tempfile::tempdir().expect("a folder");
    let (spool, lease) = (open(&data), lease("../../task"));
    let journal =
        Arc::new(VisitJournal::create(&spool.visits, &lease, "work").expect("no path is made of a task's name"));
    add(&journal, Entry::Opened { row: 0, template: Cow::Owned(template(&lease, "s0")) }).await;
    fs::write(spool.visits.join("foreign.jsonl"), "not ours\n").expect("it can be written");

    let spool = open(&data);
    assert!(all_rows(&spool).is_empty());
    assert!(journals(&spool).is_empty());
    assert!(data.path().join("spool/rejected/foreign.jsonl").exists(), "a foreign file is kept for people");
}
