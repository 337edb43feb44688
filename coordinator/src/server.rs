//! A running coordinator: everything started in order, and stopped in the opposite one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::clock::{Clock, SystemClock};
use crate::config::CoordinatorConfig;
use crate::constants::{EndedRuns, Fits};
use crate::driver::{Driver, State};
use crate::error::CoordinatorError;
use crate::folder::{HeldFolder, Layout, set_orphans_aside};
use crate::ingest::Ingest;
use crate::journal::Journal;
use crate::rpc::{Control, Session, control_server, session_server};
use crate::views;
use crate::watch::Watchers;

/// A connection that answers no ping for this long is dead.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long each step of stopping may take.
const STOP_STEP_MAX: Duration = Duration::from_millis(300);

/// A coordinator that serves. Dropping it abandons what is under way, as a kill would, and loses nothing that was
/// acknowledged; [`Coordinator::stop`] ends it in order.
pub struct Coordinator {
    address: SocketAddr,
    driver: Driver,
    driving: JoinHandle<Result<(), CoordinatorError>>,
    serving: JoinHandle<Result<(), tonic::transport::Error>>,
    writing: JoinHandle<()>,
    streams: TaskTracker,
    stop: CancellationToken,
    /// Ends the driver when the coordinator is dropped.
    _abandon: DropGuard,
    /// Ends the streams when the coordinator is dropped.
    _stop: DropGuard,
}

impl Coordinator {
    /// Takes the data folder, replays its journal, and serves.
    ///
    /// # Errors
    /// Settings that cannot be used, a folder in use, unwritable or on a full disk, a journal that is damaged or newer,
    /// an address that cannot be listened on.
    pub async fn start(config: CoordinatorConfig) -> Result<Self, CoordinatorError> {
        Self::start_with(config, Arc::new(SystemClock::start())).await
    }

    /// As [`Coordinator::start`], with a clock of the caller's.
    ///
    /// # Errors
    /// As [`Coordinator::start`].
    pub async fn start_with(config: CoordinatorConfig, clock: Arc<dyn Clock>) -> Result<Self, CoordinatorError> {
        config.check()?;
        // Before the folder: what a taken port leaves behind is nothing.
        let listener = listen(config.listen).await?;
        let address =
            listener.local_addr().map_err(|source| CoordinatorError::Listen { address: config.listen, source })?;
        let watchers = Watchers::new();
        let (ended_runs, ended) = EndedRuns::new();
        let (layout, state) = open(&config, watchers.clone(), ended_runs.clone()).await?;
        let abandoned = CancellationToken::new();
        let (driver, driving) = Driver::spawn(state, Arc::clone(&clock), abandoned.clone());
        let (ingest, writing) = Ingest::spawn(layout.clone(), driver.clone(), Arc::clone(&clock));
        let fits = Fits::new(layout.clone(), driver.clone(), Arc::clone(&clock), ended_runs.clone());
        for run in driver.read(|view| views::ended_runs(view.core)).await.unwrap_or_default() {
            if !layout.run_constants(&run).exists() {
                ended_runs.again(&run);
            }
        }
        tokio::spawn(Arc::clone(&fits).make_all(ended));
        let (stop, streams) = (CancellationToken::new(), TaskTracker::new());
        let session = Session {
            driver: driver.clone(),
            ingest,
            lease: config.lease,
            heartbeat: config.heartbeat,
            stop: stop.clone(),
            streams: streams.clone(),
        };
        let control = Control {
            driver: driver.clone(),
            fits,
            watchers,
            clock,
            constants: layout.constants(),
            stop: stop.clone(),
            streams: streams.clone(),
        };
        let serving = tokio::spawn(serve(listener, session, control, stop.clone()));
        tracing::info!(%address, folder = %config.data_folder.display(), "coordinator serves");
        let (_abandon, _stop) = (abandoned.drop_guard(), stop.clone().drop_guard());
        Ok(Self { address, driver, driving, serving, writing, streams, stop, _abandon, _stop })
    }

    /// The address it listens on, with the port that was chosen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends streams, then the writer of parts, then the driver, and leaves the journal as one file. Within a second;
    /// what takes longer is abandoned, and loses nothing that was acknowledged.
    ///
    /// # Errors
    /// The journal or the server failed, now or earlier.
    pub async fn stop(mut self) -> Result<(), CoordinatorError> {
        self.stop.cancel();
        self.streams.close();
        let _ = tokio::time::timeout(STOP_STEP_MAX, self.streams.wait()).await;
        let served = match tokio::time::timeout(STOP_STEP_MAX, &mut self.serving).await {
            Ok(served) => finished("server", served)?.map_err(CoordinatorError::from),
            // A client that keeps its connection open.
            Err(_) => {
                self.serving.abort();
                Ok(())
            }
        };
        // The server is gone, and its ways to the writer with it: what was queued is stored, and the writer ends.
        let _ = tokio::time::timeout(STOP_STEP_MAX, &mut self.writing).await;
        let stopped = self.driver.stop().await;
        // What the driver itself failed of says more than that it no longer answers.
        finished("driver", (&mut self.driving).await)??;
        stopped.map_err(|error| CoordinatorError::Stopped { what: "driver", reason: error.to_string() })?;
        served
    }
}

/// The result of a task that may not panic.
fn finished<T>(what: &'static str, joined: Result<T, tokio::task::JoinError>) -> Result<T, CoordinatorError> {
    joined.map_err(|error| CoordinatorError::Stopped { what, reason: error.to_string() })
}

async fn listen(address: SocketAddr) -> Result<TcpListener, CoordinatorError> {
    TcpListener::bind(address).await.map_err(|source| {
        if source.kind() == io::ErrorKind::AddrInUse {
            CoordinatorError::PortInUse { address }
        } else {
            CoordinatorError::Listen { address, source }
        }
    })
}

/// Takes the folder and replays its journal, on a thread that may block.
async fn open(
    config: &CoordinatorConfig,
    watchers: Watchers,
    ended: EndedRuns,
) -> Result<(Layout, State), CoordinatorError> {
    let (root, core) = (config.data_folder.clone(), config.core());
    let opened = tokio::task::spawn_blocking(move || {
        let folder = HeldFolder::take(&root)?;
        let layout = folder.layout().clone();
        let journal = Journal::open(&layout.journal())?;
        let named = journal.part_names(None)?;
        // First: a folder that this version cannot go on with stays as it is.
        let state = State::replay(folder, journal, core, watchers, ended)?;
        for name in set_orphans_aside(&layout, &named)? {
            tracing::warn!(
                file = name,
                "moved to orphans/: the journal does not name it, so its rows were never acknowledged"
            );
        }
        Ok((layout, state))
    });
    finished("start", opened.await)?
}

async fn serve(
    listener: TcpListener,
    session: Session,
    control: Control,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE))
        .http2_keepalive_timeout(Some(KEEPALIVE))
        .add_service(session_server(session))
        .add_service(control_server(control))
        .serve_with_incoming_shutdown(incoming, async move { stop.cancelled().await })
        .await
}
