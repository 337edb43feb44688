//! A scripted agent and a user, over real gRPC.

use std::net::SocketAddr;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::row::{ROW_SCHEMA_VERSION, Row};
use fleetcal_proto::auth::ClientAuth;
use fleetcal_proto::rows::{encode_batches, schema_message};
use fleetcal_proto::v1;
use fleetcal_proto::v1::agent_message::Body;
use fleetcal_proto::v1::control_client::ControlClient;
use fleetcal_proto::v1::session_client::SessionClient;
use fleetcal_proto::v1::upload_request::Body as UploadBody;
use fleetcal_proto::v1::upload_response::Body as Answer;
use fleetcal_proto::version::supported;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

type Intercepted = InterceptedService<Channel, ClientAuth>;

pub(crate) async fn channel(address: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{address}")).expect("an address").connect().await.expect("it listens")
}

pub(crate) async fn control(address: SocketAddr) -> ControlClient<Intercepted> {
    ControlClient::with_interceptor(channel(address).await, ClientAuth::new(None).expect("no token"))
}

pub(crate) async fn session(address: SocketAddr) -> SessionClient<Intercepted> {
    SessionClient::with_interceptor(channel(address).await, ClientAuth::new(None).expect("no token"))
}

pub(crate) fn hello(agent: &str, devices: &[DeviceFacts]) -> v1::HelloRequest {
    v1::HelloRequest {
        versions: Some(supported()),
        roles: vec![v1::Role::Agent as i32],
        agent_id: agent.to_owned(),
        node: "node".to_owned(),
        host: "host".to_owned(),
        agent_version: "0.0.0".to_owned(),
        devices: devices.iter().map(v1::DeviceFacts::from).collect(),
        ..v1::HelloRequest::default()
    }
}

/// An agent of one device, attached.
pub(crate) struct FakeAgent {
    pub(crate) name: String,
    pub(crate) device: DeviceFacts,
    pub(crate) welcome: v1::HelloResponse,
    client: SessionClient<Intercepted>,
    outgoing: mpsc::Sender<v1::AgentMessage>,
    pub(crate) incoming: Streaming<v1::CoordinatorMessage>,
}

impl FakeAgent {
    pub(crate) async fn join(address: SocketAddr, name: &str) -> Self {
        Self::join_holding(address, name, Vec::new()).await
    }

    pub(crate) async fn join_holding(address: SocketAddr, name: &str, held: Vec<v1::HeldLease>) -> Self {
        let device = crate::rows::device(&format!("SIM-{name}"));
        let mut client = session(address).await;
        let hello = v1::HelloRequest { held, ..hello(name, std::slice::from_ref(&device)) };
        let welcome = client.hello(hello).await.expect("let in").into_inner();
        let (outgoing, messages) = mpsc::channel(16);
        let incoming = client.attach(ReceiverStream::new(messages)).await.expect("attached").into_inner();
        let agent = Self { name: name.to_owned(), device, welcome, client, outgoing, incoming };
        agent.send(Body::Heartbeat(v1::Heartbeat::default())).await;
        agent
    }

    pub(crate) async fn send(&self, body: Body) {
        let message = v1::AgentMessage { session_id: self.welcome.session_id.clone(), body: Some(body) };
        self.outgoing.send(message).await.expect("the stream is open");
    }

    /// Asks for work until there is some.
    pub(crate) async fn work(&mut self) -> v1::Task {
        loop {
            let idle_device_uuids = vec![self.device.uuid.as_str().to_owned()];
            self.send(Body::WorkRequest(v1::WorkRequest { idle_device_uuids })).await;
            match self.incoming.message().await.expect("the stream is whole").expect("it goes on").body {
                Some(v1::coordinator_message::Body::Grant(task)) => return task,
                Some(v1::coordinator_message::Body::NoWork(_)) => {
                    // Answered only once there is work: the nudge.
                    self.incoming.message().await.expect("the stream is whole").expect("it goes on");
                }
                other => panic!("neither work nor none: {other:?}"),
            }
        }
    }

    pub(crate) async fn end(&self, task: &v1::Task) {
        self.end_as(task, v1::TaskOutcome::Done).await;
    }

    pub(crate) async fn end_as(&self, task: &v1::Task, outcome: v1::TaskOutcome) {
        let outcome = outcome as i32;
        let lease = Some(held(task));
        self.send(Body::Ended(v1::TaskEnded { lease, outcome, ..v1::TaskEnded::default() })).await;
    }

    /// Measures a task, uploads its rows as one chunk, and ends it.
    pub(crate) async fn complete(&mut self, task: &v1::Task) {
        let rows = crate::rows::measured(task, &self.name, &self.device, 1.0);
        let answers = self.upload(vec![chunk(&format!("chunk-{}", task.task_id), task, &rows)]).await.expect("stored");
        assert!(matches!(answers[..], [Answer::Acknowledged(_)]), "not acknowledged: {answers:?}");
        self.end(task).await;
    }

    /// Uploads chunks on a stream of their own; the answers to all of them.
    pub(crate) async fn upload(&mut self, chunks: Vec<v1::Chunk>) -> Result<Vec<Answer>, Status> {
        let start = v1::UploadStart {
            session_id: self.welcome.session_id.clone(),
            agent_id: self.name.clone(),
            row_schema_version: ROW_SCHEMA_VERSION,
            schema: schema_message().expect("our schema"),
        };
        self.upload_after(start, chunks).await
    }

    pub(crate) async fn upload_after(
        &mut self,
        start: v1::UploadStart,
        chunks: Vec<v1::Chunk>,
    ) -> Result<Vec<Answer>, Status> {
        let bodies = std::iter::once(UploadBody::Start(start)).chain(chunks.into_iter().map(UploadBody::Chunk));
        let requests: Vec<_> = bodies.map(|body| v1::UploadRequest { body: Some(body) }).collect();
        let mut stream = self.client.upload(tokio_stream::iter(requests)).await?.into_inner();
        let mut answers = Vec::new();
        while let Some(answer) = stream.message().await? {
            answers.push(answer.body.expect("an answer says something"));
        }
        Ok(answers)
    }
}

pub(crate) fn held(task: &v1::Task) -> v1::HeldLease {
    v1::HeldLease { task_id: task.task_id.clone(), attempt: task.attempt, epoch: task.epoch }
}

pub(crate) fn chunk(id: &str, task: &v1::Task, rows: &[Row]) -> v1::Chunk {
    v1::Chunk {
        chunk_id: id.to_owned(),
        segments: vec![v1::Segment { lease: Some(held(task)), rows: rows.len() as u64 }],
        record_batches: encode_batches(rows).expect("rows of our schema"),
    }
}
