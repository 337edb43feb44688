//! One attempt at one task: a worker measures, the journal keeps each visit, the collector gets each row.
//!
//! Whatever happens to the worker, what it measured becomes rows, and the attempt ends with exactly one
//! [`SessionInput::TaskEnded`], after its last row stands in a durable chunk.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_proto::convert::Lease;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::device::sim::SimSpec;
use crate::session::SessionInput;
use crate::spool::SpoolError;
use crate::spool::collector::Collector;
use crate::spool::journal::VisitJournal;
use crate::task::TaskSpec;
use crate::worker::message::{Request, RowLabels};

mod attempt;
pub(crate) mod processes;
#[cfg(test)]
pub(crate) mod script;
#[cfg(test)]
mod tests;
pub(crate) mod workers;

use attempt::{Attempt, Step};
use workers::{WorkerEnd, WorkerReport, WorkerSource};

/// What a silent worker is granted beyond its longest visit: compiling, allocating, filling, validating.
const SILENCE_GRACE: Duration = Duration::from_secs(120);

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TaskEnding {
    /// How.
    pub(crate) outcome: TaskOutcome,
    /// Points that were dropped, `POINT: REASON`.
    pub(crate) dropped: Vec<String>,
    /// Why its devices cannot be used any more, if so.
    pub(crate) quarantine: Option<String>,
}

/// How an attempt ended, in a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TaskOutcome {
    /// Every row was measured.
    Done,
    /// It could not go on.
    Failed {
        /// Why.
        reason: String,
        /// Whether another try may help.
        retry: bool,
    },
    /// It was stopped from outside.
    Stopped,
}

/// What people see of a running task. Visits and rounds are counted over the whole task.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Progress {
    /// Visits that ended.
    pub(crate) visits_done: u64,
    /// Visits in all, as far as is known.
    pub(crate) visits_planned: u64,
    /// The round of the last visit; 0 is the screening round.
    pub(crate) round: u64,
    /// Rounds in all.
    pub(crate) rounds_planned: u64,
    /// Point of the last visit.
    pub(crate) point: String,
    /// Its solution.
    pub(crate) solution: String,
    /// Its median, nanoseconds a launch.
    pub(crate) median_ns: Option<f64>,
    /// Its rate, bytes per second.
    pub(crate) bytes_per_second: Option<f64>,
    /// Something that a person should read.
    pub(crate) note: Option<String>,
}

/// A task, with all that its worker needs.
#[derive(Debug, Clone)]
pub(crate) struct Job {
    /// The task.
    pub(crate) task: TaskSpec,
    /// Its devices.
    pub(crate) devices: Vec<DeviceFacts>,
    /// Settings of simulated devices.
    pub(crate) sim: SimSpec,
    /// Labels of its rows.
    pub(crate) labels: RowLabels,
}

impl Job {
    /// The lease that it runs under.
    pub(crate) fn lease(&self) -> Lease {
        Lease { task_id: self.task.task_id.clone(), attempt: self.task.attempt, epoch: self.task.epoch }
    }
}

/// Runs attempts. Cloned for each.
#[derive(Clone)]
pub(crate) struct Runner {
    /// Where workers come from.
    pub(crate) workers: Arc<dyn WorkerSource>,
    /// Folder of the journals.
    pub(crate) visits: PathBuf,
    /// Where rows go.
    pub(crate) collector: Collector,
    /// Who is told.
    pub(crate) session: mpsc::Sender<SessionInput>,
}

impl Runner {
    /// Runs an attempt to its end, or until `stop` is cancelled.
    pub(crate) async fn run(self, job: Job, stop: CancellationToken) {
        let lease = job.lease();
        let ending = match VisitJournal::create(&self.visits, &lease) {
            Ok(journal) => self.measure(job, &lease, Arc::new(journal), &stop).await,
            Err(error) => {
                let outcome = TaskOutcome::Failed { reason: error.to_string(), retry: true };
                TaskEnding { outcome, dropped: Vec::new(), quarantine: None }
            }
        };
        // A session that is gone needs no ending.
        let _ = self.session.send(SessionInput::TaskEnded { lease, ending }).await;
    }

    async fn measure(
        &self,
        job: Job,
        lease: &Lease,
        journal: Arc<VisitJournal>,
        stop: &CancellationToken,
    ) -> TaskEnding {
        let silence = longest_silence(&job.task.policy);
        let worker_stop = stop.child_token();
        let Job { task, devices, sim, labels } = job;
        let request = Request::Measure { task: Box::new(task), devices, sim, labels };
        let mut reports = self.workers.start(request, worker_stop.clone());
        let mut attempt = Attempt::new(lease.clone(), journal, self.collector.clone(), self.session.clone());
        let mut outcome = None;
        let mut end = WorkerEnd::Left;
        loop {
            let step = match timeout(silence, reports.recv()).await {
                Ok(Some(WorkerReport::Said(event))) => attempt.take(event).await,
                Ok(Some(WorkerReport::Ended(how))) => {
                    end = how;
                    break;
                }
                Ok(None) => break,
                Err(_) if worker_stop.is_cancelled() => {
                    end = WorkerEnd::Unkillable("its worker cannot be stopped".to_owned());
                    break;
                }
                Err(_) => Step::failed(format!("the worker said nothing for {} s, and was stopped", silence.as_secs())),
            };
            if let Step::Ends(how) = step {
                let failed = matches!(how, TaskOutcome::Failed { .. });
                if failed {
                    worker_stop.cancel();
                }
                // A worker that was told to stop calls its task failed; nothing is wrong with it.
                let how = if failed && stop.is_cancelled() { TaskOutcome::Stopped } else { how };
                outcome.get_or_insert(how);
            }
        }
        let outcome = outcome.unwrap_or_else(|| outcome_of(&end, stop.is_cancelled()));
        let quarantine = match end {
            WorkerEnd::Unkillable(reason) => Some(reason),
            WorkerEnd::Left | WorkerEnd::Crashed(_) => None,
        };
        attempt.finish(outcome, quarantine).await
    }
}

/// What the end of a worker means where the worker itself never said.
fn outcome_of(end: &WorkerEnd, was_stopped: bool) -> TaskOutcome {
    match end {
        _ if was_stopped => TaskOutcome::Stopped,
        WorkerEnd::Left => {
            TaskOutcome::Failed { reason: "the worker left before the task was done".to_owned(), retry: true }
        }
        WorkerEnd::Crashed(reason) | WorkerEnd::Unkillable(reason) => {
            TaskOutcome::Failed { reason: reason.clone(), retry: true }
        }
    }
}

/// How long a healthy worker may say nothing: as many longest samples as a visit may have, and then some.
fn longest_silence(policy: &MeasuringPolicy) -> Duration {
    Duration::from_nanos(policy.visit_ns_max.saturating_mul(policy.samples_max)).saturating_add(SILENCE_GRACE)
}

impl From<Arc<SpoolError>> for TaskOutcome {
    /// The task fails here; another node, or this one later, may have room for its rows.
    fn from(error: Arc<SpoolError>) -> Self {
        Self::Failed { reason: error.to_string(), retry: true }
    }
}
