//! The journal: durable events with their time, and which chunks are in which part. SQLite, one file.
//!
//! A batch of entries is one transaction, so that many events cost one fsync. What is journalled is the commit point of
//! everything else: a part that is not named here was never acknowledged, an event that is not here never happened.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetcal_core::event::{Event, Timestamp};
use fleetcal_model::id::{ChunkId, RunId};
use rusqlite::{Connection, ErrorCode, OpenFlags, OptionalExtension};

#[cfg(test)]
mod tests;

/// Version of the tables below. A journal of a newer one is refused, never guessed at.
const SCHEMA_VERSION: i64 = 1;

const TABLES: &str = "
    CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
    CREATE TABLE events (seq INTEGER PRIMARY KEY, now_ns INTEGER NOT NULL, body TEXT NOT NULL);
    CREATE TABLE parts (name TEXT PRIMARY KEY, run TEXT NOT NULL, rows INTEGER NOT NULL, bytes INTEGER NOT NULL)
        WITHOUT ROWID;
    CREATE INDEX parts_of_run ON parts (run);
    -- A chunk whose rows are of two runs is in two parts.
    CREATE TABLE chunks (chunk_id TEXT NOT NULL, part TEXT NOT NULL REFERENCES parts (name),
        PRIMARY KEY (chunk_id, part)) WITHOUT ROWID;";

/// How long another process that reads the journal may keep a write waiting.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// A journal that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// A newer fleetcal wrote it.
    #[error("the journal {} has version {found}, and this fleetcal knows versions up to {SCHEMA_VERSION}: use the \
             fleetcal that wrote it, or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: i64,
    },
    /// It does not say what a journal says.
    #[error("the journal {} is damaged: {reason}; no row is lost: put back a copy of the journal, or move it away to start \
             a new one, which moves every part under rows/ to orphans/ as it is, for any Parquet tool to read", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// No space left.
    #[error("the journal {} cannot grow: the disk is full; free space there: work goes on by itself once there is some", path.display())]
    Full {
        /// The file.
        path: PathBuf,
    },
    /// SQLite failed otherwise.
    #[error("the journal {} cannot be used: {source}", path.display())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
}

/// One Parquet part, as the journal names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartRecord {
    /// File name relative to `rows/`, for example `RUN/PART.parquet`.
    pub name: String,
    /// The run whose rows it holds.
    pub run: RunId,
    /// Rows inside.
    pub rows: u64,
    /// Size of the file, bytes.
    pub bytes: u64,
    /// Chunks inside.
    pub chunks: Vec<ChunkId>,
}

/// One thing to append.
#[derive(Debug, Clone, PartialEq)]
pub enum Entry {
    /// An event, with the time of its step.
    Event(Timestamp, Event),
    /// A part, with its chunks.
    Part(PartRecord),
}

/// An open journal.
#[derive(Debug)]
pub struct Journal {
    connection: Connection,
    path: PathBuf,
}

impl Journal {
    /// Opens the journal at `path`, creating it if it is not there.
    ///
    /// # Errors
    /// A newer, damaged or unusable file.
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let connection = Connection::open(path).map_err(|error| at(path, error))?;
        let mut journal = Self { connection, path: path.to_owned() };
        journal.prepare().map_err(|error| at(path, error))?;
        journal.check()?;
        Ok(journal)
    }

    /// Opens an existing journal for reading only; a coordinator may be writing it meanwhile.
    ///
    /// # Errors
    /// As [`Journal::open`]; a file that is not there cannot be used.
    pub fn open_for_reading(path: &Path) -> Result<Self, JournalError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(|error| at(path, error))?;
        connection.busy_timeout(BUSY_TIMEOUT).map_err(|error| at(path, error))?;
        let journal = Self { connection, path: path.to_owned() };
        journal.check()?;
        Ok(journal)
    }

    fn prepare(&mut self) -> Result<(), rusqlite::Error> {
        self.connection.busy_timeout(BUSY_TIMEOUT)?;
        self.connection.pragma_update(None, "journal_mode", "WAL")?;
        self.connection.pragma_update(None, "synchronous", "FULL")?;
        self.connection.pragma_update(None, "foreign_keys", true)?;
        let transaction = self.connection.transaction()?;
        let there: bool =
            transaction
                .query_row("SELECT count(*) > 0 FROM sqlite_schema WHERE name = 'meta'", (), |row| row.get(0))?;
        if !there {
            transaction.execute_batch(TABLES)?;
            transaction.execute("INSERT INTO meta VALUES ('schema_version', ?1)", [SCHEMA_VERSION])?;
        }
        transaction.commit()
    }

    fn check(&self) -> Result<(), JournalError> {
        let version: Option<i64> = self
            .connection
            .query_row("SELECT value FROM meta WHERE key = 'schema_version'", (), |row| row.get(0))
            .optional()
            .map_err(|error| at(&self.path, error))?;
        let found = version.ok_or_else(|| self.corrupt("it does not say its version"))?;
        if found > SCHEMA_VERSION {
            return Err(JournalError::Newer { path: self.path.clone(), found });
        }
        let verdict: String = self
            .connection
            .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
            .map_err(|error| at(&self.path, error))?;
        if verdict == "ok" { Ok(()) } else { Err(self.corrupt(verdict)) }
    }

    /// Appends entries in order, all or none. When this answers, they survive a loss of power.
    ///
    /// # Errors
    /// Nothing was appended.
    pub fn append(&mut self, entries: &[Entry]) -> Result<(), JournalError> {
        let path = &self.path;
        let append = |connection: &mut Connection| {
            let transaction = connection.transaction()?;
            for entry in entries {
                match entry {
                    Entry::Event(now, event) => append_event(&transaction, *now, event)?,
                    Entry::Part(part) => append_part(&transaction, part)?,
                }
            }
            transaction.commit()
        };
        append(&mut self.connection).map_err(|error| at(path, error))
    }

    /// Hands every event to `each`, in the order they were appended, with the time of its step. Answers how many.
    ///
    /// # Errors
    /// An event that cannot be read.
    pub fn replay(&self, mut each: impl FnMut(Timestamp, Event)) -> Result<u64, JournalError> {
        let failed = |error| at(&self.path, error);
        let mut statement =
            self.connection.prepare("SELECT seq, now_ns, body FROM events ORDER BY seq").map_err(failed)?;
        let mut rows = statement.query(()).map_err(failed)?;
        let mut events = 0;
        while let Some(row) = rows.next().map_err(failed)? {
            let (seq, now_ns): (i64, i64) = (row.get(0).map_err(failed)?, row.get(1).map_err(failed)?);
            let body: String = row.get(2).map_err(failed)?;
            let event = serde_json::from_str(&body)
                .map_err(|error| self.corrupt(format!("event {seq} cannot be read: {error}")))?;
            each(Timestamp(now_ns.max(0).unsigned_abs()), event);
            events += 1;
        }
        Ok(events)
    }

    /// Those of `chunks` that are in a part already.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn committed(&self, chunks: &[ChunkId]) -> Result<BTreeSet<ChunkId>, JournalError> {
        let failed = |error| at(&self.path, error);
        let mut statement =
            self.connection.prepare_cached("SELECT 1 FROM chunks WHERE chunk_id = ?1 LIMIT 1").map_err(failed)?;
        let mut committed = BTreeSet::new();
        for chunk in chunks {
            if statement.exists([chunk.as_str()]).map_err(failed)? {
                committed.insert(chunk.clone());
            }
        }
        Ok(committed)
    }

    /// Names of the parts of a run, or of every run, sorted.
    ///
    /// # Errors
    /// If SQLite fails.
    pub fn part_names(&self, run: Option<&RunId>) -> Result<BTreeSet<String>, JournalError> {
        let failed = |error| at(&self.path, error);
        let mut statement =
            self.connection.prepare_cached("SELECT name FROM parts WHERE ?1 IS NULL OR run = ?1").map_err(failed)?;
        let names = statement.query_map([run.map(RunId::as_str)], |row| row.get(0)).map_err(failed)?;
        names.collect::<Result<_, _>>().map_err(failed)
    }

    /// Moves the write-ahead log into the file, so that a stopped coordinator leaves one file to copy.
    ///
    /// # Errors
    /// If SQLite fails; nothing is lost then, the log is read at the next start.
    pub fn checkpoint(&self) -> Result<(), JournalError> {
        let done = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |_| Ok(()));
        done.map_err(|error| at(&self.path, error))
    }

    /// Lets the file grow to so many pages and no further, but never below what it has: a full disk, for tests.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u64) {
        // SQLite itself never goes below the pages that are there.
        let limit = format!("PRAGMA max_page_count = {}", pages.max(1));
        self.connection.query_row(&limit, (), |_| Ok(())).expect("a limit");
    }

    fn corrupt(&self, reason: impl Into<String>) -> JournalError {
        JournalError::Corrupt { path: self.path.clone(), reason: reason.into() }
    }
}

fn append_event(connection: &Connection, now: Timestamp, event: &Event) -> Result<(), rusqlite::Error> {
    let body = serde_json::to_string(event).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
    let mut statement = connection.prepare_cached("INSERT INTO events (now_ns, body) VALUES (?1, ?2)")?;
    statement.execute((to_integer(now.0), body)).map(drop)
}

fn append_part(connection: &Connection, part: &PartRecord) -> Result<(), rusqlite::Error> {
    let mut statement = connection.prepare_cached("INSERT INTO parts VALUES (?1, ?2, ?3, ?4)")?;
    statement.execute((&part.name, part.run.as_str(), to_integer(part.rows), to_integer(part.bytes)))?;
    let mut statement = connection.prepare_cached("INSERT INTO chunks VALUES (?1, ?2)")?;
    part.chunks.iter().try_for_each(|chunk| statement.execute((chunk.as_str(), &part.name)).map(drop))
}

/// SQLite's integers have a sign; no count and no time until the year 2262 needs that bit.
fn to_integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Sorts an error of SQLite by what a person can do about it.
fn at(path: &Path, source: rusqlite::Error) -> JournalError {
    let path = path.to_owned();
    let code = source.sqlite_error_code();
    if code == Some(ErrorCode::DiskFull) {
        JournalError::Full { path }
    } else if matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)) {
        JournalError::Corrupt { path, reason: source.to_string() }
    } else {
        JournalError::Sqlite { path, source }
    }
}
