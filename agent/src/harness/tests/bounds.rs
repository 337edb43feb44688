//! Accesses outside of arrays, looked for in both ways.

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, BufferSpec, Rows};
use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::{BoundsCheck, DataPattern};
use fleetcal_model::row::Status;

use super::fake::{FakeDevice, Fault, Said, point, task};
use super::memory::FakeBuffer;
use crate::device::{Device, DeviceError, PageGuard};
use crate::harness::HarnessError;
use crate::harness::arena::{Arena, Guards, Placement};
use crate::harness::zones::{ZONE_BYTES, around};

/// Measures one point of three solutions, the first of which has the fault.
fn measured(point: Point, fault: Fault, bounds: BoundsCheck) -> (Result<(), HarnessError>, Said, FakeDevice) {
    let mut device = FakeDevice::new().with_fault("s0", fault);
    device.reads_inputs = true;
    let mut task = task(vec![point]);
    task.policy.bounds = bounds;
    let (outcome, said) = device.measure(&task);
    (outcome, said, device)
}

/// A point of two rows with a gap of eight elements behind each.
fn gapped() -> Point {
    let mut point = point(64, 3);
    point.sizes.insert("pitch".to_owned(), 32);
    point
}

#[test]
fn guard_zones_catch_every_access_that_leaves_a_trace_and_blame_the_right_solution() {
    for (point, fault, place) in [
        (point(64, 3), Fault::WritesBeyond, "c[64], behind its last element, is 7, not inf after a warm-up"),
        (point(64, 3), Fault::WritesBefore, "c[-1], before its first element, is 7, not inf after a warm-up"),
        (point(64, 3), Fault::WritesBeyondOnceTimed, "c[64], behind its last element, is 7, not inf after timed"),
        (point(64, 3), Fault::ReadsBeyond, "c[63] is NaN after a warm-up, expected 64"),
        (gapped(), Fault::WritesIntoAGap, "c[24], in the gap between its rows, is 7, not inf after a warm-up"),
        (gapped(), Fault::WritesBefore, "c[-1], before its first element"),
        (gapped(), Fault::ReadsBeyond, "c[55] is NaN"),
    ] {
        let (outcome, said, device) = measured(point, fault, BoundsCheck::Values);
        outcome.expect("one solution's fault is not the task's");
        let (index, row) = said.row("s0");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert_eq!(row.outcome.status, Status::Failed, "{fault:?}: {reason}");
        assert!(reason.contains(place), "{fault:?}: {reason}");
        assert!(said.visits(index).is_empty(), "{fault:?}: times of a stray kernel must not be published");
        assert_eq!(row.outcome.bounds_check, BoundsCheck::Values);
        for sound in ["s1", "s2"] {
            let outcome = &said.row(sound).1.outcome;
            assert_eq!(outcome.status, Status::Passed, "{fault:?}: {sound} is blamed: {:?}", outcome.reason);
        }
        assert!(device.logged("guard").len() >= 4, "zones are set anew after a failure");
    }
}

#[test]
fn without_a_check_of_results_zones_are_still_looked_at() {
    let (mut device, mut task) = (FakeDevice::new().with_fault("s0", Fault::WritesBeyond), task(vec![point(64, 2)]));
    task.policy.validate_elements = 0;
    let (outcome, said) = device.measure(&task);
    outcome.expect("one solution's fault is not the task's");
    assert_eq!(said.row("s0").1.outcome.status, Status::Failed);
    assert_eq!(said.row("s1").1.outcome.status, Status::NoCheck);
}

#[test]
fn unmapped_pages_end_the_context_at_the_first_access_before_anything_is_timed() {
    for fault in [Fault::WritesBeyond, Fault::WritesBefore, Fault::ReadsBeyond] {
        let (outcome, said, device) = measured(point(64, 3), fault, BoundsCheck::Pages);
        let error = outcome.expect_err("a fault poisons the context");
        assert!(matches!(error, HarnessError::Device(DeviceError::Lost { .. })), "{fault:?}: {error}");
        assert!(device.logged("time").is_empty(), "{fault:?}");
        assert!(said.closed().is_empty(), "{fault:?}: whose fault it was is for the agent to say");
    }
}

#[test]
fn every_solution_runs_once_on_either_side_of_unmapped_pages_and_memory_is_given_back() {
    let mut device = FakeDevice::new();
    device.reads_inputs = true;
    let mut task = task(vec![point(64, 2), point(128, 1)]);
    task.policy.bounds = BoundsCheck::Pages;
    let (outcome, said) = device.measure(&task);
    outcome.expect("nothing is wrong");
    let before = device.log.iter().take_while(|line| !line.starts_with("time")).filter(|line| line.starts_with("run"));
    let runs: Vec<&str> = before.map(String::as_str).take(6).collect();
    let expected = ["s0 of 64", "s1 of 64", "s0 of 64", "s1 of 64", "s0 of 128", "s0 of 128"];
    assert_eq!(runs, expected.map(|run| format!("run {run} at 0")), "each twice, flush with its allocation");
    assert!(device.logged("guard").is_empty(), "zones are the other way to look");
    for (_, row) in said.closed() {
        assert_eq!((row.outcome.status, row.outcome.bounds_check), (Status::Passed, BoundsCheck::Pages));
    }
}

#[test]
fn a_wrong_result_at_a_page_and_too_little_memory_there_cost_their_solutions_alone() {
    let (outcome, said, _) = measured(point(64, 3), Fault::IsWrong, BoundsCheck::Pages);
    outcome.expect("one solution's fault is not the task's");
    let row = said.row("s0").1;
    let reason = row.outcome.reason.as_deref().unwrap_or_default();
    assert!(row.outcome.status == Status::Failed && reason.contains("with an unmapped page behind"), "{reason}");
    assert_eq!(said.row("s1").1.outcome.status, Status::Passed);

    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(128, 1), point(64, 1)]));
    task.policy.bounds = BoundsCheck::Pages;
    device.allocations_left = 1;
    let (outcome, said) = device.measure(&task);
    outcome.expect("the other point goes on");
    let status = |elements| {
        let mut rows = said.closed().into_values().filter(|row| row.work.elements == Some(elements));
        rows.next().map(|row| row.outcome.status)
    };
    assert_eq!((status(128), status(64)), (Some(Status::Invalid), Some(Status::Passed)));
}

/// An array of an arena, and what surrounds it.
fn input(elements: u64, rows: Option<Rows>) -> Vec<BufferSpec> {
    vec![BufferSpec { name: "a", role: BufferRole::Input { seed: 1 }, dtype: Dtype::F32, elements, rows }]
}

#[test]
fn points_of_all_sizes_share_a_slot_and_each_finds_its_data_and_its_zones() {
    let (mut device, mut arena) = (FakeDevice::new(), Arena::<FakeBuffer>::default());
    arena.renew(&mut device, &[4 * 5000], at(256), Guards::Zones).expect("memory enough");
    assert_eq!(arena.offset_bytes(), ZONE_BYTES + 256, "what the row says is where the array is");
    let rows = Some(Rows { elements: 24, pitch_elements: 32 });
    for (elements, rows) in [
        (5000, None),
        (100, None),
        (50, None),
        (100, None),
        (1100, None),
        (5000, None),
        (640, rows),
        (50, None),
        (640, rows),
        (1280, rows),
        (5000, None),
    ] {
        let specs = input(elements, rows);
        arena.fill(&mut device, &specs, DataPattern::Random, |_| 5000).expect("it can be filled");
        arena.guard(&mut device, &specs).expect("zones can be set");
        assert!(FakeBuffer::is_filled(&arena.arrays(&specs)[0]), "{elements} elements in {rows:?} find other data");
        for zone in around(0, &specs[0]) {
            let found = arena.look(&mut device, std::slice::from_ref(&zone)).expect("it can be read").concat();
            let intact = !found.is_empty() && found.iter().all(|value| zone.sentinel().is(*value));
            assert!(intact, "{elements} elements in {rows:?}: the zone {} is broken", zone.place());
        }
    }
    let whole = device.logged("fill").iter().filter(|line| line.starts_with("5000")).count();
    assert_eq!(whole, 3, "only what rows left behind is filled as a whole again: {:?}", device.logged("fill"));
}

#[test]
fn data_that_know_rows_are_not_shared_between_rows_of_other_lengths() {
    let (mut device, mut arena) = (FakeDevice::new(), Arena::<FakeBuffer>::default());
    arena.renew(&mut device, &[4096], at(0), Guards::None).expect("memory enough");
    let rows = |pitch_elements| Some(Rows { elements: pitch_elements, pitch_elements });
    for (pattern, pitch, fills) in [
        (DataPattern::Identity, 10, 1),
        (DataPattern::Identity, 20, 2),
        (DataPattern::Random, 20, 3),
        (DataPattern::Random, 10, 3),
    ] {
        arena.fill(&mut device, &input(100, rows(pitch)), pattern, |_| 0).expect("it can be filled");
        assert_eq!(device.logged("fill").len(), fills, "{pattern} in rows of {pitch}");
    }
}

#[test]
fn a_buffer_between_pages_is_flush_with_both() {
    let (mut device, mut arena) = (FakeDevice::new(), Arena::<FakeBuffer>::default());
    for guard in [PageGuard::Front, PageGuard::Back] {
        arena.renew_between_pages(&mut device, &input(64, None), guard).expect("memory enough");
        let specs = input(64, None);
        let arrays = arena.arrays(&specs);
        let (before, behind) = (FakeBuffer::stray(&arrays[0], -1, None), FakeBuffer::stray(&arrays[0], 64, None));
        assert_eq!((before.is_err(), behind.is_err()), (guard == PageGuard::Front, guard == PageGuard::Back));
    }
    let data =
        InputData { pattern: DataPattern::Random, seed: 1, dtype: Dtype::F32, row_elements: 64, first_element: 0 };
    let specs = input(64, None);
    assert!(device.fill(&arena.arrays(&specs)[0], &data).is_ok());
}

/// Arrays at an offset.
fn at(offset_bytes: u64) -> Placement {
    Placement { offset_bytes, displacement_bytes: 0 }
}
