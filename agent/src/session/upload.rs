//! The stream of rows: the schema once, then chunks in order, a few of them unacknowledged at a time.

use std::collections::BTreeSet;

use fleetcal_model::id::ChunkId;
use fleetcal_model::row::ROW_SCHEMA_VERSION;
use fleetcal_proto::rows::schema_message;
use fleetcal_proto::v1::{self, upload_request, upload_response};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::link::{Client, LinkError, LinkReport, Reports};
use crate::spool::SpoolError;
use crate::spool::chunk::Chunk;
use crate::spool::folder::ChunkFolder;

/// Chunks that may be unacknowledged at a time: enough to keep the coordinator's disk busy, few enough to hold in
/// memory.
const WINDOW: usize = 8;

/// An upload stream that stands.
pub(super) struct Upload {
    chunks: ChunkFolder,
    outgoing: mpsc::Sender<v1::UploadRequest>,
    answers: Streaming<v1::UploadResponse>,
    in_flight: BTreeSet<ChunkId>,
}

impl Upload {
    /// Opens the stream. The schema is sent along, because the coordinator may answer only to that.
    pub(super) async fn start(
        client: &mut Client,
        session_id: String,
        agent_id: String,
        chunks: ChunkFolder,
    ) -> Result<Self, LinkError> {
        let (outgoing, requests) = mpsc::channel(WINDOW);
        let start =
            v1::UploadStart { session_id, agent_id, row_schema_version: ROW_SCHEMA_VERSION, schema: schema_message()? };
        outgoing.try_send(request(upload_request::Body::Start(start))).map_err(|_| LinkError::Stuck)?;
        let answers = client.upload(ReceiverStream::new(requests)).await?.into_inner();
        Ok(Self { chunks, outgoing, answers, in_flight: BTreeSet::new() })
    }

    /// Sends what is ordered, in order, until the stream ends.
    pub(super) async fn carry(mut self, mut orders: mpsc::UnboundedReceiver<ChunkId>, reports: &Reports) -> LinkError {
        loop {
            let carried = tokio::select! {
                answer = self.answers.message() => match answer {
                    Ok(Some(v1::UploadResponse { body: Some(body) })) => self.take(body, reports).await,
                    Ok(Some(v1::UploadResponse { body: None })) => Ok(()),
                    Ok(None) => Err(LinkError::Closed),
                    Err(status) => Err(status.into()),
                },
                Some(id) = orders.recv(), if self.in_flight.len() < WINDOW => self.send(id, reports).await,
            };
            if let Err(error) = carried {
                return error;
            }
        }
    }

    async fn send(&mut self, id: ChunkId, reports: &Reports) -> Result<(), LinkError> {
        let chunk = match self.on_disk(&id, ChunkFolder::read).await {
            Ok(chunk) => chunk,
            Err(error) => {
                self.set_aside(id, error.to_string(), reports).await;
                return Ok(());
            }
        };
        if let Err(error) = chunk.check_size() {
            self.set_aside(id, error.to_string(), reports).await;
            return Ok(());
        }
        self.in_flight.insert(id);
        self.outgoing
            .send(request(upload_request::Body::Chunk(on_the_wire(chunk))))
            .await
            .map_err(|_| LinkError::Closed)
    }

    async fn take(&mut self, answer: upload_response::Body, reports: &Reports) -> Result<(), LinkError> {
        match answer {
            upload_response::Body::Acknowledged(v1::ChunkAcknowledged { chunk_id }) => {
                let id = ChunkId::new(chunk_id);
                // Only what was sent may be removed, whatever the other side says.
                if self.in_flight.remove(&id) {
                    if let Err(error) = self.on_disk(&id, ChunkFolder::remove).await {
                        tracing::warn!(%error, "an acknowledged chunk stays in the spool, and will be sent again");
                    }
                    reports.send(LinkReport::Acknowledged(id)).await;
                }
            }
            upload_response::Body::Rejected(v1::ChunkRejected { chunk_id, reason }) => {
                let id = ChunkId::new(chunk_id);
                if self.in_flight.remove(&id) {
                    let reason = format!("the coordinator rejected chunk {id}: {reason}");
                    self.set_aside(id, reason, reports).await;
                }
            }
        }
        Ok(())
    }

    async fn set_aside(&self, chunk: ChunkId, reason: String, reports: &Reports) {
        match self.on_disk(&chunk, ChunkFolder::set_aside).await {
            Ok(path) => tracing::error!(%reason, kept_at = %path.display(), "a chunk of rows was set aside"),
            Err(error) => tracing::error!(%reason, %error, "a chunk of rows cannot be used, and not be set aside"),
        }
        reports.send(LinkReport::SetAside { chunk, reason }).await;
    }

    /// Does something with a chunk's file, off this thread.
    async fn on_disk<T: Send + 'static>(
        &self,
        id: &ChunkId,
        act: fn(&ChunkFolder, &ChunkId) -> Result<T, SpoolError>,
    ) -> Result<T, SpoolError> {
        let (chunks, id) = (self.chunks.clone(), id.clone());
        spawn_blocking(move || act(&chunks, &id)).await.unwrap_or(Err(SpoolError::Closed))
    }
}

fn request(body: upload_request::Body) -> v1::UploadRequest {
    v1::UploadRequest { body: Some(body) }
}

fn on_the_wire(chunk: Chunk) -> v1::Chunk {
    let segment = |segment: &crate::spool::chunk::Segment| v1::Segment {
        lease: Some((&segment.lease).into()),
        rows: segment.rows.len() as u64,
    };
    v1::Chunk {
        chunk_id: chunk.id.as_str().to_owned(),
        segments: chunk.segments.iter().map(segment).collect(),
        record_batches: chunk.record_batches,
    }
}
