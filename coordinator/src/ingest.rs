//! Chunks on their way to Parquet parts.
//!
//! Streams decode their own chunks; one writer takes whatever has queued up as a group. A group becomes one part for
//! each of its runs, each part is on disk (written, synchronised, renamed) before the journal names it, and named
//! before its chunks are acknowledged. So a chunk that was acknowledged is in exactly one named part of each run.

mod slice;
mod writer;

use std::sync::Arc;

use fleetcal_model::id::ChunkId;
use fleetcal_proto::rows::Decoder;
use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinHandle;
use tonic::Status;

use crate::clock::Clock;
use crate::driver::{Driver, DriverError};
use crate::folder::Layout;
use slice::{Rejected, Slice};

/// Bytes of chunks in memory, over all streams: beyond that, streams wait, and their agents with them.
const BUDGET_BYTES: usize = 256 << 20;

/// A semaphore counts in 32 bits: the budget is counted in pieces of this size.
const BUDGET_PIECE_BYTES: usize = 1 << 10;

/// Chunks that wait for the writer.
const QUEUE_CHUNKS: usize = 256;

/// Answers to one stream. Unbounded, for no answer may be lost and no stream may keep the writer waiting; an answer is
/// an id, and there are never more than chunks were sent.
pub(crate) type Answers = mpsc::UnboundedSender<Result<v1::UploadResponse, Status>>;

/// A decoded chunk that waits for the writer.
struct Queued {
    chunk: ChunkId,
    slices: Vec<Slice>,
    answers: Answers,
    _budget: OwnedSemaphorePermit,
}

/// A way to the writer. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Ingest {
    queue: mpsc::Sender<Queued>,
    budget: Arc<Semaphore>,
}

impl Ingest {
    /// Starts the writer. It ends, its last group done, when every [`Ingest`] is gone.
    pub(crate) fn spawn(layout: Layout, driver: Driver, clock: Arc<dyn Clock>) -> (Self, JoinHandle<()>) {
        let (queue, queued) = mpsc::channel(QUEUE_CHUNKS);
        let budget = Arc::new(Semaphore::new(BUDGET_BYTES / BUDGET_PIECE_BYTES));
        (Self { queue, budget }, tokio::spawn(writer::run(queued, layout, driver, clock)))
    }

    /// Decodes a chunk and queues it. Its acknowledgement, rejection or failure is sent to `answers` later.
    ///
    /// # Errors
    /// The coordinator stops, or the message is not one.
    pub(crate) async fn chunk(&self, decoder: &Decoder, chunk: v1::Chunk, answers: &Answers) -> Result<(), Status> {
        let stopping = || Status::from(DriverError::Stopped);
        if chunk.chunk_id.is_empty() {
            return Err(ErrorKind::InvalidRequest.status("a chunk has no id"));
        }
        let id = ChunkId::new(chunk.chunk_id.clone());
        let pieces = (chunk.record_batches.len() / BUDGET_PIECE_BYTES + 1).min(BUDGET_BYTES / BUDGET_PIECE_BYTES);
        let pieces = u32::try_from(pieces).unwrap_or(u32::MAX);
        let budget = Arc::clone(&self.budget).acquire_many_owned(pieces).await.map_err(|_| stopping())?;
        let decoder = decoder.clone();
        let decoded = tokio::task::spawn_blocking(move || slice::slices(&decoder, chunk)).await;
        match decoded.map_err(|error| ErrorKind::Internal.status(format!("decoding a chunk failed: {error}")))? {
            Ok(slices) => {
                let queued = Queued { chunk: id, slices, answers: answers.clone(), _budget: budget };
                self.queue.send(queued).await.map_err(|_| stopping())
            }
            Err(rejected) => {
                tracing::warn!(chunk = %id, reason = %rejected, "rejected a chunk");
                // An error means that the stream has gone; its agent sends the chunk again.
                let _ = answers.send(Ok(rejection(&id, &rejected)));
                Ok(())
            }
        }
    }
}

fn acknowledgement(chunk: &ChunkId) -> v1::UploadResponse {
    let acknowledged = v1::ChunkAcknowledged { chunk_id: chunk.as_str().to_owned() };
    v1::UploadResponse { body: Some(v1::upload_response::Body::Acknowledged(acknowledged)) }
}

fn rejection(chunk: &ChunkId, rejected: &Rejected) -> v1::UploadResponse {
    let rejected = v1::ChunkRejected { chunk_id: chunk.as_str().to_owned(), reason: rejected.to_string() };
    v1::UploadResponse { body: Some(v1::upload_response::Body::Rejected(rejected)) }
}
