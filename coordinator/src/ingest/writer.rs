//! Groups of chunks to parts, in the order that makes them safe.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

use arrow_array::RecordBatch;
use fleetcal_core::event::{CommittedSegment, Event, Timestamp};
use fleetcal_model::id::{ChunkId, RunId};
use fleetcal_proto::status::ErrorKind;
use tokio::sync::mpsc;
use tonic::Status;
use uuid::Uuid;

use super::{Answers, Queued, acknowledgement};
use crate::clock::Clock;
use crate::driver::Driver;
use crate::error::FolderError;
use crate::folder::{Layout, move_to_orphans};
use crate::journal::PartRecord;
use crate::rows::{PartError, PartInfo, write_part};

/// Chunks of one group: bounds what is written before the first of them is acknowledged.
const GROUP_CHUNKS: usize = 64;

/// Writes groups until nobody is left to send any.
pub(super) async fn run(mut queue: mpsc::Receiver<Queued>, layout: Layout, driver: Driver, clock: Arc<dyn Clock>) {
    let writer = Writer { layout, driver, clock };
    loop {
        let mut group = Vec::new();
        if queue.recv_many(&mut group, GROUP_CHUNKS).await == 0 {
            return;
        }
        writer.group(group).await;
    }
}

struct Writer {
    layout: Layout,
    driver: Driver,
    clock: Arc<dyn Clock>,
}

/// Everything of one run in a group.
#[derive(Default)]
struct Part {
    batches: Vec<RecordBatch>,
    chunks: Vec<ChunkId>,
    segments: Vec<CommittedSegment>,
}

impl Writer {
    /// Stores a group and answers each of its chunks.
    async fn group(&self, group: Vec<Queued>) {
        let mut waiting: BTreeMap<ChunkId, Vec<Answers>> = BTreeMap::new();
        let mut fresh = Vec::new();
        for queued in group {
            let answers = waiting.entry(queued.chunk.clone()).or_default();
            answers.push(queued.answers.clone());
            // The same chunk again, on a stream that took over from a broken one.
            if answers.len() == 1 {
                fresh.push(queued);
            }
        }
        let stored = self.store(fresh).await;
        for (chunk, streams) in waiting {
            for answers in streams {
                let answer = stored.clone().map(|()| acknowledgement(&chunk));
                // An error means that the stream has gone; its agent sends the chunk again, and is answered then.
                let _ = answers.send(answer);
            }
        }
    }

    /// Stores those chunks that are not durable already.
    async fn store(&self, fresh: Vec<Queued>) -> Result<(), Status> {
        let ids = fresh.iter().map(|queued| queued.chunk.clone()).collect();
        let committed: BTreeSet<ChunkId> = self.driver.committed(ids).await?;
        let mut parts: BTreeMap<RunId, Part> = BTreeMap::new();
        for Queued { chunk, slices, .. } in fresh.into_iter().filter(|queued| !committed.contains(&queued.chunk)) {
            for slice in slices {
                let part = parts.entry(slice.run).or_default();
                part.batches.extend(slice.batches);
                part.segments.extend(slice.segments);
                if part.chunks.last() != Some(&chunk) {
                    part.chunks.push(chunk.clone());
                }
            }
        }
        self.commit(parts).await
    }

    /// Writes every part, then names all of them at once: a chunk of two runs is durable in both or in neither.
    async fn commit(&self, parts: BTreeMap<RunId, Part>) -> Result<(), Status> {
        let stem = part_stem(self.clock.now()).to_string();
        let layout = self.layout.clone();
        let written = tokio::task::spawn_blocking(move || write_all(&layout, &stem, parts)).await;
        let (written, failed) =
            written.map_err(|error| ErrorKind::Internal.status(format!("writing a part failed: {error}")))?;
        let names: Vec<String> = written.iter().map(|(part, _)| part.name.clone()).collect();
        let committed = match failed {
            Some(status) => Err(status),
            None if written.is_empty() => Ok(()),
            None => self.driver.commit(written).await.map_err(Status::from),
        };
        if committed.is_err() {
            self.set_aside(names).await;
        }
        committed
    }

    /// Moves parts whose chunks were not acknowledged out of the way: their agents send them again. What the journal
    /// names after all stays; whether it took a batch is not certain after a failure.
    async fn set_aside(&self, names: Vec<String>) {
        let Ok(Ok(named)) = self.driver.read(|view| view.journal.part_names(None)).await else { return };
        for name in names.into_iter().filter(|name| !named.contains(name)) {
            if let Err(error) = move_to_orphans(&self.layout, &name) {
                tracing::warn!(part = name, %error, "a part that was not acknowledged stays until the next start");
            }
        }
    }
}

/// Writes parts until one fails. Answers those that are on disk, and why the next one is not.
fn write_all(layout: &Layout, stem: &str, parts: BTreeMap<RunId, Part>) -> (Vec<(PartRecord, Event)>, Option<Status>) {
    let mut written = Vec::new();
    for (run, part) in parts {
        match write(layout, stem, &run, &part) {
            Ok(PartInfo { file_name, rows, bytes }) => {
                let name = format!("{run}/{file_name}");
                let Part { chunks, segments, .. } = part;
                let event = Event::ChunksCommitted { part: name.clone(), chunks: chunks.clone(), segments };
                written.push((PartRecord { name, run, rows, bytes, chunks }, event));
            }
            Err(error) => {
                tracing::error!(%run, %error, "a part could not be written");
                let full = matches!(error, PartError::Folder(FolderError::Full { .. }));
                let kind = if full { ErrorKind::StorageFull } else { ErrorKind::Internal };
                return (written, Some(kind.status(error.to_string())));
            }
        }
    }
    (written, None)
}

fn write(layout: &Layout, stem: &str, run: &RunId, part: &Part) -> Result<PartInfo, PartError> {
    let folder = layout.run_rows(run);
    if !folder.is_dir() {
        create_durably(&folder, &layout.rows())?;
    }
    write_part(&folder, stem, &part.batches, &part.chunks)
}

/// Creates a folder that survives a loss of power, as the parts in it must.
fn create_durably(folder: &Path, parent: &Path) -> Result<(), FolderError> {
    fs::create_dir_all(folder).map_err(|source| FolderError::at(folder, source))?;
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(|source| FolderError::at(parent, source))
}

/// Names sort by the time they were made, and never meet.
fn part_stem(now: Timestamp) -> Uuid {
    const NS_PER_SECOND: u64 = 1_000_000_000;
    let nanoseconds = u32::try_from(now.0 % NS_PER_SECOND).unwrap_or_default();
    Uuid::new_v7(uuid::Timestamp::from_unix(uuid::NoContext, now.0 / NS_PER_SECOND, nanoseconds))
}
