//! The session's side of its connection: dialling, what is said when it stands, and what its end means.

use fleetcal_model::id::{ChunkId, TaskId};
use fleetcal_proto::convert::Lease;
use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1::{self, agent_message};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};
use tokio_util::task::AbortOnDropHandle;

use super::backoff::LONGEST;
use super::link::{Connected, Dial, LinkEnd, LinkError, LinkReport, Reports};
use super::{Session, wire};
use crate::error::AgentError;

/// Shortest time between heartbeats, whatever the coordinator says.
const HEARTBEAT_MIN: Duration = Duration::from_millis(50);

/// Where the connection stands. Its task ends when this is dropped.
#[derive(Debug)]
pub(super) enum Connection {
    /// There is none, and nobody tries.
    None,
    /// One is being made.
    Dialling(AbortOnDropHandle<()>),
    /// It stands.
    Up(Up),
}

/// A connection that stands.
#[derive(Debug)]
pub(super) struct Up {
    session_id: String,
    /// None once goodbye was said.
    outgoing: Option<mpsc::Sender<v1::AgentMessage>>,
    pub(super) uploads: mpsc::UnboundedSender<ChunkId>,
    heartbeat_interval: Duration,
    pub(super) heartbeat_at: Instant,
    since: Instant,
    _task: AbortOnDropHandle<()>,
}

impl Connection {
    /// The connection, if it stands.
    pub(super) fn up(&self) -> Option<&Up> {
        match self {
            Self::Up(up) => Some(up),
            Self::None | Self::Dialling(_) => None,
        }
    }

    fn up_mut(&mut self) -> Option<&mut Up> {
        match self {
            Self::Up(up) => Some(up),
            Self::None | Self::Dialling(_) => None,
        }
    }
}

impl Up {
    /// Says something, unless too much waits to be said already.
    ///
    /// # Errors
    /// The coordinator does not read.
    pub(super) fn try_send(&self, body: agent_message::Body) -> Result<(), LinkError> {
        let message = v1::AgentMessage { session_id: self.session_id.clone(), body: Some(body) };
        match &self.outgoing {
            Some(outgoing) => match outgoing.try_send(message) {
                // A stream that has ended says so itself.
                Ok(()) | Err(mpsc::error::TrySendError::Closed(_)) => Ok(()),
                Err(mpsc::error::TrySendError::Full(_)) => Err(LinkError::Stuck),
            },
            None => Ok(()),
        }
    }
}

impl Session {
    /// Begins a connection, after the wait that is due.
    pub(super) fn dial(&mut self) {
        self.links += 1;
        // The first try comes at once.
        let wait = if self.links == 1 { Duration::ZERO } else { self.backoff.next_wait() };
        let dial = Dial {
            wait,
            endpoint: self.setup.endpoint.clone(),
            auth: self.setup.auth.clone(),
            hello: wire::hello(&self.setup, &self.leases.to_claim()),
            chunks: self.setup.spool.chunks.clone(),
            reports: Reports { session: self.inputs.clone(), link: self.links },
        };
        self.connection = Connection::Dialling(AbortOnDropHandle::new(tokio::spawn(dial.run())));
    }

    pub(super) fn take_report(&mut self, report: LinkReport, now: Instant) {
        match report {
            LinkReport::Connected(connected) => self.connected(*connected, now),
            LinkReport::Told(body) => self.take_order(*body, now),
            LinkReport::Acknowledged(chunk) => {
                self.chunks.remove(&chunk);
                self.leases.acknowledged(&chunk);
            }
            LinkReport::SetAside { chunk, reason } => {
                self.chunks.remove(&chunk);
                self.leases.spoiled(&chunk, &reason);
            }
            LinkReport::Ended(LinkEnd(error)) => self.link_ended(&error, now),
        }
    }

    fn connected(&mut self, connected: Connected, now: Instant) {
        let Connected { welcome, outgoing, uploads } = connected;
        let Connection::Dialling(task) = std::mem::replace(&mut self.connection, Connection::None) else { return };
        let (coordinator, version) = (&self.setup.coordinator, &welcome.coordinator_version);
        tracing::info!(%coordinator, %version, "connected to the coordinator");
        self.trouble = None;
        self.ask_at = now;
        self.leases.tell_again();
        for v1::HeldLease { task_id, attempt, epoch } in welcome.lost {
            if self.leases.lost(&Lease { task_id: TaskId::new(task_id.clone()), attempt, epoch }) {
                tracing::warn!(task = %task_id, attempt, "the lease of a task was lost meanwhile: it is stopped");
            }
        }
        for chunk in &self.chunks {
            let _ = uploads.send(chunk.clone());
        }
        let heartbeat_interval = Duration::from_millis(welcome.heartbeat_interval_ms).max(HEARTBEAT_MIN);
        self.connection = Connection::Up(Up {
            session_id: welcome.session_id,
            outgoing: Some(outgoing),
            uploads,
            heartbeat_interval,
            heartbeat_at: now + heartbeat_interval,
            since: now,
            _task: task,
        });
    }

    /// A connection is over: the next one is dialled, unless the coordinator can never be worked with.
    fn link_ended(&mut self, error: &LinkError, now: Instant) {
        let lived = self.connection.up().map_or(Duration::ZERO, |up| now.saturating_duration_since(up.since));
        if lived >= LONGEST {
            self.backoff.reset();
        }
        self.connection = Connection::None;
        if self.stopping.is_some() {
            return;
        }
        let (coordinator, reason) = (self.setup.coordinator.clone(), error.to_string());
        let kind = error.kind();
        if kind == ErrorKind::VersionMismatch {
            self.begin_stopping(Some(AgentError::Version { coordinator, reason }), now);
        } else if kind == ErrorKind::Unauthenticated {
            self.begin_stopping(Some(AgentError::Refused { coordinator, reason }), now);
        } else if self.trouble.replace(kind) != Some(kind) {
            // Said once; then only if something else is the matter.
            tracing::warn!(%coordinator, %reason, "no coordinator: trying again until there is one");
        } else {
            tracing::debug!(%coordinator, %reason, "still no coordinator");
        }
    }

    /// Says something; gives up a connection that does not take it.
    pub(super) fn send(&mut self, body: agent_message::Body, now: Instant) {
        if let Some(Err(error)) = self.connection.up().map(|up| up.try_send(body)) {
            self.link_ended(&error, now);
        }
    }

    /// Renews leases when it is time.
    pub(super) fn renew_leases(&mut self, now: Instant) {
        let Some(up) = self.connection.up_mut().filter(|up| now >= up.heartbeat_at) else { return };
        up.heartbeat_at = now + up.heartbeat_interval;
        let held = self.leases.to_renew();
        self.send(wire::heartbeat(&held), now);
    }

    /// Tells the ends of tasks whose rows are all acknowledged.
    pub(super) fn tell_endings(&mut self, now: Instant) {
        if self.connection.up().is_some() {
            for due in self.leases.take_due(now) {
                self.send(wire::ended(due), now);
            }
        }
    }

    /// Says goodbye, and nothing after it.
    pub(super) fn end_stream(&mut self) {
        if let Some(up) = self.connection.up_mut() {
            let _ = up.try_send(agent_message::Body::Goodbye(v1::Goodbye {}));
            up.outgoing = None;
        }
    }
}
