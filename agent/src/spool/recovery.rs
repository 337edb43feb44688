//! After the agent's death: journals that were left behind become rows.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fleetcal_proto::convert::Lease;

use super::chunk::{Chunk, NumberedRow};
use super::collector::CHUNK_ROWS;
use super::folder::files_of;
use super::journal::{self, Leftover};
use super::{Spool, SpoolError};
use crate::assemble::assemble;

/// Indices of rows by lease.
type RowsByLease = BTreeMap<Lease, BTreeSet<u64>>;

/// Puts what dead attempts left into chunks, and removes their journals.
///
/// # Errors
/// Folders cannot be read or chunks not be written. Damaged journals are set aside, and said.
pub(super) fn recover(spool: &Spool) -> Result<(), SpoolError> {
    let journals = files_of(&spool.visits)?;
    if journals.is_empty() {
        return Ok(());
    }
    let in_chunks = rows_in_chunks(spool)?;
    for path in journals {
        match journal::read(&path) {
            Ok(left) => match recover_one(spool, &path, left, &in_chunks) {
                // Only the coordinator can make room, so the agent has to start. The journals stay for the next time.
                Err(error @ SpoolError::Full { .. }) => {
                    tracing::warn!(%error, "rows of interrupted tasks stay in their journals");
                    return Ok(());
                }
                result => result?,
            },
            Err(error @ SpoolError::Corrupt { .. }) => {
                let target = spool.chunks.set_aside_file(&path)?;
                tracing::warn!(%error, moved_to = %target.display(), "a journal of visits cannot be used");
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn recover_one(spool: &Spool, path: &Path, left: Leftover, in_chunks: &RowsByLease) -> Result<(), SpoolError> {
    let Leftover { lease, rows, spooled } = left;
    let in_chunks = in_chunks.get(&lease);
    let is_kept = |index: &u64| spooled.contains(index) || in_chunks.is_some_and(|rows| rows.contains(index));
    let rows: Vec<NumberedRow> = rows
        .into_iter()
        // Opened and never visited: nothing was measured, and the task will be tried again.
        .filter(|row| (row.closed || !row.visits.is_empty()) && !is_kept(&row.index))
        .map(|row| NumberedRow { lease: lease.clone(), index: row.index, row: assemble(row.template, &row.visits) })
        .collect();
    let recovered = rows.len();
    for rows in rows.chunks(CHUNK_ROWS) {
        spool.chunks.write(&Chunk::of_rows(rows.to_vec())?)?;
    }
    // A death here, before the journal is gone, is safe: the chunks are sent only after this, and name their rows.
    std::fs::remove_file(path).map_err(SpoolError::unwritable(path))?;
    if recovered > 0 {
        let (task, attempt) = (lease.task_id.as_str(), lease.attempt);
        tracing::info!(task, attempt, rows = recovered, "rows of an interrupted task were recovered");
    }
    Ok(())
}

/// Rows that chunks in the folder hold. A chunk that cannot be read holds none: it will be set aside when its turn to
/// be sent comes, and its rows are made again from their journal.
fn rows_in_chunks(spool: &Spool) -> Result<RowsByLease, SpoolError> {
    let mut rows = RowsByLease::new();
    for id in spool.chunks.list()? {
        match spool.chunks.read(&id) {
            Ok(chunk) => {
                for segment in chunk.segments {
                    rows.entry(segment.lease).or_default().extend(segment.rows);
                }
            }
            Err(error) => tracing::warn!(%error, "a chunk cannot be used"),
        }
    }
    Ok(rows)
}
