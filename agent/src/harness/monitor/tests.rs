//! The listener on a scripted device: what rows say of it, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fleetcal_model::row::{Status, StopReason};
use fleetcal_model::throttle::ThrottleReasons;

use crate::harness::HarnessError;
use crate::harness::tests::fake::{FakeDevice, Said, point, task};
use crate::task::TaskSpec;
use crate::telemetry::{ForeignProcess, Processors, Reading, Sensor};
use crate::testing::tree;

mod silent;
mod simulated;

/// Says what a function of the number of earlier readings says.
struct Scripted<F>(F, u64);

impl<F: FnMut(u64) -> Reading + Send> Sensor for Scripted<F> {
    fn source(&self) -> &'static str {
        "scripted"
    }

    /// Only when it is asked.
    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn read(&mut self) -> Reading {
        self.1 += 1;
        (self.0)(self.1 - 1)
    }
}

fn reading(core_clock_khz: u64) -> Reading {
    Reading { core_clock_khz: Some(core_clock_khz), throttle: Some(ThrottleReasons::NONE), ..Reading::default() }
}

fn with_sensor(read: impl FnMut(u64) -> Reading + Send + 'static) -> FakeDevice {
    let device = FakeDevice::new();
    *device.sensor.borrow_mut() = Some(Box::new(Scripted(read, 0)));
    device
}

/// One solution: three visits in three rounds, each of one batch or more, a reading before each batch and one before all.
fn one_solution() -> TaskSpec {
    task(vec![point(64, 1)])
}

fn measured(mut device: FakeDevice) -> Said {
    let (outcome, said) = device.measure(&one_solution());
    outcome.expect("conditions are no error");
    said
}

fn hot(reading: Reading) -> Reading {
    let reasons = ThrottleReasons::POWER_CAP.union(ThrottleReasons::HARDWARE_THERMAL);
    Reading { throttle: Some(reasons), ..reading }
}

#[test]
fn conditions_are_medians_maxima_unions_and_deltas() {
    let said = measured(with_sensor(|number| Reading {
        power_mw: Some(100 + number),
        temperature_mc: Some(if number == 2 { 70_000 } else { 50_000 }),
        throttle: Some(if number == 1 { ThrottleReasons::POWER_CAP } else { ThrottleReasons::IDLE }),
        ecc_corrected: Some(40 + number),
        rows_remapped: Some(7),
        foreign: Some(Vec::new()),
        ..reading(1_000 + number)
    }));
    let (index, row) = said.row("s0");
    let conditions = &row.conditions;
    let readings = conditions.monitor_samples;
    assert!(readings >= 3, "one a visit at least: {readings}");
    // Reading 0 was taken before the task; the medians are of 1 to `readings`.
    assert_eq!(conditions.core_clock_khz, Some(1_000 + (readings + 2) / 2), "median of {readings}");
    assert_eq!(conditions.power_mw, Some(100 + (readings + 2) / 2));
    assert_eq!(conditions.temperature_mc, Some(70_000), "the largest");
    let both = ThrottleReasons::POWER_CAP.union(ThrottleReasons::IDLE);
    assert_eq!(conditions.throttle_reasons, Some(both.bits()), "all that were seen");
    assert_eq!(conditions.ecc_corrected, Some(readings), "counted since the task began, none lost between visits");
    assert_eq!(conditions.rows_remapped, Some(0));
    assert_eq!(conditions.ecc_uncorrected, None, "never said");
    assert_eq!(conditions.foreign_processes, Some(0));
    assert_eq!(conditions.monitor_source.as_deref(), Some("scripted"));
    let samples = said.visits(index).into_iter().flat_map(|visit| &visit.samples);
    for sample in samples {
        assert!(sample.accepted && sample.clock_khz.is_some() && sample.throttle_bits.is_some(), "{sample:?}");
    }
}

#[test]
fn samples_under_a_discarding_reason_do_not_count_and_most_of_them_make_the_row_throttled() {
    let said = measured(with_sensor(|_| hot(reading(900))));
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Throttled);
    let reason = row.outcome.reason.as_deref().unwrap_or_default();
    assert!(reason.ends_with("hardware thermal slowdown"), "the reasons in words: {reason}");
    assert!(row.outcome.validated_elements > 0, "its results were right all the same");
    let visits = said.visits(index);
    assert_eq!(visits.len(), 3, "what was measured is evidence");
    assert!(visits.iter().flat_map(|visit| &visit.samples).all(|sample| !sample.accepted));
    let assembled = crate::assemble::assemble(row.clone(), &visits.into_iter().cloned().collect::<Vec<_>>());
    let assembled = assembled.expect("a row");
    assert_eq!((assembled.timing.estimate_ns, assembled.timing.rounds_done), (None, 0), "no sample, no median");
    assert_eq!(assembled.timing.samples_discarded, assembled.timing.samples.len() as u64);
    assert!(!assembled.feeds_fits());
}

#[test]
fn a_few_discarded_samples_cost_no_row_and_a_power_cap_discards_none() {
    let said = measured(with_sensor(|number| if number == 1 { hot(reading(900)) } else { reading(1000) }));
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Passed);
    let visits: Vec<_> = said.visits(index).into_iter().cloned().collect();
    let discarded = visits.iter().flat_map(|visit| &visit.samples).filter(|sample| !sample.accepted).count();
    assert!(discarded > 0, "those of the hot batch");
    let row = crate::assemble::assemble(row.clone(), &visits).expect("a row");
    assert_eq!(row.timing.samples_discarded, discarded as u64);
    let capped = measured(with_sensor(|_| Reading { throttle: Some(ThrottleReasons::POWER_CAP), ..reading(1000) }));
    let (index, row) = capped.row("s0");
    assert_eq!(row.outcome.status, Status::Passed);
    assert!(capped.visits(index).iter().flat_map(|visit| &visit.samples).all(|sample| sample.accepted));
}

#[test]
fn a_visit_goes_on_until_enough_samples_count() {
    // The first visit's first batch is hot.
    let said = measured(with_sensor(|number| if number == 1 { hot(reading(900)) } else { reading(1000) }));
    let (index, _) = said.row("s0");
    let counts = said.visits(index).into_iter().map(|visit| {
        let accepted = visit.samples.iter().filter(|sample| sample.accepted).count();
        (visit.samples.len(), accepted, visit.stop_reason)
    });
    let counts: Vec<_> = counts.collect();
    assert_eq!(counts[0], (20, 10, StopReason::Converged), "ten that count, and the ten hot ones: {counts:?}");
    assert_eq!(counts[1..], [(10, 10, StopReason::Converged); 2], "those that follow take no more than ten");
}

#[test]
fn a_hot_screening_round_ranks_and_takes_no_solution_out() {
    // One reading before all, then one a batch: four solutions, one batch each, are screened while it is hot.
    let mut device = with_sensor(|number| if number <= 4 { hot(reading(900)) } else { reading(1000) });
    let (outcome, said) = device.measure(&task(vec![point(64, 4)]));
    outcome.expect("conditions are no error");
    let (_, best) = said.row("s0");
    assert_eq!(best.outcome.status, Status::Passed, "{:?}", best.outcome.reason);
    assert_eq!(best.conditions.core_clock_khz, Some(1000), "conditions are those of the rounds that measured it");
    let (_, screened) = said.row("s3");
    assert_eq!(screened.outcome.status, Status::Throttled, "it has no other round to be judged by");
}

#[test]
fn a_row_cut_short_is_judged_by_its_samples() {
    let said = measured(with_sensor(|_| hot(reading(900))));
    let (index, _) = said.row("s0");
    let opened = said.0.iter().find_map(|event| {
        let crate::worker::message::Event::RowOpened(row) = event else { return None };
        Some((**row).clone())
    });
    let visits: Vec<_> = said.visits(index).into_iter().take(1).cloned().collect();
    let row = crate::assemble::assemble(opened.expect("it was opened"), &visits).expect("a row");
    assert_eq!(row.outcome.status, Status::Throttled, "nobody closed it, its samples know");
}

#[test]
fn a_sensor_that_fails_in_the_middle_costs_its_values_only() {
    let said = measured(with_sensor(|number| if number < 2 { reading(1000) } else { Reading::default() }));
    let (_, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Passed);
    assert_eq!(row.conditions.core_clock_khz, Some(1000), "what was read before stays true");
    assert_eq!(row.conditions.power_mw, None);
    assert!(row.conditions.monitor_samples > 1, "it was read on");
}

#[test]
fn without_a_sensor_or_a_reading_in_time_telemetry_is_none() {
    let silent = measured(FakeDevice::new());
    // Its samples are dated an hour ago: no reading overlaps them, whatever the thread does.
    let mut dated = with_sensor(|_| hot(reading(1000)));
    dated.opened_at = Instant::now().checked_sub(Duration::from_secs(3600));
    let mut task = one_solution();
    task.policy.settle_ns_max = 0;
    let (outcome, dated) = dated.measure(&task);
    outcome.expect("conditions are no error");
    for (said, source) in [(silent, None), (dated, Some("scripted"))] {
        let (index, row) = said.row("s0");
        let conditions = &row.conditions;
        assert_eq!(
            (conditions.monitor_samples, conditions.core_clock_khz, conditions.throttle_reasons),
            (0, None, None)
        );
        assert_eq!(conditions.monitor_source.as_deref(), source);
        assert_eq!(row.outcome.status, Status::Passed);
        let samples: Vec<_> = said.visits(index).into_iter().flat_map(|visit| &visit.samples).collect();
        assert!(samples.iter().all(|sample| sample.throttle_bits.is_none() && sample.clock_khz.is_none()));
    }
}

#[test]
fn switched_off_nothing_is_started_and_rows_say_nothing() {
    let mut device = with_sensor(|_| panic!("nobody is to ask"));
    let mut task = one_solution();
    task.policy.monitor = false;
    let (outcome, said) = device.measure(&task);
    outcome.expect("conditions are no error");
    assert!(device.sensor.borrow().is_some(), "it was not even taken");
    let (_, row) = said.row("s0");
    let conditions = &row.conditions;
    assert_eq!((conditions.monitor_source.as_deref(), conditions.monitor_samples), (None, 0));
    assert_eq!((conditions.host_load, conditions.host_steal, conditions.foreign_processes), (None, None, None));
}

fn process() -> ForeignProcess {
    ForeignProcess { pid: 77, name: Some("train".to_owned()) }
}

#[test]
fn a_device_that_others_use_is_not_begun_on_and_another_try_may_help() {
    let mut device = with_sensor(|_| Reading { foreign: Some(vec![process()]), ..reading(1000) });
    let (outcome, said) = device.measure(&one_solution());
    let error = outcome.expect_err("it is busy");
    assert!(matches!(error, HarnessError::Busy { processes: 1, .. }), "{error}");
    assert!(error.retry_may_help() && error.to_string().contains("busy with 1 other processes: train"), "{error}");
    assert!(said.closed().is_empty() && device.logged("run").is_empty(), "nothing was measured");
}

#[test]
fn a_process_that_appears_makes_the_row_contended_and_unknown_is_not_none() {
    let said = measured(with_sensor(|number| Reading {
        foreign: Some(if number < 3 { Vec::new() } else { vec![process()] }),
        ..reading(1000)
    }));
    let (_, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Contended);
    assert_eq!(row.outcome.reason.as_deref(), Some("used by train (process 77) meanwhile"));
    assert_eq!(row.conditions.foreign_processes, Some(1));
    let hidden = measured(with_sensor(|_| reading(1000)));
    assert_eq!(hidden.row("s0").1.conditions.foreign_processes, None, "nobody can see them");
}

/// A host processor whose counters others move by so many ticks of each hundred during each visit's first batch.
fn on_host(others_ticks: fn(u64) -> u64) -> (tempfile::TempDir, FakeDevice) {
    let root =
        tree(&[("proc/loadavg", "3.25 1 1 1/9 9\n"), ("proc/self/stat", &format!("7 (w) R{} 0 0", " 0".repeat(10)))]);
    let path = root.path().to_owned();
    let (busy, idle) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let write = move |others: u64| {
        let busy = busy.fetch_add(others, Ordering::Relaxed) + others;
        let idle = idle.fetch_add(100 - others, Ordering::Relaxed) + 100 - others;
        let line = format!("cpu0 {busy} 0 0 {idle} 0 0 0 0 0 0\n");
        std::fs::write(path.join("proc/stat"), line).expect("a file can be written");
    };
    write(0);
    let mut device = FakeDevice::new();
    device.processors = Some(Processors { root: root.path().to_owned(), numbers: vec![0] });
    device.before_time = Some(Box::new(move |batch| write(others_ticks(batch))));
    (root, device)
}

#[test]
fn visits_crowded_by_other_load_do_not_count_and_most_of_them_make_the_row_contended() {
    let (_root, device) = on_host(|_| 90);
    let said = measured(device);
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Contended);
    let reason = row.outcome.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("25%") && reason.contains("3 of 3 visits"), "the number must be said: {reason}");
    assert!(said.visits(index).iter().flat_map(|visit| &visit.samples).all(|sample| !sample.accepted));
    assert_eq!(row.conditions.host_load, Some(3.25));
    assert_eq!(row.conditions.host_steal, Some(0.0));
}

#[test]
fn a_little_other_load_is_borne() {
    let (_root, device) = on_host(|_| 20);
    let said = measured(device);
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Passed, "{:?}", row.outcome.reason);
    assert!(said.visits(index).iter().flat_map(|visit| &visit.samples).all(|sample| sample.accepted));
}
