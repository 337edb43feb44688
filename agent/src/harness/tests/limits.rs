//! Memory and time that do not suffice.

use fleetcal_model::row::{Sample, Status, StopReason};

use super::fake::{FakeDevice, point, task};
use crate::harness::order::OFFSET_RANGE_BYTES;
use crate::harness::zones::ZONE_BYTES;
use crate::worker::message::Event;

#[test]
fn points_that_do_not_fit_are_dropped_largest_first_and_said() {
    let mut device = FakeDevice::new();
    let room = OFFSET_RANGE_BYTES + 2 * ZONE_BYTES;
    let fits = 2 * ((4 << 20) + room);
    device.memory_bytes = fits;
    let (outcome, said) = device.measure(&task(vec![point(1 << 22, 1), point(1 << 20, 1), point(1 << 21, 1)]));
    outcome.expect("the smallest point fits");
    let needed = |elements: u64| 2 * (4 * elements + room);
    let sentences = [1 << 22, 1 << 21].map(|elements| format!("needs {} bytes, {fits} free", needed(elements)));
    assert_eq!(said.sentences(), sentences);
    assert_eq!(said.row("s0").1.work.elements, Some(1 << 20));
}

#[test]
fn a_point_that_the_family_refuses_is_dropped_with_its_words() {
    let (outcome, said) = FakeDevice::new().measure(&task(vec![point(0, 1), point(64, 1)]));
    outcome.expect("the other point is good");
    assert!(said.sentences()[0].contains("it is nothing"), "{:?}", said.sentences());
    assert_eq!(said.closed().len(), 1);
}

#[test]
fn memory_that_goes_between_rounds_costs_the_largest_point_its_further_rounds() {
    let mut device = FakeDevice::new();
    // Two buffers a round: the first of the third round is refused.
    device.allocations_left = 4;
    let (outcome, said) = device.measure(&task(vec![point(1 << 20, 1), point(64, 1)]));
    outcome.expect("the smaller point goes on");
    for (index, row) in said.closed() {
        let rounds = if row.work.elements == Some(64) { 3 } else { 2 };
        assert_eq!(said.visits(index).len(), rounds, "{}", row.work.point);
        assert_eq!(row.outcome.status, Status::Passed, "what was measured stays true");
    }
    assert_eq!(said.sentences().len(), 1, "a dropped point is said: {:?}", said.sentences());
}

#[test]
fn a_slow_visit_stops_at_its_time_and_never_empty() {
    let mut device = FakeDevice::new();
    device.slowness = 1_000_000_000;
    let (outcome, said) = device.measure(&task(vec![point(64, 2)]));
    outcome.expect("slow is not wrong");
    for index in said.closed().into_keys() {
        for visit in said.visits(index) {
            assert_eq!(visit.samples.len(), 1, "a launch takes a thousand times the visit's time");
            assert_eq!(visit.stop_reason, StopReason::TimeUp);
        }
    }
}

#[test]
fn a_noisy_visit_stops_at_its_count_in_few_batches() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 1)]));
    device.spread_percent = 10;
    task.policy.samples_max = 25;
    let (outcome, said) = device.measure(&task);
    outcome.expect("noise is not wrong");
    assert!(said.visits(0).iter().all(|visit| visit.samples.len() == 25 && visit.stop_reason == StopReason::Count));
    assert_eq!(device.logged("time")[..3], ["s0 x 10", "s0 x 10", "s0 x 5"]);
}

#[test]
fn a_task_that_would_take_too_long_shrinks_and_says_so() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 4)]));
    device.spread_percent = 10;
    // Three rounds of two finalists, 20 samples of about 1.2 us each, and little more.
    task.policy.task_ns_max = 3 * 2 * 20 * 1_250 + 30_000;
    let (outcome, said) = device.measure(&task);
    outcome.expect("it fits once shrunk");
    let notes: Vec<&str> = said.sentences();
    assert!(notes.len() == 1 && notes[0].contains("samples a visit (planned 100)"), "{notes:?}");
    let (index, row) = said.row("s0");
    assert!(said.visits(index).iter().all(|visit| visit.samples.len() < 30), "samples must have shrunk");
    assert_eq!((said.visits(index).len(), row.timing.rounds_planned), (4, 3), "rounds are the last to shrink");
    assert!(device.clock.get() <= task.policy.task_ns_max, "{} ns were used", device.clock.get());
}

#[test]
fn a_hopeless_task_keeps_three_rounds_of_the_best() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 4)]));
    task.policy.rounds = 8;
    task.policy.task_ns_max = 1;
    let (outcome, said) = device.measure(&task);
    outcome.expect("it goes on");
    let (index, row) = said.row("s0");
    assert_eq!((said.visits(index).len(), row.timing.rounds_planned), (4, 3));
    assert_eq!(said.visits(said.row("s1").0).len(), 1, "one finalist is left");
    let plans: Vec<&Event> = said.0.iter().filter(|event| matches!(event, Event::Planned { .. })).collect();
    assert_eq!(plans.last(), Some(&&Event::Planned { visits: 4 + 3, rounds: 3 }), "progress must follow");
}

/// What no clock of ours does, and a virtual machine that is moved may show.
#[test]
fn a_clock_that_goes_back_costs_no_row_and_no_visit() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(1 << 20, 1), point(1 << 21, 1)]));
    task.policy.rounds_max = task.policy.rounds;
    device.spread_percent = 10;
    device.clock_jump = Some((25, -3_600_000_000_000));
    let (outcome, said) = device.measure(&task);
    outcome.expect("a clock that was set back is not wrong");
    let rows = said.closed();
    assert!(rows.len() == 2 && rows.values().all(|row| row.outcome.status == Status::Passed));
    let visits: Vec<_> = rows.keys().flat_map(|row| said.visits(*row)).collect();
    assert_eq!(visits.len(), 6, "no round is lost");
    assert!(visits.iter().all(|visit| visit.stop_reason == StopReason::Count), "none is cut short");
    let positive = |sample: &Sample| sample.ns > 0 && sample.ns < 1_000_000_000;
    assert!(visits.iter().all(|visit| visit.samples.iter().all(positive)), "durations are the device's");
}

/// A host that was suspended: the clock goes on meanwhile, the device does not.
#[test]
fn a_clock_that_jumps_ends_its_visit_and_no_other() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(1 << 20, 1), point(1 << 21, 1)]));
    task.policy.rounds_max = task.policy.rounds;
    device.spread_percent = 10;
    device.clock_jump = Some((25, 3_600_000_000_000));
    let (outcome, said) = device.measure(&task);
    outcome.expect("a late clock is not wrong");
    let rows = said.closed();
    assert_eq!(rows.len(), 2);
    assert!(rows.values().all(|row| row.outcome.status == Status::Passed), "what was measured is right");
    let visits: Vec<_> = rows.keys().flat_map(|row| said.visits(*row)).collect();
    assert_eq!(visits.len(), 6, "no round is lost");
    let cut = visits.iter().filter(|visit| visit.stop_reason == StopReason::TimeUp).count();
    assert_eq!(cut, 1, "the visit that lost its hour says so");
}
