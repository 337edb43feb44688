//! The load before the first visit of a round.

use fleetcal_model::row::Origin;

use super::fake::{FakeDevice, point, task};

/// Warm-ups in a row before each timed batch, for two rounds of one solution on three points.
fn warmups(origin: Origin, launch_ms: u64) -> Vec<usize> {
    let mut device = FakeDevice::new();
    device.origin = origin;
    // `s0` takes 1 µs.
    device.slowness = launch_ms * 1_000;
    let mut task = task(vec![point(64, 1), point(128, 1), point(256, 1)]);
    task.policy.rounds = 2;
    task.policy.samples_min = 1;
    task.policy.samples_max = 1;
    let (outcome, _) = device.measure(&task);
    outcome.expect("nothing fails");
    let launches = device.log.iter().filter(|line| line.starts_with("run") || line.starts_with("time"));
    let launches: Vec<&str> = launches.map(|line| line.split(' ').next().unwrap_or_default()).collect();
    launches.split(|launch| *launch == "time").map(<[_]>::len).filter(|warmups| *warmups > 0).collect()
}

#[test]
fn the_first_visit_of_each_round_loads_the_device_until_it_has_settled() {
    assert_eq!(warmups(Origin::Measured, 20), [5, 1, 1, 5, 1, 1], "100 ms of launches that take 20 ms");
    assert_eq!(warmups(Origin::Measured, 250), [1, 1, 1, 1, 1, 1], "one launch is load enough");
}

#[test]
fn a_simulated_device_has_nothing_to_settle() {
    assert_eq!(warmups(Origin::Simulated, 20), [1; 6]);
}
