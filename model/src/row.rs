//! A row: everything measured about one (device, point, solution) in one attempt, its rounds and samples included.
//!
//! The groups below are those of the row schema. Every field is one column, and column names are unique across the
//! groups, so that the table is flat. Raw times are integer nanoseconds; statistics derived from them are `f64`
//! nanoseconds. What is absent is `None`, never a sentinel. The Arrow schema stands in `fleetcal-proto`.

use std::collections::BTreeMap;

use crate::device::ClassKey;
use crate::id::{AgentId, ClassId, DeviceId, RowId, RunId, TaskId};
use crate::point::{Dtype, Sweep};

mod vocabulary;

pub use vocabulary::{FlushMode, IntervalMethod, Origin, Role, Status, StopReason};

/// Version of the row schema. 0 until every sweep exists.
pub const ROW_SCHEMA_VERSION: u64 = 0;

/// Group `identity`: which row this is, and of what.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Identity {
    /// Unique: task, attempt, device, point and solution, digested.
    pub row_id: RowId,
    /// SHA-256 of every other column, hexadecimal. Empty until sealed.
    pub content_hash: String,
    /// The run.
    pub run_id: RunId,
    /// SHA-256 of the plan's text, hexadecimal.
    pub plan_digest: String,
    /// The task.
    pub task_id: TaskId,
    /// Attempt at the task, from 1.
    pub attempt: u64,
    /// Epoch of the lease that the attempt ran under.
    pub lease_epoch: u64,
    /// The agent.
    pub agent_id: AgentId,
    /// Version of the agent's binary.
    pub agent_version: String,
    /// Where the numbers come from.
    pub origin: Origin,
    /// What the row is for.
    pub role: Role,
}

/// Group `device`: on what it was measured.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceColumns {
    /// Node label.
    pub node: String,
    /// Host name.
    pub host: String,
    /// Rack label.
    pub rack: Option<String>,
    /// Device identity.
    pub device_uuid: DeviceId,
    /// PCI address with domain.
    pub pci_bdf: Option<String>,
    /// Device class.
    pub class_id: ClassId,
    /// Its short name.
    pub class_slug: String,
    /// Backend: `cuda`, `hip`, `cpu`, `sim`.
    pub backend: String,
    /// Vendor.
    pub vendor: String,
    /// Product name.
    pub device_name: String,
    /// Architecture.
    pub architecture: String,
    /// Multiprocessors, compute units or cores.
    pub compute_units: u64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Last-level cache in force for the footprint rule, bytes.
    pub last_level_cache_bytes: Option<u64>,
    /// Nominal memory clock, kHz.
    pub nominal_memory_clock_khz: Option<u64>,
    /// Nominal core clock, kHz.
    pub nominal_core_clock_khz: Option<u64>,
    /// Power limit, milliwatts.
    pub power_limit_mw: Option<u64>,
    /// Partition mode.
    pub partition_mode: Option<String>,
    /// Error correction.
    pub ecc: Option<bool>,
    /// Sockets of a CPU.
    pub sockets: Option<u64>,
    /// Firmware.
    pub vbios: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// Runtime and compiler version.
    pub runtime: Option<String>,
    /// The other device of a transfer.
    pub peer_uuid: Option<DeviceId>,
    /// How the two are linked.
    pub link: Option<String>,
}

impl DeviceColumns {
    /// The key of the device's class, rebuilt from the columns it was made of.
    pub fn class_key(&self) -> ClassKey {
        ClassKey {
            vendor: self.vendor.clone(),
            name: self.device_name.clone(),
            architecture: self.architecture.clone(),
            compute_units: self.compute_units,
            memory_gib: self.sockets.is_none().then(|| crate::device::nominal_gib(self.memory_bytes)),
            memory_clock_khz: self.nominal_memory_clock_khz,
            power_limit_mw: self.power_limit_mw,
            partition_mode: self.partition_mode.clone(),
            ecc: self.ecc,
            sockets: self.sockets,
        }
    }
}

/// Group `what`: the kernel, the variant, and what really ran.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Work {
    /// The family.
    pub sweep: Sweep,
    /// The kernel.
    pub kernel: String,
    /// The point, as text.
    pub point: String,
    /// The solution's name.
    pub solution: String,
    /// SHA-256 of the device source, hexadecimal.
    pub source_digest: Option<String>,
    /// SHA-256 of the code object that ran, hexadecimal.
    pub code_digest: Option<String>,
    /// Options of the compiler.
    pub compile_options: Option<String>,
    /// Number format.
    pub dtype: Dtype,
    /// Elements of each array.
    pub elements: Option<u64>,
    /// Rows of a contraction's output.
    pub m: Option<u64>,
    /// Columns of a contraction's output.
    pub n: Option<u64>,
    /// Reduction extent.
    pub k: Option<u64>,
    /// Vector width, elements.
    pub vector_width: Option<u64>,
    /// Vectors a thread.
    pub vectors_per_thread: Option<u64>,
    /// Threads a block.
    pub block_threads: Option<u64>,
    /// Every other parameter of point and solution.
    pub parameters: BTreeMap<String, String>,
    /// How inputs were filled.
    pub data_pattern: String,
    /// Free text from the plan.
    pub label: Option<String>,
}

/// One parallel context of a launch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LaunchContext {
    /// Blocks.
    pub blocks: u64,
    /// Threads a block.
    pub threads: u64,
    /// Scalar operations of the context.
    pub operations: u64,
}

/// Group `counts`: exact by construction where the flags say so, per leg.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Counts {
    /// Bytes read by one launch.
    pub bytes_read: u64,
    /// Bytes written by one launch.
    pub bytes_written: u64,
    /// Distinct bytes touched, read and written: the footprint.
    pub bytes_distinct: u64,
    /// Bytes requested by all threads, re-reads included.
    pub bytes_requested: u64,
    /// Per-block read bytes times resident blocks, where it means something.
    pub working_set_bytes: Option<u64>,
    /// Floating-point operations.
    pub flops: u64,
    /// Operations of scalar units.
    pub scalar_ops: u64,
    /// Operations of tensor units.
    pub tensor_ops: u64,
    /// Whether the byte counts are exact.
    pub bytes_exact: bool,
    /// Whether the operation counts are exact.
    pub ops_exact: bool,
    /// Whether counts may be too low: the row is excluded from everything.
    pub opaque: bool,
    /// Kernels of one launch.
    pub kernels: u64,
    /// Parallel contexts.
    pub launch_contexts: Vec<LaunchContext>,
}

impl Counts {
    /// Bytes moved: read and written.
    pub fn bytes_moved(&self) -> u64 {
        self.bytes_read.saturating_add(self.bytes_written)
    }
}

/// One timed interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Sample {
    /// Duration of the interval, nanoseconds, over all its launches.
    pub ns: u64,
    /// The round it belongs to; 0 is the screening round.
    pub round: u64,
    /// Start, nanoseconds since the task began.
    pub start_ns: u64,
    /// Whether it counts.
    pub accepted: bool,
    /// Throttle reasons active meanwhile; none where nobody looked.
    pub throttle_bits: Option<u64>,
    /// Core clock meanwhile, kHz.
    pub clock_khz: Option<u64>,
}

/// One visit, as it enters a row.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Round {
    /// Number of the round; 0 is the screening round.
    pub round: u64,
    /// Position of this visit within its round, from 0.
    pub order: u64,
    /// Offset of the buffers within their allocations, bytes.
    pub buffer_offset_bytes: u64,
    /// Median of the accepted samples, nanoseconds a launch.
    pub median_ns: f64,
    /// Median absolute deviation from it, nanoseconds a launch.
    pub mad_ns: f64,
    /// Accepted samples.
    pub samples: u64,
    /// Why it ended.
    pub stop_reason: StopReason,
}

/// Group `timing`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Timing {
    /// Every sample of every round.
    pub samples: Vec<Sample>,
    /// Every visit.
    pub rounds: Vec<Round>,
    /// Rounds asked for.
    pub rounds_planned: u64,
    /// Rounds measured.
    pub rounds_done: u64,
    /// Launches before the timed ones of a visit, as the loop asked for them; the load that settles a device before a
    /// round's first visit comes on top.
    pub warmups: u64,
    /// Launches within one timed interval.
    pub enqueues_per_sample: u64,
    /// What was done about caches.
    pub flush_mode: FlushMode,
    /// Bytes written to flush them.
    pub flush_bytes: u64,
    /// The clock: `cuda_event`, `hip_event`, `monotonic`, `sim`.
    pub clock_source: String,
    /// Its resolution, nanoseconds.
    pub clock_resolution_ns: Option<f64>,
    /// An empty interval on it, nanoseconds. Stored, never subtracted.
    pub clock_overhead_ns: Option<f64>,
    /// An empty launch, nanoseconds.
    pub empty_launch_ns: Option<f64>,
    /// The row's estimate: median of its rounds' medians, nanoseconds a launch.
    pub estimate_ns: Option<f64>,
    /// Lower end of its 95% interval, nanoseconds.
    pub interval_low_ns: Option<f64>,
    /// Upper end.
    pub interval_high_ns: Option<f64>,
    /// How the interval was computed, or why there is none.
    pub interval_method: IntervalMethod,
}

/// Group `conditions`: the state of the device and its host during the row's samples.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conditions {
    /// Core clock, median, kHz.
    pub core_clock_khz: Option<u64>,
    /// Memory clock, median, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power, median, milliwatts.
    pub power_mw: Option<u64>,
    /// Temperature of the die, largest, millidegrees Celsius.
    pub temperature_mc: Option<i64>,
    /// Temperature of the hottest spot, largest.
    pub hot_spot_mc: Option<i64>,
    /// Temperature of the memory, largest.
    pub memory_temperature_mc: Option<i64>,
    /// Throttle reasons seen, as bits of the vendor.
    pub throttle_reasons: Option<u64>,
    /// Corrected memory errors counted meanwhile.
    pub ecc_corrected: Option<u64>,
    /// Uncorrected memory errors counted meanwhile.
    pub ecc_uncorrected: Option<u64>,
    /// Whether other devices of the node were busy: `alone` or `node_full`.
    pub neighbours: Option<String>,
    /// `burst` or `sustained`.
    pub load: Option<String>,
    /// Devices of the node measured at the same time, this one not counted.
    pub co_running_devices: Option<u64>,
    /// Foreign processes on the device; unknown where they cannot be seen.
    pub foreign_processes: Option<u64>,
    /// Readings of the monitor that overlap the samples; 0 means telemetry says nothing.
    pub monitor_samples: u64,
    /// Load average of the host over a minute.
    pub host_load: Option<f64>,
}

/// Group `outcome`.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// Why, where the status wants a reason.
    pub reason: Option<String>,
    /// Elements compared with the reference.
    pub validated_elements: u64,
    /// Largest relative error seen.
    pub max_error: Option<f64>,
    /// Element of the largest error.
    pub max_error_index: Option<u64>,
    /// Score of the model in force, nanoseconds.
    pub predicted_score_ns: Option<f64>,
    /// Lower bound of the model in force, nanoseconds.
    pub predicted_bound_ns: Option<f64>,
    /// First visit's start, nanoseconds since 1970 UTC.
    pub started_utc_ns: u64,
    /// Last visit's end, nanoseconds since 1970 UTC.
    pub ended_utc_ns: u64,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Row {
    /// Which row this is.
    pub identity: Identity,
    /// On what.
    pub device: DeviceColumns,
    /// What ran.
    pub work: Work,
    /// What it should have moved and computed.
    pub counts: Counts,
    /// How long it took.
    pub timing: Timing,
    /// Under which conditions.
    pub conditions: Conditions,
    /// How it ended.
    pub outcome: Outcome,
}

impl Row {
    /// Whether the row may feed a fit: measured for it, validated (or unchecked because the plan asked for no check),
    /// timed, and not opaque.
    pub fn feeds_fits(&self) -> bool {
        let role_fits = matches!(self.identity.role, Role::Fit | Role::Anchor);
        let status_fits = matches!(self.outcome.status, Status::Passed | Status::NoCheck);
        let timed = self.timing.estimate_ns.is_some_and(|ns| ns.is_finite() && ns > 0.0);
        role_fits && status_fits && timed && !self.counts.opaque
    }

    /// Distinct bytes from which a row of this row's device speaks for main memory, if that takes `footprint_factor`
    /// last-level caches.
    pub fn dram_footprint_bytes(&self, footprint_factor: u64) -> u64 {
        let cache_bytes = self.device.last_level_cache_bytes.unwrap_or(crate::device::UNKNOWN_LAST_LEVEL_CACHE_BYTES);
        cache_bytes.saturating_mul(footprint_factor)
    }

    /// Whether the row's bytes are exact and its footprint speaks for main memory: `footprint_factor` last-level caches.
    pub fn speaks_for_dram(&self, footprint_factor: u64) -> bool {
        self.counts.bytes_exact && self.counts.bytes_distinct >= self.dram_footprint_bytes(footprint_factor)
    }
}
