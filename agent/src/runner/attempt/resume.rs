//! Going on: a fresh worker from where the last one was, an attempt from where an earlier one ended.

use std::borrow::Cow;
use std::sync::Arc;

use fleetcal_model::estimate::row_id;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::{Row, StopReason};
use fleetcal_proto::convert::Lease;

use super::super::strikes::Strikes;
use super::{Attempt, OpenRow};
use crate::harness::monitor::READINGS_KEPT;
use crate::spool::SpoolError;
use crate::spool::journal::{Entry, LeftRow, Leftover};
use crate::worker::frame::{FRAME_BYTES_MAX, bytes_of};
use crate::worker::message::Visit;
use crate::worker::resume::{KnownRow, KnownVisit, Resume};

/// Keeps the restarts of one attempt apart from those of the next: more workers than this hardly die in one.
const DEATHS_MAX: u64 = 1 << 12;

/// Room for open rows in the request for a fresh worker, bytes; the rest of the frame is the task's and its closed rows'.
const ROWS_BYTES_MAX: usize = FRAME_BYTES_MAX / 2;

impl Attempt {
    /// Goes on from what an earlier attempt measured: its visits become this attempt's, which hands in all of them.
    /// Visits that were cut short are left out, and made anew.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(in crate::runner) async fn take_up(&mut self, left: Leftover) -> Result<(), Arc<SpoolError>> {
        self.is_whole = false;
        self.earlier_attempts = left.lease.attempt;
        let mut visits = 0;
        for row in left.rows {
            visits += self.take_up_row(row).await?;
        }
        if let Some(checkpoint) = left.decided {
            self.decide(checkpoint).await?;
        }
        self.is_whole = true;
        let task = self.lease.task_id.as_str();
        tracing::info!(task, from_attempt = left.lease.attempt, visits, "a task goes on where it was interrupted");
        self.progress.visits_done = visits;
        self.tell(Some(format!("goes on after {visits} visits of attempt {}", left.lease.attempt)));
        Ok(())
    }

    async fn take_up_row(&mut self, left: LeftRow) -> Result<u64, Arc<SpoolError>> {
        let LeftRow { index: _, template, visits, closed, cut_short } = left;
        let visits: Vec<Visit> =
            visits.into_iter().filter(|visit| visit.stop_reason != StopReason::Interrupted).collect();
        let says_something = !visits.is_empty() || (closed && !cut_short);
        let Some(template) = under_lease(template, &self.lease).filter(|_| says_something) else { return Ok(0) };
        let index = self.rows_opened;
        self.open_row(template.clone()).await?;
        let taken = visits.len() as u64;
        for visit in visits {
            let visit = Visit { row: index, ..visit };
            self.journal.add(&Entry::Visited(Cow::Borrowed(&visit))).await?;
            self.open.entry(index).and_modify(|row| row.visits.push(visit));
        }
        if closed && !cut_short {
            self.close_row(index, template).await?;
        }
        Ok(taken)
    }

    /// What a fresh worker has to know. Rows that have no room in its request are begun anew.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(in crate::runner) async fn resume(&mut self, strikes: &Strikes) -> Result<Resume, Arc<SpoolError>> {
        self.resume_within(ROWS_BYTES_MAX, strikes).await
    }

    /// [`Attempt::resume`] with so much room for rows, bytes.
    pub(in crate::runner) async fn resume_within(
        &mut self,
        mut room_bytes: usize,
        strikes: &Strikes,
    ) -> Result<Resume, Arc<SpoolError>> {
        let (mut open, mut left_out) = (Vec::new(), Vec::new());
        for (&index, row) in &self.open {
            let known = known_row(index, row);
            match bytes_of(&known).ok().and_then(|bytes| room_bytes.checked_sub(bytes)) {
                Some(left_bytes) => {
                    room_bytes = left_bytes;
                    open.push(known);
                }
                None => left_out.push(index),
            }
        }
        let rows = left_out.len();
        for index in left_out {
            self.forget_row(index).await?;
        }
        if rows > 0 {
            let rows = if rows == 1 { "1 row is".to_owned() } else { format!("{rows} rows are") };
            self.tell(Some(format!("{rows} too large to be told to a fresh worker, and begun anew")));
        }
        Ok(Resume {
            restarts: self.earlier_attempts.saturating_mul(DEATHS_MAX).saturating_add(strikes.deaths()),
            rows_opened: self.rows_opened,
            open,
            closed: self.closed.clone(),
            checkpoint: self.decided.clone(),
            set_aside: strikes.set_aside(),
            one_by_one: strikes.one_by_one(),
        })
    }

    /// Visits made and rows closed so far: what a worker may have added to.
    pub(in crate::runner) fn achieved(&self) -> (u64, u64) {
        (self.progress.visits_done, self.closed.len() as u64)
    }
}

/// The row as one of this lease. None where it does not say what it measured, which no worker of this version writes.
fn under_lease(mut template: Row, lease: &Lease) -> Option<Row> {
    let point: Point = template.work.point.parse().ok()?;
    let solution = Solution { name: template.work.solution.clone(), parameters: Default::default() };
    let identity = &mut template.identity;
    identity.row_id = row_id(&lease.task_id, lease.attempt, &template.device.device_uuid, &point, &solution);
    (identity.attempt, identity.lease_epoch) = (lease.attempt, lease.epoch);
    Some(template)
}

fn known_row(index: u64, row: &OpenRow) -> KnownRow {
    let mut visits: Vec<KnownVisit> = row.visits.iter().map(|visit| known_visit(&row.template, visit)).collect();
    // A row of many visits needs few readings of each.
    let kept = (READINGS_KEPT / visits.len().max(1)).max(1);
    visits.iter_mut().filter_map(|visit| visit.seen.as_mut()).for_each(|seen| seen.thin(kept));
    KnownRow { row: index, template: Box::new(row.template.clone()), visits }
}

fn known_visit(template: &Row, visit: &Visit) -> KnownVisit {
    KnownVisit {
        round: visit.round,
        median_ns: super::median_ns(template, visit),
        timed_ns: visit.samples.iter().fold(0, |total: u64, sample| total.saturating_add(sample.ns)),
        samples: visit.samples.len() as u64,
        seen: visit.seen.clone(),
        wall_ns: visit.wall_ns,
    }
}
