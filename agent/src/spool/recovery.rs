//! After the agent's death: journals that were left behind become rows, and are kept for the next attempt.

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

/// Puts what dead attempts left into chunks, and their journals where the next attempts find them.
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
                // Only the coordinator can make room, so the agent has to start. The journal stays for the next time.
                Err(error @ SpoolError::Full { .. }) => {
                    tracing::warn!(%error, "rows of an interrupted task stay in their journal");
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
    let mut in_chunks = in_chunks.get(&left.lease).cloned().unwrap_or_default();
    let rows: Vec<NumberedRow> = left
        .rows
        .iter()
        // Opened and never visited: nothing was measured, and the task will be tried again.
        .filter(|row| row.closed || !row.visits.is_empty())
        .filter(|row| !left.spooled.contains(&row.index) && !in_chunks.contains(&row.index))
        .map(|left_row| {
            let row = assemble(left_row.template.clone(), &left_row.visits)?;
            Ok(NumberedRow { lease: left.lease.clone(), index: left_row.index, row })
        })
        .collect::<Result<_, SpoolError>>()?;
    let recovered = rows.len();
    for rows in rows.chunks(CHUNK_ROWS) {
        for chunk in Chunk::cut(rows.to_vec())? {
            match spool.chunks.write(&chunk) {
                Err(error @ SpoolError::TooLarge { .. }) => tracing::error!(%error, "a row cannot be sent"),
                Err(error @ SpoolError::Full { .. }) => {
                    // The journal stays, and the chunks are sent: it has to know what they held once they are gone.
                    left.note_spooled(path, in_chunks.into_iter().collect())?;
                    return Err(error);
                }
                written => written?,
            }
            in_chunks.extend(chunk.segments.iter().flat_map(|segment| &segment.rows));
        }
    }
    // A death here, before the journal is gone, is safe: the chunks are sent only after this, and name their rows.
    spool.kept.put(path, &left.lease.task_id);
    if recovered > 0 {
        let (task, attempt) = (left.lease.task_id.as_str(), left.lease.attempt);
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
