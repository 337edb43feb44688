use std::sync::Arc;
use std::time::Duration;

use fleetcal_core::event::Timestamp;
use fleetcal_proto::status::{ErrorKind, error_kind};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{Service, http};
use tonic::transport::server::TcpConnectInfo;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::constants::{EndedRuns, Fits};
use crate::driver::{Driver, state};
use crate::folder::Layout;
use crate::ingest::Ingest;
use crate::watch::Watchers;

/// Both services over a new folder.
fn services(folder: &std::path::Path) -> (Session, Control) {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::at(Timestamp(1)));
    let (stop, streams) = (CancellationToken::new(), TaskTracker::new());
    let layout = Layout::new(folder);
    let (driver, _) = Driver::spawn(state(folder), Arc::clone(&clock), stop.clone());
    let (ingest, _) = Ingest::spawn(layout.clone(), driver.clone(), Arc::clone(&clock));
    let (ended, _) = EndedRuns::new();
    let constants = layout.constants();
    let fits = Fits::new(layout, driver.clone(), Arc::clone(&clock), ended);
    let (lease, heartbeat) = (Duration::from_secs(30), Duration::from_secs(10));
    let (of_session, watchers) = (driver.clone(), Watchers::new());
    let session =
        Session { driver: of_session, ingest, lease, heartbeat, stop: stop.clone(), streams: streams.clone() };
    (session, Control { driver, fits, watchers, clock, constants, stop, streams })
}

/// Calls a method with an empty body, as a caller at that address would.
async fn call<S, B>(mut service: S, path: &str, peer: Option<&str>) -> Option<ErrorKind>
where
    S: Service<http::Request<Body>, Response = http::Response<B>>,
    S::Error: std::fmt::Debug,
{
    let mut request = http::Request::builder().method("POST").uri(format!("http://localhost{path}"));
    request = request.header("content-type", "application/grpc");
    let mut request = request.body(Body::empty()).expect("a request");
    let remote_addr = peer.map(|peer| peer.parse().expect("an address"));
    request.extensions_mut().insert(TcpConnectInfo { local_addr: None, remote_addr });
    let response = service.call(request).await.expect("answered");
    Status::from_header_map(response.headers()).map(|status| error_kind(&status))
}

#[tokio::test]
async fn every_call_of_both_services_passes_the_authentication() {
    let folder = tempfile::tempdir().expect("a folder");
    let (session, control) = services(folder.path());
    let (session, control) = (session_server(session), control_server(control));
    for method in ["Hello", "Attach", "Upload"] {
        let path = format!("/fleetcal.v1.Session/{method}");
        for peer in [Some("10.0.0.7:4000"), None] {
            let refused = call(session.clone(), &path, peer).await;
            assert_eq!(refused, Some(ErrorKind::Unauthenticated), "{path} lets {peer:?} in");
        }
    }
    for method in ["Submit", "Watch", "Cancel", "Status", "Devices", "Constants"] {
        let path = format!("/fleetcal.v1.Control/{method}");
        let refused = call(control.clone(), &path, Some("10.0.0.7:4000")).await;
        assert_eq!(refused, Some(ErrorKind::Unauthenticated), "{path} lets another machine in");
        let let_in = call(control.clone(), &path, Some("127.0.0.1:4000")).await;
        assert_ne!(let_in, Some(ErrorKind::Unauthenticated), "{path} keeps this machine out");
    }
}
