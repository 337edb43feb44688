use std::collections::BTreeSet;

use super::*;
use crate::testing::Random;
use crate::testing::fleet::{Fleet, FleetSpec};
use crate::throttle::ThrottleReasons;

fn studied<T>(fleet: &Fleet, check: impl FnOnce(ClassStudy<'_>) -> T) -> T {
    check(study(&Pool::new(&fleet.rows).expect("one class"), ClassRule::default()))
}

#[test]
fn slow_devices_are_found_with_their_evidence_and_healthy_ones_are_not_called() {
    let (mut found, mut slow, mut alarms, mut healthy) = (0, 0, 0, 0);
    let mut causes = [0; 3];
    for (devices, seeds) in [(16, 0..12), (64, 12..15)] {
        for seed in seeds {
            let fleet = Fleet::simulate(&FleetSpec::hard(devices), seed);
            let called: Vec<(DeviceId, Cause, f64)> = studied(&fleet, |study| {
                let throttled = study.families[0].hours.iter().find(|hour| hour.hour == 0);
                let slower = throttled.expect("the throttled hour is found").slower;
                assert!((slower - 0.15).abs() < 0.02, "the hour is slower by 15%, not by {slower}");
                let of = |evidence: Evidence<'_>| {
                    let family = &evidence.families[0];
                    assert_eq!((family.points.len(), evidence.families.len()), (5, 1));
                    (evidence.device.clone(), family.cause.expect("it stands apart"), family.slower)
                };
                study.outliers(ClassRule::default()).into_iter().map(of).collect()
            });
            (slow, healthy) = (slow + fleet.slow.len(), healthy + devices - fleet.slow.len());
            for (device, cause, slower) in called {
                let Some(by) = fleet.slow.get(&device) else {
                    alarms += 1;
                    continue;
                };
                found += 1;
                assert!((slower - by).abs() < 0.04, "{device} is slower by {by}, not by {slower}");
                causes[0] += 1;
                let capped = Cause::Clock { clock: Clock::Core, reasons: ThrottleReasons::POWER_CAP };
                let expected = if fleet.capped.contains(&device) { capped } else { Cause::Device };
                causes[1] += usize::from(cause == expected);
            }
        }
    }
    assert!(found * 50 >= slow * 49, "{found} of {slow} slow devices were found");
    assert!(alarms * 200 <= healthy, "{alarms} of {healthy} healthy devices were called");
    assert!(causes[1] * 50 >= causes[0] * 49, "capped and bad were told apart in {} of {}", causes[1], causes[0]);
}

#[test]
fn a_class_of_two_firmwares_is_found_and_its_split_is_named() {
    for (devices, share) in [(16, 0.5), (32, 0.5), (64, 0.25)] {
        let spec = FleetSpec { hump_share: share, hump_by: 0.05, ..FleetSpec::clean(devices) };
        let fleet = Fleet::simulate(&spec, devices as u64);
        studied(&fleet, |study| {
            let family = &study.families[0];
            let Humps::Two { high, .. } = &family.humps else { panic!("{devices} devices: {:?}", family.humps) };
            let members: BTreeSet<DeviceId> = high.devices.iter().map(|&at| study.devices[at].clone()).collect();
            assert_eq!(members, fleet.hump, "{devices} devices");
            let Some(Explained::By(explanation)) = &family.explained else { panic!("{:?}", family.explained) };
            assert_eq!(explanation.attribute, "vbios");
        });
    }
}

#[test]
fn sixteen_devices_of_two_firmwares_hide_no_slow_one() {
    let (mut found, mut slow, mut alarms, mut parted) = (0, 0, 0, 0);
    let spec = FleetSpec::two_humps(16);
    for seed in 0..30 {
        let fleet = Fleet::simulate(&spec, seed);
        studied(&fleet, |study| {
            let family = &study.families[0];
            let is_vbios = |found: &Explained| matches!(found, Explained::By(by) if by.attribute == "vbios");
            parted += usize::from(family.explained.as_ref().is_some_and(is_vbios));
            slow += fleet.slow.len();
            for evidence in study.outliers(ClassRule::default()) {
                let is_slow = fleet.slow.contains_key(evidence.device);
                (found, alarms) = (found + usize::from(is_slow), alarms + usize::from(!is_slow));
            }
        });
    }
    assert!(parted >= 29, "the firmware parted {parted} of 30 classes");
    assert!(
        found >= slow - 1 && alarms <= 1,
        "{found} of {slow} slow devices were found, {alarms} healthy ones called"
    );
}

#[test]
fn a_clean_class_has_no_findings_and_a_spread_that_is_its_own() {
    let spec = FleetSpec { hour_sigma: 0.004, visits: 2, hours: 12, ..FleetSpec::clean(32) };
    let fleet = Fleet::simulate(&spec, 3);
    studied(&fleet, |study| {
        assert_eq!(study.outliers(ClassRule::default()), []);
        let family = &study.families[0];
        assert!(matches!(family.humps, Humps::One { .. }) && family.explained.is_none(), "{:?}", family.humps);
        let split = family.split.as_ref().expect("a split");
        let sigma = |source| split.of(source).and_then(|component| component.sigma()).expect("told apart");
        use super::super::variance::Source;
        assert!((0.0035..0.007).contains(&sigma(Source::Device)), "{split:?}");
        assert!((0.002..0.007).contains(&sigma(Source::Hour)), "{split:?}");
        assert!((0.0015..0.0026).contains(&sigma(Source::Repeat)), "{split:?}");
    });
}

#[test]
fn few_devices_say_so() {
    studied(&Fleet::simulate(&FleetSpec::hard(8), 1), |study| {
        let family = &study.families[0];
        assert!(matches!(family.outliers, Outliers::TooFewDevices { devices: 8, needed: 16 }), "{family:?}");
        assert!(matches!(family.humps, Humps::TooFewDevices { devices: 8, needed: 16 }), "{family:?}");
        assert_eq!(study.outliers(ClassRule::default()), []);
    });
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let mut fleet = Fleet::simulate(&FleetSpec::hard(16), 5);
    let told = |fleet: &Fleet| studied(fleet, |study| format!("{study:?}"));
    let expected = told(&fleet);
    Random::new(6).shuffle(&mut fleet.rows);
    assert_eq!(told(&fleet), expected);
}
