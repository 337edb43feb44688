//! The agent towards its coordinator: one task owns all state, everything that happens reaches it on one channel.
//!
//! ```text
//! runners   ── progress, endings ──┐
//! collector ── chunks, faults ─────┼──► Session ── dials ──► link (hello, work, rows)
//! link      ── what it was told ───┘       └── starts and stops ──► runners
//! ```
//!
//! Losing the link stops nothing: tasks are measured on, their rows wait in the spool, and the next hello names the
//! leases that are still held. A task's end is told only after the coordinator has acknowledged all its rows.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{ChunkId, DeviceId};
use fleetcal_proto::auth::ClientAuth;
use fleetcal_proto::convert::Lease;
use fleetcal_proto::status::ErrorKind;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::device::sim::SimSpec;
use crate::error::AgentError;
use crate::runner::deadlines::Deadlines;
use crate::runner::neighbours::Neighbours;
use crate::runner::workers::WorkerSource;
use crate::runner::{Progress, Runner, TaskEnding};
use crate::spool::collector::Collector;
use crate::spool::{Spool, SpoolError};
use crate::worker::message::RowLabels;

pub(crate) mod backoff;
mod connection;
mod leases;
mod link;
mod stopping;
#[cfg(test)]
mod tests;
mod upload;
mod wire;
mod work;

use backoff::Backoff;
use connection::Connection;
use leases::Leases;
use link::LinkReport;
use stopping::Stopping;

/// Inputs that may wait before runners are held back.
const INPUTS_WAITING: usize = 256;

/// Everything that can happen to a session, but for time and shutdown.
#[derive(Debug)]
pub(crate) enum SessionInput {
    /// A running task came further.
    Progress {
        /// Its lease.
        lease: Lease,
        /// How far.
        progress: Progress,
    },
    /// A task ended; its chunks were all told before.
    TaskEnded {
        /// Its lease.
        lease: Lease,
        /// How.
        ending: TaskEnding,
    },
    /// A chunk is durable in the spool.
    ChunkReady {
        /// Which.
        id: ChunkId,
        /// Whose rows it holds.
        leases: Vec<Lease>,
    },
    /// Rows could not be kept.
    SpoolFault(Arc<SpoolError>),
    /// From a connection.
    Link {
        /// Number of the connection: reports of an earlier one are late.
        link: u64,
        /// What it says.
        report: LinkReport,
    },
}

/// What a session works with.
pub(crate) struct Setup {
    /// Address of the coordinator, for people.
    pub(crate) coordinator: String,
    /// The same, parsed.
    pub(crate) endpoint: Endpoint,
    /// Who calls.
    pub(crate) auth: ClientAuth,
    /// Who this agent is, in rows and in the hello.
    pub(crate) labels: RowLabels,
    /// Devices on offer.
    pub(crate) devices: Vec<DeviceFacts>,
    /// Why backends found nothing.
    pub(crate) backend_notes: BTreeMap<String, String>,
    /// Settings of simulated devices.
    pub(crate) sim: SimSpec,
    /// Whether sensors may be read.
    pub(crate) monitor: bool,
    /// How long workers may be silent.
    pub(crate) deadlines: Deadlines,
    /// Where rows wait.
    pub(crate) spool: Spool,
    /// Where workers come from.
    pub(crate) workers: Arc<dyn WorkerSource>,
}

/// Works for the coordinator until `shutdown` is cancelled, and ends within two seconds of that.
///
/// # Errors
/// [`AgentError::Version`] or [`AgentError::Refused`] by the coordinator, [`AgentError::Spool`] at the start.
pub(crate) async fn run(setup: Setup, shutdown: CancellationToken) -> Result<(), AgentError> {
    let (inputs, receiver) = mpsc::channel(INPUTS_WAITING);
    let chunks = setup.spool.chunks.list()?.into_iter().collect();
    let runner = Runner {
        workers: Arc::clone(&setup.workers),
        visits: setup.spool.visits.clone(),
        kept: setup.spool.kept.clone(),
        deadlines: setup.deadlines,
        neighbours: Neighbours::of(setup.devices.len()),
        collector: Collector::start(setup.spool.chunks.clone(), inputs.clone()),
        session: inputs.clone(),
    };
    let session = Session {
        backoff: Backoff::new(&setup.labels.agent_id),
        setup,
        inputs,
        runner,
        runners: JoinSet::new(),
        leases: Leases::default(),
        chunks,
        quarantined: BTreeSet::new(),
        connection: Connection::None,
        links: 0,
        trouble: None,
        ask_at: Instant::now(),
        spool_fault: false,
        stopping: None,
    };
    session.run(receiver, shutdown).await
}

/// All that a session knows.
struct Session {
    setup: Setup,
    inputs: mpsc::Sender<SessionInput>,
    runner: Runner,
    /// Dropped with the session: no runner outlives it.
    runners: JoinSet<()>,
    leases: Leases,
    /// Chunks in the spool, oldest first.
    chunks: BTreeSet<ChunkId>,
    /// Devices that a worker hangs on.
    quarantined: BTreeSet<DeviceId>,
    connection: Connection,
    /// Connections tried so far: the number of the latest.
    links: u64,
    /// The trouble with the coordinator that was said last.
    trouble: Option<ErrorKind>,
    backoff: Backoff,
    /// When to ask for work again.
    ask_at: Instant,
    /// Whether rows could not be kept, as far as is known.
    spool_fault: bool,
    stopping: Option<Stopping>,
}

impl Session {
    async fn run(
        mut self,
        mut inputs: mpsc::Receiver<SessionInput>,
        shutdown: CancellationToken,
    ) -> Result<(), AgentError> {
        loop {
            let now = Instant::now();
            self.act(now);
            if self.is_finished(now) {
                break;
            }
            tokio::select! {
                Some(input) = inputs.recv() => self.take(input, Instant::now()),
                () = sleep_until(self.next_wake(now)) => {}
                () = shutdown.cancelled(), if self.stopping.is_none() => self.begin_stopping(None, Instant::now()),
            }
        }
        self.stopping.and_then(|stopping| stopping.cause).map_or(Ok(()), Err)
    }

    /// Does what the time and the state call for.
    fn act(&mut self, now: Instant) {
        while self.runners.try_join_next().is_some() {}
        if matches!(self.connection, Connection::None) && self.stopping.is_none() {
            self.dial();
        }
        self.tell_endings(now);
        self.renew_leases(now);
        self.ask_for_work(now);
        self.say_goodbye(now);
    }

    /// When [`Session::act`] has something to do, if nothing happens before.
    fn next_wake(&self, now: Instant) -> Instant {
        let heartbeat = self.connection.up().map(|up| up.heartbeat_at);
        let ask = self.connection.up().map(|_| self.ask_at).filter(|_| self.may_ask());
        let dial = (matches!(self.connection, Connection::None) && self.stopping.is_none()).then_some(now);
        let stop = self.stopping.as_ref().map(|stopping| stopping.next_deadline(now));
        let wakes = [heartbeat, ask, dial, stop].into_iter().flatten();
        wakes.min().unwrap_or(now + Duration::from_secs(60))
    }

    fn take(&mut self, input: SessionInput, now: Instant) {
        match input {
            SessionInput::Progress { lease, progress } => {
                if let Some(note) = &progress.note {
                    tracing::info!(task = lease.task_id.as_str(), "{note}");
                }
                // For people only: where the coordinator does not keep up, it is left out.
                if let Some(up) = self.connection.up() {
                    let _ = up.try_send(wire::progress(&lease, progress));
                }
            }
            SessionInput::TaskEnded { lease, ending } => self.task_ended(&lease, ending, now),
            SessionInput::ChunkReady { id, leases } => self.chunk_ready(id, &leases),
            SessionInput::SpoolFault(error) => {
                self.spool_fault = true;
                tracing::error!(%error, "rows cannot be kept: no further task is taken until they can");
            }
            SessionInput::Link { link, report } if link == self.links => self.take_report(report, now),
            // Of a connection that was given up.
            SessionInput::Link { .. } => {}
        }
    }

    fn chunk_ready(&mut self, id: ChunkId, leases: &[Lease]) {
        self.leases.chunk_ready(&id, leases);
        if let Some(up) = self.connection.up() {
            // Where the link is going down, the next one sends everything in `chunks`.
            let _ = up.uploads.send(id.clone());
        }
        self.chunks.insert(id);
    }
}
