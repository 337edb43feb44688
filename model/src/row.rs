//! A row: everything measured about one (device, point, solution) in one attempt, its rounds and samples included.
//!
//! The groups below are those of the row schema. Every field is one column, and column names are unique across the
//! groups, so that the table is flat. Raw times are integer nanoseconds; statistics derived from them are `f64`
//! nanoseconds. What is absent is `None`, never a sentinel. The Arrow schema stands in `fleetcal-proto`.

use std::collections::BTreeMap;

use crate::device::ClassKey;
use crate::id::{AgentId, ClassId, DeviceId, RowId, RunId, TaskId};
use crate::point::{Dtype, Sweep};
use crate::policy::BoundsCheck;

mod conditions;
mod timing;
mod vocabulary;

pub use conditions::Conditions;
pub use timing::{Round, Sample, Timing};
pub use vocabulary::{FlushMode, IntervalMethod, Origin, Role, RowLoad, Status, StopReason, TimingMode};

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
    /// Distinct bytes from which a row of the device speaks for main memory, if that takes `footprint_factor` last-level
    /// caches.
    pub fn dram_footprint_bytes(&self, footprint_factor: u64) -> u64 {
        let cache_bytes = self.last_level_cache_bytes.unwrap_or(crate::device::UNKNOWN_LAST_LEVEL_CACHE_BYTES);
        cache_bytes.saturating_mul(footprint_factor)
    }

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

    /// How much of its point's work one run does, to compare solutions that do different amounts: operations, or bytes
    /// where there are none. Positive.
    pub fn amount(&self) -> f64 {
        let amount = if self.flops > 0 { self.flops } else { self.bytes_moved() };
        amount.max(1) as f64
    }
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
    /// How accesses outside of arrays were looked for.
    pub bounds_check: BoundsCheck,
    /// Largest error seen, |a − b| / (|a| + |b| + 1) of a value a and its reference b.
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
    /// timed, not opaque, and of a device that has a name.
    pub fn feeds_fits(&self) -> bool {
        let role_fits = matches!(self.identity.role, Role::Fit | Role::Anchor);
        let status_fits = matches!(self.outcome.status, Status::Passed | Status::NoCheck);
        let timed = self.timing.estimate_ns.is_some_and(|ns| ns.is_finite() && ns > 0.0);
        let named = !self.device.device_uuid.as_str().is_empty();
        role_fits && status_fits && timed && named && !self.counts.opaque
    }

    /// Distinct bytes from which a row of this row's device speaks for main memory, if that takes `footprint_factor`
    /// last-level caches.
    pub fn dram_footprint_bytes(&self, footprint_factor: u64) -> u64 {
        self.device.dram_footprint_bytes(footprint_factor)
    }

    /// Whether the row's bytes are exact and its footprint speaks for main memory: `footprint_factor` last-level caches.
    pub fn speaks_for_dram(&self, footprint_factor: u64) -> bool {
        self.counts.bytes_exact && self.counts.bytes_distinct >= self.dram_footprint_bytes(footprint_factor)
    }
}
