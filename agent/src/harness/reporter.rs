//! Listener: publishes records as rows. Nobody else does, and only when a verdict stands.

use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{Role, StopReason};

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::record::{Publication, Verdict};
use crate::device::Device;
use crate::worker::message::{Event, Visit};

/// Registered first, so that its post hooks come last and see what all others made of the visit.
#[derive(Debug, Default)]
pub(super) struct Reporter {
    warmups: u64,
}

impl<D: Device> Listener<D> for Reporter {
    fn name(&self) -> &'static str {
        "reporter"
    }

    fn set_warmups(&mut self, count: u64) {
        self.warmups = count;
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let at = bench.position;
        if !bench.record().verdict.is_live() {
            return bench.close_row(at.record);
        }
        // Not validated (somebody stopped the task before), or not timed: there is nothing to publish.
        if !bench.record().verdict.is_sound() || bench.visit.samples.is_empty() {
            return Ok(());
        }
        bench.record().template.timing.warmups = self.warmups;
        let visit = std::mem::take(&mut bench.visit);
        let row = bench.open_row(at.record)?;
        if !bench.is_screening() {
            bench.record().rounds_done += 1;
        }
        let ended_utc_ns = bench.setting.clock.utc_ns();
        let plan = bench.record().plan;
        bench.say(Event::Visited(Visit {
            row,
            round: at.round,
            order: at.order,
            buffer_offset_bytes: bench.arena.offset_bytes(),
            samples: visit.samples,
            stop_reason: visit.stop_reason.unwrap_or(StopReason::Count),
            plan,
            started_utc_ns: visit.started_utc_ns,
            ended_utc_ns,
            wall_ns: bench.since_ns(visit.started_ns),
            co_running: None,
            seen: visit.seen,
            votes: visit.votes,
        }))
    }

    fn post_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let round = bench.position.round;
        bench.records.iter_mut().for_each(|record| record.selected &= round < record.plan.rounds);
        bench.close_settled_rows()
    }
}

impl<D: Device> Bench<'_, D> {
    /// Says that a row begins, where that was not said; its index.
    fn open_row(&mut self, record: usize) -> Result<u64, HarnessError> {
        if let Publication::Open(index) = self.records[record].publication {
            return Ok(index);
        }
        let template = self.settled_template(record);
        let index = self.rows_opened;
        self.rows_opened += 1;
        self.records[record].publication = Publication::Open(index);
        self.say(Event::RowOpened(Box::new(template)))?;
        Ok(index)
    }

    /// Says that a row gets no further visit, once.
    fn close_row(&mut self, record: usize) -> Result<(), HarnessError> {
        if self.records[record].publication == Publication::Closed {
            return Ok(());
        }
        let row = self.open_row(record)?;
        self.records[record].publication = Publication::Closed;
        self.judge_conditions(record);
        let mut template = self.settled_template(record);
        let record = &self.records[record];
        if record.prepared.is_none() {
            // It never ran, so nobody looked at what it touched.
            template.outcome.bounds_check = BoundsCheck::None;
        }
        if record.screening_ns.is_some() && record.rounds_done == 0 && record.verdict.is_sound() {
            template.identity.role = Role::Screening;
            template.timing.rounds_planned = 0;
            template.conditions.load = None;
        }
        self.say(Event::RowClosed { row, template: Box::new(template) })
    }

    /// Closes the rows of all records that no round to come visits.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub(super) fn close_settled_rows(&mut self) -> Result<(), HarnessError> {
        (0..self.records.len())
            .filter(|&record| !self.is_wanted(record))
            .collect::<Vec<_>>()
            .into_iter()
            .try_for_each(|record| self.close_row(record))
    }

    /// Closes every row at an end before its time. Solutions that were never visited say why.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub(super) fn close_all_rows(&mut self, reason: &str) -> Result<(), HarnessError> {
        (0..self.records.len()).try_for_each(|record| {
            let unvisited =
                self.records[record].verdict.is_live() && self.records[record].publication == Publication::Unsaid;
            if unvisited {
                self.records[record].verdict = Verdict::Skipped(format!("not measured: {reason}"));
            }
            self.close_row(record)
        })
    }

    /// The template with what is known now.
    fn settled_template(&self, record: usize) -> fleetcal_model::row::Row {
        let record = &self.records[record];
        let mut row = record.template.clone();
        record.verdict.apply(&mut row);
        row.timing.rounds_planned = record.plan.rounds;
        row.timing.pilot_rounds = record.plan.pilot;
        record.watch.apply(&mut row.conditions);
        row
    }
}
