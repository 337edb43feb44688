//! The loop around the core: commands in, the journal, then what the core asked for.
//!
//! One task owns the core, the journal and the sessions. It takes what waits in its queue as one batch, on a thread
//! that may block: the core takes its steps, everything durable is appended in one transaction, and only then is
//! anything sent. So a hundred events that came together cost one fsync, and no agent is ever told what a power cut
//! could take back.

mod sessions;
mod state;

use std::sync::Arc;

use fleetcal_core::action::Refused;
use fleetcal_core::core::Core;
use fleetcal_core::event::{AgentIdentity, Event, LeaseKey, Timestamp};
use fleetcal_model::id::{AgentId, ChunkId};
use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tonic::Status;

use crate::clock::{Clock, nanoseconds};
use crate::error::CoordinatorError;
use crate::journal::{Journal, JournalError, PartRecord};

pub(crate) use sessions::{Outbox, Sessions, outbox};
#[cfg(test)]
pub(crate) use state::tests::state;
pub(crate) use state::{State, replayed};

/// Commands that wait; a sender waits beyond that.
const QUEUE_COMMANDS: usize = 1024;

/// Commands taken as one batch.
const BATCH_COMMANDS: usize = 256;

/// Least time between two looks at the deadlines, so that a deadline that cannot be acted on (its event cannot be
/// journalled) does not keep a processor busy.
const TICK_GAP: std::time::Duration = std::time::Duration::from_millis(20);

/// A command that was not carried out. Nothing of it was done.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum DriverError {
    /// The journal cannot grow.
    #[error("{0}")]
    Full(String),
    /// The journal failed otherwise.
    #[error("{0}")]
    Failed(String),
    /// The session was replaced, or is from before a restart.
    #[error("the session is not known, most often because the coordinator restarted: say hello again")]
    UnknownSession,
    /// The coordinator stops.
    #[error("the coordinator is stopping")]
    Stopped,
}

impl From<&JournalError> for DriverError {
    fn from(error: &JournalError) -> Self {
        if matches!(error, JournalError::Full { .. }) {
            Self::Full(error.to_string())
        } else {
            Self::Failed(error.to_string())
        }
    }
}

impl From<DriverError> for Status {
    fn from(error: DriverError) -> Self {
        let kind = match &error {
            DriverError::Full(_) => ErrorKind::StorageFull,
            DriverError::Failed(_) => ErrorKind::Internal,
            DriverError::UnknownSession => ErrorKind::UnknownSession,
            DriverError::Stopped => ErrorKind::Unavailable,
        };
        kind.status(error.to_string())
    }
}

/// What a step answered, besides what was sent to others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Why the core refused the request, if it did.
    pub(crate) refused: Option<(Refused, String)>,
}

/// What a hello answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Welcome {
    /// The new session.
    pub(crate) session: String,
    /// Leases that the agent believed it held, and does not.
    pub(crate) lost: Vec<LeaseKey>,
}

/// What can be looked at. As of the last batch that became durable.
pub(crate) struct View<'a> {
    pub(crate) core: &'a Core,
    pub(crate) sessions: &'a Sessions,
    pub(crate) journal: &'a Journal,
}

type Reply<T> = oneshot::Sender<Result<T, DriverError>>;

/// What the driver is asked to do.
pub(crate) enum Command {
    /// Step the core.
    Step { event: Event, reply: Option<Reply<Answer>> },
    /// Parts are on disk: name them all at once, and tell the core.
    Commit { parts: Vec<(PartRecord, Event)>, reply: Reply<()> },
    /// An agent says hello.
    Join { identity: AgentIdentity, held: Vec<LeaseKey>, reply: Reply<Welcome> },
    /// A session's stream begins.
    Attach { session: String, outbox: Outbox, reply: Reply<(AgentId, CancellationToken)> },
    /// A session's stream ended.
    Detach { session: String },
    /// An agent says how far it is.
    Progress { agent: AgentId, lease: LeaseKey, progress: Box<v1::TaskProgress> },
    /// Look at everything.
    Read(Box<dyn FnOnce(&View<'_>) + Send>),
    /// Make everything durable and end.
    Stop { reply: Reply<()> },
}

/// A way to the driver. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Driver {
    commands: mpsc::Sender<Command>,
}

impl Driver {
    /// Starts the loop. It ends after [`Driver::stop`], when `abandoned` is cancelled, or with an error when the
    /// journal cannot be read any more.
    pub(crate) fn spawn(
        state: State,
        clock: Arc<dyn Clock>,
        abandoned: CancellationToken,
    ) -> (Self, tokio::task::JoinHandle<Result<(), CoordinatorError>>) {
        let (commands, queue) = mpsc::channel(QUEUE_COMMANDS);
        (Self { commands }, tokio::spawn(run(state, queue, clock, abandoned)))
    }

    /// Steps the core with an event, and waits until its consequences are durable and done.
    ///
    /// # Errors
    /// Nothing was done.
    pub(crate) async fn step(&self, event: Event) -> Result<Answer, DriverError> {
        self.ask(|reply| Command::Step { event, reply: Some(reply) }).await
    }

    /// Names parts in the journal, all or none, and tells the core of their chunks.
    ///
    /// # Errors
    /// The journal failed; it names none of them, unless the failure was that of a disk.
    pub(crate) async fn commit(&self, parts: Vec<(PartRecord, Event)>) -> Result<(), DriverError> {
        self.ask(|reply| Command::Commit { parts, reply }).await
    }

    /// Lets an agent in, and opens a session for it.
    ///
    /// # Errors
    /// It is not in.
    pub(crate) async fn join(&self, identity: AgentIdentity, held: Vec<LeaseKey>) -> Result<Welcome, DriverError> {
        self.ask(|reply| Command::Join { identity, held, reply }).await
    }

    /// Puts a stream under a session.
    ///
    /// # Errors
    /// [`DriverError::UnknownSession`].
    pub(crate) async fn attach(
        &self,
        session: String,
        outbox: Outbox,
    ) -> Result<(AgentId, CancellationToken), DriverError> {
        self.ask(|reply| Command::Attach { session, outbox, reply }).await
    }

    /// Says that a session's stream ended.
    pub(crate) async fn detach(&self, session: String) {
        // An error means that the driver ended, and its sessions with it.
        let _ = self.commands.send(Command::Detach { session }).await;
    }

    /// Passes on how far an agent is.
    pub(crate) async fn progress(&self, agent: AgentId, lease: LeaseKey, progress: v1::TaskProgress) {
        // An error means that nobody is left to tell.
        let _ = self.commands.send(Command::Progress { agent, lease, progress: Box::new(progress) }).await;
    }

    /// Looks at what is durable.
    ///
    /// # Errors
    /// [`DriverError::Stopped`].
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        look: impl FnOnce(&View<'_>) -> T + Send + 'static,
    ) -> Result<T, DriverError> {
        self.ask(|reply| {
            Command::Read(Box::new(move |view| {
                // An error means that who asked has gone.
                let _ = reply.send(Ok(look(view)));
            }))
        })
        .await
    }

    /// Those of the chunks that are durable already.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(crate) async fn committed(
        &self,
        chunks: Vec<ChunkId>,
    ) -> Result<std::collections::BTreeSet<ChunkId>, DriverError> {
        self.read(move |view| view.journal.committed(&chunks)).await?.map_err(|error| DriverError::from(&error))
    }

    /// Ends the loop, once all that was asked before is done and the journal is one file.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(crate) async fn stop(&self) -> Result<(), DriverError> {
        self.ask(|reply| Command::Stop { reply }).await
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, DriverError> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| DriverError::Stopped)?;
        answer.await.map_err(|_| DriverError::Stopped)?
    }
}

async fn run(
    mut state: State,
    mut queue: mpsc::Receiver<Command>,
    clock: Arc<dyn Clock>,
    abandoned: CancellationToken,
) -> Result<(), CoordinatorError> {
    let mut next_tick = Timestamp::default();
    loop {
        let deadline = state.next_deadline().map(|deadline| deadline.max(next_tick));
        let mut batch = Vec::new();
        tokio::select! {
            biased;
            () = abandoned.cancelled() => return Ok(()),
            received = queue.recv_many(&mut batch, BATCH_COMMANDS) => if received == 0 { return Ok(()) },
            () = due(clock.as_ref(), deadline) => {}
        }
        let now = clock.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            batch.push(Command::Step { event: Event::Tick, reply: None });
            next_tick = now.after_ns(nanoseconds(TICK_GAP));
        }
        let worked = tokio::task::spawn_blocking(move || {
            let goes_on = state.work(now, batch);
            (state, goes_on)
        });
        let (returned, goes_on) =
            worked.await.map_err(|error| CoordinatorError::Stopped { what: "driver", reason: error.to_string() })?;
        state = returned;
        if !goes_on? {
            return Ok(());
        }
    }
}

/// Ends at the deadline, or never where there is none.
async fn due(clock: &dyn Clock, deadline: Option<Timestamp>) {
    match deadline {
        Some(deadline) => clock.wait_until(deadline).await,
        None => std::future::pending().await,
    }
}
