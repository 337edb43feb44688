//! The journal of an attempt: one line of JSON for each thing that a worker said about its rows.
//!
//! It is flushed to the system after each line, so that the agent's death loses nothing that was said. To the disk go its
//! rows with their chunk, a second later at most: a flush for each row would let the device wait where many end at once,
//! and what the machine's death takes is measured again. A last line cut short is what a death in the middle of writing
//! leaves.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::TaskId;
use fleetcal_model::row::Row;
use fleetcal_proto::convert::Lease;
use serde::{Deserialize, Serialize};

use super::SpoolError;
use super::folder::sync_folder;
use crate::worker::message::Visit;
use crate::worker::resume::Checkpoint;

/// Version of the journal's format.
const FORMAT: u64 = 2;

/// A line.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Entry<'a> {
    /// The first line: whose journal it is.
    Attempt {
        /// Version of the format.
        format: u64,
        /// The task.
        task_id: TaskId,
        /// Attempt at it.
        attempt: u64,
        /// Epoch of the lease.
        epoch: u64,
        /// Digest of what is measured, how, and on what.
        work: String,
    },
    /// A row began.
    Opened {
        /// Its index.
        row: u64,
        /// What does not change of it.
        template: Cow<'a, Row>,
    },
    /// A visit ended.
    Visited(Cow<'a, Visit>),
    /// A row gets no further visit.
    Closed {
        /// Its index.
        row: u64,
        /// The template with outcome and conditions.
        template: Cow<'a, Row>,
    },
    /// A row is complete because its attempt failed: it says so, and tells nothing of its solution.
    CutShort {
        /// Its index.
        row: u64,
        /// The template with the failure.
        template: Cow<'a, Row>,
    },
    /// A row is begun anew.
    Forgotten {
        /// Its index.
        row: u64,
    },
    /// What was decided so far.
    Decided(Cow<'a, Checkpoint>),
    /// Rows stand in a durable chunk.
    Spooled {
        /// Their indices.
        rows: Vec<u64>,
    },
}

/// How far a line must have come before the agent goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Durability {
    /// To the system: survives the agent's death.
    System,
    /// To the disk: survives the machine's death.
    Disk,
}

/// The journal of a running attempt.
#[derive(Debug)]
pub(crate) struct VisitJournal {
    path: PathBuf,
    open: Mutex<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    file: File,
    length_bytes: u64,
}

impl VisitJournal {
    /// Begins the journal of an attempt.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`].
    pub(crate) fn create(folder: &Path, lease: &Lease, work: &str) -> Result<Self, SpoolError> {
        // The task's name comes from outside: it may hold anything, and must not choose the path.
        let task = Sha256Digest::of(lease.task_id.as_str().as_bytes()).to_hex();
        let path = folder.join(format!("{}-a{}-e{}.jsonl", &task[..16], lease.attempt, lease.epoch));
        let file =
            OpenOptions::new().create_new(true).append(true).open(&path).map_err(SpoolError::unwritable(&path))?;
        let journal = Self { path, open: Mutex::new(OpenFile { file, length_bytes: 0 }) };
        let attempt = Entry::Attempt {
            format: FORMAT,
            task_id: lease.task_id.clone(),
            attempt: lease.attempt,
            epoch: lease.epoch,
            work: work.to_owned(),
        };
        journal.append(&line(&attempt)?, Durability::Disk)?;
        sync_folder(folder).map_err(SpoolError::unwritable(folder))?;
        Ok(journal)
    }

    /// Adds a line, which survives the agent's death, without blocking the caller's thread.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`], [`SpoolError::Unencodable`]; the line is then not there at all.
    pub(crate) async fn add(self: &Arc<Self>, entry: &Entry<'_>) -> Result<(), SpoolError> {
        let (journal, line) = (Arc::clone(self), line(entry)?);
        let added = tokio::task::spawn_blocking(move || journal.append(&line, Durability::System)).await;
        added.unwrap_or(Err(SpoolError::Closed))
    }

    /// Notes that rows stand in a durable chunk.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`].
    pub(super) fn note_spooled(&self, rows: Vec<u64>) -> Result<(), SpoolError> {
        self.append(&line(&Entry::Spooled { rows })?, Durability::Disk)
    }

    /// Refuses every further line.
    #[cfg(test)]
    pub(super) fn break_down(&self) {
        self.open.lock().expect("no test panicked meanwhile").file = File::open(&self.path).expect("it is there");
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the journal: everything in it stands in chunks.
    pub(crate) fn remove(&self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "a finished journal cannot be removed");
        }
    }

    fn append(&self, line: &[u8], durability: Durability) -> Result<(), SpoolError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let written = open.file.write_all(line).and_then(|()| match durability {
            Durability::System => Ok(()),
            Durability::Disk => open.file.sync_data(),
        });
        if let Err(source) = written {
            // Half a line would hide those after it.
            let length_bytes = open.length_bytes;
            let _ = open.file.set_len(length_bytes);
            return Err(SpoolError::Unwritable { path: self.path.clone(), source });
        }
        open.length_bytes += line.len() as u64;
        Ok(())
    }
}

fn line(entry: &Entry<'_>) -> Result<Vec<u8>, SpoolError> {
    let mut line = serde_json::to_vec(entry).map_err(SpoolError::Unencodable)?;
    line.push(b'\n');
    Ok(line)
}

/// A row as a dead attempt left it.
#[derive(Debug)]
pub(crate) struct LeftRow {
    /// Its index.
    pub(crate) index: u64,
    /// The latest template.
    pub(crate) template: Row,
    /// Its visits.
    pub(crate) visits: Vec<Visit>,
    /// Whether its outcome is final.
    pub(crate) closed: bool,
    /// Whether it only says that its attempt failed.
    pub(crate) cut_short: bool,
}

/// What a dead attempt left.
#[derive(Debug)]
pub(crate) struct Leftover {
    /// Its lease.
    pub(crate) lease: Lease,
    /// Digest of what it measured, how, and on what.
    pub(crate) work: String,
    /// Its rows, by index.
    pub(crate) rows: Vec<LeftRow>,
    /// What it had decided.
    pub(crate) decided: Option<Checkpoint>,
    /// Rows that stand in chunks.
    pub(super) spooled: BTreeSet<u64>,
    /// Length of the journal up to its last line that is whole, bytes.
    whole_bytes: u64,
}

/// Reads a journal up to the first line that is not whole.
///
/// # Errors
/// [`SpoolError::Unreadable`], or [`SpoolError::Corrupt`] where not even the first line can be used.
pub(super) fn read(path: &Path) -> Result<Leftover, SpoolError> {
    let bytes = fs::read(path).map_err(SpoolError::unreadable(path))?;
    let corrupt = |reason: &str| SpoolError::Corrupt { path: path.to_owned(), reason: reason.to_owned() };
    let mut lines = bytes.split_inclusive(|&byte| byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let Some(Entry::Attempt { format: FORMAT, task_id, attempt, epoch, work }) = whole_entry(first) else {
        return Err(corrupt("it does not begin as a journal of this version does"));
    };
    let lease = Lease { task_id, attempt, epoch };
    let mut left = Leftover {
        lease,
        work,
        rows: Vec::new(),
        decided: None,
        spooled: BTreeSet::new(),
        whole_bytes: first.len() as u64,
    };
    let mut lines = lines.peekable();
    while let Some(text) = lines.next() {
        let taken = whole_entry(text).is_some_and(|entry| left.take(entry));
        if !taken && lines.peek().is_some() {
            tracing::warn!(path = %path.display(), "a journal is damaged in the middle: what follows is not used");
        }
        if !taken {
            break;
        }
        left.whole_bytes += text.len() as u64;
    }
    Ok(left)
}

fn whole_entry(line: &[u8]) -> Option<Entry<'static>> {
    serde_json::from_slice(line.strip_suffix(b"\n")?).ok()
}

impl Leftover {
    /// Notes in the journal that rows stand in chunks, instead of whatever followed its last whole line.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`], [`SpoolError::Unencodable`].
    pub(super) fn note_spooled(&self, path: &Path, rows: Vec<u64>) -> Result<(), SpoolError> {
        let line = line(&Entry::Spooled { rows })?;
        let written = OpenOptions::new().append(true).open(path).and_then(|mut file| {
            file.set_len(self.whole_bytes)?;
            file.write_all(&line)?;
            file.sync_data()
        });
        written.map_err(SpoolError::unwritable(path))
    }

    /// Whether the entry fits what came before.
    fn take(&mut self, entry: Entry<'static>) -> bool {
        match entry {
            Entry::Attempt { .. } => return false,
            Entry::Opened { row, template } => {
                let template = template.into_owned();
                self.rows.push(LeftRow { index: row, template, visits: Vec::new(), closed: false, cut_short: false });
            }
            Entry::Visited(visit) => {
                let visit = visit.into_owned();
                let Some(row) = self.rows.iter_mut().find(|row| row.index == visit.row) else { return false };
                row.visits.push(visit);
            }
            Entry::Closed { row, template } => {
                let Some(row) = self.rows.iter_mut().find(|left| left.index == row) else { return false };
                row.template = template.into_owned();
                row.closed = true;
            }
            Entry::CutShort { row, template } => {
                let Some(row) = self.rows.iter_mut().find(|left| left.index == row) else { return false };
                row.template = template.into_owned();
                (row.closed, row.cut_short) = (true, true);
            }
            Entry::Forgotten { row } => self.rows.retain(|left| left.index != row),
            Entry::Decided(checkpoint) => self.decided = Some(checkpoint.into_owned()),
            Entry::Spooled { rows } => self.spooled.extend(rows),
        }
        true
    }
}
