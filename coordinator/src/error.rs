//! What keeps a coordinator from starting or from ending well.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetcal_core::core::ReplayError;
use fleetcal_model::id::RunId;

use crate::journal::JournalError;

/// A coordinator that cannot start, or a run that cannot be fitted.
#[derive(Debug, thiserror::Error)]
pub enum CoordinatorError {
    /// The address is reachable from outside.
    #[error(
        "cannot listen on {address}: any address but loopback needs TLS and a token, which this version does not \
             have; listen on 127.0.0.1 or [::1], and reach it from other nodes through an SSH tunnel"
    )]
    NotLoopback {
        /// The address asked for.
        address: SocketAddr,
    },
    /// Heartbeats would come too late for their lease.
    #[error(
        "a heartbeat every {heartbeat:?} cannot keep a lease of {lease:?}: it must be at least 1 ms, and shorter than the lease"
    )]
    BadInterval {
        /// The heartbeat asked for.
        heartbeat: Duration,
        /// The lease asked for.
        lease: Duration,
    },
    /// Another coordinator works on the folder.
    #[error("the data folder {} is in use by another fleetcal process (a coordinator or a calibrate); stop that one, or choose another folder", folder.display())]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The data folder cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// Somebody listens there already.
    #[error("cannot listen on {address}: the port is in use; stop who uses it, or choose another port")]
    PortInUse {
        /// The address asked for.
        address: SocketAddr,
    },
    /// The address cannot be listened on for another reason.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The journal is of another version.
    #[error(
        "the journal was written by another version of fleetcal, and this one must not go on with it: {source}; use \
         the fleetcal that wrote it, or another data folder: nothing was changed"
    )]
    Replay {
        /// What it would do otherwise.
        source: ReplayError,
    },
    /// The journal names no such run.
    #[error("there is no run {run} in {}", folder.display())]
    NoSuchRun {
        /// The run asked for.
        run: RunId,
        /// The data folder.
        folder: PathBuf,
    },
    /// The run's constants cannot be made or kept.
    #[error(
        "cannot keep the constants of run {run}: {reason}; its rows are safe: they are fitted, and the constants kept, \
         when the coordinator starts next"
    )]
    Constants {
        /// The run.
        run: RunId,
        /// What went wrong.
        reason: String,
    },
    /// The gRPC server failed while it ran.
    #[error("the gRPC server failed: {0}")]
    Server(#[from] tonic::transport::Error),
    /// A task of the coordinator ended when it should not have.
    #[error("the coordinator's {what} stopped: {reason}")]
    Stopped {
        /// Which one.
        what: &'static str,
        /// Why.
        reason: String,
    },
}

/// A file or folder that cannot be used, by what a person can do about it.
#[derive(Debug, thiserror::Error)]
pub enum FolderError {
    /// No permission, or a file system mounted for reading only.
    #[error("cannot write {}: {source}; give this user write permission, or choose another data folder", path.display())]
    Unwritable {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// No space left.
    #[error("cannot write {}: {source}; free space there: work goes on by itself once there is some", path.display())]
    Full {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Too little space to begin with.
    #[error(
        "the disk of {} is full: {free_bytes} bytes are free there, and {needed_bytes} are needed to begin; free some, or \
         choose another data folder",
        path.display()
    )]
    NoRoom {
        /// The folder.
        path: PathBuf,
        /// What is free.
        free_bytes: u64,
        /// What is needed.
        needed_bytes: u64,
    },
    /// A file where a folder should be.
    #[error("{} is a file, not a folder; choose another data folder", path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Anything else.
    #[error("cannot use {}: {source}", path.display())]
    Other {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

impl FolderError {
    /// Sorts a system's error by what a person can do about it.
    pub fn at(path: &Path, source: std::io::Error) -> Self {
        use std::io::ErrorKind;
        let path = path.to_owned();
        let kind = source.kind();
        if matches!(kind, ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem) {
            Self::Unwritable { path, source }
        } else if matches!(kind, ErrorKind::StorageFull | ErrorKind::QuotaExceeded) {
            Self::Full { path, source }
        } else if matches!(kind, ErrorKind::AlreadyExists | ErrorKind::NotADirectory) {
            Self::NotAFolder { path }
        } else {
            Self::Other { path, source }
        }
    }
}
