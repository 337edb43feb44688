use std::collections::BTreeMap;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::{DeviceId, RunId, TaskId};
use fleetcal_model::point::{Dtype, Point, Sweep};
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_model::selection::Selected;

use super::*;
use crate::v1;

/// A field's path, and how to leave the field out.
type Clearing<Message> = (&'static str, fn(&mut Message));

fn facts() -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("GPU-1"),
        backend: Backend::Cuda,
        vendor: "nvidia".to_owned(),
        name: "NVIDIA H200".to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 132,
        memory_bytes: 150_000_000_000,
        memory_clock_khz: Some(3_201_000),
        core_clock_khz: Some(1_980_000),
        power_limit_mw: Some(700_000),
        partition_mode: Some("none".to_owned()),
        ecc: Some(true),
        sockets: None,
        pci_bdf: Some("00000000:01:00.0".to_owned()),
        vbios: None,
        driver: Some("580.1".to_owned()),
        runtime: Some("cuda 13.0".to_owned()),
        l2_cache_bytes: Some(60 << 20),
        last_level_cache_bytes: Some(60 << 20),
        warp_size: 32,
    }
}

fn task() -> LeasedTask {
    let point = |elements| Point {
        sweep: Sweep::Stream,
        kernel: "triad".to_owned(),
        dtype: Dtype::F32,
        sizes: BTreeMap::from([("elements".to_owned(), elements)]),
    };
    LeasedTask {
        lease: Lease { task_id: TaskId::new("task-7"), attempt: 2, epoch: 9 },
        run_id: RunId::new("run-1"),
        plan_digest: "00".repeat(32),
        devices: vec![DeviceId::new("GPU-1"), DeviceId::new("GPU-2")],
        points: vec![point(1 << 28), point(1 << 30)],
        policy: MeasuringPolicy { validate_elements: -1, ..MeasuringPolicy::default() },
        seed: u64::MAX,
        label: Some("night".to_owned()),
        alone_on_node: true,
        selected: vec![Selected {
            sweep: Sweep::Stream,
            kernel: "copy".to_owned(),
            dtype: Dtype::F32,
            solution: "w4_v1_b256_tile".to_owned(),
        }],
    }
}

#[test]
fn facts_and_tasks_cross_the_wire_unchanged() {
    assert_eq!(DeviceFacts::try_from(v1::DeviceFacts::from(&facts())), Ok(facts()));
    assert_eq!(LeasedTask::try_from(v1::Task::from(&task())), Ok(task()));
}

#[test]
fn every_fact_that_names_a_device_is_required_and_named() {
    let clear: [Clearing<v1::DeviceFacts>; 5] = [
        ("DeviceFacts.uuid", |wire| wire.uuid.clear()),
        ("DeviceFacts.backend", |wire| wire.backend.clear()),
        ("DeviceFacts.vendor", |wire| wire.vendor.clear()),
        ("DeviceFacts.name", |wire| wire.name.clear()),
        ("DeviceFacts.architecture", |wire| wire.architecture.clear()),
    ];
    for (field, clear) in clear {
        let mut wire = v1::DeviceFacts::from(&facts());
        clear(&mut wire);
        assert_eq!(DeviceFacts::try_from(wire), Err(ConvertError::missing(field)));
    }
}

#[test]
fn a_word_from_a_newer_side_is_named_with_its_place() {
    let mut wire = v1::Task::from(&task());
    wire.points[1].dtype = "f4".to_owned();
    let error = LeasedTask::try_from(wire).expect_err("f4 is not known yet");
    assert!(error.to_string().starts_with("field `Task.points[1].dtype` of the message cannot be used"), "{error}");
    assert!(error.to_string().contains("unknown dtype `f4`, expected one of: f32"), "{error}");
}

#[test]
fn a_task_without_devices_points_policy_or_attempt_is_refused() {
    let clear: [Clearing<v1::Task>; 6] = [
        ("Task.device_uuids", |wire| wire.device_uuids.clear()),
        ("Task.device_uuids[1]", |wire| wire.device_uuids[1].clear()),
        ("Task.points", |wire| wire.points.clear()),
        ("Task.policy", |wire| wire.policy = None),
        ("Task.attempt", |wire| wire.attempt = 0),
        ("Task.task_id", |wire| wire.task_id.clear()),
    ];
    for (field, clear) in clear {
        let mut wire = v1::Task::from(&task());
        clear(&mut wire);
        assert_eq!(LeasedTask::try_from(wire), Err(ConvertError::missing(field)));
    }
}

#[test]
fn leases_are_required_where_a_message_hangs_on_them() {
    assert_eq!(Lease::required(None, "TaskEnded.lease"), Err(ConvertError::missing("TaskEnded.lease")));
    let wire = v1::HeldLease { task_id: String::new(), attempt: 1, epoch: 1 };
    let error = Lease::required(Some(wire), "TaskEnded.lease");
    assert_eq!(error, Err(ConvertError::missing("TaskEnded.lease.task_id")));
    let lease = task().lease;
    assert_eq!(Lease::required(Some((&lease).into()), "TaskEnded.lease"), Ok(lease));
}

#[test]
fn numbers_that_an_enumeration_lacks_are_refused() {
    let error = enumeration::<v1::TaskOutcome>(99, "TaskEnded.outcome").expect_err("99 is no outcome");
    assert_eq!(error.to_string(), "field `TaskEnded.outcome` of the message holds 99, which is no known TaskOutcome");
}
