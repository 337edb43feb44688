//! The agent from its start to its end.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_proto::auth::ClientAuth;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use crate::config::AgentConfig;
use crate::device::sim::SimSpec;
use crate::error::AgentError;
use crate::identity::Identity;
use crate::runner::processes::Processes;
use crate::runner::workers::{WorkerEnd, WorkerReport, WorkerSource};
use crate::session::{self, Setup};
use crate::spool::{self, Spool, SpoolError};
use crate::worker::message::{BackendReport, Event, Request, RowLabels};

/// A driver that has not listed its devices by then will not.
const DISCOVERY_DEADLINE: Duration = Duration::from_secs(60);

/// Locked for as long as an agent works on the data folder.
const LOCK_FILE: &str = "agent.lock";

/// Runs an agent until `shutdown` is cancelled, and ends within two seconds of that: workers are stopped, what they
/// measured is kept, leases are given back.
///
/// A coordinator that is not there, or goes away, is waited for.
///
/// # Errors
/// Why the agent cannot start, or why the coordinator will never work with it: see [`AgentError`].
pub async fn run(config: AgentConfig, shutdown: CancellationToken) -> Result<(), AgentError> {
    let endpoint = address(&config.coordinator)?;
    let auth = ClientAuth::new(config.token.as_deref())?;
    let _lock = lock_folder(&config.data_folder)?;
    let identity = Identity::load_or_create(&config.data_folder)?;

    let workers: Arc<dyn WorkerSource> = Arc::new(Processes::of(config.worker_program.clone()));
    let reports = tokio::select! {
        reports = discover_with(workers.as_ref(), &config.data_folder, &config.sim) => reports?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let devices = offered(&reports, config.backends.as_deref())?;
    let spool = open_spool(&config.data_folder).await?;

    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let labels = RowLabels {
        agent_id: identity.agent_id().as_str().to_owned(),
        node: config.node.unwrap_or_else(|| host.clone()),
        host,
        rack: config.rack,
    };
    let wanted = |report: &BackendReport| {
        config.backends.as_ref().is_none_or(|wanted| wanted.iter().any(|backend| backend.name() == report.backend))
    };
    let noted = |report: BackendReport| report.note.map(|note| (report.backend, note));
    let setup = Setup {
        coordinator: config.coordinator,
        endpoint,
        auth,
        labels,
        devices,
        backend_notes: reports.into_iter().filter(wanted).filter_map(noted).collect(),
        sim: config.sim,
        monitor: config.monitor,
        deadlines: config.deadlines,
        spool,
        workers,
    };
    session::run(setup, shutdown).await
}

/// Looks for devices in a worker process, so that a driver that crashes or hangs costs that process only.
///
/// # Errors
/// [`AgentError::Discovery`] where the worker crashed, or said nothing within a minute.
pub async fn discover(
    worker_program: &Path,
    data_folder: &Path,
    sim: &SimSpec,
) -> Result<Vec<BackendReport>, AgentError> {
    discover_with(&Processes::of(worker_program.to_owned()), data_folder, sim).await
}

async fn discover_with(
    workers: &dyn WorkerSource,
    data_folder: &Path,
    sim: &SimSpec,
) -> Result<Vec<BackendReport>, AgentError> {
    let failed = |reason: String| AgentError::Discovery { reason };
    let data_folder = data_folder.to_str().ok_or_else(|| AgentError::Folder {
        folder: data_folder.to_owned(),
        source: io::Error::new(io::ErrorKind::InvalidInput, "its path is not UTF-8"),
    })?;
    let request = Request::Discover { sim: sim.clone(), data_folder: data_folder.to_owned() };
    let stop = CancellationToken::new();
    // The worker is stopped when this function is left, by whatever way.
    let _stop = stop.clone().drop_guard();
    let mut reports = workers.start(request, stop);
    loop {
        let report = timeout(DISCOVERY_DEADLINE, reports.recv()).await.map_err(|_| {
            failed(format!("the worker that looks for them said nothing within {} s", DISCOVERY_DEADLINE.as_secs()))
        })?;
        return match report {
            Some(WorkerReport::Said(Event::Devices(found))) => Ok(found),
            Some(WorkerReport::Said(Event::Failed { reason, .. })) => Err(failed(reason)),
            Some(WorkerReport::Said(_)) => continue,
            Some(WorkerReport::Ended(WorkerEnd::Crashed(_, reason) | WorkerEnd::Unkillable(reason))) => {
                Err(failed(reason))
            }
            Some(WorkerReport::Ended(WorkerEnd::Left)) | None => {
                Err(failed("the worker left without a word".to_owned()))
            }
        };
    }
}

/// The devices to offer, of those found.
fn offered(reports: &[BackendReport], backends: Option<&[Backend]>) -> Result<Vec<DeviceFacts>, AgentError> {
    let wanted = |device: &&DeviceFacts| backends.is_none_or(|backends| backends.contains(&device.backend));
    let devices: Vec<_> = reports.iter().flat_map(|report| &report.devices).filter(wanted).cloned().collect();
    if !devices.is_empty() {
        return Ok(devices);
    }
    let note = |report: &BackendReport| {
        let found = match report.devices.len() {
            0 => "no device found".to_owned(),
            count => format!("{count} found, not asked for"),
        };
        format!("{}: {}", report.backend, report.note.clone().unwrap_or(found))
    };
    let notes: Vec<String> = reports.iter().map(note).collect();
    Err(AgentError::NoDevices { notes: notes.join("; ") })
}

fn address(coordinator: &str) -> Result<Endpoint, AgentError> {
    let wrong = |reason: String| AgentError::Address { address: coordinator.to_owned(), reason };
    let endpoint = Endpoint::from_shared(coordinator.to_owned()).map_err(|error| wrong(error.to_string()))?;
    match (endpoint.uri().scheme_str(), endpoint.uri().host()) {
        (Some("http"), Some(_)) => Ok(endpoint),
        (Some(_), Some(_)) => Err(wrong("it does not begin with http://".to_owned())),
        (None, _) | (_, None) => Err(wrong("it has no http:// and host".to_owned())),
    }
}

/// Takes the data folder for this process, until the file is dropped.
fn lock_folder(folder: &Path) -> Result<File, AgentError> {
    let failed = |source| AgentError::Folder { folder: folder.to_owned(), source };
    fs::create_dir_all(folder).map_err(failed)?;
    let path = folder.join(LOCK_FILE);
    let file = File::options().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(AgentError::FolderInUse { folder: folder.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed(source)),
    }
}

async fn open_spool(data_folder: &Path) -> Result<Spool, SpoolError> {
    let folder = data_folder.to_owned();
    let opened = tokio::task::spawn_blocking(move || Spool::open(&folder, spool::LIMIT_BYTES)).await;
    opened.unwrap_or(Err(SpoolError::Closed))
}

#[cfg(test)]
mod tests;
