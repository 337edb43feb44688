use super::*;
use crate::testing::Random;

/// Spreads in percent: repeat, device, hour, host.
type Sigmas = [f64; 4];

/// Devices of four a host over hours, `repeats` readings each; a reading is kept with some chance.
fn readings(
    random: &mut Random,
    sigmas: Sigmas,
    (devices, per_host, hours): (usize, usize, usize),
    kept: f64,
) -> Vec<Reading> {
    let sigmas = sigmas.map(|percent| percent / 100.0);
    let mut draw = |count: usize, sigma: f64| (0..count).map(|_| sigma * random.normal()).collect::<Vec<f64>>();
    let hosts = draw(devices.div_ceil(per_host), sigmas[3]);
    let (of_devices, of_hours) = (draw(devices, sigmas[1]), draw(hours, sigmas[2]));
    let mut readings = Vec::new();
    for point in 0..3 {
        for (device, of_device) in of_devices.iter().enumerate() {
            for (hour, of_hour) in of_hours.iter().enumerate() {
                for _ in 0..2 {
                    let host = device / per_host;
                    let effects = hosts[host] + of_device + of_hour;
                    let logarithm = 10.0 * point as f64 + effects + sigmas[0] * random.normal();
                    if random.uniform() < kept {
                        readings.push(Reading { point, device, host, hour, logarithm });
                    }
                }
            }
        }
    }
    readings
}

/// Square roots of the mean variances over some classes, percent.
fn found(sigmas: Sigmas, design: (usize, usize, usize), kept: f64) -> Vec<f64> {
    const CLASSES: u64 = 12;
    let splits: Vec<Split> = (0..CLASSES)
        .map(|seed| split(&readings(&mut Random::new(seed), sigmas, design, kept)).expect("a split"))
        .collect();
    let mean = |source: Source| {
        splits.iter().map(|split| split.of(source).unwrap().variance.unwrap()).sum::<f64>() / CLASSES as f64
    };
    Source::ALL.iter().map(|&source| mean(source).sqrt() * 100.0).collect()
}

#[test]
fn sources_are_told_apart_in_full_and_in_unbalanced_designs() {
    for kept in [1.0, 0.4] {
        for sigmas in [[0.2, 0.5, 0.3, 0.4], [0.3, 0.2, 0.5, 0.8]] {
            let found = found(sigmas, (48, 4, 12), kept);
            for (source, (found, truth)) in Source::ALL.iter().zip(found.iter().zip(sigmas)) {
                // Twelve classes of twelve hours and twelve hosts know those two to some 10%.
                assert!((found / truth - 1.0).abs() < 0.2, "{source}, {kept} kept: {found}% instead of {truth}%");
            }
        }
    }
}

#[test]
fn a_source_that_adds_nothing_is_zero_and_what_was_negative_is_said() {
    let mut negatives = 0;
    for seed in 0..20 {
        let split = split(&readings(&mut Random::new(seed), [0.3, 0.5, 0.0, 0.0], (32, 4, 6), 1.0)).unwrap();
        for source in [Source::Hour, Source::Host] {
            let component = split.of(source).unwrap();
            assert!(component.sigma().unwrap() < 0.0035, "seed {seed}: {component:?}");
            if let Some(raw) = component.negative {
                assert!(raw < 0.0 && component.variance == Some(0.0), "{component:?}");
                negatives += 1;
            }
        }
    }
    assert!(negatives > 5, "half of the estimates of nothing are below zero, {negatives} of 40 were");
}

#[test]
fn what_the_design_does_not_tell_apart_is_said() {
    let alone = readings(&mut Random::new(1), [0.2, 0.4, 0.2, 0.3], (32, 1, 6), 1.0);
    let found = split(&alone).unwrap();
    assert_eq!(found.of(Source::Host).unwrap().variance, None, "one device a host");
    let device = found.of(Source::Device).unwrap();
    assert_eq!((&device.includes[..], device.levels), (&[Source::Host][..], 32));
    assert!((device.sigma().unwrap() / 0.005 - 1.0).abs() < 0.3, "0.4% and 0.3% together: {device:?}");

    let one_hour = split(&readings(&mut Random::new(2), [0.2, 0.4, 0.2, 0.3], (32, 4, 1), 1.0)).unwrap();
    assert_eq!(one_hour.of(Source::Hour).unwrap().variance, None, "{one_hour:?}");

    let mut once = readings(&mut Random::new(3), [0.2, 0.4, 0.0, 0.0], (32, 4, 1), 1.0);
    once.dedup_by_key(|reading| (reading.point, reading.device));
    let once = split(&once).unwrap();
    let repeat = once.of(Source::Repeat).unwrap();
    assert!(repeat.includes.contains(&Source::Device), "one reading a device: {once:?}");
}

#[test]
fn a_few_slow_devices_and_spikes_do_not_make_the_answer() {
    let mut slow = readings(&mut Random::new(4), [0.2, 0.5, 0.0, 0.0], (64, 4, 6), 1.0);
    let mut random = Random::new(5);
    for reading in &mut slow {
        reading.logarithm += if reading.device < 3 { 0.25 } else { 0.0 };
        reading.logarithm += if random.uniform() < 0.02 { 1.0 } else { 0.0 };
    }
    let found = split(&slow).unwrap();
    let sigma = |source| found.of(source).unwrap().sigma().unwrap();
    assert!((0.0015..0.0028).contains(&sigma(Source::Repeat)), "{found:?}");
    assert!((0.004..0.008).contains(&sigma(Source::Device)), "{found:?}");
}

#[test]
fn what_is_no_design_says_so() {
    let reading = Reading { point: 0, device: 0, host: 0, hour: 0, logarithm: 1.0 };
    assert_eq!(split(&[reading]), Err(NoSplit::TooFewPairs { pairs: 0 }));
    assert_eq!(split(&[Reading { logarithm: f64::NAN, ..reading }]), Err(NoSplit::NotFinite));
    let equal = split(&[reading; 20]).unwrap();
    assert_eq!(equal.of(Source::Repeat).unwrap().variance, Some(0.0));
}

#[test]
fn the_order_of_readings_does_not_matter() {
    let mut some = readings(&mut Random::new(6), [0.2, 0.5, 0.3, 0.4], (20, 4, 4), 0.7);
    let expected = split(&some).unwrap();
    Random::new(7).shuffle(&mut some);
    assert_eq!(split(&some).unwrap(), expected);
}
