//! What ends a visit.

use fleetcal_model::policy::StopCriterion;
use fleetcal_model::row::{Status, StopReason};

use super::fake::{FakeDevice, Fault, point, task};

/// Samples and reasons of the visits of one noisy solution.
fn visits(stop: StopCriterion) -> Vec<(usize, StopReason)> {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 1)]));
    device.spread_percent = 10;
    task.policy.stop = stop;
    let (outcome, said) = device.measure(&task);
    outcome.expect("noise is not wrong");
    said.visits(0).iter().map(|visit| (visit.samples.len(), visit.stop_reason)).collect()
}

#[test]
fn the_plan_says_what_ends_a_visit() {
    assert_eq!(visits(StopCriterion::Interval), [(100, StopReason::Count); 3]);
    assert_eq!(visits(StopCriterion::Count), [(100, StopReason::Count); 3]);
    assert_eq!(visits(StopCriterion::StableNoise), [(80, StopReason::Stable); 3], "noise that stays ends the visit");
}

#[test]
fn every_visit_starts_to_look_anew() {
    let mut device = FakeDevice::new();
    // Still within a visit, and 2% apart from one round to the next.
    device.wobble_permille.insert(64, 20);
    let mut task = task(vec![point(64, 1)]);
    task.policy.rounds_max = 0;
    let (outcome, said) = device.measure(&task);
    outcome.expect("nothing fails");
    let ends: Vec<_> = said.visits(0).iter().map(|visit| (visit.samples.len(), visit.stop_reason)).collect();
    assert_eq!(ends, [(10, StopReason::Converged); 3], "samples of an earlier visit are none of this one's");
}

#[test]
fn a_clock_that_stands_still_ends_a_visit_whatever_the_criterion() {
    for stop in [StopCriterion::Interval, StopCriterion::StableNoise, StopCriterion::Count] {
        let mut task = task(vec![point(64, 1)]);
        (task.policy.stop, task.policy.samples_max) = (stop, u64::MAX);
        let mut device = FakeDevice::new().with_fault("s0", Fault::TakesNoTime);
        let (outcome, said) = device.measure(&task);
        outcome.expect("one solution's fault is not the task's");
        assert_eq!(said.row("s0").1.outcome.status, Status::Invalid, "{stop:?}");
        assert!(device.logged("time").len() < 100, "{stop:?}");
    }
}
