use tonic::Code;
use tonic::transport::server::TcpConnectInfo;

use super::*;
use crate::status::error_kind;

fn request_from(peer: Option<&str>) -> Request<()> {
    let mut request = Request::new(());
    if let Some(peer) = peer {
        let remote_addr = Some(peer.parse().expect("an address"));
        request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    }
    request
}

#[test]
fn callers_on_this_machine_are_let_in() {
    let mut hook = ServerAuth::new(LoopbackOnly);
    for peer in ["127.0.0.1:5000", "127.8.9.10:1", "[::1]:5000", "[::ffff:127.0.0.1]:5000"] {
        assert!(hook.call(request_from(Some(peer))).is_ok(), "{peer} is this machine");
    }
}

#[test]
fn callers_from_elsewhere_are_told_why_they_are_not() {
    let mut hook = ServerAuth::new(LoopbackOnly);
    for peer in ["10.0.0.7:5000", "[2001:db8::1]:5000", "[::ffff:10.0.0.7]:5000", "0.0.0.0:1"] {
        let status = hook.call(request_from(Some(peer))).expect_err("another machine");
        assert_eq!(status.code(), Code::Unauthenticated, "{peer}");
        assert_eq!(error_kind(&status), ErrorKind::Unauthenticated);
        assert!(status.message().contains(peer), "{} does not name {peer}", status.message());
    }
    let status = hook.call(request_from(None)).expect_err("no address");
    assert_eq!(status.code(), Code::Unauthenticated);
}

#[test]
fn another_policy_sees_what_the_client_attached() {
    struct TokenIs(&'static str);
    impl Authenticator for TokenIs {
        fn authenticate(&self, _peer: Option<SocketAddr>, metadata: &MetadataMap) -> Result<(), AuthError> {
            let said = metadata.get(AUTHORIZATION_KEY).and_then(|value| value.to_str().ok());
            if said == Some(self.0) { Ok(()) } else { Err(AuthError::UnknownPeer) }
        }
    }
    let mut hook = ServerAuth::new(TokenIs("Bearer secret"));
    let call = |token| ClientAuth::new(token).expect("a token of letters").call(Request::new(())).expect("attached");
    assert!(hook.call(call(Some("secret"))).is_ok());
    assert!(hook.call(call(Some("guess"))).is_err());
    assert!(hook.call(call(None)).is_err());
}

#[test]
fn a_call_says_the_version_of_its_binary_and_never_shows_its_token() {
    let mut hook = ClientAuth::new(Some("secret")).expect("a token of letters");
    let request = hook.call(Request::new(())).expect("attached");
    assert_eq!(request.metadata().get(CALLER_VERSION_KEY).expect("a version"), env!("CARGO_PKG_VERSION"));
    let shown = format!("{hook:?} {:?}", request.metadata());
    assert!(!shown.contains("secret"), "the token is shown: {shown}");
    assert!(ClientAuth::new(Some("line\nbreak")).is_err(), "a header cannot carry a line break");
}
