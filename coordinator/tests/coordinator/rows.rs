//! Rows as an agent would have measured them, at a bandwidth that is known.

use std::collections::BTreeMap;

use fleetcal_kernels::family::family;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::estimate::{finish, seal};
use fleetcal_model::id::{AgentId, DeviceId, RowId, RunId, TaskId};
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{
    Conditions, DeviceColumns, FlushMode, Identity, IntervalMethod, Origin, Outcome, Role, Round, Row, Status,
    StopReason, Timing, TimingMode, Work,
};
use fleetcal_proto::v1;

/// Bytes a nanosecond of the device that never was: 1e12 B/s.
pub(crate) const BYTES_PER_NS: f64 = 1_000.0;

const ROUNDS: u64 = 5;

/// A device of a small cache, so that every size of the plan below speaks for main memory.
pub(crate) fn device(uuid: &str) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new(uuid),
        backend: fleetcal_model::device::Backend::Sim,
        vendor: "sim".to_owned(),
        name: "Sim 1".to_owned(),
        architecture: "sim_1".to_owned(),
        compute_units: 16,
        memory_bytes: 16 << 30,
        memory_clock_khz: None,
        core_clock_khz: None,
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: None,
        l2_cache_bytes: Some(1 << 20),
        last_level_cache_bytes: Some(1 << 20),
        warp_size: 32,
    }
}

/// One row of each point of a task, `slowness` times slower than the device is.
pub(crate) fn measured(task: &v1::Task, agent: &str, facts: &DeviceFacts, slowness: f64) -> Vec<Row> {
    let points = task.points.iter().cloned().map(|point| Point::try_from(point).expect("a point"));
    points.map(|point| row(task, agent, facts, &point, slowness)).collect()
}

fn row(task: &v1::Task, agent: &str, facts: &DeviceFacts, point: &Point, slowness: f64) -> Row {
    let solution = Solution { name: "test".to_owned(), parameters: BTreeMap::new() };
    let counts = family(point.sweep).expect("a sweep with kernels").counts(point, &solution, facts);
    let median_ns = counts.bytes_moved() as f64 / BYTES_PER_NS * slowness;
    let mut row = Row {
        identity: Identity {
            row_id: RowId::new(format!("{}/{}/{point}", task.task_id, task.attempt)),
            content_hash: String::new(),
            run_id: RunId::new(task.run_id.clone()),
            plan_digest: task.plan_digest.clone(),
            task_id: TaskId::new(task.task_id.clone()),
            attempt: task.attempt,
            lease_epoch: task.epoch,
            agent_id: AgentId::new(agent),
            agent_version: "0.0.0".to_owned(),
            origin: Origin::Simulated,
            role: Role::Fit,
        },
        device: device_columns(facts),
        work: work(point, &solution),
        counts,
        timing: timing(median_ns),
        conditions: Conditions::default(),
        outcome: Outcome {
            status: Status::Passed,
            reason: None,
            validated_elements: 1,
            bounds_check: BoundsCheck::None,
            max_error: Some(0.0),
            max_error_index: None,
            predicted_score_ns: None,
            predicted_bound_ns: None,
            started_utc_ns: 1,
            ended_utc_ns: 2,
        },
    };
    finish(&mut row.timing, Role::Fit);
    seal(&mut row).expect("JSON holds a row");
    row
}

fn device_columns(facts: &DeviceFacts) -> DeviceColumns {
    let class = facts.class_key();
    DeviceColumns {
        node: "node".to_owned(),
        host: "host".to_owned(),
        rack: None,
        device_uuid: facts.uuid.clone(),
        pci_bdf: None,
        class_id: class.id(),
        class_slug: class.slug(),
        backend: facts.backend.name().to_owned(),
        vendor: facts.vendor.clone(),
        device_name: facts.name.clone(),
        architecture: facts.architecture.clone(),
        compute_units: facts.compute_units,
        memory_bytes: facts.memory_bytes,
        last_level_cache_bytes: facts.last_level_cache_bytes,
        nominal_memory_clock_khz: None,
        nominal_core_clock_khz: None,
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: None,
        vbios: None,
        driver: None,
        runtime: None,
        peer_uuid: None,
        link: None,
    }
}

fn work(point: &Point, solution: &Solution) -> Work {
    Work {
        sweep: point.sweep,
        kernel: point.kernel.clone(),
        point: point.to_string(),
        solution: solution.name.clone(),
        source_digest: None,
        code_digest: None,
        compile_options: None,
        dtype: point.dtype,
        elements: point.size("elements"),
        m: None,
        n: None,
        k: None,
        vector_width: None,
        vectors_per_thread: None,
        block_threads: None,
        parameters: BTreeMap::new(),
        data_pattern: "random".to_owned(),
        label: None,
    }
}

fn timing(median_ns: f64) -> Timing {
    let visit = |round| Round {
        round,
        order: 0,
        buffer_offset_bytes: 0,
        median_ns,
        mad_ns: 0.0,
        samples: 10,
        stop_reason: StopReason::Converged,
    };
    Timing {
        samples: Vec::new(),
        rounds: (1..=ROUNDS).map(visit).collect(),
        rounds_planned: ROUNDS,
        pilot_rounds: None,
        rounds_done: ROUNDS,
        warmups: 1,
        timing_mode: TimingMode::Single,
        enqueues_per_sample: 1,
        flush_mode: FlushMode::Oversized,
        flush_bytes: 0,
        clock_source: "sim".to_owned(),
        clock_resolution_ns: None,
        clock_overhead_ns: None,
        empty_launch_ns: None,
        estimate_ns: None,
        interval_low_ns: None,
        interval_high_ns: None,
        interval_method: IntervalMethod::TooFewRounds,
        interval_target: None,
        converged: None,
        bimodal: None,
        samples_discarded: 0,
    }
}
