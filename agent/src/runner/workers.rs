//! Where workers come from. Runners see reports on a channel; whether a process is behind it is not their matter.

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::strikes::Manner;
use crate::worker::message::{Event, Request};

/// Reports that may wait before the worker is held back.
pub(crate) const REPORTS_WAITING: usize = 64;

/// What comes from a worker.
#[derive(Debug)]
pub(crate) enum WorkerReport {
    /// What it said.
    Said(Event),
    /// It is gone. The last report.
    Ended(WorkerEnd),
}

/// How a worker went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkerEnd {
    /// By itself, or because it was stopped.
    Left,
    /// Against its will: a crash, a signal, a program that is not there. The sentence says which.
    Crashed(Manner, String),
    /// It outlived SIGKILL, in the driver. Its devices cannot be used until the machine says otherwise.
    Unkillable(String),
}

/// Starts workers.
pub(crate) trait WorkerSource: Send + Sync {
    /// Starts a worker on a request. It is stopped, in the end killed, once `stop` is cancelled; the channel ends
    /// after [`WorkerReport::Ended`].
    fn start(&self, request: Request, stop: CancellationToken) -> mpsc::Receiver<WorkerReport>;
}
