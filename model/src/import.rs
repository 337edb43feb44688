//! Rows that other programs measured: read from their text, and marked as imported for good.
//!
//! An imported row was validated by nobody here, says nothing of its conditions, and was visited once: it has an estimate
//! and no interval. It is never pooled with rows of another origin.

use std::collections::BTreeMap;

use crate::device::DeviceFacts;
use crate::estimate::{self, Visit, finish};
use crate::id::{AgentId, RunId, TaskId};
use crate::point::{Point, Solution};
use crate::policy::BoundsCheck;
use crate::row::{
    Conditions, Counts, DeviceColumns, FlushMode, Identity, IntervalMethod, Origin, Outcome, Role, Row, Sample, Status,
    StopReason, Timing, TimingMode, Work,
};

pub mod calibration;
pub mod probe;

/// Where imported rows come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    /// The device that somebody says they were measured on.
    pub device: DeviceFacts,
    /// Its host.
    pub host: String,
    /// Name of the measurement: a process's rows have one, and another's another.
    pub name: String,
    /// The clock: `cuda_event`, `hip_event`, `monotonic`.
    pub clock: String,
    /// Data that inputs were filled with.
    pub data_pattern: String,
}

/// A text that holds no rows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// Its first line is another's.
    #[error("the first line is `{found}`, not `{expected}`")]
    Header {
        /// What it is.
        found: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A line is not what its place asks for.
    #[error("line {line}: {problem}")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong with it.
        problem: String,
    },
    /// There is a header and nothing else.
    #[error("it holds no rows")]
    Empty,
}

impl ImportError {
    /// A fault of the line with this index, counted from 0.
    fn line(index: usize, problem: impl Into<String>) -> Self {
        Self::Line { line: index + 1, problem: problem.into() }
    }
}

/// One point as somebody measured it.
struct Measured {
    point: Point,
    solution: Solution,
    counts: Counts,
    /// Times of single launches, nanoseconds.
    times_ns: Vec<u64>,
}

impl Measured {
    /// Its row.
    fn row(self, source: &Source) -> Row {
        let Self { point, solution, counts, times_ns } = self;
        // One task for each file: rows of two processes on one device are two.
        let task_id = TaskId::new(format!("import/{}", source.name));
        let row_id = estimate::row_id(&task_id, 1, &source.device.uuid, &point, &solution);
        Row {
            identity: Identity {
                row_id,
                content_hash: String::new(),
                run_id: RunId::new(format!("import/{}", source.name)),
                plan_digest: String::new(),
                task_id,
                attempt: 1,
                lease_epoch: 0,
                agent_id: AgentId::new("import"),
                agent_version: env!("CARGO_PKG_VERSION").to_owned(),
                origin: Origin::Imported,
                role: Role::Fit,
            },
            device: device_columns(source),
            work: work(source, &point, &solution),
            counts,
            timing: timing(source, times_ns),
            conditions: Conditions::default(),
            outcome: Outcome {
                status: Status::NoCheck,
                reason: None,
                validated_elements: 0,
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
}

fn device_columns(source: &Source) -> DeviceColumns {
    let facts = &source.device;
    let class = facts.class_key();
    DeviceColumns {
        node: source.host.clone(),
        host: source.host.clone(),
        rack: None,
        device_uuid: facts.uuid.clone(),
        pci_bdf: facts.pci_bdf.clone(),
        class_id: class.id(),
        class_slug: class.slug(),
        backend: facts.backend.name().to_owned(),
        vendor: facts.vendor.clone(),
        device_name: facts.name.clone(),
        architecture: facts.architecture.clone(),
        compute_units: facts.compute_units,
        memory_bytes: facts.memory_bytes,
        last_level_cache_bytes: facts.last_level_cache_bytes,
        nominal_memory_clock_khz: facts.memory_clock_khz,
        nominal_core_clock_khz: facts.core_clock_khz,
        power_limit_mw: facts.power_limit_mw,
        partition_mode: facts.partition_mode.clone(),
        ecc: facts.ecc,
        sockets: facts.sockets,
        vbios: facts.vbios.clone(),
        driver: facts.driver.clone(),
        runtime: facts.runtime.clone(),
        peer_uuid: None,
        link: None,
    }
}

fn work(source: &Source, point: &Point, solution: &Solution) -> Work {
    const OWN_COLUMNS: [&str; 4] = ["elements", "m", "n", "k"];
    let others = point.sizes.iter().filter(|(name, _)| !OWN_COLUMNS.contains(&name.as_str()));
    let mut parameters: BTreeMap<String, String> =
        others.map(|(name, size)| (name.clone(), size.to_string())).collect();
    parameters.extend(solution.parameters.iter().map(|(name, value)| (name.clone(), value.to_string())));
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
        m: point.size("m"),
        n: point.size("n"),
        k: point.size("k"),
        vector_width: None,
        vectors_per_thread: None,
        block_threads: solution.parameters.get("block").copied(),
        parameters,
        data_pattern: source.data_pattern.clone(),
        label: Some(source.name.clone()),
    }
}

/// One visit of single launches, back to back.
fn timing(source: &Source, times_ns: Vec<u64>) -> Timing {
    let sample = |ns| Sample { ns, round: 1, start_ns: 0, accepted: true, throttle_bits: None, clock_khz: None };
    let samples: Vec<Sample> = times_ns.into_iter().map(sample).collect();
    let visit =
        Visit { round: 1, order: 0, buffer_offset_bytes: 0, enqueues_per_sample: 1, stop_reason: StopReason::Count };
    let mut timing = Timing {
        rounds: visit.summarise(&samples).into_iter().collect(),
        samples,
        rounds_planned: 1,
        pilot_rounds: None,
        rounds_done: 0,
        warmups: 1,
        timing_mode: TimingMode::Single,
        enqueues_per_sample: 1,
        flush_mode: FlushMode::Warm,
        flush_bytes: 0,
        clock_source: source.clock.clone(),
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
    };
    finish(&mut timing, Role::Fit);
    timing
}
