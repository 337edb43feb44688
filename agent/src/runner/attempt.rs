//! What is known of an attempt: its open rows, and what to do with each thing that its worker says.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use fleetcal_model::estimate;
use fleetcal_model::row::{Row, Status};
use fleetcal_proto::convert::Lease;
use tokio::sync::mpsc;

use super::{Progress, Runner, TaskEnding, TaskOutcome};
use crate::assemble::assemble;
use crate::session::SessionInput;
use crate::spool::SpoolError;
use crate::spool::chunk::NumberedRow;
use crate::spool::collector::Collector;
use crate::spool::journal::{Entry, VisitJournal};
use crate::spool::kept::KeptFolder;
use crate::worker::message::{Event, Visit};
use crate::worker::resume::{Checkpoint, Subject};

mod resume;

/// Where an attempt stands after one event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It goes on.
    Goes,
    /// Its worker can do no more; a fresh one may.
    Dies(String),
    /// It ends like this.
    Ends(TaskOutcome),
}

impl Step {
    /// It cannot go on; another try may help.
    pub(super) fn failed(reason: String) -> Self {
        Self::Ends(TaskOutcome::Failed { reason, retry: true })
    }
}

/// A row that may get further visits.
#[derive(Debug)]
struct OpenRow {
    template: Row,
    visits: Vec<Visit>,
}

/// An attempt under way.
#[derive(Debug)]
pub(super) struct Attempt {
    lease: Lease,
    journal: Arc<VisitJournal>,
    collector: Collector,
    session: mpsc::Sender<SessionInput>,
    kept: KeptFolder,
    open: BTreeMap<u64, OpenRow>,
    closed: Vec<Subject>,
    rows_opened: u64,
    decided: Option<Checkpoint>,
    /// Attempts at the task that this one goes on from.
    earlier_attempts: u64,
    /// Whether the journal holds everything that was known when the attempt began.
    is_whole: bool,
    progress: Progress,
    dropped: Vec<String>,
}

impl Attempt {
    pub(super) fn new(lease: Lease, journal: Arc<VisitJournal>, runner: &Runner) -> Self {
        Self {
            lease,
            journal,
            collector: runner.collector.clone(),
            session: runner.session.clone(),
            kept: runner.kept.clone(),
            open: BTreeMap::new(),
            closed: Vec::new(),
            rows_opened: 0,
            decided: None,
            earlier_attempts: 0,
            is_whole: true,
            progress: Progress::default(),
            dropped: Vec::new(),
        }
    }

    /// Takes what the worker said.
    pub(super) async fn take(&mut self, event: Event) -> Step {
        let kept = match event {
            Event::Planned { visits, rounds } => {
                (self.progress.visits_planned, self.progress.rounds_planned) = (visits, rounds);
                self.tell(None);
                Ok(())
            }
            Event::PointDropped { point, reason } => {
                let sentence = format!("{point}: {reason}");
                // Each worker says it anew.
                if !self.dropped.iter().any(|said| said.starts_with(&format!("{point}: "))) {
                    self.tell(Some(sentence.clone()));
                    self.dropped.push(sentence);
                }
                Ok(())
            }
            Event::Note(note) => {
                self.tell(Some(note));
                Ok(())
            }
            Event::RowOpened(template) => self.open_row(*template).await,
            Event::Visited(visit) if self.open.contains_key(&visit.row) => self.keep_visit(visit).await,
            Event::RowClosed { row, template } if self.open.contains_key(&row) => self.close_row(row, *template).await,
            Event::Visited(Visit { row, .. }) | Event::RowClosed { row, .. } => {
                return Step::failed(format!("the worker spoke of row {row}, which is not open"));
            }
            Event::InHand(_) => Ok(()),
            Event::RowForgotten { row } => self.forget_row(row).await,
            Event::Decided(checkpoint) => self.decide(checkpoint).await,
            Event::Lost { reason } => return Step::Dies(reason),
            Event::Devices(_) => return Step::failed("the worker listed devices instead of measuring".to_owned()),
            Event::Done => return Step::Ends(TaskOutcome::Done),
            Event::Failed { reason, retry } => return Step::Ends(TaskOutcome::Failed { reason, retry }),
        };
        kept.map_or_else(|error| Step::Ends(error.into()), |()| Step::Goes)
    }

    async fn open_row(&mut self, template: Row) -> Result<(), Arc<SpoolError>> {
        let row = self.rows_opened;
        self.rows_opened += 1;
        let entry = Entry::Opened { row, template: Cow::Borrowed(&template) };
        self.journal.add(&entry).await?;
        self.open.insert(row, OpenRow { template, visits: Vec::new() });
        Ok(())
    }

    async fn keep_visit(&mut self, visit: Visit) -> Result<(), Arc<SpoolError>> {
        let entry = Entry::Visited(Cow::Borrowed(&visit));
        self.journal.add(&entry).await?;
        tracing::debug!(row = visit.row, round = visit.round, votes = ?visit.votes, stopped = %visit.stop_reason, "visit");
        self.progress.visits_done += 1;
        self.progress.round = visit.round;
        let Some(row) = self.open.get_mut(&visit.row) else { return Ok(()) };
        self.progress.point.clone_from(&row.template.work.point);
        self.progress.solution.clone_from(&row.template.work.solution);
        self.progress.median_ns = median_ns(&row.template, &visit);
        let bytes = row.template.counts.bytes_moved() as f64;
        let rate = self.progress.median_ns.filter(|ns| *ns > 0.0).map(|ns| bytes / ns * 1e9);
        self.progress.bytes_per_second = rate.filter(|rate| *rate > 0.0);
        row.visits.push(visit);
        self.tell(None);
        Ok(())
    }

    async fn close_row(&mut self, index: u64, template: Row) -> Result<(), Arc<SpoolError>> {
        let entry = Entry::Closed { row: index, template: Cow::Borrowed(&template) };
        self.journal.add(&entry).await?;
        let visits = self.open.remove(&index).map(|row| row.visits).unwrap_or_default();
        self.closed.push(Subject::of_row(&template));
        self.hand_in(index, template, &visits).await
    }

    async fn forget_row(&mut self, row: u64) -> Result<(), Arc<SpoolError>> {
        self.open.remove(&row);
        Ok(self.journal.add(&Entry::Forgotten { row }).await?)
    }

    async fn decide(&mut self, checkpoint: Checkpoint) -> Result<(), Arc<SpoolError>> {
        self.journal.add(&Entry::Decided(Cow::Borrowed(&checkpoint))).await?;
        self.decided = Some(checkpoint);
        Ok(())
    }

    async fn hand_in(&self, index: u64, template: Row, visits: &[Visit]) -> Result<(), Arc<SpoolError>> {
        let row = assemble(template, visits).map_err(SpoolError::from)?;
        let row = NumberedRow { lease: self.lease.clone(), index, row };
        self.collector.add(row, &self.journal).await
    }

    /// Ends the attempt: open rows become what they can, and everything is in durable chunks, or still in the journal.
    pub(super) async fn finish(mut self, outcome: TaskOutcome, quarantine: Option<String>) -> TaskEnding {
        let cut = self.cut_rows_short(&outcome).await;
        let flushed = self.collector.flush(&self.lease).await;
        let kept = cut.and(flushed);
        let outcome = match kept {
            Ok(()) => {
                self.keep_or_remove(&outcome);
                outcome
            }
            // Rows are missing, whatever the worker thought of it. The journal stays for the next start.
            Err(error) => match outcome {
                TaskOutcome::Failed { .. } => outcome,
                TaskOutcome::Done | TaskOutcome::Stopped => error.into(),
            },
        };
        TaskEnding { outcome, dropped: self.dropped, quarantine }
    }

    /// The next attempt at the task goes on from the journal of one that was stopped, or that may be tried again.
    fn keep_or_remove(&self, outcome: &TaskOutcome) {
        let goes_on = match outcome {
            TaskOutcome::Stopped | TaskOutcome::Failed { retry: true, .. } => true,
            TaskOutcome::Done | TaskOutcome::Failed { retry: false, .. } => false,
        };
        if goes_on && self.is_whole {
            self.kept.put(self.journal.path(), &self.lease.task_id);
            return;
        }
        self.journal.remove();
        if !goes_on {
            self.kept.remove(&self.lease.task_id);
        }
    }

    /// A row with visits keeps them: it says that fewer rounds were done than planned. One without was never measured,
    /// and says so where that is the task's failure.
    async fn cut_rows_short(&mut self, outcome: &TaskOutcome) -> Result<(), Arc<SpoolError>> {
        for (index, OpenRow { mut template, visits }) in std::mem::take(&mut self.open) {
            if visits.is_empty() {
                let TaskOutcome::Failed { reason, .. } = outcome else { continue };
                template.outcome.status = Status::Invalid;
                template.outcome.reason = Some(reason.clone());
                let entry = Entry::CutShort { row: index, template: Cow::Borrowed(&template) };
                self.journal.add(&entry).await?;
            }
            self.hand_in(index, template, &visits).await?;
        }
        Ok(())
    }

    /// Tells people. Where nobody keeps up, what they would have seen is gone.
    pub(super) fn tell(&self, note: Option<String>) {
        let progress = Progress { note, ..self.progress.clone() };
        let _ = self.session.try_send(SessionInput::Progress { lease: self.lease.clone(), progress });
    }
}

/// Median of a visit, nanoseconds a launch.
fn median_ns(template: &Row, visit: &Visit) -> Option<f64> {
    let summary = estimate::Visit {
        round: visit.round,
        order: visit.order,
        buffer_offset_bytes: visit.buffer_offset_bytes,
        enqueues_per_sample: template.timing.enqueues_per_sample,
        stop_reason: visit.stop_reason,
    };
    summary.summarise(&visit.samples).map(|round| round.median_ns)
}
