//! Rows from visits: whole, cut short, and screened out.

use std::sync::atomic::AtomicBool;

use fleetcal_kernels::Family;
use fleetcal_model::estimate::verify_seal;
use fleetcal_model::policy::Caches;
use fleetcal_model::row::{IntervalMethod, Origin, Sample, Status, StopReason};

use super::*;
use crate::device::{Instrument, Prepared};
use crate::harness::Setting;
use crate::harness::clock::SystemClock;
use crate::harness::flush::Flush;
use crate::harness::template::RowSource;
use crate::harness::tests::fake::{Copies, facts, labels, point, task};
use crate::worker::message::RoundPlan;
use crate::worker::resume::Resume;

/// A template as a harness opens it: validated, three rounds planned.
fn template() -> Row {
    let (task, labels, facts) = (task(vec![point(64, 1)]), labels(), facts());
    let (interrupt, clock, point) = (AtomicBool::new(false), SystemClock::start(), &task.points[0]);
    let solution = &Copies.solutions(point, &facts)[0];
    let source = RowSource {
        setting: Setting {
            task: &task,
            labels: &labels,
            resume: &Resume::default(),
            interrupt: &interrupt,
            clock: &clock,
        },
        facts: &facts,
        origin: Origin::Simulated,
        clock_source: "fake",
        instrument: &Instrument { clock_resolution_ns: 1.0, clock_overhead_ns: 1.0, empty_launch_ns: 1.0 },
        point,
        solution,
        flush: Flush::of(Caches::Auto, point.sweep, 512, &facts),
        counts: Copies.counts(point, solution, &crate::testing::device("SIM-1")),
        rounds_planned: 3,
    };
    let mut row = source.template::<()>(None::<&Prepared<()>>);
    row.outcome.status = Status::Passed;
    row
}

fn visit(round: u64, ns: u64) -> Visit {
    let sample = |start_ns| Sample { ns, round, start_ns, accepted: true, throttle_bits: None, clock_khz: None };
    Visit {
        row: 0,
        round,
        order: 3,
        buffer_offset_bytes: 512,
        samples: vec![sample(1), sample(2)],
        stop_reason: StopReason::Count,
        plan: RoundPlan { rounds: 3, pilot: None },
        started_utc_ns: 100 + round,
        ended_utc_ns: 200 + round,
        wall_ns: 0,
        co_running: None,
        seen: None,
        votes: Vec::new(),
    }
}

#[test]
fn rounds_make_the_estimate_and_the_screening_visit_does_not() {
    let row = assemble(template(), &[visit(2, 1010), visit(0, 500), visit(3, 1030), visit(1, 1020)])
        .expect("JSON holds a row");
    assert_eq!(row.timing.rounds.iter().map(|round| round.round).collect::<Vec<_>>(), [0, 1, 2, 3], "rounds in order");
    assert_eq!(row.timing.samples.len(), 8, "every sample is kept");
    assert_eq!((row.timing.rounds_done, row.timing.estimate_ns), (3, Some(1020.0)));
    assert_eq!(row.timing.interval_method, IntervalMethod::StudentTLogRounds);
    assert_eq!((row.outcome.started_utc_ns, row.outcome.ended_utc_ns), (100, 203));
    assert_eq!((row.identity.role, row.timing.rounds[1].buffer_offset_bytes), (Role::Fit, 512));
    assert!(verify_seal(&row), "the row must be sealed as it is");
}

#[test]
fn a_row_cut_short_says_so() {
    let row = assemble(template(), &[visit(1, 1000)]).expect("JSON holds a row");
    assert_eq!((row.timing.rounds_done, row.timing.rounds_planned), (1, 3));
    assert_eq!(row.timing.interval_method, IntervalMethod::SingleVisit);
    assert_eq!((row.timing.estimate_ns, row.timing.interval_low_ns), (Some(1000.0), None));
}

#[test]
fn a_row_cut_short_after_its_pilot_says_what_it_was_cut_short_of() {
    let after_pilot = |round, ns| Visit { plan: RoundPlan { rounds: 9, pilot: Some(3) }, ..visit(round, ns) };
    let visits = [visit(1, 1000), visit(2, 1010), visit(3, 1030), after_pilot(4, 1010), after_pilot(5, 1010)];
    let row = assemble(template(), &visits).expect("JSON holds a row");
    assert_eq!((row.timing.rounds_done, row.timing.rounds_planned, row.timing.pilot_rounds), (5, 9, Some(3)));
    assert_eq!(row.timing.interval_method, IntervalMethod::StudentTLogTwoStage);
    let shrunk = Visit { plan: RoundPlan { rounds: 2, pilot: None }, ..visit(2, 1000) };
    let row = assemble(template(), &[visit(1, 1000), shrunk]).expect("JSON holds a row");
    assert_eq!(
        (row.timing.rounds_planned, row.timing.pilot_rounds),
        (2, None),
        "rounds that time took are not planned"
    );
}

#[test]
fn a_row_that_failed_late_keeps_its_rounds_and_has_no_estimate() {
    for status in [Status::Failed, Status::Invalid] {
        let mut template = template();
        template.outcome.status = status;
        let timing =
            assemble(template, &[visit(1, 1000), visit(2, 1010), visit(3, 1020)]).expect("JSON holds a row").timing;
        assert_eq!((timing.rounds.len(), timing.samples.len()), (3, 6), "{status}: what was measured is kept");
        assert_eq!(
            (timing.estimate_ns, timing.interval_low_ns, timing.interval_high_ns),
            (None, None, None),
            "{status}"
        );
        assert_eq!((timing.interval_method, timing.converged), (IntervalMethod::NotSound, None), "{status}");
    }
}

#[test]
fn screening_alone_feeds_no_fit() {
    let row = assemble(template(), &[visit(0, 1000)]).expect("JSON holds a row");
    assert_eq!((row.identity.role, row.timing.rounds_planned), (Role::Screening, 0));
    assert!(!row.feeds_fits());
}

#[test]
fn a_row_without_visits_is_sealed_and_empty() {
    let row = assemble(template(), &[]).expect("JSON holds a row");
    assert_eq!((row.timing.estimate_ns, row.timing.rounds_done, row.identity.role), (None, 0, Role::Fit));
    assert!(verify_seal(&row));
}

#[test]
fn neighbours_are_what_every_visit_saw() {
    let beside = |fewest, most, others| Some(CoRunning { fewest, most, others });
    for (coordinator_says_alone, seen, neighbours, co_running) in [
        (true, [beside(0, 0, 3), beside(0, 0, 3)], Some("alone"), 0),
        (true, [beside(0, 0, 3), beside(0, 1, 3)], None, 0),
        (false, [beside(0, 0, 3), beside(0, 0, 3)], None, 0),
        (false, [beside(3, 3, 3), beside(3, 3, 3)], Some("node_full"), 3),
        (false, [beside(3, 3, 3), beside(2, 3, 3)], None, 2),
        (false, [beside(0, 0, 0), beside(0, 0, 0)], None, 0),
    ] {
        let mut template = template();
        template.conditions.neighbours = coordinator_says_alone.then(|| ALONE.to_owned());
        let visits: Vec<Visit> =
            (1..).zip(seen).map(|(round, co_running)| Visit { co_running, ..visit(round, 1000) }).collect();
        let conditions = assemble(template, &visits).expect("JSON holds a row").conditions;
        assert_eq!(conditions.neighbours.as_deref(), neighbours, "{seen:?}");
        assert_eq!(conditions.co_running_devices, Some(co_running), "{seen:?}");
    }
}

#[test]
fn a_clock_set_back_between_visits_leaves_a_row_that_ends_after_it_started() {
    let late = Visit { started_utc_ns: 50, ended_utc_ns: 40, ..visit(2, 1000) };
    let row = assemble(template(), &[visit(1, 1000), late]).expect("JSON holds a row");
    assert_eq!((row.outcome.started_utc_ns, row.outcome.ended_utc_ns), (50, 201));
    assert_eq!(row.timing.rounds_done, 2, "rounds go by their numbers, not by the clock");
}
