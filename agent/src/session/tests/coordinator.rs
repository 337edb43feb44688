//! A coordinator that does nothing by itself: tests see what it is told, and say what it answers.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use fleetcal_proto::v1::agent_message::Body;
use fleetcal_proto::v1::session_server::{Session, SessionServer};
use fleetcal_proto::v1::{self, coordinator_message, upload_request, upload_response};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_stream::Stream;
use tokio_stream::wrappers::{TcpListenerStream, UnboundedReceiverStream};
use tokio_util::task::AbortOnDropHandle;
use tonic::{Request, Response, Status, Streaming};

use crate::testing::next;

type Answers<T> = UnboundedSender<Result<T, Status>>;
type AnswerStream<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// What an agent did.
#[derive(Debug)]
pub(super) enum Seen {
    Hello(Box<v1::HelloRequest>),
    Attached(Answers<v1::CoordinatorMessage>),
    Message(Body),
    Uploading(Box<v1::UploadStart>, Answers<v1::UploadResponse>),
    Chunk(v1::Chunk),
    /// The agent ended its stream of work.
    Detached,
}

/// How a hello is answered.
pub(super) type Welcome = Result<Vec<v1::HeldLease>, Status>;

#[derive(Clone)]
struct Service {
    seen: UnboundedSender<Seen>,
    welcome: Arc<Mutex<Welcome>>,
}

/// The test's end of it.
pub(super) struct Coordinator {
    pub(super) address: SocketAddr,
    pub(super) seen: UnboundedReceiver<Seen>,
    welcome: Arc<Mutex<Welcome>>,
    work: Option<Answers<v1::CoordinatorMessage>>,
    uploads: Option<Answers<v1::UploadResponse>>,
    _server: AbortOnDropHandle<()>,
}

impl Coordinator {
    /// Starts one on a free port of this machine.
    pub(super) async fn start() -> Self {
        Self::start_on(TcpListener::bind("127.0.0.1:0").await.expect("a port is free"))
    }

    pub(super) fn start_on(listener: TcpListener) -> Self {
        let address = listener.local_addr().expect("it is bound");
        let (sender, seen) = mpsc::unbounded_channel();
        let welcome = Arc::new(Mutex::new(Ok(Vec::new())));
        let service = Service { seen: sender, welcome: Arc::clone(&welcome) };
        let serving = tonic::transport::Server::builder()
            .add_service(SessionServer::new(service))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let server = tokio::spawn(async move { serving.await.expect("it serves until it is dropped") });
        let _server = AbortOnDropHandle::new(server);
        Self { address, seen, welcome, work: None, uploads: None, _server }
    }

    /// Answers later hellos like this: the leases that are lost, or an error.
    pub(super) fn answer_hello(&self, welcome: Welcome) {
        *self.welcome.lock().expect("no test panicked meanwhile") = welcome;
    }

    /// Waits for what a test is interested in; heartbeats and progress pass by.
    pub(super) async fn next(&mut self, what: &str) -> Seen {
        loop {
            match next(what, &mut self.seen).await {
                Seen::Message(Body::Heartbeat(_) | Body::Progress(_)) => {}
                other => return other,
            }
        }
    }

    /// Takes a new session: hello and both streams. What was said in the session before passes by.
    pub(super) async fn accept(&mut self) -> v1::HelloRequest {
        let hello = loop {
            if let Seen::Hello(hello) = self.next("a hello").await {
                break *hello;
            }
        };
        loop {
            match self.next("the streams of a session").await {
                Seen::Attached(work) => self.work = Some(work),
                Seen::Uploading(start, uploads) => {
                    assert!(!start.schema.is_empty(), "the schema comes first");
                    self.uploads = Some(uploads);
                    return hello;
                }
                Seen::Detached | Seen::Message(_) => {}
                other => panic!("not the beginning of a session: {other:?}"),
            }
        }
    }

    /// Acknowledges chunks until a task ends: the rows that came, and the end.
    pub(super) async fn finish(&mut self) -> (u64, v1::TaskEnded) {
        let mut rows = 0;
        loop {
            match self.next("the end of the task").await {
                Seen::Chunk(chunk) => {
                    rows += chunk.segments.iter().map(|segment| segment.rows).sum::<u64>();
                    self.acknowledge(&chunk);
                }
                Seen::Message(Body::Ended(ended)) => return (rows, ended),
                Seen::Message(Body::WorkRequest(_)) | Seen::Detached => {}
                other => panic!("nothing else is to be told: {other:?}"),
            }
        }
    }

    /// The devices of the next request for work.
    pub(super) async fn work_request(&mut self) -> Vec<String> {
        match self.next("a request for work").await {
            Seen::Message(Body::WorkRequest(request)) => request.idle_device_uuids,
            other => panic!("not a request for work: {other:?}"),
        }
    }

    pub(super) async fn chunk(&mut self) -> v1::Chunk {
        match self.next("a chunk").await {
            Seen::Chunk(chunk) => chunk,
            other => panic!("not a chunk: {other:?}"),
        }
    }

    pub(super) async fn ended(&mut self) -> v1::TaskEnded {
        match self.next("the end of a task").await {
            Seen::Message(Body::Ended(ended)) => ended,
            other => panic!("not the end of a task: {other:?}"),
        }
    }

    /// Waits until the agent has had every chance to say something: two more heartbeats, and nothing else.
    pub(super) async fn quiet(&mut self, why: &str) {
        let mut heartbeats = 0;
        while heartbeats < 2 {
            match next("a heartbeat", &mut self.seen).await {
                Seen::Message(Body::Heartbeat(_)) => heartbeats += 1,
                Seen::Message(Body::Progress(_)) => {}
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    pub(super) fn tell(&self, body: coordinator_message::Body) {
        let work = self.work.as_ref().expect("an agent is attached");
        work.send(Ok(v1::CoordinatorMessage { body: Some(body) })).expect("the agent listens");
    }

    pub(super) fn acknowledge(&self, chunk: &v1::Chunk) {
        let acknowledged = v1::ChunkAcknowledged { chunk_id: chunk.chunk_id.clone() };
        self.answer_upload(upload_response::Body::Acknowledged(acknowledged));
    }

    pub(super) fn answer_upload(&self, body: upload_response::Body) {
        let uploads = self.uploads.as_ref().expect("an agent uploads");
        uploads.send(Ok(v1::UploadResponse { body: Some(body) })).expect("the agent listens");
    }

    /// Breaks both streams, as a coordinator that dies does.
    pub(super) fn break_streams(&mut self) {
        (self.work, self.uploads) = (None, None);
    }
}

/// Answers end when the test drops its sender.
fn answers<T: Send + 'static>() -> (Answers<T>, Response<AnswerStream<T>>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Response::new(Box::pin(UnboundedReceiverStream::new(receiver))))
}

#[tonic::async_trait]
impl Session for Service {
    async fn hello(&self, request: Request<v1::HelloRequest>) -> Result<Response<v1::HelloResponse>, Status> {
        let _ = self.seen.send(Seen::Hello(Box::new(request.into_inner())));
        let lost = self.welcome.lock().expect("no test panicked meanwhile").clone()?;
        Ok(Response::new(v1::HelloResponse {
            version: 1,
            session_id: "session-1".into(),
            coordinator_version: "test".into(),
            heartbeat_interval_ms: 50,
            lease_ms: 10_000,
            lost,
        }))
    }

    type AttachStream = AnswerStream<v1::CoordinatorMessage>;

    async fn attach(
        &self,
        request: Request<Streaming<v1::AgentMessage>>,
    ) -> Result<Response<Self::AttachStream>, Status> {
        let mut messages = request.into_inner();
        let first = messages.message().await?.ok_or_else(|| Status::aborted("no first message"))?;
        if first.session_id != "session-1" {
            return Err(Status::aborted("the first message does not carry the session"));
        }
        let (work, response) = answers();
        let seen = self.seen.clone();
        let _ = seen.send(Seen::Attached(work));
        tokio::spawn(async move {
            while let Ok(Some(message)) = messages.message().await {
                if let Some(body) = message.body {
                    let _ = seen.send(Seen::Message(body));
                }
            }
            let _ = seen.send(Seen::Detached);
        });
        Ok(response)
    }

    type UploadStream = AnswerStream<v1::UploadResponse>;

    async fn upload(
        &self,
        request: Request<Streaming<v1::UploadRequest>>,
    ) -> Result<Response<Self::UploadStream>, Status> {
        let mut requests = request.into_inner();
        let Some(v1::UploadRequest { body: Some(upload_request::Body::Start(start)) }) = requests.message().await?
        else {
            return Err(Status::aborted("the schema does not come first"));
        };
        let (uploads, response) = answers();
        let seen = self.seen.clone();
        let _ = seen.send(Seen::Uploading(Box::new(start), uploads));
        tokio::spawn(async move {
            while let Ok(Some(v1::UploadRequest { body: Some(upload_request::Body::Chunk(chunk)) })) =
                requests.message().await
            {
                let _ = seen.send(Seen::Chunk(chunk));
            }
        });
        Ok(response)
    }
}
