//! Burst and sustained load.

use std::collections::BTreeSet;

use fleetcal_model::policy::Load;
use fleetcal_model::row::{Origin, Role, StopReason};

use super::fake::{FakeDevice, Said, point, task};
use crate::task::TaskSpec;
use crate::telemetry::{Reading, Sensor};
use crate::worker::message::Event;

const MS: u64 = 1_000_000;

/// Launches of 1 ms (`s0`) on two points, in two rounds of visits of two samples, under a load of 200 ms.
fn loaded(load: Load, solutions: u64) -> (FakeDevice, TaskSpec) {
    let mut device = FakeDevice::new();
    (device.origin, device.slowness) = (Origin::Measured, 1_000);
    let mut task = task(vec![point(64, solutions), point(128, solutions)]);
    let policy = &mut task.policy;
    (policy.rounds, policy.rounds_max, policy.samples_min, policy.samples_max) = (2, 2, 2, 2);
    (policy.load, policy.load_ns) = (Some(load), 200 * MS);
    (device, task)
}

fn measured(device: &mut FakeDevice, task: &TaskSpec) -> Said {
    let (outcome, said) = device.measure(task);
    outcome.expect("nothing fails");
    said
}

/// Start of the first sample of every visit, in the order of their time, nanoseconds.
fn starts(said: &Said) -> Vec<u64> {
    let visits = said.closed().into_keys().flat_map(|row| said.visits(row).into_iter().cloned().collect::<Vec<_>>());
    let mut starts: Vec<u64> = visits.filter(|visit| visit.round > 0).map(|visit| visit.samples[0].start_ns).collect();
    starts.sort_unstable();
    starts
}

/// Timed batches in the order they ran: intervals of each.
fn batches(device: &FakeDevice) -> Vec<u64> {
    let count = |line: &&str| line.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0);
    device.logged("time").iter().map(count).collect()
}

#[test]
fn a_burst_begins_after_idleness_in_every_visit_and_is_short() {
    let (mut device, task) = loaded(Load::Burst, 1);
    let said = measured(&mut device, &task);
    assert_eq!(batches(&device), [2; 4], "nothing but samples is launched between rest and samples");
    let starts = starts(&said);
    // Each visit idles 200 ms, and the first of a round settles for 100 ms before.
    assert!(starts.windows(2).all(|pair| pair[1] - pair[0] >= 200 * MS), "{starts:?}");
    assert!(said.closed().values().all(|row| row.conditions.load.as_deref() == Some("burst")));
    let (mut slow, task) = loaded(Load::Burst, 1);
    slow.slowness = 20_000;
    let said = measured(&mut slow, &task);
    for visit in said.closed().keys().flat_map(|row| said.visits(*row)) {
        let end = (visit.samples.len(), visit.stop_reason);
        assert_eq!(end, (1, StopReason::TimeUp), "a second launch of 20 ms is no burst any more");
    }
}

#[test]
fn sustained_load_runs_before_each_round_and_makes_up_for_idleness_between_visits() {
    let (mut device, task) = loaded(Load::Sustained, 1);
    let said = measured(&mut device, &task);
    let all = batches(&device);
    let visit_ends: Vec<usize> = (0..all.len()).filter(|&index| all[index] == 2).collect();
    assert_eq!(visit_ends.len(), 4, "{all:?}");
    let load_ms = |from: usize, until: usize| all[from..until].iter().sum::<u64>();
    assert!((200..=221).contains(&load_ms(0, visit_ends[0])), "the first round is loaded for 200 ms: {all:?}");
    let repaid = load_ms(visit_ends[0] + 1, visit_ends[1]);
    assert!((1..=20).contains(&repaid), "a warm-up of 1 ms is all that lay between: {all:?}");
    assert!(load_ms(visit_ends[1] + 1, visit_ends[2]) >= 200, "the second round is loaded again: {all:?}");
    assert!(
        said.closed().values().all(|row| row.conditions.load.as_deref() == Some("sustained_unverified")),
        "it has no sensor"
    );
    for visit in said.closed().keys().flat_map(|row| said.visits(*row)) {
        assert_eq!(visit.samples.len(), 2, "the load is in no row");
    }
}

/// Rows of a device under sustained load whose sensor says what a function of the number of its reading says, what was
/// noted, and for how long the device worked before the first sample, milliseconds.
fn under_load(mhz: impl FnMut(u64) -> u64 + Send + 'static) -> (BTreeSet<String>, Vec<String>, u64) {
    let (mut device, task) = loaded(Load::Sustained, 1);
    *device.sensor.borrow_mut() = Some(Box::new(Clocked(mhz, 0)));
    let said = measured(&mut device, &task);
    let loads = said.closed().into_values().filter_map(|row| row.conditions.load.clone()).collect();
    let note = |event: &Event| if let Event::Note(note) = event { Some(note.clone()) } else { None };
    let notes = said.0.iter().filter_map(note).collect();
    let all = batches(&device);
    let first = all.iter().position(|count| *count == 2).expect("visits of two samples");
    (loads, notes, all[..first].iter().sum())
}

struct Clocked<F>(F, u64);

impl<F: FnMut(u64) -> u64 + Send> Sensor for Clocked<F> {
    fn source(&self) -> &'static str {
        "clocked"
    }
    fn read(&mut self) -> Reading {
        self.1 += 1;
        Reading { core_clock_khz: Some(1_000 * (self.0)(self.1)), ..Reading::default() }
    }
}

#[test]
fn a_row_says_sustained_where_the_clock_stood_still_and_the_load_goes_on_until_it_does() {
    let (loads, notes, worked_ms) = under_load(|_| 1_980);
    assert_eq!((loads, notes.len()), (BTreeSet::from(["sustained".to_owned()]), 0), "{notes:?}");
    assert!((200..=221).contains(&worked_ms), "no longer than the plan says: {worked_ms}");

    let (loads, _, worked_ms) = under_load(|reading| 1_980 - 15 * reading.min(8));
    assert_eq!(loads, BTreeSet::from(["sustained".to_owned()]), "it settled in the end");
    assert!((230..=400).contains(&worked_ms), "it was loaded on until then: {worked_ms}");

    let (loads, notes, worked_ms) = under_load(|reading| 1_980 - 60 * (reading % 2));
    assert_eq!(loads, BTreeSet::from(["unsettled".to_owned()]));
    assert!((800..=860).contains(&worked_ms), "four times the plan's time: {worked_ms}");
    assert!(notes.iter().any(|note| note.contains("clock moved by 3.0%") && note.contains("`unsettled`")), "{notes:?}");
}

#[test]
fn screening_and_simulated_devices_wait_for_no_load() {
    let (mut device, task) = loaded(Load::Burst, 4);
    let said = measured(&mut device, &task);
    let screened: Vec<_> = said.closed().into_values().filter(|row| row.identity.role == Role::Screening).collect();
    assert_eq!(screened.len(), 4);
    assert!(screened.iter().all(|row| row.conditions.load.is_none()), "screening samples are taken as they come");
    let (mut device, task) = loaded(Load::Sustained, 1);
    device.origin = Origin::Simulated;
    let said = measured(&mut device, &task);
    assert_eq!(batches(&device), [2; 4]);
    assert_eq!(said.row_of(64).conditions.load.as_deref(), Some("sustained"));
    let (mut device, mut task) = loaded(Load::Burst, 1);
    task.policy.load = None;
    let said = measured(&mut device, &task);
    assert_eq!((batches(&device), said.row_of(64).conditions.load.clone()), (vec![2; 4], None));
}

#[test]
fn a_load_that_is_cut_short_is_followed_by_no_sample() {
    let (mut device, task) = loaded(Load::Sustained, 1);
    device.interrupt_after = Some(1);
    let (outcome, said) = device.measure(&task);
    assert!(outcome.is_err(), "{outcome:?}");
    assert!(said.0.iter().all(|event| !matches!(event, crate::worker::message::Event::Visited(_))));
}
