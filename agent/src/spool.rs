//! What was measured and not yet acknowledged, on disk.
//!
//! ```text
//! DATA/spool/visits/    one journal an attempt: every visit as it ends; gone once its rows stand in chunks
//! DATA/spool/kept/      journals of attempts that ended before their task: the next attempt goes on from them
//! DATA/spool/chunks/    rows of all tasks, ready to send; removed once acknowledged
//! DATA/spool/rejected/  chunks that were refused or are too large to be sent, and damaged files: for people to look at
//! ```
//!
//! A row is in a journal until it is in a chunk, and the journal says so before the chunk may be sent. So kill -9 at
//! any moment loses at most the visit that was under way, and makes no row twice:
//!
//! 1. the chunk is written under a temporary name, synced, and renamed;
//! 2. the journals of its rows note that they are spooled, and are synced;
//! 3. the chunk is sent, acknowledged, and only then removed.
//!
//! Between 1 and 2 the chunk itself names its rows; after 2 the journal does. [`Spool::open`] reads both.

use std::io;
use std::path::{Path, PathBuf};

use fleetcal_model::estimate::SealError;
use fleetcal_proto::rows::RowsError;

pub(crate) mod chunk;
pub(crate) mod collector;
pub(crate) mod folder;
pub(crate) mod journal;
pub(crate) mod kept;
mod recovery;
#[cfg(test)]
mod tests;

use folder::ChunkFolder;
use kept::KeptFolder;

/// Bytes of unacknowledged chunks that a spool may hold, where nothing else is said: about a hundred thousand rows.
pub(crate) const LIMIT_BYTES: u64 = 4 << 30;

/// Rows cannot be kept, or kept rows cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// It holds as much as it may.
    #[error(
        "the spool {} is full: {used_bytes} of {limit_bytes} bytes hold rows that the coordinator has not \
         acknowledged. Measuring goes on once the coordinator takes them", .folder.display()
    )]
    Full {
        /// The folder of chunks.
        folder: PathBuf,
        /// Bytes in it.
        used_bytes: u64,
        /// Bytes that may be in it.
        limit_bytes: u64,
    },
    /// The file system refused.
    #[error("{} cannot be written: {source}. Free space there, or let this user write to it", .path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A kept file cannot be read.
    #[error("{} cannot be read: {source}", .path.display())]
    Unreadable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A kept file is not what was written.
    #[error("{} is damaged: {reason}", .path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Rows do not fit the table.
    #[error("rows cannot be spooled: {0}")]
    Encode(#[from] RowsError),
    /// What was measured cannot be written as JSON.
    #[error("what was measured cannot be written to the spool: {0}. This is a fault of fleetcal: report it")]
    Unencodable(#[source] serde_json::Error),
    /// A row cannot be sealed.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// Rows that no message can hold.
    #[error(
        "{what} takes {bytes} bytes, and a message to the coordinator holds at most {limit_bytes}: it is set aside in \
         spool/rejected. Ask for fewer samples in the plan (`samples_max`, `rounds`)"
    )]
    TooLarge {
        /// The row, and its task.
        what: String,
        /// Bytes that it takes.
        bytes: usize,
        /// Bytes that a message may hold.
        limit_bytes: usize,
    },
    /// The thread that was to write is gone: the agent is ending.
    #[error("the spool is closed")]
    Closed,
}

impl SpoolError {
    fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Unwritable { path: path.to_owned(), source }
    }

    fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| Self::Unreadable { path: path.to_owned(), source }
    }
}

/// The folders of a spool.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    /// Chunks on their way.
    pub(crate) chunks: ChunkFolder,
    /// Journals of attempts.
    pub(crate) visits: PathBuf,
    /// Journals that later attempts go on from.
    pub(crate) kept: KeptFolder,
}

impl Spool {
    /// Opens the spool of a data folder, and puts into chunks what attempts that died left in their journals.
    ///
    /// # Errors
    /// The folders cannot be made, read or written; damaged files are set aside and named, and are no error.
    pub(crate) fn open(data_folder: &Path, limit_bytes: u64) -> Result<Self, SpoolError> {
        let root = data_folder.join("spool");
        let visits = root.join("visits");
        std::fs::create_dir_all(&visits).map_err(SpoolError::unwritable(&visits))?;
        let spool = Self { chunks: ChunkFolder::open(&root, limit_bytes)?, visits, kept: KeptFolder::open(&root)? };
        recovery::recover(&spool)?;
        Ok(spool)
    }
}
