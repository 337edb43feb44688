//! Workers without a process: tests say what they say.

use std::sync::Mutex;

use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio_util::sync::CancellationToken;

use super::strikes::Manner;
use super::workers::{REPORTS_WAITING, WorkerEnd, WorkerReport, WorkerSource};
use crate::worker::message::{Event, Request};

/// Hands each worker that is started to the test.
pub(crate) struct Script {
    started: Mutex<UnboundedSender<ScriptedWorker>>,
}

impl Script {
    pub(crate) fn new() -> (Self, UnboundedReceiver<ScriptedWorker>) {
        let (started, workers) = mpsc::unbounded_channel();
        (Self { started: Mutex::new(started) }, workers)
    }
}

impl WorkerSource for Script {
    fn start(&self, request: Request, stop: CancellationToken) -> mpsc::Receiver<WorkerReport> {
        let (reports, receiver) = mpsc::channel(REPORTS_WAITING);
        let started = self.started.lock().expect("no test panicked meanwhile");
        let _ = started.send(ScriptedWorker { request, reports, stop });
        receiver
    }
}

/// A worker in a test's hand.
#[derive(Debug)]
pub(crate) struct ScriptedWorker {
    pub(crate) request: Request,
    reports: mpsc::Sender<WorkerReport>,
    stop: CancellationToken,
}

impl ScriptedWorker {
    pub(crate) fn say(&self, event: Event) {
        self.report(WorkerReport::Said(event));
    }

    pub(crate) fn leave(self) {
        self.report(WorkerReport::Ended(WorkerEnd::Left));
    }

    pub(crate) fn crash(self, reason: &str) {
        let manner = if reason.contains("SIGSEGV") { Manner::Fault } else { Manner::Other };
        self.report(WorkerReport::Ended(WorkerEnd::Crashed(manner, reason.to_owned())));
    }

    /// Ends once the agent has told it to stop.
    pub(crate) async fn stopped(&self) {
        self.stop.cancelled().await;
    }

    fn report(&self, report: WorkerReport) {
        self.reports.try_send(report).expect("the runner listens, and keeps up");
    }
}
