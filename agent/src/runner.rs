//! One attempt at one task: workers measure, the journal keeps each visit, the collector gets each row.
//!
//! A worker that dies, or is killed because it is late, is followed by a fresh one that goes on at the next visit. What
//! it had in hand gets a strike; a solution with three is set aside ([`strikes`]). Whatever happens to workers, what
//! they measured becomes rows, and the attempt ends with exactly one [`SessionInput::TaskEnded`], after its last row
//! stands in a durable chunk.

use std::path::PathBuf;
use std::sync::Arc;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::row::StopReason;
use fleetcal_proto::convert::Lease;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_util::sync::CancellationToken;

use crate::device::sim::SimSpec;
use crate::session::SessionInput;
use crate::session::backoff::Backoff;
use crate::spool::SpoolError;
use crate::spool::collector::Collector;
use crate::spool::journal::VisitJournal;
use crate::spool::kept::KeptFolder;
use crate::task::TaskSpec;
use crate::worker::message::{Event, Request, RowLabels};
use crate::worker::resume::InHand;

mod attempt;
pub(crate) mod deadlines;
pub(crate) mod neighbours;
pub(crate) mod processes;
#[cfg(test)]
pub(crate) mod script;
pub(crate) mod strikes;
#[cfg(test)]
mod tests;
pub(crate) mod workers;

use attempt::{Attempt, Step};
use deadlines::{Deadlines, Watch};
use neighbours::{Neighbours, Presence};
use strikes::{Consequence, Got, Manner, Strikes};
use workers::{WorkerEnd, WorkerReport, WorkerSource};

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

    /// Digest of all that decides what is measured: an attempt goes on from an earlier one's visits only where this is
    /// the same, the version of this program, the driver and the labels of the node included.
    fn work(&self) -> String {
        let TaskSpec {
            task_id,
            run_id,
            plan_digest,
            attempt: _,
            epoch: _,
            devices: _,
            points,
            policy,
            seed,
            label,
            selected,
            alone_on_node,
        } = &self.task;
        let what = (env!("CARGO_PKG_VERSION"), task_id, run_id, plan_digest, points, policy);
        let on_what = (seed, label, selected, alone_on_node, &self.devices, &self.labels);
        match serde_json::to_vec(&(what, on_what)) {
            Ok(json) => Sha256Digest::of(&json).to_hex(),
            // What cannot be told apart is never the same.
            Err(error) => format!("{error} {} {}", self.task.attempt, self.task.epoch),
        }
    }
}

/// Runs attempts. Cloned for each.
#[derive(Clone)]
pub(crate) struct Runner {
    /// Where workers come from.
    pub(crate) workers: Arc<dyn WorkerSource>,
    /// Folder of the journals.
    pub(crate) visits: PathBuf,
    /// Journals of earlier attempts.
    pub(crate) kept: KeptFolder,
    /// How long workers may be silent.
    pub(crate) deadlines: Deadlines,
    /// Devices of this agent that are measured at the same time.
    pub(crate) neighbours: Neighbours,
    /// Where rows go.
    pub(crate) collector: Collector,
    /// Who is told.
    pub(crate) session: mpsc::Sender<SessionInput>,
}

impl Runner {
    /// Runs an attempt to its end, or until `stop` is cancelled.
    pub(crate) async fn run(self, job: Job, stop: CancellationToken) {
        let lease = job.lease();
        let ending = match VisitJournal::create(&self.visits, &lease, &job.work()) {
            Ok(journal) => self.measure(&job, &lease, Arc::new(journal), &stop).await,
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
        job: &Job,
        lease: &Lease,
        journal: Arc<VisitJournal>,
        stop: &CancellationToken,
    ) -> TaskEnding {
        let mut attempt = Attempt::new(lease.clone(), journal, self);
        if let Some(left) = self.kept.find(&lease.task_id, &job.work())
            && let Err(error) = attempt.take_up(left).await
        {
            return attempt.finish(error.into(), None).await;
        }
        let mut course = Course {
            job,
            stop,
            task_ends: Instant::now() + self.deadlines.whole_task(&job.task.policy),
            strikes: Strikes::default(),
        };
        let mut backoff = Backoff::new(&format!("{}/{}", lease.task_id, lease.epoch));
        loop {
            let before = attempt.achieved();
            let death = match self.follow(&mut attempt, &course).await {
                Over::Ends(outcome) => return attempt.finish(outcome, None).await,
                Over::Stuck(outcome, reason) => return attempt.finish(outcome, Some(reason)).await,
                Over::Died(death) => death,
            };
            let got = Got::between(before, attempt.achieved());
            if got > Got::Nothing {
                backoff.reset();
            }
            let sentence = death.sentence();
            let note = match course.strikes.take(&death.in_hand, death.manner, &death.reason, got) {
                Consequence::GoOn => format!("{sentence}; a fresh worker goes on"),
                Consequence::SetAside(subject) => format!("{sentence}; {subject} is set aside"),
                Consequence::GiveUp => {
                    let reason = format!("workers ended again and again, the last {sentence}");
                    return attempt.finish(TaskOutcome::Failed { reason, retry: true }, None).await;
                }
            };
            attempt.tell(Some(note));
            tokio::select! {
                () = sleep(backoff.next_wait()) => {}
                () = stop.cancelled() => return attempt.finish(TaskOutcome::Stopped, None).await,
            }
        }
    }

    /// Follows one worker from its start to its end.
    async fn follow(&self, attempt: &mut Attempt, course: &Course<'_>) -> Over {
        let Course { job, stop, task_ends, strikes } = course;
        let worker_stop = stop.child_token();
        let resume = match attempt.resume(strikes).await {
            Ok(resume) => Box::new(resume),
            Err(error) => return Over::Ends(error.into()),
        };
        let request = Request::Measure {
            task: Box::new(job.task.clone()),
            devices: job.devices.clone(),
            sim: job.sim.clone(),
            labels: job.labels.clone(),
            resume,
        };
        let mut reports = self.workers.start(request, worker_stop.clone());
        let mut watch = Watch::start(&self.deadlines, &job.task.policy, Instant::now(), *task_ends);
        let (mut over, mut presence) = (None, None);
        let end = loop {
            match timeout_at(watch.due(), reports.recv()).await {
                Ok(Some(WorkerReport::Said(mut event))) => {
                    let in_hand = watch.in_hand().clone();
                    watch.heard(&event, Instant::now());
                    if over.is_some() && is_cut_by_us(&event) {
                        continue;
                    }
                    self.note_neighbours(&mut event, job, &mut presence);
                    over = over.or(match attempt.take(event).await {
                        Step::Goes => None,
                        Step::Dies(reason) => Some(Over::Died(Death { in_hand, manner: Manner::Fault, reason })),
                        Step::Ends(outcome) => {
                            if matches!(outcome, TaskOutcome::Failed { .. }) {
                                worker_stop.cancel();
                            }
                            Some(Over::Ends(outcome))
                        }
                    });
                    if over.is_some() {
                        watch.told_to_stop(Instant::now());
                    }
                }
                Ok(Some(WorkerReport::Ended(end))) => break end,
                Ok(None) => break WorkerEnd::Left,
                Err(_) if watch.is_told_to_stop() => {
                    break WorkerEnd::Unkillable("its worker cannot be stopped".to_owned());
                }
                Err(_) => {
                    let now = Instant::now();
                    if !worker_stop.is_cancelled() {
                        over = Some(late(&watch, now));
                        worker_stop.cancel();
                    }
                    watch.told_to_stop(now);
                }
            }
        };
        conclude(over, end, watch.in_hand(), stop.is_cancelled())
    }

    /// A visit hears which other devices were at work meanwhile. The worker's device is from its first visit on.
    fn note_neighbours(&self, event: &mut Event, job: &Job, presence: &mut Option<Presence>) {
        if let Event::InHand(InHand { subject: Some(_), .. }) = event {
            presence.get_or_insert_with(|| self.neighbours.enter(job.devices.len()));
        } else if let Event::Visited(visit) = event {
            visit.co_running = presence.as_ref().and_then(Presence::take);
        }
    }
}

/// What all workers of an attempt share.
struct Course<'a> {
    job: &'a Job,
    stop: &'a CancellationToken,
    task_ends: Instant,
    strikes: Strikes,
}

/// How a worker's part of an attempt is over.
enum Over {
    /// The attempt ends with it.
    Ends(TaskOutcome),
    /// It died, or was killed for being late.
    Died(Death),
    /// The attempt ends with it, and its devices are lost: it outlives everything.
    Stuck(TaskOutcome, String),
}

/// A worker's death.
struct Death {
    in_hand: InHand,
    manner: Manner,
    reason: String,
}

impl Death {
    fn sentence(&self) -> String {
        let subject = self.in_hand.subject.as_ref().map(|subject| format!(" of {subject}")).unwrap_or_default();
        format!("{}{subject}: {}", self.in_hand.stage.when(), self.reason)
    }
}

/// What follows from a deadline that passed.
fn late(watch: &Watch<'_>, now: Instant) -> Over {
    let reason = watch.lateness(now);
    if watch.is_task_over(now) {
        return Over::Ends(TaskOutcome::Failed { reason, retry: true });
    }
    Over::Died(Death { in_hand: watch.in_hand().clone(), manner: Manner::Other, reason })
}

/// A visit that was cut short because we killed its worker: the next worker makes it anew.
fn is_cut_by_us(event: &Event) -> bool {
    matches!(event, Event::Visited(visit) if visit.stop_reason == StopReason::Interrupted)
}

/// What a worker's end means, with what was known before.
fn conclude(over: Option<Over>, end: WorkerEnd, in_hand: &InHand, was_stopped: bool) -> Over {
    let (manner, reason) = match end {
        WorkerEnd::Unkillable(reason) => {
            let outcome = match over {
                Some(Over::Ends(TaskOutcome::Done)) => TaskOutcome::Done,
                _ if was_stopped => TaskOutcome::Stopped,
                Some(Over::Died(death)) => {
                    TaskOutcome::Failed { reason: format!("{}; {reason}", death.sentence()), retry: true }
                }
                Some(Over::Ends(_) | Over::Stuck(..)) | None => {
                    TaskOutcome::Failed { reason: reason.clone(), retry: true }
                }
            };
            return Over::Stuck(outcome, reason);
        }
        WorkerEnd::Crashed(manner, reason) => (manner, reason),
        WorkerEnd::Left => (Manner::Other, "the worker left before the task was done".to_owned()),
    };
    match over {
        Some(Over::Ends(TaskOutcome::Done)) => Over::Ends(TaskOutcome::Done),
        // A worker that was told to stop calls its task failed; nothing is wrong with it.
        _ if was_stopped => Over::Ends(TaskOutcome::Stopped),
        Some(over) => over,
        None => Over::Died(Death { in_hand: in_hand.clone(), manner, reason }),
    }
}

impl From<Arc<SpoolError>> for TaskOutcome {
    /// The task fails here; another node, or this one later, may have room for its rows.
    fn from(error: Arc<SpoolError>) -> Self {
        Self::Failed { reason: error.to_string(), retry: true }
    }
}
