//! The whole loop with the faults of a simulated device's sensor: what a plan's user meets.

use std::sync::atomic::AtomicBool;

use fleetcal_model::point::Point;
use fleetcal_model::row::{Row, Status};
use fleetcal_model::throttle::ThrottleReasons;

use crate::assemble::assemble;
use crate::device::sim::{SimDevice, SimSpec};
use crate::harness::clock::SystemClock;
use crate::harness::tests::fake::{Said, labels, task};
use crate::harness::{HarnessError, Setting, measure};
use crate::worker::resume::Resume;

/// Measures one point of the stream sweep; the finished rows that were not only screened.
fn measured(spec: &str) -> (Result<(), HarnessError>, Vec<Row>) {
    let spec: SimSpec = spec.parse().expect("a specification");
    let point: Point = "stream/copy/f32/elements=1048576".parse().expect("a point");
    let (task, labels, interrupt, clock) = (task(vec![point]), labels(), AtomicBool::new(false), SystemClock::start());
    let setting =
        Setting { task: &task, labels: &labels, resume: &Resume::default(), interrupt: &interrupt, clock: &clock };
    let mut events = Vec::new();
    let mut device = SimDevice::open(&spec.model.facts("SIM-1".into()), &spec);
    let outcome = measure(&mut device, setting, &mut events);
    let said = Said(events);
    let row = |(index, row): (u64, &Row)| {
        let visits: Vec<_> = said.visits(index).into_iter().cloned().collect();
        let row = assemble(row.clone(), &visits).expect("a row");
        visits.iter().any(|visit| visit.round > 0).then_some(row)
    };
    let rows = said.closed().into_iter().filter_map(row).collect();
    (outcome, rows)
}

#[test]
fn a_healthy_device_has_readings_and_no_reason() {
    let (outcome, rows) = measured("1");
    outcome.expect("it is measured");
    assert!(!rows.is_empty(), "finalists have rows");
    for row in rows {
        assert_eq!(row.outcome.status, Status::Passed);
        assert_eq!(row.conditions.monitor_source.as_deref(), Some("simulated"));
        assert!(row.conditions.monitor_samples > 0, "{:?}", row.conditions);
        assert_eq!(row.conditions.throttle_reasons, Some(0));
        assert_eq!(row.conditions.foreign_processes, Some(0));
        assert_eq!(row.conditions.ecc_corrected, Some(0));
    }
}

#[test]
fn a_hot_device_gives_throttled_rows_without_estimates() {
    let (outcome, rows) = measured("1,fault=throttled:software_thermal_slowdown:0");
    outcome.expect("it is measured");
    assert!(!rows.is_empty(), "finalists have rows");
    for row in rows {
        assert_eq!(row.outcome.status, Status::Throttled);
        assert!(row.outcome.reason.as_ref().is_some_and(|reason| reason.ends_with("software thermal slowdown")));
        assert_eq!(row.conditions.throttle_reasons, Some(ThrottleReasons::SOFTWARE_THERMAL.bits()));
        assert_eq!((row.timing.estimate_ns, row.feeds_fits()), (None, false), "no accepted sample, no median");
        assert!(row.timing.samples_discarded > 0 && !row.timing.samples.is_empty(), "they are kept as evidence");
    }
}

#[test]
fn a_power_cap_is_noted_and_costs_nothing() {
    let (_, rows) = measured("1,fault=throttled:power_cap:0");
    assert!(!rows.is_empty(), "finalists have rows");
    for row in rows {
        assert_eq!(row.outcome.status, Status::Passed);
        assert_eq!(row.conditions.throttle_reasons, Some(ThrottleReasons::POWER_CAP.bits()));
        assert!(row.timing.estimate_ns.is_some());
    }
}

#[test]
fn a_sensor_that_is_lost_on_the_way_costs_no_row() {
    let (outcome, rows) = measured("1,fault=sensor_lost:1");
    outcome.expect("it is measured");
    assert!(!rows.is_empty(), "finalists have rows");
    for row in rows {
        assert_eq!(row.outcome.status, Status::Passed);
        assert_eq!((row.conditions.core_clock_khz, row.conditions.throttle_reasons), (None, None));
        assert_eq!(row.conditions.foreign_processes, None, "unknown is not none");
    }
}

#[test]
fn a_foreign_process_before_refuses_the_task_and_one_that_comes_makes_rows_contended() {
    let (outcome, rows) = measured("1,fault=foreign:0");
    let error = outcome.expect_err("it is busy");
    assert!(rows.is_empty() && error.retry_may_help(), "{error}");
    assert!(error.to_string().contains("busy with 1 other processes: simulated"), "{error}");
    let (outcome, rows) = measured("1,fault=foreign:1");
    outcome.expect("nobody was there before");
    assert!(!rows.is_empty(), "finalists have rows");
    for row in rows {
        assert_eq!(row.outcome.status, Status::Contended);
        assert_eq!(row.conditions.foreign_processes, Some(1));
        assert!(!row.feeds_fits());
    }
}
