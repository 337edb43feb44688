use super::*;

#[test]
fn text_round_trips() {
    let text = "2,seed=7,pace=0.01,visit_ms=20,model=S2,fault=wrong_result:triad,fault=oom,fault=lost:3,fault=hang,\
                fault=spin:s1,fault=exit:s2,fault=unloadable:s3,\
                fault=off_by_one:copy:reads_beyond,fault=off_by_one:add,\
                fault=throttled:power_brake:2,fault=sensor_lost:5,fault=foreign";
    let spec = text.parse::<SimSpec>().expect("every setting is known");
    let faults = vec![
        SimFault::WrongResult { kernel: "triad".to_owned() },
        SimFault::OutOfMemory,
        SimFault::Lost { after_visits: 3 },
        SimFault::Hang { after_visits: 0 },
        SimFault::Spin { solution: "s1".to_owned() },
        SimFault::Exit { solution: "s2".to_owned() },
        SimFault::Unloadable { solution: "s3".to_owned() },
        SimFault::OffByOne { kernel: "copy".to_owned(), access: StrayAccess::ReadsBeyond },
        SimFault::OffByOne { kernel: "add".to_owned(), access: StrayAccess::WritesBeyond },
        SimFault::Throttled { reason: ThrottleReasons::POWER_BRAKE, from_visit: 2 },
        SimFault::SensorLost { after_readings: 5 },
        SimFault::Foreign { from_visit: 0 },
    ];
    let expected = SimSpec { devices: 2, seed: 7, pace: 0.01, visit_ms: 20, model: SimModel::S2, faults };
    assert_eq!(spec, expected);
    assert_eq!(spec.to_string().parse(), Ok(spec));
    assert_eq!("3".parse(), Ok(SimSpec { devices: 3, ..SimSpec::default() }));
}

#[test]
fn errors_name_what_is_wrong() {
    for (text, named) in [
        ("", "number of simulated devices"),
        ("seed=7", "number of simulated devices"),
        ("-1", "number of simulated devices"),
        ("99999999999", "asks for devices = 99999999999, and 1024 is the most"),
        ("1025", "1024 is the most"),
        ("2,visit_ms=3600001", "asks for visit_ms = 3600001"),
        ("2,seed", "`seed`"),
        ("2,sed=7", "`sed`, they have: seed"),
        ("2,seed=x", "`seed=x`"),
        ("2,seed=1,seed=2", "`seed` is there twice"),
        ("2,pace=2", "`pace=2`"),
        ("2,pace=NaN", "`pace=NaN`"),
        ("2,model=S9", "expected one of: S1, S2"),
        ("2,fault=fire", "`fire`, they have: wrong_result:KERNEL"),
        ("2,fault=compile:", "`compile:`"),
        ("2,fault=off_by_one:copy:sideways", "`off_by_one:copy:sideways`"),
        ("2,fault=lost:soon", "`fault=lost:soon`"),
        ("2,fault=lost:-1", "`fault=lost:-1`: "),
        ("2,fault=wrong_result:triade", "no kernel `triade`, there are: copy, scale"),
        ("2,fault=off_by_one:cpy:reads_beyond", "`fault=off_by_one:cpy:reads_beyond`: there is no kernel `cpy`"),
        ("2,fault=throttled:cold", "`throttled:cold`"),
        ("2,fault=throttled:power_cap:soon", "`fault=throttled:power_cap:soon`"),
    ] {
        let error = text.parse::<SimSpec>().expect_err(text).to_string();
        assert!(error.contains(named), "`{text}` says: {error}");
    }
}
