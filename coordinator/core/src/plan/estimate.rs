//! What a plan costs, before anything is measured. Touches no GPU.
//!
//! The model is stated rather than fitted, and errs on the long side:
//!
//! ```text
//! launch   = launch overhead + bytes read and written / bandwidth
//! samples  = as many as fit into the visit limit, from samples_min to samples_max
//! a size, every round:     filling its largest set of arrays
//! a point, once:           preparing its solutions; each solution: poison + (warmups + screening_samples) launches
//! a point, every round:    each finalist: poison + (warmups + samples) launches
//! a task, once:            a worker process with its device context
//! ```
//!
//! Bandwidth is guessed from the memory clock and the usual bus of its kind of memory, or from the number of cores.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_kernels::Family;
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::{ClassId, DeviceId, RunId};
use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;

use super::Plan;
use super::select::FleetDevice;
use super::tasks::{Planned, footprint_bytes, tasks};

/// What a plan costs on one class of devices.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassEstimate {
    /// The class.
    pub class: ClassId,
    /// Its short name.
    pub class_slug: String,
    /// Devices that take part.
    pub devices: u64,
    /// Tasks of all of them.
    pub tasks: u64,
    /// Time of all of them, minutes. Devices work side by side.
    pub device_minutes: f64,
}

/// Memory faster than this is GDDR on a narrow bus, slower is HBM on a wide one, kHz.
const HBM_CLOCK_MAX_KHZ: u64 = 4_000_000;
/// Five stacks, bits.
const HBM_BUS_BITS: u64 = 5120;
/// Eight chips, bits.
const GDDR_BUS_BITS: u64 = 256;
/// Where the memory clock is unknown, bytes a second.
const UNKNOWN_GPU_BANDWIDTH: f64 = 1e12;
/// What one core of a host draws from memory, bytes a second.
const CORE_BANDWIDTH: f64 = 5e9;
/// What one socket of a host draws from memory at most, bytes a second.
const SOCKET_BANDWIDTH: f64 = 2e11;
/// Random data made by one core, bytes a second; a GPU makes it as fast as it writes.
const CORE_FILL_BANDWIDTH: f64 = 8e8;
/// One launch of a GPU kernel, with its events, nanoseconds.
const GPU_LAUNCH_NS: f64 = 20e3;
/// Waking the threads of a host, nanoseconds.
const HOST_LAUNCH_NS: f64 = 50e3;
/// Compiling and loading one GPU solution, its share of a batch, nanoseconds.
const GPU_PREPARE_NS: f64 = 20e6;
/// A worker process with its context, nanoseconds.
const WORKER_START_NS: f64 = 2e9;

/// What a plan costs on those of the devices that it means, by class.
pub fn estimate(plan: &Plan, devices: &[FleetDevice]) -> Vec<ClassEstimate> {
    estimate_tasks(&tasks(plan, &RunId::new("estimate"), devices), devices)
}

/// What planned tasks cost, by class. Tasks of devices that are not given are left out.
pub fn estimate_tasks(planned: &Planned, devices: &[FleetDevice]) -> Vec<ClassEstimate> {
    let classes: BTreeMap<&DeviceId, (ClassId, String)> = devices
        .iter()
        .map(|device| (&device.facts.uuid, device.facts.class_key()))
        .map(|(uuid, key)| (uuid, (key.id(), key.slug())))
        .collect();
    let mut estimates: BTreeMap<(&String, &ClassId), (BTreeSet<&DeviceId>, u64, f64)> = BTreeMap::new();
    for task in &planned.tasks {
        if let Some((class, slug)) = classes.get(&task.device) {
            let (devices, tasks, total_ns) = estimates.entry((slug, class)).or_default();
            devices.insert(&task.device);
            *tasks += 1;
            *total_ns += task.estimate_ns as f64;
        }
    }
    let class_estimate =
        |((slug, class), (devices, tasks, total_ns)): ((&String, &ClassId), (BTreeSet<_>, u64, f64))| ClassEstimate {
            class: class.clone(),
            class_slug: slug.clone(),
            devices: devices.len() as u64,
            tasks,
            device_minutes: total_ns / 60e9,
        };
    estimates.into_iter().map(class_estimate).collect()
}

/// What some points cost on a device, nanoseconds.
pub(super) fn task_estimate_ns(
    family: &dyn Family,
    points: &[Point],
    policy: &MeasuringPolicy,
    device: &DeviceFacts,
) -> u64 {
    let machine = Machine::of(device);
    let mut total_ns = WORKER_START_NS;
    let mut largest_by_size: BTreeMap<&BTreeMap<String, u64>, u64> = BTreeMap::new();
    for point in points {
        total_ns += machine.point_ns(family, point, policy, device);
        let largest = largest_by_size.entry(&point.sizes).or_default();
        *largest = footprint_bytes(family, point).max(*largest);
    }
    // One round more than asked for: solutions are screened in a round of their own.
    let rounds = policy.rounds as f64 + 1.0;
    let fills_ns: f64 = largest_by_size.values().map(|bytes| rounds * *bytes as f64 / machine.fill_bytes_per_ns).sum();
    let total_ns = (total_ns + fills_ns).min(policy.task_ns_max as f64 + WORKER_START_NS);
    total_ns.round() as u64
}

/// A device as the cost model sees it.
struct Machine {
    bytes_per_ns: f64,
    fill_bytes_per_ns: f64,
    launch_ns: f64,
    prepare_ns: f64,
}

impl Machine {
    fn of(device: &DeviceFacts) -> Self {
        match device.backend {
            Backend::Cpu => {
                let cores = device.compute_units.max(1) as f64;
                let sockets = device.sockets.unwrap_or(1).max(1) as f64;
                Self {
                    bytes_per_ns: (cores * CORE_BANDWIDTH).min(sockets * SOCKET_BANDWIDTH) / 1e9,
                    fill_bytes_per_ns: (cores * CORE_FILL_BANDWIDTH).min(sockets * SOCKET_BANDWIDTH) / 1e9,
                    launch_ns: HOST_LAUNCH_NS,
                    prepare_ns: 0.0,
                }
            }
            Backend::Cuda | Backend::Hip | Backend::Sim => {
                let bytes_per_ns = device.memory_clock_khz.map_or(UNKNOWN_GPU_BANDWIDTH, clock_bandwidth) / 1e9;
                let prepare_ns = if device.backend == Backend::Sim { 0.0 } else { GPU_PREPARE_NS };
                Self { bytes_per_ns, fill_bytes_per_ns: bytes_per_ns, launch_ns: GPU_LAUNCH_NS, prepare_ns }
            }
        }
    }

    fn point_ns(&self, family: &dyn Family, point: &Point, policy: &MeasuringPolicy, device: &DeviceFacts) -> f64 {
        let solutions = family.solutions(point, device);
        let Some(counts) = solutions.first().map(|solution| family.counts(point, solution)) else { return 0.0 };
        let launch_ns = self.launch_ns + (counts.bytes_read + counts.bytes_written) as f64 / self.bytes_per_ns;
        let poison_ns = self.launch_ns + counts.bytes_written as f64 / self.bytes_per_ns;
        let visit_ns = |samples: u64| poison_ns + launch_ns * (policy.warmups + samples) as f64;
        let fitting = (policy.visit_ns_max as f64 / launch_ns) as u64;
        let samples = fitting.clamp(policy.samples_min, policy.samples_max.max(policy.samples_min));
        let finalists = (solutions.len() as f64).min(policy.finalists as f64);
        let screening_ns = solutions.len() as f64 * (self.prepare_ns + visit_ns(policy.screening_samples));
        screening_ns + policy.rounds as f64 * finalists * visit_ns(samples)
    }
}

/// Bytes a second of double data rate memory with that clock.
fn clock_bandwidth(clock_khz: u64) -> f64 {
    let bus_bits = if clock_khz <= HBM_CLOCK_MAX_KHZ { HBM_BUS_BITS } else { GDDR_BUS_BITS };
    clock_khz as f64 * 1e3 * 2.0 * bus_bits as f64 / 8.0
}
