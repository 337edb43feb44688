//! Taking up a task where an earlier worker left it: visits that ended are not made again.

use super::HarnessError;
use super::bench::{Bench, SCREENING_ROUND};
use super::budget::VisitCost;
use super::record::{Publication, Record, Verdict};
use crate::device::Device;
use crate::worker::message::Event;
use crate::worker::resume::{Checkpoint, Chosen, KnownRow, KnownVisit, Resume, Subject};

/// Why a solution is not prepared, where that was settled before this worker.
pub(super) fn settled_before(resume: &Resume, subject: &Subject) -> Option<(Verdict, Publication)> {
    if resume.closed.contains(subject) {
        return Some((Verdict::Skipped("its row is complete".to_owned()), Publication::Closed));
    }
    let set_aside = resume.set_aside.iter().find(|aside| aside.subject == *subject)?;
    Some((Verdict::Invalid(set_aside.reason.clone()), Publication::Unsaid))
}

impl<D: Device> Bench<'_, D> {
    /// Whether an earlier worker visited a record in this round.
    pub(super) fn was_visited(&self, record: usize, round: u64) -> bool {
        self.records[record].resumed_after.is_some_and(|last| last >= round)
    }

    /// Says what was decided so far.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub(super) fn say_checkpoint(&mut self) -> Result<(), HarnessError> {
        let selected = (0..self.records.len()).filter(|&record| self.is_wanted(record));
        let checkpoint = Checkpoint {
            first_round: self.first_round,
            next_round: self.next_round,
            limits: self.limits,
            selected: selected
                .map(|record| Chosen { subject: self.subject(record), plan: self.records[record].plan })
                .collect(),
            spent_ns: self.spent_ns(),
        };
        self.say(Event::Decided(checkpoint))
    }

    /// Gives records, limits and the place in the loop what earlier workers left.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub(super) fn take_up(&mut self) -> Result<(), HarnessError> {
        let resume = self.setting.resume;
        for record in 0..self.records.len() {
            let subject = self.subject(record);
            let Some(known) = resume.open.iter().find(|known| Subject::of_row(&known.template) == subject) else {
                continue;
            };
            if is_other_code(&self.records[record], known) {
                self.say(Event::RowForgotten { row: known.row })?;
            } else {
                self.records[record].take_up(known);
                let point = self.records[record].point;
                self.points[point].timing_mode = Some(known.template.timing.timing_mode);
            }
        }
        let Some(checkpoint) = &resume.checkpoint else { return Ok(()) };
        self.first_round = checkpoint.first_round;
        self.next_round = checkpoint.next_round;
        self.limits = checkpoint.limits;
        for record in 0..self.records.len() {
            let subject = self.subject(record);
            let chosen = checkpoint.selected.iter().find(|chosen| chosen.subject == subject);
            let record = &mut self.records[record];
            record.selected = chosen.is_some();
            record.plan = chosen.map_or(record.plan, |chosen| chosen.plan);
        }
        Ok(())
    }
}

/// Whether a known row rests on other code than what would run now. One that cannot run any more keeps what it has.
fn is_other_code<Program>(record: &Record<Program>, known: &KnownRow) -> bool {
    let (now, before) = (&record.template.work, &known.template.work);
    record.prepared.is_some()
        && (now.source_digest != before.source_digest
            || now.code_digest != before.code_digest
            || now.compile_options != before.compile_options)
}

impl<Program> Record<Program> {
    fn take_up(&mut self, known: &KnownRow) {
        if self.verdict.is_live() {
            self.verdict = Verdict::of_row(&known.template);
        }
        self.template = known.template.as_ref().clone();
        self.publication = Publication::Open(known.row);
        self.resumed_after = known.visits.iter().map(|visit| visit.round).max();
        for visit in &known.visits {
            let Some(seen) = &visit.seen else { continue };
            // Throttling is judged from the samples when the row is assembled: the agent has all of them.
            self.watch.add(seen.as_ref().clone(), &[], visit.round == SCREENING_ROUND);
        }
        let mut measured: Vec<&KnownVisit> =
            known.visits.iter().filter(|visit| visit.round != SCREENING_ROUND).collect();
        measured.sort_by_key(|visit| visit.round);
        self.medians_ns = measured.iter().filter_map(|visit| visit.median_ns).collect();
        self.rounds_done = measured.len() as u64;
        let screening = known.visits.iter().find(|visit| visit.round == SCREENING_ROUND);
        self.screening_ns = screening.and_then(|visit| visit.median_ns);
        self.cost = known.visits.iter().max_by_key(|visit| visit.round).map(cost);
    }
}

/// What a visit cost, as far as its record tells.
fn cost(visit: &KnownVisit) -> VisitCost {
    VisitCost {
        fixed_ns: visit.wall_ns.saturating_sub(visit.timed_ns),
        sample_ns: visit.timed_ns / visit.samples.max(1),
    }
}
