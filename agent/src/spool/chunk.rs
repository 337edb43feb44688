//! A chunk as a file: a line with the digest of the rest, a line of JSON that says what is inside, and the rows.

use std::path::Path;

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::{ChunkId, TaskId};
use fleetcal_model::row::Row;
use fleetcal_proto::convert::Lease;
use fleetcal_proto::rows::encode_batches;
use serde::{Deserialize, Serialize};

use super::SpoolError;

/// First word of the file: what it is, and the version of its format.
const MAGIC: &str = "fleetcal-chunk-1";

/// A chunk's record batches are made no larger than this, unless a single row is: a message stays small against what the
/// coordinator reads, and little is sent again after a broken connection.
pub(crate) const CHUNK_BYTES: usize = 8 << 20;

/// Record batches of one message may hold at most this: the coordinator reads messages of 64 MiB, and ends the stream
/// over a larger one. The rest is room for the segments.
pub(crate) const MESSAGE_BYTES_MAX: usize = 60 << 20;

/// Rows of one lease within a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The lease that they were measured under.
    pub(crate) lease: Lease,
    /// Their indices within the task, in the order of the chunk.
    pub(crate) rows: Vec<u64>,
}

/// Rows on their way to the coordinator: sent whole, acknowledged whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Unique, and ordered by the time of making.
    pub(crate) id: ChunkId,
    /// What is inside, in order.
    pub(crate) segments: Vec<Segment>,
    /// Record batch messages of the Arrow IPC stream.
    pub(crate) record_batches: Vec<u8>,
}

/// A row with the lease and the index that it was measured under.
#[derive(Debug, Clone)]
pub(crate) struct NumberedRow {
    /// The lease.
    pub(crate) lease: Lease,
    /// Index of the row within its task.
    pub(crate) index: u64,
    /// The row, sealed.
    pub(crate) row: Row,
}

/// The line of JSON.
#[derive(Serialize, Deserialize)]
struct Header {
    chunk_id: ChunkId,
    segments: Vec<HeaderSegment>,
}

#[derive(Serialize, Deserialize)]
struct HeaderSegment {
    task_id: TaskId,
    attempt: u64,
    epoch: u64,
    rows: Vec<u64>,
}

impl Chunk {
    /// Makes a chunk of rows, in their order.
    ///
    /// # Errors
    /// [`SpoolError::Encode`].
    pub(crate) fn of_rows(numbered: Vec<NumberedRow>) -> Result<Self, SpoolError> {
        let mut segments: Vec<Segment> = Vec::new();
        let mut rows = Vec::with_capacity(numbered.len());
        for NumberedRow { lease, index, row } in numbered {
            rows.push(row);
            match segments.last_mut() {
                Some(last) if last.lease == lease => last.rows.push(index),
                _ => segments.push(Segment { lease, rows: vec![index] }),
            }
        }
        let id = ChunkId::new(uuid::Uuid::now_v7().to_string());
        Ok(Self { id, segments, record_batches: encode_batches(&rows)? })
    }

    /// Makes chunks of rows, in their order, each of at most [`CHUNK_BYTES`] where it has more than one row.
    ///
    /// # Errors
    /// [`SpoolError::Encode`].
    pub(crate) fn cut(numbered: Vec<NumberedRow>) -> Result<Vec<Self>, SpoolError> {
        Self::cut_at(CHUNK_BYTES, numbered)
    }

    fn cut_at(limit_bytes: usize, mut numbered: Vec<NumberedRow>) -> Result<Vec<Self>, SpoolError> {
        let whole = Self::of_rows(numbered.clone())?;
        if whole.record_batches.len() <= limit_bytes || numbered.len() < 2 {
            return Ok(vec![whole]);
        }
        // What a row will take is known only once it is encoded; halves come down to it quickly.
        let second = numbered.split_off(numbered.len() / 2);
        let mut chunks = Self::cut_at(limit_bytes, numbered)?;
        chunks.append(&mut Self::cut_at(limit_bytes, second)?);
        Ok(chunks)
    }

    /// Whether it is too large for a message, and would end every stream that it is sent on.
    ///
    /// # Errors
    /// [`SpoolError::TooLarge`].
    pub(crate) fn check_size(&self) -> Result<(), SpoolError> {
        let bytes = self.record_batches.len();
        if bytes <= MESSAGE_BYTES_MAX {
            return Ok(());
        }
        let rows: Vec<String> = self
            .segments
            .iter()
            .map(|segment| format!("row {:?} of task {}", segment.rows, segment.lease.task_id))
            .collect();
        Err(SpoolError::TooLarge { what: rows.join(", "), bytes, limit_bytes: MESSAGE_BYTES_MAX })
    }

    /// The bytes of its file.
    ///
    /// # Errors
    /// [`SpoolError::Unencodable`], which texts and whole numbers never give.
    pub(crate) fn to_bytes(&self) -> Result<Vec<u8>, SpoolError> {
        let segments = self.segments.iter().map(|segment| HeaderSegment {
            task_id: segment.lease.task_id.clone(),
            attempt: segment.lease.attempt,
            epoch: segment.lease.epoch,
            rows: segment.rows.clone(),
        });
        let header = Header { chunk_id: self.id.clone(), segments: segments.collect() };
        let mut rest = serde_json::to_vec(&header).map_err(SpoolError::Unencodable)?;
        rest.push(b'\n');
        rest.extend_from_slice(&self.record_batches);
        let mut bytes = format!("{MAGIC} {}\n", Sha256Digest::of(&rest)).into_bytes();
        bytes.extend_from_slice(&rest);
        Ok(bytes)
    }

    /// Reads what [`Chunk::to_bytes`] wrote. `path` is for the error.
    ///
    /// # Errors
    /// [`SpoolError::Corrupt`].
    pub(crate) fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, SpoolError> {
        let corrupt = |reason: &str| SpoolError::Corrupt { path: path.to_owned(), reason: reason.to_owned() };
        let (first, rest) = split_line(bytes).ok_or_else(|| corrupt("it ends within its first line"))?;
        let first = std::str::from_utf8(first).map_err(|_| corrupt("its first line is no text"))?;
        let digest = first
            .strip_prefix(MAGIC)
            .ok_or_else(|| corrupt("it does not begin as a chunk of this version does"))?
            .trim_start();
        if Sha256Digest::of(rest).to_hex() != digest {
            return Err(corrupt("its digest differs from its contents"));
        }
        let (header, record_batches) = split_line(rest).ok_or_else(|| corrupt("its header does not end"))?;
        let header: Header =
            serde_json::from_slice(header).map_err(|error| corrupt(&format!("its header is wrong: {error}")))?;
        let segments = header.segments.into_iter().map(|segment| Segment {
            lease: Lease { task_id: segment.task_id, attempt: segment.attempt, epoch: segment.epoch },
            rows: segment.rows,
        });
        Ok(Self { id: header.chunk_id, segments: segments.collect(), record_batches: record_batches.to_vec() })
    }

    /// The leases inside, each once.
    pub(crate) fn leases(&self) -> Vec<Lease> {
        let mut leases: Vec<Lease> = self.segments.iter().map(|segment| segment.lease.clone()).collect();
        leases.sort();
        leases.dedup();
        leases
    }
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
