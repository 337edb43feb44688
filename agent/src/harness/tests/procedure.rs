//! A task from beginning to end.

use std::collections::BTreeSet;

use fleetcal_model::row::{FlushMode, IntervalMethod, Role, Status, StopReason};

use super::fake::{FakeDevice, Said, point, task};
use crate::assemble::assemble;
use crate::harness::order::OFFSET_RANGE_BYTES;
use crate::harness::zones::ZONE_BYTES;
use crate::worker::message::Event;

fn measured(device: &mut FakeDevice, points: Vec<fleetcal_model::point::Point>) -> Said {
    let (outcome, said) = device.measure(&task(points));
    outcome.expect("nothing fails");
    said
}

#[test]
fn solutions_are_screened_and_the_best_measured_anew_in_every_round() {
    let said = measured(&mut FakeDevice::new(), vec![point(64, 4)]);
    assert_eq!(said.closed().len(), 4);
    for (solution, rounds, role) in [
        ("s0", vec![0, 1, 2, 3], Role::Fit),
        ("s1", vec![0, 1, 2, 3], Role::Fit),
        ("s2", vec![0], Role::Screening),
        ("s3", vec![0], Role::Screening),
    ] {
        let (index, row) = said.row(solution);
        let visits = said.visits(index);
        assert_eq!(visits.iter().map(|visit| visit.round).collect::<Vec<_>>(), rounds, "{solution}");
        assert_eq!(row.identity.role, role, "{solution}");
        assert_eq!(row.outcome.status, Status::Passed, "{solution}");
        assert_eq!(visits[0].samples.len(), 3, "screening takes the samples of the policy");
        assert!(
            visits[1..].iter().all(|visit| visit.stop_reason == StopReason::Converged && visit.samples.len() == 10)
        );
    }
    let (index, row) = said.row("s0");
    let row = assemble(row.clone(), &said.visits(index).into_iter().cloned().collect::<Vec<_>>());
    let row = row.expect("JSON holds a row");
    assert_eq!((row.timing.rounds_planned, row.timing.rounds_done), (3, 3), "the screening round is none");
    assert_eq!(row.timing.estimate_ns, Some(1000.0));
    assert_eq!(row.timing.interval_method, IntervalMethod::StudentTLogRounds);
    assert!(row.feeds_fits());
}

#[test]
fn one_solution_needs_no_screening() {
    let said = measured(&mut FakeDevice::new(), vec![point(64, 1), point(128, 1)]);
    for (index, row) in said.closed() {
        let rounds: Vec<u64> = said.visits(index).iter().map(|visit| visit.round).collect();
        assert_eq!(rounds, [1, 2, 3], "{}", row.work.point);
    }
    let planned = Event::Planned { visits: 6, rounds: 3 };
    assert_eq!(said.0.iter().filter(|event| matches!(event, Event::Planned { .. })).collect::<Vec<_>>(), [&planned]);
}

#[test]
fn the_same_seed_gives_the_same_order_and_another_seed_another() {
    let order = |seed| {
        let (mut device, mut task) = (FakeDevice::new(), task((1..8).map(|index| point(64 * index, 3)).collect()));
        task.seed = seed;
        let (outcome, _) = device.measure(&task);
        outcome.expect("nothing fails");
        device.logged("run").iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(order(7), order(7));
    assert_ne!(order(7), order(8));
}

#[test]
fn every_round_has_fresh_buffers_at_another_offset_and_old_ones_go_first() {
    let mut device = FakeDevice::new();
    let said = measured(&mut device, vec![point(1 << 20, 1), point(64, 1)]);
    let largest = 2 * ((4 << 20) + OFFSET_RANGE_BYTES + 2 * ZONE_BYTES);
    assert_eq!(device.peak_bytes, largest, "two rounds' buffers must never be held at once");
    let visits = said.closed().keys().flat_map(|row| said.visits(*row)).collect::<Vec<_>>();
    let offsets: BTreeSet<(u64, u64)> = visits.iter().map(|visit| (visit.round, visit.buffer_offset_bytes)).collect();
    assert_eq!(offsets.len(), 3, "one offset a round: {offsets:?}");
    assert_eq!(offsets.iter().map(|(_, offset)| offset).collect::<BTreeSet<_>>().len(), 3, "offsets must differ");
}

#[test]
fn inputs_are_filled_once_a_round_and_outputs_poisoned_before_each_visit() {
    let mut device = FakeDevice::new();
    measured(&mut device, vec![point(64, 1), point(256, 1), point(128, 1)]);
    let whole = device.logged("fill").into_iter().filter(|line| line.starts_with("256")).count();
    assert_eq!(whole, 3, "once a round, for the largest point; where zones of smaller ones were, anew");
    let mut steps: Vec<&str> = device.log.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    let outputs = ["poison", "run", "gather", "time"];
    steps.retain(|step| outputs.contains(step));
    steps.dedup();
    let visit = ["poison", "run", "gather", "poison", "time", "gather"];
    assert_eq!(steps, [visit; 9].concat(), "validated before timing, poisoned again, and looked at after");
}

#[test]
fn guard_zones_are_looked_at_before_a_solution_is_first_timed_and_after_the_timed_launches_of_each_visit() {
    let mut device = FakeDevice::new();
    measured(&mut device, vec![point(64, 1)]);
    let mut steps: Vec<&str> = device.log.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    steps.retain(|step| ["run", "look", "time", "guard"].contains(step));
    steps.dedup();
    let (first, later) = (["guard", "run", "look", "time", "look"], ["guard", "run", "time", "look"]);
    assert_eq!(steps, [&first[..], &later, &later].concat(), "set anew in a round's fresh buffers");
}

#[test]
fn a_row_is_opened_only_once_validated_and_says_what_is_known() {
    let said = measured(&mut FakeDevice::new(), vec![point(1 << 20, 1)]);
    let opened = |event| {
        let Event::RowOpened(row): &Event = event else { return None };
        Some(row.as_ref())
    };
    let row = said.0.iter().find_map(opened).expect("a row was opened");
    assert_eq!((row.outcome.status, row.outcome.max_error), (Status::Passed, Some(0.0)));
    assert_eq!(row.outcome.validated_elements, 1 << 20, "all elements were asked for");
    let closed = said.row("s0").1.outcome.validated_elements;
    assert_eq!(closed, 1 << 20, "elements that later visits look at again count once");
    assert_eq!((row.work.elements, row.work.block_threads), (Some(1 << 20), Some(128)));
    assert_eq!(row.work.parameters.get("ns").map(String::as_str), Some("1000"));
    assert_eq!((row.timing.clock_overhead_ns, row.timing.flush_mode), (Some(2.0), FlushMode::Oversized));
    assert_eq!(row.conditions.foreign_processes, None, "what nobody looked for is unknown");
}

#[test]
fn a_small_footprint_is_measured_warm() {
    let said = measured(&mut FakeDevice::new(), vec![point(64, 1)]);
    assert_eq!(said.row("s0").1.timing.flush_mode, FlushMode::Warm);
}

#[test]
fn every_visit_says_who_wanted_more_of_it() {
    let said = measured(&mut FakeDevice::new(), vec![point(64, 1)]);
    let (row, _) = said.row("s0");
    let visits = said.visits(row);
    let first = &visits.first().expect("it was visited").votes;
    let yes = |question: &str, listener: &str| {
        first.iter().find(|vote| vote.question == question && vote.listener == listener).map(|vote| vote.yes)
    };
    assert_eq!((yes("another round", "timer"), yes("more samples", "timer")), (Some(1), Some(1)), "{first:?}");
    assert!(visits.iter().all(|visit| visit.votes.iter().any(|vote| vote.question == "more samples")), "{visits:?}");
}
