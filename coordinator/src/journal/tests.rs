use super::*;

fn journal() -> (tempfile::TempDir, PathBuf, Journal) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("journal.sqlite");
    let journal = Journal::open(&path).expect("a new journal");
    (folder, path, journal)
}

fn cancelled(run: &str) -> Event {
    Event::RunCancelled { run: RunId::new(run), reason: "a test".to_owned() }
}

fn part(name: &str, chunks: &[&str]) -> PartRecord {
    let run = RunId::new("run-1");
    PartRecord {
        name: name.to_owned(),
        run,
        rows: 3,
        bytes: 100,
        chunks: chunks.iter().map(|&id| ChunkId::from(id)).collect(),
    }
}

fn replayed(journal: &Journal) -> Vec<(Timestamp, Event)> {
    let mut events = Vec::new();
    journal.replay(|now, event| events.push((now, event))).expect("readable");
    events
}

#[test]
fn what_was_appended_is_there_after_reopening_in_order() {
    let (_folder, path, mut journal) = journal();
    let entries = [
        Entry::Event(Timestamp(5), cancelled("run-2")),
        Entry::Event(Timestamp(4), cancelled("run-1")),
        Entry::Part(part("run-1/a.parquet", &["c1", "c2"])),
    ];
    journal.append(&entries).expect("appended");
    drop(journal);

    let journal = Journal::open(&path).expect("reopened");
    assert_eq!(replayed(&journal), [(Timestamp(5), cancelled("run-2")), (Timestamp(4), cancelled("run-1"))]);
    let asked = ["c1", "c2", "c3"].map(ChunkId::from);
    assert_eq!(journal.committed(&asked).expect("read"), BTreeSet::from(["c1", "c2"].map(ChunkId::from)));
    assert_eq!(journal.part_names(None).expect("read").len(), 1);
    assert_eq!(journal.part_names(Some(&RunId::new("run-2"))).expect("read").len(), 0, "a part of another run");
}

#[test]
fn a_batch_is_appended_whole_or_not_at_all() {
    let (_folder, _path, mut journal) = journal();
    journal.append(&[Entry::Part(part("run-1/a.parquet", &["c1"]))]).expect("appended");
    let batch = [Entry::Event(Timestamp(1), cancelled("run-1")), Entry::Part(part("run-1/a.parquet", &["c2"]))];
    journal.append(&batch).expect_err("a part's name is unique");
    assert_eq!(replayed(&journal), [], "the event before the failure must be gone with it");
    assert!(journal.committed(&[ChunkId::new("c2")]).expect("read").is_empty());
}

#[test]
fn a_newer_journal_is_refused_by_its_version() {
    let (_folder, path, journal) = journal();
    journal.connection.execute("UPDATE meta SET value = 99", ()).expect("updated");
    drop(journal);
    let refused = Journal::open(&path).expect_err("version 99 is not known");
    assert!(matches!(refused, JournalError::Newer { found: 99, .. }), "{refused}");
}

#[test]
fn a_damaged_journal_is_named_and_the_rows_are_said_to_be_safe() {
    let (_folder, path, journal) = journal();
    journal
        .connection
        .execute("INSERT INTO events (now_ns, body) VALUES (1, '{\"Unheard\":{}}')", ())
        .expect("inserted");
    let unreadable = journal.replay(|_, _| ()).expect_err("no such event").to_string();
    assert!(unreadable.contains("event 1"), "{unreadable}");
    drop(journal);

    std::fs::write(&path, "this is no database, and long enough for SQLite to say so".repeat(100)).expect("written");
    let refused = Journal::open(&path).expect_err("text is no journal");
    assert!(matches!(refused, JournalError::Corrupt { .. }), "{refused}");
    let sentence = refused.to_string();
    assert!(sentence.contains("journal.sqlite") && sentence.contains("no row is lost"), "{sentence}");
}

#[test]
fn a_full_disk_appends_nothing_and_space_makes_it_work_again() {
    let (_folder, _path, mut journal) = journal();
    journal.limit_pages(0);
    let large = Event::RunCancelled { run: RunId::new("run-1"), reason: "x".repeat(100_000) };
    let full = journal.append(&[Entry::Event(Timestamp(1), large.clone())]).expect_err("no page is free");
    assert!(matches!(full, JournalError::Full { .. }), "{full}");
    assert_eq!(replayed(&journal), []);
    journal.limit_pages(100_000);
    journal.append(&[Entry::Event(Timestamp(1), large)]).expect("there is space again");
    assert_eq!(replayed(&journal).len(), 1);
}
