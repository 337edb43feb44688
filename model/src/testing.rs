//! What tests, examples and simulations share: a random source of their own, and rows whose truth is known.

use std::collections::BTreeMap;

use crate::device::DeviceFacts;
use crate::estimate::finish;
use crate::id::{AgentId, ClassId, DeviceId, RowId, RunId, TaskId};
use crate::point::{Dtype, Sweep};
use crate::policy::BoundsCheck;
use crate::row::{
    Conditions, Counts, DeviceColumns, FlushMode, Identity, IntervalMethod, Origin, Outcome, Role, Round, Row, Status,
    StopReason, Timing, TimingMode, Work,
};

pub mod fleet;
pub mod mixed;
pub mod sweeps;

/// Knuth's MMIX linear congruential generator: seeded, and the same everywhere.
pub struct Random(u64);

impl Random {
    /// A source that gives the same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed);
        random.uniform();
        random
    }

    /// Uniform in (0, 1).
    pub fn uniform(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * libm::log(self.uniform())).sqrt();
        radius * libm::cos(2.0 * std::f64::consts::PI * self.uniform())
    }

    /// Puts values into an order in which every one is as likely anywhere (Fisher and Yates).
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = (self.uniform() * (last + 1) as f64) as usize;
            values.swap(last, other);
        }
    }
}

/// A stream row in the making. The class is an H200: 60 MiB of L2, so that 240 MiB speak for main memory.
#[derive(Clone)]
pub(crate) struct RowSpec {
    pub(crate) kernel: &'static str,
    pub(crate) elements: u64,
    pub(crate) solution: &'static str,
    pub(crate) device: String,
    pub(crate) task: String,
    /// Medians of rounds 1, 2, …, nanoseconds.
    pub(crate) rounds_ns: Vec<f64>,
}

impl RowSpec {
    pub(crate) fn new(kernel: &'static str, elements: u64, rounds_ns: &[f64]) -> Self {
        Self {
            kernel,
            elements,
            solution: "w4_v1_b256_tile",
            device: "GPU-0".to_owned(),
            task: "task-1".to_owned(),
            rounds_ns: rounds_ns.to_vec(),
        }
    }

    /// A row whose every round takes `latency_ns` and its bytes at `rate` bytes per second.
    pub(crate) fn modelled(kernel: &'static str, elements: u64, latency_ns: f64, rate: f64) -> Self {
        let ns = latency_ns + bytes_moved(kernel, elements) as f64 / rate * 1e9;
        Self::new(kernel, elements, &[ns; 5])
    }

    pub(crate) fn device(self, device: &str) -> Self {
        Self { device: device.to_owned(), ..self }
    }

    pub(crate) fn task(self, task: &str) -> Self {
        Self { task: task.to_owned(), ..self }
    }

    pub(crate) fn solution(self, solution: &'static str) -> Self {
        Self { solution, ..self }
    }

    pub(crate) fn row(&self) -> Row {
        let point = format!("stream/{}/f32/elements={}", self.kernel, self.elements);
        let facts = h200_facts(&self.device);
        Row {
            identity: Identity {
                row_id: RowId::new(format!("{}/{}/{}/{}", self.task, self.device, point, self.solution)),
                content_hash: String::new(),
                run_id: RunId::new("run-1"),
                plan_digest: "plan".to_owned(),
                task_id: TaskId::new(self.task.clone()),
                attempt: 1,
                lease_epoch: 1,
                agent_id: AgentId::new("agent-1"),
                agent_version: "0.1.0".to_owned(),
                origin: Origin::Measured,
                role: Role::Fit,
            },
            device: device_columns(&facts),
            work: work(self, point),
            counts: counts(self),
            timing: timing(&self.rounds_ns),
            conditions: Conditions::default(),
            outcome: Outcome {
                status: Status::Passed,
                reason: None,
                validated_elements: self.elements,
                bounds_check: BoundsCheck::None,
                max_error: Some(0.0),
                max_error_index: Some(0),
                predicted_score_ns: None,
                predicted_bound_ns: None,
                started_utc_ns: 1,
                ended_utc_ns: 2,
            },
        }
    }
}

/// Bytes that a stream kernel on f32 moves, for simulations.
pub fn stream_bytes(kernel: &str, elements: u64) -> u64 {
    bytes_moved(kernel, elements)
}

/// Bytes that a stream kernel on f32 moves.
pub(crate) fn bytes_moved(kernel: &str, elements: u64) -> u64 {
    let arrays = if matches!(kernel, "copy" | "scale") { 2 } else { 3 };
    arrays * elements * Dtype::F32.bytes()
}

/// What an H200 says of itself, under an identity.
pub fn h200_facts(uuid: &str) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new(uuid),
        backend: crate::device::Backend::Cuda,
        vendor: "nvidia".to_owned(),
        name: "NVIDIA H200".to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 132,
        memory_bytes: 141 << 30,
        memory_clock_khz: Some(3_201_000),
        core_clock_khz: Some(1_980_000),
        power_limit_mw: Some(700_000),
        partition_mode: Some("none".to_owned()),
        ecc: Some(true),
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: None,
        l2_cache_bytes: Some(60 << 20),
        last_level_cache_bytes: Some(60 << 20),
        warp_size: 32,
    }
}

fn device_columns(facts: &DeviceFacts) -> DeviceColumns {
    let class = facts.class_key();
    let class_id: ClassId = class.id();
    DeviceColumns {
        node: "node-1".to_owned(),
        host: "host-1".to_owned(),
        rack: None,
        device_uuid: facts.uuid.clone(),
        pci_bdf: None,
        class_id,
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
        sockets: None,
        vbios: None,
        driver: None,
        runtime: None,
        peer_uuid: None,
        link: None,
    }
}

fn work(spec: &RowSpec, point: String) -> Work {
    Work {
        sweep: Sweep::Stream,
        kernel: spec.kernel.to_owned(),
        point,
        solution: spec.solution.to_owned(),
        source_digest: None,
        code_digest: None,
        compile_options: None,
        dtype: Dtype::F32,
        elements: Some(spec.elements),
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

fn counts(spec: &RowSpec) -> Counts {
    let bytes = bytes_moved(spec.kernel, spec.elements);
    let bytes_written = spec.elements * Dtype::F32.bytes();
    Counts {
        bytes_read: bytes - bytes_written,
        bytes_written,
        bytes_distinct: bytes,
        bytes_requested: bytes,
        bytes_exact: true,
        ops_exact: true,
        kernels: 1,
        ..Counts::default()
    }
}

fn timing(rounds_ns: &[f64]) -> Timing {
    let rounds: Vec<Round> = (1_u64..)
        .zip(rounds_ns)
        .map(|(round, &median_ns)| Round {
            round,
            order: 0,
            buffer_offset_bytes: 0,
            median_ns,
            mad_ns: 0.0,
            samples: 10,
            stop_reason: StopReason::Converged,
        })
        .collect();
    let mut timing = Timing {
        samples: Vec::new(),
        rounds_planned: rounds.len() as u64,
        rounds,
        pilot_rounds: None,
        rounds_done: 0,
        warmups: 1,
        timing_mode: TimingMode::Single,
        enqueues_per_sample: 1,
        flush_mode: FlushMode::Oversized,
        flush_bytes: 0,
        clock_source: "cuda_event".to_owned(),
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
