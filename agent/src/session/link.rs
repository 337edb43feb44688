//! One connection to the coordinator: hello, then the stream of work and the stream of rows. It ends as a whole.

use std::time::Duration;

use fleetcal_model::id::ChunkId;
use fleetcal_proto::auth::ClientAuth;
use fleetcal_proto::status::{ErrorKind, error_kind};
use fleetcal_proto::v1::session_client::SessionClient;
use fleetcal_proto::v1::{self, VersionRange, agent_message, coordinator_message};
use fleetcal_proto::version::{VersionMismatch, negotiate, supported};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

use super::SessionInput;
use super::upload::Upload;
use crate::spool::folder::ChunkFolder;

/// Hello and both streams have to stand within this.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// A peer that is gone without a word is found out within two of these.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Messages that may wait: more, and the coordinator has stopped reading.
const MESSAGES_WAITING: usize = 1024;

pub(super) type Client = SessionClient<InterceptedService<Channel, ClientAuth>>;

/// Why a connection did not come about, or ended.
#[derive(Debug, thiserror::Error)]
pub(super) enum LinkError {
    /// Nobody answers there.
    #[error("it cannot be reached: {0}")]
    Unreachable(String),
    /// It answers, but too slowly.
    #[error("it did not answer within {} s", CONNECT_WITHIN.as_secs())]
    Slow,
    /// It refused a call or ended a stream with an error.
    #[error("it said: {}", .0.message())]
    Call(Box<Status>),
    /// It speaks no version that this agent speaks.
    #[error(transparent)]
    Version(#[from] VersionMismatch),
    /// It ended the stream.
    #[error("it ended the session")]
    Closed,
    /// It does not read what it is sent.
    #[error("it stopped reading")]
    Stuck,
    /// The rows' schema cannot be written.
    #[error("rows cannot be sent: {0}")]
    Rows(#[from] fleetcal_proto::rows::RowsError),
}

impl From<Status> for LinkError {
    fn from(status: Status) -> Self {
        Self::Call(Box::new(status))
    }
}

impl LinkError {
    /// What kind of trouble it is: told to people when it changes.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::Unreachable(_) | Self::Slow | Self::Closed | Self::Stuck => ErrorKind::Unavailable,
            // A connection that breaks within a call is no fault of the coordinator's: it has gone.
            Self::Call(status) if error_kind(status) == ErrorKind::Internal => ErrorKind::Unavailable,
            Self::Call(status) => error_kind(status),
            Self::Version(_) => ErrorKind::VersionMismatch,
            Self::Rows(_) => ErrorKind::Internal,
        }
    }
}

/// What a connection tells the session.
#[derive(Debug)]
pub(crate) enum LinkReport {
    /// It stands.
    Connected(Box<Connected>),
    /// The coordinator said something.
    Told(Box<coordinator_message::Body>),
    /// A chunk is durable there, and removed here.
    Acknowledged(ChunkId),
    /// A chunk was set aside.
    SetAside {
        /// Which.
        chunk: ChunkId,
        /// Why.
        reason: String,
    },
    /// It is over, or never came about.
    Ended(LinkEnd),
}

/// Opaque to all but the session.
#[derive(Debug)]
pub(crate) struct LinkEnd(pub(super) LinkError);

/// A connection that stands.
#[derive(Debug)]
pub(crate) struct Connected {
    /// The coordinator's answer to the hello.
    pub(super) welcome: v1::HelloResponse,
    /// Messages to it.
    pub(super) outgoing: mpsc::Sender<v1::AgentMessage>,
    /// Chunks to upload, in this order.
    pub(super) uploads: mpsc::UnboundedSender<ChunkId>,
}

/// Where a connection's reports go; the session tells connections apart by their number.
#[derive(Debug, Clone)]
pub(super) struct Reports {
    pub(super) session: mpsc::Sender<SessionInput>,
    pub(super) link: u64,
}

impl Reports {
    pub(super) async fn send(&self, report: LinkReport) {
        // A session that is gone listens to nobody.
        let _ = self.session.send(SessionInput::Link { link: self.link, report }).await;
    }
}

/// A connection to be made.
#[derive(Debug)]
pub(super) struct Dial {
    pub(super) wait: Duration,
    pub(super) endpoint: Endpoint,
    pub(super) auth: ClientAuth,
    pub(super) hello: v1::HelloRequest,
    pub(super) chunks: ChunkFolder,
    pub(super) reports: Reports,
}

impl Dial {
    /// Waits, connects, and carries messages until the connection ends. Its last report says why it did.
    pub(super) async fn run(self) {
        sleep(self.wait).await;
        let reports = self.reports.clone();
        let error = match timeout(CONNECT_WITHIN, self.connect()).await {
            Ok(Ok((link, connected))) => {
                reports.send(LinkReport::Connected(Box::new(connected))).await;
                link.carry(&reports).await
            }
            Ok(Err(error)) => error,
            Err(_) => LinkError::Slow,
        };
        reports.send(LinkReport::Ended(LinkEnd(error))).await;
    }

    async fn connect(self) -> Result<(Link, Connected), LinkError> {
        let endpoint = self
            .endpoint
            .connect_timeout(CONNECT_WITHIN)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .keep_alive_timeout(KEEP_ALIVE)
            .keep_alive_while_idle(true);
        let channel = endpoint.connect().await.map_err(|error| LinkError::Unreachable(causes(&error)))?;
        let mut client = SessionClient::with_interceptor(channel, self.auth);
        let agent_id = self.hello.agent_id.clone();
        let mut held = self.hello.held.clone();
        let welcome = client.hello(self.hello).await?.into_inner();
        negotiate(VersionRange { min: welcome.version, max: welcome.version }, supported())?;

        held.retain(|lease| !welcome.lost.contains(lease));
        let (outgoing, told) = attach(&mut client, &welcome.session_id, held).await?;
        let upload = Upload::start(&mut client, welcome.session_id.clone(), agent_id, self.chunks).await?;
        let (uploads, orders) = mpsc::unbounded_channel();
        Ok((Link { told, upload, orders }, Connected { welcome, outgoing, uploads }))
    }
}

/// Opens the stream of work. Its first message is sent along, because the coordinator may answer only to that.
async fn attach(
    client: &mut Client,
    session_id: &str,
    held: Vec<v1::HeldLease>,
) -> Result<(mpsc::Sender<v1::AgentMessage>, Streaming<v1::CoordinatorMessage>), LinkError> {
    let (outgoing, messages) = mpsc::channel(MESSAGES_WAITING);
    let heartbeat = agent_message::Body::Heartbeat(v1::Heartbeat { held });
    let first = v1::AgentMessage { session_id: session_id.to_owned(), body: Some(heartbeat) };
    outgoing.try_send(first).map_err(|_| LinkError::Stuck)?;
    let told = client.attach(ReceiverStream::new(messages)).await?.into_inner();
    Ok((outgoing, told))
}

/// The streams of a connection that stands.
struct Link {
    told: Streaming<v1::CoordinatorMessage>,
    upload: Upload,
    orders: mpsc::UnboundedReceiver<ChunkId>,
}

impl Link {
    async fn carry(self, reports: &Reports) -> LinkError {
        let Self { told, upload, orders } = self;
        tokio::select! {
            error = listen(told, reports) => error,
            error = upload.carry(orders, reports) => error,
        }
    }
}

async fn listen(mut told: Streaming<v1::CoordinatorMessage>, reports: &Reports) -> LinkError {
    loop {
        match told.message().await {
            // A message that this version does not know has no body: a newer coordinator may send one.
            Ok(Some(v1::CoordinatorMessage { body: None })) => {}
            Ok(Some(v1::CoordinatorMessage { body: Some(body) })) => {
                reports.send(LinkReport::Told(Box::new(body))).await
            }
            Ok(None) => return LinkError::Closed,
            Err(status) => return status.into(),
        }
    }
}

/// An error with what caused it: the transport's own sentence alone is `transport error`.
fn causes(error: &dyn std::error::Error) -> String {
    let mut sentence = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let text = inner.to_string();
        if !sentence.ends_with(&text) {
            sentence = format!("{sentence}: {text}");
        }
        cause = inner.source();
    }
    sentence
}
