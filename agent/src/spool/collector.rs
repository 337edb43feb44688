//! Gathers the rows of all running tasks into chunks: many small chunks would cost three times the rate.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use fleetcal_proto::convert::Lease;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until};

use super::SpoolError;
use super::chunk::{Chunk, NumberedRow};
use super::folder::ChunkFolder;
use super::journal::VisitJournal;
use crate::session::SessionInput;

/// A chunk is cut at so many rows.
pub(crate) const CHUNK_ROWS: usize = 64;

/// A chunk is cut at so many samples: about 1.5 MiB of them, well below what a message may hold.
const CHUNK_SAMPLES: usize = 32 * 1024;

/// A chunk is cut this long after its first row.
const CHUNK_AGE: Duration = Duration::from_secs(1);

/// Where runners hand in their rows. Clones hand in to the same chunks.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    inputs: mpsc::Sender<Input>,
}

#[derive(Debug)]
enum Input {
    Row { row: Box<NumberedRow>, journal: Arc<VisitJournal>, reply: Reply },
    Flush { lease: Lease, reply: Reply },
}

type Reply = oneshot::Sender<Result<(), Arc<SpoolError>>>;

impl Collector {
    /// Starts collecting; chunks and faults are told to the session. Ends with the last clone.
    pub(crate) fn start(folder: ChunkFolder, session: mpsc::Sender<SessionInput>) -> Self {
        let (inputs, receiver) = mpsc::channel(CHUNK_ROWS);
        tokio::spawn(
            Collecting { folder, session, pending: Vec::new(), since: None, faults: BTreeMap::new() }.run(receiver),
        );
        Self { inputs }
    }

    /// Hands in a row. Its journal has it.
    ///
    /// # Errors
    /// Earlier rows of its task could not be kept: there is no point in measuring on.
    pub(crate) async fn add(&self, row: NumberedRow, journal: &Arc<VisitJournal>) -> Result<(), Arc<SpoolError>> {
        let journal = Arc::clone(journal);
        self.ask(|reply| Input::Row { row: Box::new(row), journal, reply }).await
    }

    /// Returns once every row of the task stands in a durable chunk, and the session was told of each of these.
    ///
    /// # Errors
    /// Some could not be kept. They still stand in their journal.
    pub(crate) async fn flush(&self, lease: &Lease) -> Result<(), Arc<SpoolError>> {
        self.ask(|reply| Input::Flush { lease: lease.clone(), reply }).await
    }

    async fn ask(&self, input: impl FnOnce(Reply) -> Input) -> Result<(), Arc<SpoolError>> {
        let (reply, answer) = oneshot::channel();
        let sent = self.inputs.send(input(reply)).await.is_ok();
        let answer = if sent { answer.await.ok() } else { None };
        answer.unwrap_or_else(|| Err(Arc::new(SpoolError::Closed)))
    }
}

/// The collecting task's state.
struct Collecting {
    folder: ChunkFolder,
    session: mpsc::Sender<SessionInput>,
    pending: Vec<(NumberedRow, Arc<VisitJournal>)>,
    /// When the first pending row came.
    since: Option<Instant>,
    /// Tasks some of whose rows could not be kept.
    faults: BTreeMap<Lease, Arc<SpoolError>>,
}

impl Collecting {
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        loop {
            let due = self.since.map(|since| since + CHUNK_AGE);
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(input) => self.take(input).await,
                    None => break,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => self.cut().await,
            }
        }
        self.cut().await;
    }

    async fn take(&mut self, input: Input) {
        // A runner that no longer waits for an answer needs none.
        match input {
            Input::Row { row, journal, reply } => {
                let fault = self.faults.get(&row.lease).cloned();
                if fault.is_none() {
                    self.since.get_or_insert_with(Instant::now);
                    self.pending.push((*row, journal));
                    if self.is_large() {
                        self.cut().await;
                    }
                }
                let _ = reply.send(fault.map_or(Ok(()), Err));
            }
            Input::Flush { lease, reply } => {
                self.cut().await;
                let _ = reply.send(self.faults.remove(&lease).map_or(Ok(()), Err));
            }
        }
    }

    fn is_large(&self) -> bool {
        let samples = || self.pending.iter().map(|(row, _)| row.row.timing.samples.len()).sum::<usize>();
        self.pending.len() >= CHUNK_ROWS || samples() >= CHUNK_SAMPLES
    }

    /// Makes durable chunks of what is pending, and tells the session.
    async fn cut(&mut self) {
        self.since = None;
        if self.pending.is_empty() {
            return;
        }
        let pending = std::mem::take(&mut self.pending);
        let leases: Vec<Lease> = pending.iter().map(|(row, _)| row.lease.clone()).collect();
        let folder = self.folder.clone();
        let kept = tokio::task::spawn_blocking(move || keep(&folder, pending)).await;
        let kept = kept.unwrap_or_else(|_| vec![Err(Fault { leases, error: SpoolError::Closed })]);
        for outcome in kept {
            let told = match outcome {
                Ok(chunk) => SessionInput::ChunkReady { id: chunk.id.clone(), leases: chunk.leases() },
                Err(fault) => match self.take_fault(fault) {
                    Some(error) => SessionInput::SpoolFault(error),
                    None => continue,
                },
            };
            // A session that is gone sends nothing any more; the next start does.
            let _ = self.session.send(told).await;
        }
    }

    /// Fails the tasks; returns the error where it concerns the spool as a whole.
    fn take_fault(&mut self, Fault { leases, error }: Fault) -> Option<Arc<SpoolError>> {
        let error = Arc::new(error);
        for lease in leases {
            self.faults.entry(lease).or_insert_with(|| Arc::clone(&error));
        }
        let is_one_rows = matches!(*error, SpoolError::TooLarge { .. });
        if is_one_rows {
            tracing::error!(%error, "a row cannot be sent");
        }
        (!is_one_rows).then_some(error)
    }
}

/// Rows that could not be kept.
struct Fault {
    /// Whose they are.
    leases: Vec<Lease>,
    /// Why.
    error: SpoolError,
}

type Journals = BTreeMap<Lease, Arc<VisitJournal>>;

/// Makes chunks of rows, and keeps each: what became of it.
fn keep(folder: &ChunkFolder, pending: Vec<(NumberedRow, Arc<VisitJournal>)>) -> Vec<Result<Chunk, Fault>> {
    let journals: Journals = pending.iter().map(|(row, journal)| (row.lease.clone(), Arc::clone(journal))).collect();
    match Chunk::cut(pending.into_iter().map(|(row, _)| row).collect()) {
        Ok(chunks) => chunks.into_iter().map(|chunk| keep_chunk(folder, chunk, &journals)).collect(),
        Err(error) => vec![Err(Fault { leases: journals.into_keys().collect(), error })],
    }
}

/// Steps 1 and 2 of the spool's story: the chunk becomes durable, then the journals note it.
///
/// A chunk that not every journal could note stays where it is, unsent: the journals that did note it rely on it, and
/// for the others it names its rows itself. The next start reads both, and sends it.
fn keep_chunk(folder: &ChunkFolder, chunk: Chunk, journals: &Journals) -> Result<Chunk, Fault> {
    let written = folder.write(&chunk);
    let noted = match &written {
        // Set aside is kept too: made anew from its journal, it would be as large.
        Ok(()) | Err(SpoolError::TooLarge { .. }) => note(&chunk, journals),
        Err(_) => Ok(()),
    };
    match written.and(noted) {
        Ok(()) => Ok(chunk),
        Err(error) => Err(Fault { leases: chunk.leases(), error }),
    }
}

/// Notes in the journals that their rows are spooled.
fn note(chunk: &Chunk, journals: &Journals) -> Result<(), SpoolError> {
    let mut rows: BTreeMap<&Lease, Vec<u64>> = BTreeMap::new();
    for segment in &chunk.segments {
        rows.entry(&segment.lease).or_default().extend(&segment.rows);
    }
    rows.into_iter().try_for_each(|(lease, rows)| match journals.get(lease) {
        Some(journal) => journal.note_spooled(rows),
        None => Ok(()),
    })
}
