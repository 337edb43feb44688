//! Workers as processes: the source that is used outside tests.

use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::strikes::Manner;
use super::workers::{REPORTS_WAITING, WorkerEnd, WorkerReport, WorkerSource};
use crate::worker::message::Request;
use crate::worker::{Worker, WorkerError};

/// A worker that was told to stop may end its visit and close its rows within this; then it is killed.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// Signals that an access to memory which is not there ends a process with.
const MEMORY_FAULTS: [i32; 2] = [Signal::SEGV.as_raw(), Signal::BUS.as_raw()];

/// Starts `PROGRAM worker`.
#[derive(Debug, Clone)]
pub(crate) struct Processes {
    /// The program.
    pub(crate) program: PathBuf,
    /// Its arguments: others only where a test has a worker of its own.
    pub(crate) arguments: Vec<String>,
}

impl Processes {
    /// Workers of this program.
    pub(crate) fn of(program: PathBuf) -> Self {
        Self { program, arguments: vec!["worker".to_owned()] }
    }
}

impl WorkerSource for Processes {
    fn start(&self, request: Request, stop: CancellationToken) -> mpsc::Receiver<WorkerReport> {
        let (reports, receiver) = mpsc::channel(REPORTS_WAITING);
        let processes = self.clone();
        tokio::spawn(async move {
            let end = follow(&processes, request, &stop, &reports).await;
            // A runner that is gone asks no more.
            let _ = reports.send(WorkerReport::Ended(end)).await;
        });
        receiver
    }
}

/// Passes on what a worker says until it is gone. A worker whose runner is gone is dropped, and thereby killed.
async fn follow(
    processes: &Processes,
    request: Request,
    stop: &CancellationToken,
    reports: &mpsc::Sender<WorkerReport>,
) -> WorkerEnd {
    let mut worker = match Worker::spawn(&processes.program, &processes.arguments, &request) {
        Ok(worker) => worker,
        Err(error) => return end_of(&error),
    };
    loop {
        tokio::select! {
            event = worker.next_event() => match event {
                Ok(Some(event)) => {
                    if reports.send(WorkerReport::Said(event)).await.is_err() {
                        return WorkerEnd::Left;
                    }
                }
                Ok(None) => return WorkerEnd::Left,
                Err(error) => return end_of(&error),
            },
            () = reports.closed() => return WorkerEnd::Left,
            () = stop.cancelled() => break,
        }
    }
    match worker.stop(STOP_GRACE).await {
        Ok(events) => {
            for event in events {
                let _ = reports.send(WorkerReport::Said(event)).await;
            }
            WorkerEnd::Left
        }
        Err(error) => end_of(&error),
    }
}

fn end_of(error: &WorkerError) -> WorkerEnd {
    match error {
        WorkerError::Stuck { .. } => WorkerEnd::Unkillable(error.to_string()),
        WorkerError::Died { signal: Some(signal), .. } if MEMORY_FAULTS.contains(signal) => {
            WorkerEnd::Crashed(Manner::Fault, error.to_string())
        }
        WorkerError::Spawn { .. } | WorkerError::Died { .. } | WorkerError::Frame(_) => {
            WorkerEnd::Crashed(Manner::Other, error.to_string())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_fault_of_memory_is_called_one() {
        for (signal, manner) in [
            (Some(7), Manner::Fault),
            (Some(11), Manner::Fault),
            (Some(9), Manner::Other),
            (Some(6), Manner::Other),
            (None, Manner::Other),
        ] {
            let end = end_of(&WorkerError::Died { how: String::new(), signal, last_words: String::new() });
            assert_eq!(end, WorkerEnd::Crashed(manner, String::new()), "{signal:?}");
        }
    }
}
