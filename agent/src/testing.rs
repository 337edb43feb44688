//! What tests of this crate measure: rows, visits and devices that look like real ones.

use std::collections::BTreeMap;
use std::time::Duration;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::{AgentId, ClassId, DeviceId, RowId, RunId, TaskId};
use fleetcal_model::point::{Dtype, Sweep};
use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{
    Conditions, Counts, DeviceColumns, FlushMode, Identity, IntervalMethod, Origin, Outcome, Role, Row, Sample, Status,
    StopReason, Timing, TimingMode, Work,
};
use fleetcal_proto::convert::Lease;
use fleetcal_proto::rows::{Decoder, from_batch, schema_message};
use tokio::sync::mpsc;

use crate::spool::chunk::Chunk;
use crate::worker::message::{RoundPlan, RowLabels, Visit};

/// Nobody waits longer for what should happen at once.
const PATIENCE: Duration = Duration::from_secs(30);

/// A folder tree with these files, for code that reads below a root.
pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().expect("a temporary folder can be made");
    for (name, text) in files {
        let path = root.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap_or(root.path())).expect("a folder can be made");
        std::fs::write(path, text).expect("a file can be written");
    }
    root
}

/// A shared library made from C, in a folder of its own. `None` where there is no C compiler, which is then said.
pub(crate) fn c_library(name: &str, source: &str) -> Option<(tempfile::TempDir, std::path::PathBuf)> {
    let folder = tree(&[("library.c", source)]);
    let path = folder.path().join(format!("lib{name}.so"));
    let compiler = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-w", "-o"])
        .args([&path, &folder.path().join("library.c")])
        .output();
    let made = match compiler {
        Ok(made) => made,
        Err(error) => {
            let required = std::env::var("FLEETCAL_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|tool| tool == "cc"), "FLEETCAL_REQUIRE names cc: {error}");
            println!("skipped: no C compiler for a stand-in of {name}: {error}");
            return None;
        }
    };
    assert!(made.status.success(), "{name}: {}", String::from_utf8_lossy(&made.stderr));
    Some((folder, path))
}

/// The next thing on a channel.
pub(crate) async fn next<T>(what: &str, receiver: &mut mpsc::UnboundedReceiver<T>) -> T {
    let next = tokio::time::timeout(PATIENCE, receiver.recv()).await;
    next.unwrap_or_else(|_| panic!("{what} never came")).unwrap_or_else(|| panic!("{what} cannot come any more"))
}

/// Waits for something to end.
pub(crate) async fn in_time<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("{what} never ended"))
}

pub(crate) fn lease(task: &str) -> Lease {
    Lease { task_id: TaskId::new(task), attempt: 1, epoch: 1 }
}

pub(crate) fn labels() -> RowLabels {
    RowLabels { agent_id: "agent-1".into(), node: "node-1".into(), host: "host-1".into(), rack: None }
}

pub(crate) fn device(uuid: &str) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new(uuid),
        backend: Backend::Sim,
        vendor: "sim".into(),
        name: "Sim".into(),
        architecture: "sim_1".into(),
        compute_units: 16,
        memory_bytes: 1 << 34,
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
        l2_cache_bytes: None,
        last_level_cache_bytes: None,
        warp_size: 32,
    }
}

/// The rows of a chunk.
pub(crate) fn rows_of(chunk: &Chunk) -> Vec<Row> {
    let decoder = Decoder::new(&schema_message().expect("there is a schema")).expect("it is ours");
    let batches = decoder.decode(&chunk.record_batches).expect("the batches are whole");
    batches.iter().flat_map(|batch| from_batch(batch).expect("the batch holds rows")).collect()
}

/// A visit of three samples, about 1,000 ns each.
pub(crate) fn visit(row: u64, round: u64) -> Visit {
    let sample = |index: u64| Sample {
        ns: 1_000 + index,
        round,
        start_ns: round * 10_000 + index * 1_000,
        accepted: true,
        throttle_bits: None,
        clock_khz: None,
    };
    Visit {
        row,
        round,
        order: 0,
        buffer_offset_bytes: 0,
        samples: (0..3).map(sample).collect(),
        stop_reason: StopReason::Count,
        plan: RoundPlan { rounds: 3, pilot: None },
        started_utc_ns: 1 + round,
        ended_utc_ns: 2 + round,
        wall_ns: 0,
        co_running: None,
        seen: None,
        votes: Vec::new(),
    }
}

/// A validated row of three planned rounds, before its visits.
pub(crate) fn template(lease: &Lease, solution: &str) -> Row {
    Row {
        identity: Identity {
            row_id: RowId::new(format!("{}/{solution}", lease.task_id)),
            content_hash: String::new(),
            run_id: RunId::new("run-1"),
            plan_digest: "plan".into(),
            task_id: lease.task_id.clone(),
            attempt: lease.attempt,
            lease_epoch: lease.epoch,
            agent_id: AgentId::new("agent-1"),
            agent_version: "0".into(),
            origin: Origin::Simulated,
            role: Role::Fit,
        },
        device: device_columns(),
        work: work(solution),
        counts: Counts { bytes_read: 2_000, bytes_written: 1_000, ..Counts::default() },
        timing: timing(),
        conditions: Conditions::default(),
        outcome: Outcome {
            status: Status::Passed,
            reason: None,
            validated_elements: 1,
            bounds_check: BoundsCheck::None,
            max_error: None,
            max_error_index: None,
            predicted_score_ns: None,
            predicted_bound_ns: None,
            started_utc_ns: 0,
            ended_utc_ns: 0,
        },
    }
}

fn device_columns() -> DeviceColumns {
    let facts = device("SIM-1");
    DeviceColumns {
        node: "node-1".into(),
        host: "host-1".into(),
        rack: None,
        device_uuid: facts.uuid,
        pci_bdf: None,
        class_id: ClassId::new("class"),
        class_slug: "sim".into(),
        backend: "sim".into(),
        vendor: facts.vendor,
        device_name: facts.name,
        architecture: facts.architecture,
        compute_units: facts.compute_units,
        memory_bytes: facts.memory_bytes,
        last_level_cache_bytes: None,
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

fn work(solution: &str) -> Work {
    Work {
        sweep: Sweep::Stream,
        kernel: "copy".into(),
        point: "stream/copy/f32/elements=1024".into(),
        solution: solution.into(),
        source_digest: None,
        code_digest: None,
        compile_options: None,
        dtype: Dtype::F32,
        elements: Some(1024),
        m: None,
        n: None,
        k: None,
        vector_width: None,
        vectors_per_thread: None,
        block_threads: None,
        parameters: BTreeMap::new(),
        data_pattern: "random".into(),
        label: None,
    }
}

pub(crate) fn timing() -> Timing {
    Timing {
        samples: Vec::new(),
        rounds: Vec::new(),
        rounds_planned: 3,
        pilot_rounds: None,
        rounds_done: 0,
        warmups: 1,
        timing_mode: TimingMode::Single,
        enqueues_per_sample: 1,
        flush_mode: FlushMode::Warm,
        flush_bytes: 0,
        clock_source: "sim".into(),
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
