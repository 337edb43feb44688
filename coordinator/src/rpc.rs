//! Both gRPC services. Wire in, events out; nothing is decided here.

mod control;
mod session;

use fleetcal_proto::auth::{LoopbackOnly, ServerAuth};
use fleetcal_proto::v1::control_server::ControlServer;
use fleetcal_proto::v1::session_server::SessionServer;
use tonic::service::interceptor::InterceptedService;

pub(crate) use control::Control;
pub(crate) use session::Session;

#[cfg(test)]
mod tests;

/// Largest message that is read: a chunk, and a hello with a thousand devices many times over.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Largest answer that is sent: the documents of a large fleet.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// A service behind the authentication that every call passes.
type Guarded<S> = InterceptedService<S, ServerAuth>;

/// The agents' service, guarded.
pub(crate) fn session_server(session: Session) -> Guarded<SessionServer<Session>> {
    let server = SessionServer::new(session).max_decoding_message_size(MESSAGE_BYTES_MAX);
    InterceptedService::new(server.max_encoding_message_size(ANSWER_BYTES_MAX), ServerAuth::new(LoopbackOnly))
}

/// The users' service, guarded.
pub(crate) fn control_server(control: Control) -> Guarded<ControlServer<Control>> {
    let server = ControlServer::new(control).max_decoding_message_size(MESSAGE_BYTES_MAX);
    InterceptedService::new(server.max_encoding_message_size(ANSWER_BYTES_MAX), ServerAuth::new(LoopbackOnly))
}
