//! Short kernels, timed many at a time.

use std::collections::BTreeSet;

use fleetcal_model::policy::{Batching, Caches};
use fleetcal_model::row::{FlushMode, Status, TimingMode};

use super::fake::{FakeDevice, Fault, Said, point, task};
use crate::assemble::assemble;
use crate::task::TaskSpec;

/// A task whose launches take 1 us (`s0`) and 1.1 us (`s1`), and whose intervals shall be 50 us.
fn batched(elements: u64, solutions: u64) -> TaskSpec {
    let mut task = task(vec![point(elements, solutions)]);
    task.policy.batching = Batching::Auto;
    task
}

fn measured(device: &mut FakeDevice, task: &TaskSpec) -> Said {
    let (outcome, said) = device.measure(task);
    outcome.expect("nothing fails");
    said
}

#[test]
fn a_short_kernel_is_timed_many_at_a_time_and_its_row_says_so_and_its_estimate_is_of_one() {
    let mut device = FakeDevice::new();
    let said = measured(&mut device, &batched(64, 1));
    let (index, template) = said.row("s0");
    assert_eq!((template.timing.timing_mode, template.timing.enqueues_per_sample), (TimingMode::Batched, 55));
    let visits: Vec<_> = said.visits(index).into_iter().cloned().collect();
    assert!(visits.iter().flat_map(|visit| &visit.samples).all(|sample| sample.ns == 55_000), "intervals are whole");
    let row = assemble(template.clone(), &visits).expect("JSON holds a row");
    assert_eq!(row.timing.estimate_ns, Some(1_000.0));
}

#[test]
fn the_number_is_chosen_once_a_row_from_a_probe_that_no_row_keeps() {
    let mut device = FakeDevice::new();
    let said = measured(&mut device, &batched(64, 2));
    let of = |solution: &str| {
        let lines = device.logged("time").into_iter().filter(|line| line.starts_with(solution));
        lines.map(|line| line.split_once(" x ").map_or("", |(_, rest)| rest).to_owned()).collect::<Vec<_>>()
    };
    // Two probes, a screening visit of three samples, and three visits of ten.
    assert_eq!(of("s0"), ["3", "3 of 55", "3 of 55", "10 of 55", "10 of 55", "10 of 55"]);
    assert_eq!(of("s1"), ["3", "3 of 50", "3 of 50", "10 of 50", "10 of 50", "10 of 50"]);
    let samples: Vec<usize> = said.visits(said.row("s0").0).iter().map(|visit| visit.samples.len()).collect();
    assert_eq!(samples, [3, 10, 10, 10], "probes are in no row");
}

#[test]
fn solutions_are_ranked_by_the_time_of_one_launch() {
    // s0 takes 1.0 us, s1 1.1, s2 1.2, s3 1.3: their intervals are equally long.
    let said = measured(&mut FakeDevice::new(), &batched(64, 4));
    let measured: Vec<String> = said
        .closed()
        .into_iter()
        .filter(|(index, _)| said.visits(*index).len() > 1)
        .map(|(_, row)| row.work.solution.clone())
        .collect();
    assert_eq!(measured.len(), 2);
    assert!(measured.contains(&"s0".to_owned()) && measured.contains(&"s1".to_owned()), "{measured:?}");
}

#[test]
fn long_cold_and_oversized_launches_are_timed_one_by_one_and_so_is_everything_where_the_plan_wants_that() {
    let single = |device: &mut FakeDevice, task: &TaskSpec, mode: FlushMode| {
        let said = measured(device, task);
        let timing = &said.row("s0").1.timing;
        assert_eq!((timing.timing_mode, timing.enqueues_per_sample), (TimingMode::Single, 1), "{mode:?}");
        assert_eq!(timing.flush_mode, mode);
        assert!(device.logged("time").iter().all(|line| !line.contains("of")), "{mode:?}: {:?}", device.log);
    };
    let mut slow = FakeDevice::new();
    slow.slowness = 200;
    single(&mut slow, &batched(64, 1), FlushMode::Warm);
    single(&mut FakeDevice::new(), &batched(1 << 20, 1), FlushMode::Oversized);
    let mut cold = batched(64, 1);
    cold.policy.caches = Caches::Cold;
    single(&mut FakeDevice::new(), &cold, FlushMode::Cold);
    let mut never = batched(64, 1);
    never.policy.batching = Batching::Never;
    single(&mut FakeDevice::new(), &never, FlushMode::Warm);
}

#[test]
fn solutions_of_one_point_are_timed_alike_whichever_is_visited_first() {
    // s0 takes 190 us, s1 209, s2 228: the first to be visited is above or below four times 50 us.
    let modes: BTreeSet<&str> = (0..16)
        .map(|seed| {
            let mut device = FakeDevice::new();
            device.slowness = 190;
            let said = measured(&mut device, &TaskSpec { seed, ..batched(64, 3) });
            let timings: Vec<_> = said.closed().into_values().map(|row| row.timing.clone()).collect();
            let modes: BTreeSet<&str> = timings.iter().map(|timing| timing.timing_mode.name()).collect();
            assert_eq!((timings.len(), modes.len()), (3, 1), "seed {seed}: {modes:?}");
            let launches = timings.iter().map(|timing| timing.enqueues_per_sample);
            let wanted = if modes.contains("batched") { 2 } else { 1 };
            assert!(launches.into_iter().all(|launches| launches == wanted), "seed {seed}: {timings:?}");
            modes.first().copied().unwrap_or_default()
        })
        .collect();
    assert_eq!(modes.len(), 2, "both orders were tried: {modes:?}");
}

#[test]
fn what_takes_no_time_or_fails_is_not_probed_for_ever() {
    // Two probes and 70 samples, ten at a time, of which none counts.
    for (fault, calls) in [(Fault::TakesNoTime, 9), (Fault::FailsWhenTimed, 1), (Fault::IsWrong, 0)] {
        let mut device = FakeDevice::new().with_fault("s0", fault);
        let said = measured(&mut device, &batched(64, 1));
        assert!(matches!(said.row("s0").1.outcome.status, Status::Invalid | Status::Failed), "{fault:?}");
        assert_eq!(device.logged("time").len(), calls, "{fault:?}: {:?}", device.logged("time"));
    }
}
