use super::*;
use crate::testing::Random;

fn effects(count: usize, draw: impl FnMut() -> f64) -> Vec<Option<f64>> {
    std::iter::repeat_with(draw).take(count).map(Some).collect()
}

/// Devices of two groups, `share` of them slower by so many standard deviations.
fn two_groups(random: &mut Random, devices: usize, share: f64, apart: f64) -> Vec<Option<f64>> {
    let second = (devices as f64 * share).round() as usize;
    let mut effects: Vec<Option<f64>> = (0..devices)
        .map(|device| Some(0.005 * (random.normal() + if device < second { apart } else { 0.0 })))
        .collect();
    random.shuffle(&mut effects);
    effects
}

fn is_two(effects: &[Option<f64>]) -> bool {
    matches!(find(effects, HumpRule::default()), Humps::Two { .. })
}

#[test]
fn dips_of_known_sets_are_theirs() {
    let cases: [(&[f64], f64); 4] = [
        (&[0.0, 1.0, 2.0, 3.0], 1.0 / 8.0),
        (&[0.0, 0.0, 0.0, 1.0, 1.0, 1.0], 1.0 / 4.0),
        (&[1.0, 1.0, 1.0], 1.0 / 6.0),
        (&[1.0], 0.0),
    ];
    for (values, expected) in cases {
        assert!((dip(values) - expected).abs() < 1e-12, "{values:?}: {} instead of {expected}", dip(values));
    }
}

#[test]
fn classes_of_one_hump_are_rarely_called_two() {
    for devices in [16, 64] {
        let mut random = Random::new(devices as u64);
        let mut called = [0; 4];
        for _ in 0..300 {
            called[0] += usize::from(is_two(&effects(devices, || 0.01 * random.normal())));
            called[1] += usize::from(is_two(&effects(devices, || 0.03 * random.uniform())));
            called[2] += usize::from(is_two(&effects(devices, || -0.01 * libm::log(random.uniform()))));
            called[3] += usize::from(is_two(&effects(devices, || 0.003 * random.normal() / random.normal())));
        }
        assert!(called.iter().all(|called| *called <= 8), "{devices} devices: {called:?} of 300 each");
    }
}

#[test]
fn two_humps_are_found_with_their_devices() {
    let mut random = Random::new(1);
    for (devices, share, apart) in [(16, 0.5, 9.0), (32, 0.4, 7.0), (64, 0.3, 7.0), (128, 0.2, 7.0)] {
        let found = (0..50).filter(|_| is_two(&two_groups(&mut random, devices, share, apart))).count();
        assert!(found >= 48, "{found} of 50 with {devices} devices, {share} of them {apart} sigma apart");
    }
    let mut known: Vec<Option<f64>> =
        (0..20).map(|device| Some(if device % 4 == 0 { 0.05 } else { 0.0 } + 1e-5 * f64::from(device))).collect();
    known.extend([None, Some(f64::NAN)]);
    let Humps::Two { low, high, .. } = find(&known, HumpRule::default()) else { panic!("two humps") };
    assert_eq!(high.devices, [0, 4, 8, 12, 16]);
    assert_eq!(low.devices.len(), 15);
}

#[test]
fn a_few_slow_devices_are_no_hump() {
    let mut random = Random::new(2);
    let mut called = 0;
    for devices in [16, 64, 128] {
        for _ in 0..50 {
            let slow = |random: &mut Random| libm::log1p(0.1 + 0.3 * random.uniform());
            let of = |random: &mut Random, device: usize| {
                0.005 * random.normal() + if device.is_multiple_of(5) { slow(random) } else { 0.0 }
            };
            let effects: Vec<Option<f64>> = (0..devices).map(|device| Some(of(&mut random, device))).collect();
            called += usize::from(is_two(&effects));
        }
    }
    assert!(called <= 6, "{called} of 150 classes with slow devices were called two-humped");
}

#[test]
fn few_devices_say_so() {
    let found = find(&[Some(0.0); 15], HumpRule::default());
    assert_eq!(found, Humps::TooFewDevices { devices: 15, needed: 16 });
    assert!(matches!(find(&[Some(0.0); 16], HumpRule::default()), Humps::One { .. }), "all equal is one");
}
