use super::*;
use crate::testing::Random;

/// A class of devices that spread by 0.5%, measured with 0.2% noise: every point on the devices that `has` says.
fn class(
    random: &mut Random,
    slow: &[(usize, f64)],
    devices: usize,
    points: usize,
    has: impl Fn(usize, usize) -> bool,
) -> Vec<Cell> {
    let mut effects: Vec<f64> = (0..devices).map(|_| 0.005 * random.normal()).collect();
    slow.iter().for_each(|(device, by)| effects[*device] += libm::log1p(*by));
    let mut cells = Vec::new();
    for point in 0..points {
        for (device, effect) in effects.iter().enumerate() {
            let noise = 0.002 * random.normal();
            if has(device, point) {
                cells.push(Cell { device, point, logarithm: point as f64 + effect + noise });
            }
        }
    }
    cells
}

fn median_of(cells: &[Cell], point: usize) -> f64 {
    median(&cells.iter().filter(|cell| cell.point == point).map(|cell| cell.logarithm).collect::<Vec<_>>())
        .expect("cells")
}

#[test]
fn a_class_measured_in_shares_gives_the_full_designs_points() {
    let (devices, points, replicas, anchors) = (16, 40, 3, 2);
    for seed in 0..50 {
        // Every fifth device is slow by 10 to 40%: whoever has a point decides its plain median.
        let slow: Vec<(usize, f64)> =
            (0..devices).step_by(5).map(|device| (device, 0.1 + 0.02 * device as f64)).collect();
        let full = class(&mut Random::new(seed), &slow, devices, points, |_, _| true);
        let is_shared =
            |cell: &&Cell| cell.point < anchors || (cell.device + devices - cell.point % devices) % devices < replicas;
        let shares: Vec<Cell> = full.iter().filter(is_shared).copied().collect();
        let found = effects(&shares).expect("anchors connect all devices");
        for point in 0..points {
            let (whole, part) = (median_of(&full, point), found.points[point].expect("it was measured"));
            assert!((whole - part).abs() < 0.01, "seed {seed}, point {point}: {whole} in full, {part} in shares");
        }
    }
}

#[test]
fn plain_medians_of_shares_would_not_do() {
    let slow = [(0, 0.3), (1, 0.3)];
    let full = class(&mut Random::new(1), &slow, 16, 4, |_, _| true);
    let only: Vec<Cell> = full.iter().filter(|cell| cell.point != 3 || cell.device < 3).copied().collect();
    assert!((median_of(&only, 3) - median_of(&full, 3)).abs() > 0.1, "two of the three devices that have it are slow");
    let found = effects(&only).expect("connected");
    assert!((found.points[3].expect("measured") - median_of(&full, 3)).abs() < 0.01, "{:?}", found.points);
}

#[test]
fn slow_devices_are_found_and_healthy_ones_are_not_called() {
    let (mut missed, mut slow_total, mut alarms, mut healthy_total) = (0, 0, 0, 0);
    for (devices, seeds) in [(16_usize, 0..200), (64, 200..260), (256, 260..275)] {
        for seed in seeds {
            let mut random = Random::new(seed);
            let slow: Vec<(usize, f64)> =
                (0..devices).step_by(5).map(|device| (device, 0.1 + 0.3 * random.uniform())).collect();
            let cells = class(&mut random, &slow, devices, 6, |_, _| true);
            let Outliers::Found(found) = outliers(&effects(&cells).expect("full").devices, OutlierRule::default())
            else {
                panic!("{devices} devices are enough");
            };
            let is_slow = |device: usize| device.is_multiple_of(5);
            missed += slow.iter().filter(|(device, _)| !found.iter().any(|outlier| outlier.device == *device)).count();
            alarms += found.iter().filter(|outlier| !is_slow(outlier.device)).count();
            (slow_total, healthy_total) = (slow_total + slow.len(), healthy_total + devices - slow.len());
        }
    }
    assert!(missed * 50 <= slow_total, "{missed} of {slow_total} slow devices were missed");
    assert!(alarms * 200 <= healthy_total, "{alarms} of {healthy_total} healthy devices were called");
}

#[test]
fn few_devices_do_not_know_their_spread() {
    let effects = [Some(0.0), None, Some(0.5), Some(0.01)];
    let found = outliers(&effects, OutlierRule::default());
    assert_eq!(found, Outliers::TooFewDevices { devices: 3, needed: 16 });
}

#[test]
fn what_cannot_be_told_apart_says_so() {
    let cell = |device, point| Cell { device, point, logarithm: 1.0 };
    assert_eq!(effects(&[]), Err(NoEffects::Nothing));
    assert_eq!(effects(&[Cell { logarithm: f64::NAN, ..cell(0, 0) }]), Err(NoEffects::Nothing));
    let apart = [cell(0, 0), cell(1, 0), cell(2, 1), cell(3, 2)];
    assert_eq!(effects(&apart), Err(NoEffects::NotConnected { groups: 3 }));
    let found = effects(&[cell(0, 0), cell(4, 0)]).expect("connected");
    assert_eq!(found.devices, [Some(0.0), None, None, None, Some(0.0)]);
}

#[test]
fn the_order_of_cells_does_not_matter() {
    let mut cells = class(&mut Random::new(5), &[(3, 0.2)], 12, 9, |device, point| (device + point) % 3 != 0);
    let expected = effects(&cells).expect("connected");
    Random::new(6).shuffle(&mut cells);
    let found = effects(&cells).expect("connected");
    assert_eq!((found.points, found.devices), (expected.points, expected.devices));
}

#[test]
fn the_centre_of_many_devices_is_as_good_as_their_mean_and_no_slow_one_moves_it() {
    let (mut of_center, mut of_median, mut of_mean) = (0.0, 0.0, 0.0);
    let mut random = crate::testing::Random::new(11);
    for _ in 0..2_000 {
        let values: Vec<f64> = (0..16).map(|_| 0.005 * random.normal()).collect();
        let mean = values.iter().sum::<f64>() / 16.0;
        let center = huber_center(&values).expect("there are values");
        of_mean += mean * mean;
        of_center += center * center;
        of_median += median(&values).map_or(0.0, |median| median * median);
    }
    assert!(of_center < 1.1 * of_mean, "mean squares: {of_center} of the centre, {of_mean} of the mean");
    assert!(of_median > 1.3 * of_mean, "mean squares: {of_median} of the median, {of_mean} of the mean");
    let slow = [0.0, 0.001, -0.001, 0.002, -0.002, 0.4, 0.5];
    assert!(huber_center(&slow).is_some_and(|center| center < 0.003), "{:?}", huber_center(&slow));
    assert_eq!(huber_center(&[1.0, 1.0, 1.0, 5.0]), Some(1.0), "values without a scale have their median");
    assert_eq!(huber_center(&[]), None);
}
