//! Tasks that a second worker takes up where the first one was stopped.

#![allow(clippy::wildcard_enum_match_arm, reason = "in a test, only what is looked for is of interest")]

use std::collections::BTreeMap;

use fleetcal_model::row::{Row, Status, StopReason};

use super::fake::{FakeDevice, Fault, Said, point, task};
use crate::harness::monitor::VisitSeen;
use crate::task::TaskSpec;
use crate::telemetry::ForeignProcess;
use crate::worker::message::{Event, Visit};
use crate::worker::resume::{KnownRow, KnownVisit, Resume, SetAside, Stage, Subject};

/// What an agent keeps of a task, from what its workers say.
#[derive(Default)]
struct Kept {
    rows: BTreeMap<u64, (Row, Vec<Visit>)>,
    resume: Resume,
}

impl Kept {
    fn take(&mut self, said: &Said) {
        for event in said.0.clone() {
            match event {
                Event::RowOpened(row) => {
                    self.rows.insert(self.resume.rows_opened, (*row, Vec::new()));
                    self.resume.rows_opened += 1;
                }
                Event::Visited(visit) if visit.stop_reason == StopReason::Interrupted => {}
                Event::Visited(visit) => {
                    self.rows.entry(visit.row).and_modify(|(_, visits)| visits.push(visit));
                }
                Event::RowClosed { row, template } => {
                    self.resume.closed.push(Subject::of_row(&template));
                    self.rows.entry(row).and_modify(|(kept, _)| *kept = *template);
                }
                Event::RowForgotten { row } => drop(self.rows.remove(&row)),
                Event::Decided(checkpoint) => self.resume.checkpoint = Some(checkpoint),
                _ => {}
            }
        }
        self.resume.restarts += 1;
        let open = |row: &Row| !self.resume.closed.contains(&Subject::of_row(row));
        let known = |(index, (row, visits)): (&u64, &(Row, Vec<Visit>))| KnownRow {
            row: *index,
            template: Box::new(row.clone()),
            visits: visits.iter().map(known_visit).collect(),
        };
        self.resume.open = self.rows.iter().filter(|(_, (row, _))| open(row)).map(known).collect();
    }

    /// Rounds of each solution of each point, in the order of the rounds.
    fn rounds(&self) -> BTreeMap<(String, String), Vec<u64>> {
        let of_row = |(row, visits): &(Row, Vec<Visit>)| {
            let mut rounds: Vec<u64> = visits.iter().map(|visit| visit.round).collect();
            rounds.sort_unstable();
            ((row.work.point.clone(), row.work.solution.clone()), rounds)
        };
        self.rows.values().map(of_row).collect()
    }
}

fn known_visit(visit: &Visit) -> KnownVisit {
    KnownVisit {
        round: visit.round,
        median_ns: Some(visit.samples[0].ns as f64),
        timed_ns: visit.samples.iter().map(|sample| sample.ns).sum(),
        samples: visit.samples.len() as u64,
        seen: visit.seen.clone(),
        wall_ns: visit.wall_ns,
    }
}

fn two_points() -> TaskSpec {
    task(vec![point(64, 3), point(128, 3)])
}

/// Measures a task, stopped after so many calls of `time`, if at all, then taken up and measured to its end.
fn in_two_parts(stop_after: u64) -> (Kept, Said, Said) {
    let (mut kept, mut first) = (Kept::default(), FakeDevice::new());
    first.interrupt_after = Some(stop_after);
    let (outcome, before) = first.measure(&two_points());
    kept.take(&before);
    let mut second = FakeDevice::new();
    second.resume = kept.resume.clone();
    let (resumed, after) = second.measure(&two_points());
    resumed.unwrap_or_else(|error| panic!("stopped after {stop_after} ({outcome:?}), it does not go on: {error}"));
    kept.take(&after);
    (kept, before, after)
}

#[test]
fn wherever_a_task_is_stopped_its_rows_hold_the_same_visits_once() {
    let (whole, ..) = in_two_parts(u64::MAX);
    let visits: u64 = whole.rounds().values().map(|rounds| rounds.len() as u64).sum();
    assert_eq!(visits, 6 + 3 * 4, "six screening visits, then three rounds of two finalists of two points");
    for stop_after in 1..=visits {
        let (kept, before, after) = in_two_parts(stop_after);
        assert_eq!(kept.rounds(), whole.rounds(), "stopped after {stop_after}");
        assert_eq!(kept.resume.closed.len(), kept.rows.len(), "stopped after {stop_after}: a row stayed open");
        let offsets = |said: &Said| -> BTreeMap<u64, u64> {
            let visits = said.0.iter().filter_map(|event| match event {
                Event::Visited(visit) => Some((visit.round, visit.buffer_offset_bytes)),
                _ => None,
            });
            visits.collect()
        };
        let (first, second) = (offsets(&before), offsets(&after));
        for (round, offset) in second {
            assert_ne!(first.get(&round), Some(&offset), "round {round} goes on in fresh buffers at a new offset");
        }
    }
}

#[test]
fn a_round_that_goes_on_keeps_the_places_of_its_visits() {
    let order = |kept: &Kept| -> BTreeMap<(u64, u64), String> {
        let visit = |(row, visits): &(Row, Vec<Visit>)| {
            let name = format!("{} {}", row.work.point, row.work.solution);
            visits.iter().map(|visit| ((visit.round, visit.order), name.clone())).collect::<Vec<_>>()
        };
        kept.rows.values().flat_map(visit).collect()
    };
    let (whole, ..) = in_two_parts(u64::MAX);
    for stop_after in [2, 8, 13] {
        assert_eq!(order(&in_two_parts(stop_after).0), order(&whole), "stopped after {stop_after}");
    }
}

#[test]
fn a_solution_that_was_set_aside_is_not_touched_and_its_row_says_why() {
    let (mut kept, mut first) = (Kept::default(), FakeDevice::new());
    first.interrupt_after = Some(8);
    let (_, before) = first.measure(&two_points());
    kept.take(&before);
    let subject = Subject { point: point(64, 3).to_string(), solution: "s0".to_owned() };
    let reason = "it ended 3 workers, the last during a warm-up: exit code 139".to_owned();
    kept.resume.set_aside = vec![SetAside { subject, reason: reason.clone() }];
    let mut second = FakeDevice::new();
    second.resume = kept.resume.clone();
    let (outcome, after) = second.measure(&two_points());
    outcome.expect("the others go on");
    let row = |said: &Said, elements| {
        let rows = said.closed().into_values().filter(|row| row.work.solution == "s0").cloned().collect::<Vec<_>>();
        rows.into_iter().find(|row| row.work.elements == Some(elements)).expect("it is closed")
    };
    let (aside, other) = (row(&after, 64).outcome, row(&after, 128).outcome);
    assert_eq!((aside.status, aside.reason), (Status::Invalid, Some(reason)));
    assert_eq!(other.status, Status::Passed, "the same solution on another point is another subject");
    assert!(!second.logged("run").iter().any(|line| line.starts_with("s0 of 64")), "it was run again");
}

#[test]
fn what_the_monitor_saw_before_the_interruption_still_counts() {
    let (mut kept, mut first) = (Kept::default(), FakeDevice::new());
    first.interrupt_after = Some(16);
    kept.take(&first.measure(&two_points()).1);
    let somebody = ForeignProcess { pid: 7, name: Some("somebody".to_owned()) };
    let seen = VisitSeen::of(&[], Some(vec![somebody]));
    let measured = kept.resume.open.iter_mut().flat_map(|row| &mut row.visits).find(|visit| visit.round > 0);
    measured.expect("a round began").seen = Some(Box::new(seen));
    let mut second = FakeDevice::new();
    second.resume = kept.resume.clone();
    let (outcome, after) = second.measure(&two_points());
    outcome.expect("it goes on");
    let contended: Vec<&Row> =
        after.closed().into_values().filter(|row| row.outcome.status == Status::Contended).collect();
    assert_eq!(contended.len(), 1, "one row was disturbed before the interruption");
    assert_eq!(contended[0].conditions.foreign_processes, Some(1));
}

#[test]
fn a_row_that_rests_on_other_code_is_begun_anew() {
    let (mut kept, mut first) = (Kept::default(), FakeDevice::new());
    first.interrupt_after = Some(10);
    kept.take(&first.measure(&two_points()).1);
    let open = kept.resume.open.len();
    kept.resume.open.iter_mut().for_each(|row| row.template.work.code_digest = Some("other".to_owned()));
    let mut second = FakeDevice::new();
    second.resume = kept.resume.clone();
    let (outcome, after) = second.measure(&two_points());
    outcome.expect("it goes on");
    let forgotten = after.0.iter().filter(|event| matches!(event, Event::RowForgotten { .. })).count();
    assert_eq!(forgotten, open, "no visit of other code may enter a row");
}

#[test]
fn what_comes_next_is_said_before_it_starts() {
    let mut device = FakeDevice::new().with_fault("s1", Fault::LosesTheContext);
    let (outcome, said) = device.measure(&task(vec![point(64, 2)]));
    assert!(outcome.is_err());
    let in_hand = |event: &Event| match event {
        Event::InHand(in_hand) => Some((in_hand.stage, in_hand.subject.clone().map(|subject| subject.solution))),
        _ => None,
    };
    let said: Vec<_> = said.0.iter().filter_map(in_hand).collect();
    assert_eq!(said[0], (Stage::Prepare, None));
    assert_eq!(said.last(), Some(&(Stage::WarmUp, Some("s1".to_owned()))), "the death is its fault: {said:?}");
}

#[test]
fn solutions_are_prepared_one_by_one_after_a_death_in_preparing() {
    let mut device = FakeDevice::new();
    device.resume.one_by_one = true;
    let (outcome, said) = device.measure(&task(vec![point(64, 2)]));
    outcome.expect("nothing is wrong");
    assert_eq!(device.logged("prepare"), ["1", "1"]);
    let named = said.0.iter().filter(
        |event| matches!(event, Event::InHand(in_hand) if in_hand.stage == Stage::Prepare && in_hand.subject.is_some()),
    );
    assert_eq!(named.count(), 2, "each is named before it is prepared");
}

#[test]
fn results_are_looked_at_after_timed_launches_under_the_name_of_a_check() {
    let (outcome, said) = FakeDevice::new().measure(&task(vec![point(64, 1)]));
    outcome.expect("nothing is wrong");
    let mut stage = None;
    let mut stages = Vec::new();
    for event in &said.0 {
        match event {
            Event::InHand(in_hand) => stage = Some(in_hand.stage),
            Event::Visited(_) => stages.push(stage),
            _ => {}
        }
    }
    assert_eq!(
        stages,
        [Some(Stage::Check); 3],
        "a check of billions of elements must not run under a launch's deadline"
    );
}
