//! The agents' service: hello, work, rows.

use std::time::Duration;

use fleetcal_core::event::{AgentIdentity, Event, LeaseKey, TaskEnd};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{AgentId, DeviceId};
use fleetcal_model::row::ROW_SCHEMA_VERSION;
use fleetcal_proto::convert::{ConvertError, Lease, enumeration};
use fleetcal_proto::rows::Decoder;
use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1;
use fleetcal_proto::v1::agent_message::Body;
use fleetcal_proto::version::{negotiate, supported};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, UnboundedReceiverStream};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status, Streaming};

use crate::convert::{lease_key, wire_lease};
use crate::driver::{Driver, DriverError, Outbox, Welcome, outbox};
use crate::ingest::{Answers, Ingest};

/// An agent whose request could not be journalled asks again after this long.
const RETRY_AFTER_FULL_MS: u64 = 5_000;

/// The service of agents.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) driver: Driver,
    pub(crate) ingest: Ingest,
    pub(crate) lease: Duration,
    pub(crate) heartbeat: Duration,
    /// Cancelled when the coordinator stops.
    pub(crate) stop: CancellationToken,
    /// Everything that runs for a stream.
    pub(crate) streams: TaskTracker,
}

#[tonic::async_trait]
impl v1::session_server::Session for Session {
    type AttachStream = ReceiverStream<Result<v1::CoordinatorMessage, Status>>;
    type UploadStream = UnboundedReceiverStream<Result<v1::UploadResponse, Status>>;

    async fn hello(&self, request: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let hello = request.into_inner();
        // First: a hello of another version may mean something else by every other field.
        let version = negotiate(hello.versions.unwrap_or_default(), supported())?;
        if !hello.roles().any(|role| role == v1::Role::Agent) {
            return Err(
                ErrorKind::InvalidRequest.status("only agents say hello: the role is missing from HelloRequest.roles")
            );
        }
        let held = leases(hello.held.clone())?;
        let identity = identity(hello)?;
        tracing::info!(agent = %identity.agent, node = identity.node, devices = identity.devices.len(), "agent joined");
        let Welcome { session, lost } = self.driver.join(identity, held).await?;
        Ok(Response::new(v1::HelloResponse {
            version,
            session_id: session,
            coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
            heartbeat_interval_ms: milliseconds(self.heartbeat),
            lease_ms: milliseconds(self.lease),
            lost: lost.into_iter().map(|key| (&wire_lease(key)).into()).collect(),
        }))
    }

    async fn attach(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let (outbox, inbox) = outbox();
        let attached = Attached { driver: self.driver.clone(), outbox: outbox.clone(), stop: self.stop.clone() };
        // The answer does not wait for the first message: a client may send it only after it has the answer.
        self.streams.spawn(async move {
            if let Err(status) = attached.serve(request.into_inner()).await {
                // An error means that the agent has gone, or reads nothing.
                let _ = outbox.try_send(Err(status));
            }
        });
        Ok(Response::new(ReceiverStream::new(inbox)))
    }

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let (answers, answered) = mpsc::unbounded_channel();
        let session = self.clone();
        self.streams.spawn(async move {
            if let Err(status) = session.receive(request.into_inner(), &answers).await {
                // An error means that the agent has gone.
                let _ = answers.send(Err(status));
            }
        });
        Ok(Response::new(UnboundedReceiverStream::new(answered)))
    }
}

impl Session {
    /// Reads an upload to its end.
    async fn receive(&self, mut inbound: Streaming<v1::UploadRequest>, answers: &Answers) -> Result<(), Status> {
        let mut decoder: Option<Decoder> = None;
        loop {
            let received = tokio::select! {
                received = inbound.message() => received?,
                () = self.stop.cancelled() => return Err(DriverError::Stopped.into()),
                // The answer ended, with an error of the writer or because the agent has gone.
                () = answers.closed() => return Ok(()),
            };
            let Some(message) = received else { return Ok(()) };
            match (message.body, &decoder) {
                (Some(v1::upload_request::Body::Start(start)), None) => decoder = Some(self.start(start).await?),
                (Some(v1::upload_request::Body::Chunk(chunk)), Some(decoder)) => {
                    self.ingest.chunk(decoder, chunk, answers).await?;
                }
                (Some(v1::upload_request::Body::Start(_)), Some(_)) => {
                    return Err(ErrorKind::InvalidRequest.status("an upload starts once"));
                }
                (Some(v1::upload_request::Body::Chunk(_)), None) => {
                    return Err(ErrorKind::InvalidRequest.status("an upload starts with its schema, then come chunks"));
                }
                (None, _) => return Err(empty("UploadRequest")),
            }
        }
    }

    /// Checks who uploads, and what.
    async fn start(&self, start: v1::UploadStart) -> Result<Decoder, Status> {
        let session = start.session_id;
        let agent = self.driver.read(move |view| view.sessions.agent(&session).cloned()).await?;
        let agent = agent.ok_or(DriverError::UnknownSession)?;
        if agent.as_str() != start.agent_id {
            let sentence = format!("the session is of agent {agent}, the upload says it is of {}", start.agent_id);
            return Err(ErrorKind::InvalidRequest.status(sentence));
        }
        if start.row_schema_version != ROW_SCHEMA_VERSION {
            return Err(ErrorKind::VersionMismatch.status(format!(
                "the agent's rows have schema version {}, this coordinator reads version {ROW_SCHEMA_VERSION}: upgrade \
                 the older side; rows that are spooled stay with the agent",
                start.row_schema_version
            )));
        }
        Decoder::new(&start.schema).map_err(|error| ErrorKind::VersionMismatch.status(error.to_string()))
    }
}

/// One agent's stream of work.
struct Attached {
    driver: Driver,
    outbox: Outbox,
    stop: CancellationToken,
}

impl Attached {
    /// Serves the stream to its end, and tells the driver of it.
    async fn serve(&self, mut inbound: Streaming<v1::AgentMessage>) -> Result<(), Status> {
        let first = tokio::select! {
            first = inbound.message() => first?.ok_or_else(|| empty("stream"))?,
            () = self.stop.cancelled() => return Err(DriverError::Stopped.into()),
        };
        let session = first.session_id.clone();
        let (agent, ended) = self.driver.attach(session.clone(), self.outbox.clone()).await?;
        let served = self.listen(&agent, first, &mut inbound, &ended).await;
        tracing::info!(%agent, "agent detached");
        self.driver.detach(session).await;
        served
    }

    async fn listen(
        &self,
        agent: &AgentId,
        first: v1::AgentMessage,
        inbound: &mut Streaming<v1::AgentMessage>,
        ended: &CancellationToken,
    ) -> Result<(), Status> {
        let mut message = first;
        loop {
            if !self.handle(agent, message).await? {
                return Ok(());
            }
            let received = tokio::select! {
                received = inbound.message() => received?,
                () = self.stop.cancelled() => return Err(DriverError::Stopped.into()),
                () = ended.cancelled() => return Err(DriverError::UnknownSession.into()),
                () = self.outbox.closed() => return Ok(()),
            };
            match received {
                Some(next) => message = next,
                None => return Ok(()),
            }
        }
    }

    /// Carries out one message. Answers whether the stream goes on.
    async fn handle(&self, agent: &AgentId, message: v1::AgentMessage) -> Result<bool, Status> {
        let agent = agent.clone();
        match message.body {
            Some(Body::Heartbeat(heartbeat)) => {
                let stepped = self.driver.step(Event::Heartbeat { agent, held: leases(heartbeat.held)? }).await;
                // A heartbeat needs no journal, and only shared a batch with what does.
                if !matches!(stepped, Err(DriverError::Full(_))) {
                    stepped?;
                }
            }
            Some(Body::WorkRequest(request)) => {
                let idle = request.idle_device_uuids.into_iter().map(DeviceId::new).collect();
                match self.driver.step(Event::WorkRequested { agent, idle }).await {
                    Err(DriverError::Full(sentence)) => self.refuse_work(&sentence),
                    stepped => drop(stepped?),
                }
            }
            Some(Body::Progress(progress)) => {
                let lease = lease(progress.lease.clone(), "TaskProgress.lease")?;
                self.driver.progress(agent, lease, progress).await;
            }
            Some(Body::Ended(ended)) => {
                let (lease, end) = task_end(ended)?;
                self.driver.step(Event::TaskEnded { agent, lease, end }).await?;
            }
            Some(Body::Goodbye(v1::Goodbye {})) => {
                self.driver.step(Event::AgentLeft { agent }).await?;
                return Ok(false);
            }
            None => return Err(empty("AgentMessage")),
        }
        Ok(true)
    }

    /// No lease can be journalled, so none is granted: the agent asks again.
    fn refuse_work(&self, sentence: &str) {
        tracing::warn!("no work is handed out: {sentence}");
        let body = Some(v1::coordinator_message::Body::NoWork(v1::NoWork { retry_ms: RETRY_AFTER_FULL_MS }));
        // An error means that the agent has gone, or reads nothing and will be detached.
        let _ = self.outbox.try_send(Ok(v1::CoordinatorMessage { body }));
    }
}

fn identity(hello: v1::HelloRequest) -> Result<AgentIdentity, Status> {
    if hello.agent_id.is_empty() {
        return Err(ErrorKind::InvalidRequest.status("field `HelloRequest.agent_id` of the message is missing"));
    }
    Ok(AgentIdentity {
        agent: AgentId::new(hello.agent_id),
        node: hello.node,
        host: hello.host,
        rack: hello.rack,
        version: hello.agent_version,
        devices: hello.devices.into_iter().map(DeviceFacts::try_from).collect::<Result<_, _>>()?,
        backend_notes: hello.backend_notes,
    })
}

fn task_end(ended: v1::TaskEnded) -> Result<(LeaseKey, TaskEnd), ConvertError> {
    let lease = lease(ended.lease, "TaskEnded.lease")?;
    let end = match enumeration::<v1::TaskOutcome>(ended.outcome, "TaskEnded.outcome")? {
        v1::TaskOutcome::Done => TaskEnd::Done { dropped: ended.dropped },
        v1::TaskOutcome::Released => TaskEnd::Released { reason: ended.reason },
        // `enumeration` refuses the unspecified one.
        v1::TaskOutcome::Failed | v1::TaskOutcome::Unspecified => {
            TaskEnd::Failed { reason: ended.reason, retry: ended.retry }
        }
    };
    Ok((lease, end))
}

fn leases(wire: Vec<v1::HeldLease>) -> Result<Vec<LeaseKey>, ConvertError> {
    wire.into_iter().map(|held| Lease::try_from(held).map(lease_key)).collect()
}

fn lease(wire: Option<v1::HeldLease>, field: &str) -> Result<LeaseKey, ConvertError> {
    Lease::required(wire, field).map(lease_key)
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn empty(message: &str) -> Status {
    ErrorKind::InvalidRequest.status(format!("the {message} is empty, or from a newer version"))
}
