//! Who may call. [`ServerAuth`] is asked on every call of both services; [`ClientAuth`] says who is calling.
//!
//! Today's policy is [`LoopbackOnly`]: whoever runs on this machine is let in, nobody else. A stricter policy is
//! another [`Authenticator`]; the services do not change.

use std::net::SocketAddr;
use std::sync::Arc;

use tonic::metadata::errors::InvalidMetadataValue;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::{Request, Status};

use crate::status::ErrorKind;

/// Metadata key of a caller's credentials: `Bearer TOKEN`.
pub const AUTHORIZATION_KEY: &str = "authorization";

/// Metadata key of the version of the calling binary, for logs.
pub const CALLER_VERSION_KEY: &str = "fleetcal-version";

/// A caller that is not let in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// The caller is on another machine, and nothing vouches for it.
    #[error(
        "callers from {peer} are not let in: this coordinator has no way yet to tell who they are, and lets in callers \
         on its own machine only. Call it from there, for example through `ssh -L`"
    )]
    NotLoopback {
        /// Where it calls from.
        peer: SocketAddr,
    },
    /// The transport does not say where the caller is.
    #[error("the caller's address is not known, and only callers on the coordinator's own machine are let in")]
    UnknownPeer,
}

impl From<AuthError> for Status {
    fn from(error: AuthError) -> Self {
        ErrorKind::Unauthenticated.status(error.to_string())
    }
}

/// Decides whether a call is let in.
pub trait Authenticator: Send + Sync + 'static {
    /// Looks at where a call comes from and what it carries.
    ///
    /// # Errors
    /// Why it is not let in; the sentence reaches the caller.
    fn authenticate(&self, peer: Option<SocketAddr>, metadata: &MetadataMap) -> Result<(), AuthError>;
}

/// Lets in callers on this machine, and nobody else.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoopbackOnly;

impl Authenticator for LoopbackOnly {
    fn authenticate(&self, peer: Option<SocketAddr>, _metadata: &MetadataMap) -> Result<(), AuthError> {
        match peer {
            // A dual-stack socket shows IPv4 callers as ::ffff:127.0.0.1.
            Some(peer) if peer.ip().to_canonical().is_loopback() => Ok(()),
            Some(peer) => Err(AuthError::NotLoopback { peer }),
            None => Err(AuthError::UnknownPeer),
        }
    }
}

/// The server's side of the hook: `SessionServer::with_interceptor(service, ServerAuth::new(LoopbackOnly))`.
#[derive(Clone)]
pub struct ServerAuth {
    authenticator: Arc<dyn Authenticator>,
}

impl ServerAuth {
    /// Asks this authenticator on every call.
    pub fn new(authenticator: impl Authenticator) -> Self {
        Self { authenticator: Arc::new(authenticator) }
    }
}

impl Interceptor for ServerAuth {
    fn call(&mut self, request: Request<()>) -> Result<Request<()>, Status> {
        self.authenticator.authenticate(request.remote_addr(), request.metadata())?;
        Ok(request)
    }
}

/// A token that cannot be sent.
#[derive(Debug, thiserror::Error)]
#[error("the token cannot be sent: it may hold visible ASCII characters only")]
pub struct TokenError(#[from] InvalidMetadataValue);

/// The client's side of the hook: `SessionClient::with_interceptor(channel, ClientAuth::new(None)?)`.
#[derive(Debug, Clone)]
pub struct ClientAuth {
    authorization: Option<MetadataValue<Ascii>>,
}

impl ClientAuth {
    /// Attaches the token, if there is one, to every call. It is never shown, in logs or elsewhere.
    ///
    /// # Errors
    /// The token holds characters that a header cannot carry.
    pub fn new(token: Option<&str>) -> Result<Self, TokenError> {
        let authorization = match token {
            Some(token) => {
                let mut value = MetadataValue::try_from(format!("Bearer {token}"))?;
                value.set_sensitive(true);
                Some(value)
            }
            None => None,
        };
        Ok(Self { authorization })
    }
}

impl Interceptor for ClientAuth {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let metadata = request.metadata_mut();
        metadata.insert(CALLER_VERSION_KEY, MetadataValue::from_static(env!("CARGO_PKG_VERSION")));
        if let Some(value) = &self.authorization {
            metadata.insert(AUTHORIZATION_KEY, value.clone());
        }
        Ok(request)
    }
}

#[cfg(test)]
mod tests;
