//! What a plan costs, before anything is measured. Touches no GPU.
//!
//! The model is stated rather than fitted, and errs on the long side:
//!
//! ```text
//! launch   = launch overhead + bytes read and written / bandwidth
//! interval = a launch; where short kernels are batched, at least a batch; after a flush where the plan wants caches cold
//! samples  = as many intervals as fit into the visit limit, from samples_min to samples_max
//! visit    = poison + warmups launches + samples; under a burst load, the idleness before it
//! a size, every round:     filling its largest set of arrays
//! a point, once:           preparing its solutions; each: a screening visit, and with page guards two runs with
//!                          arrays of their own
//! a point, every round:    a visit of each finalist
//! every round:             the load that settles the device, or the sustained load
//! a task, once:            a worker process with its device context; settle_limit
//! ```
//!
//! Every estimate has two ends: with `rounds` rounds, and with all the further ones that the pilot may ask for
//! (`rounds_max`). Neither is above the task's time. Bandwidth is guessed from the memory clock and the usual bus of its
//! kind of memory, or from the number of cores.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_kernels::Family;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{ClassId, DeviceId, RunId};
use fleetcal_model::point::Point;
use fleetcal_model::policy::{Batching, BoundsCheck, Caches, Load, MeasuringPolicy, SolutionChoice};

use super::Plan;
use super::select::FleetDevice;
use super::tasks::{Planned, PlannedTask, footprint_bytes, tasks};

mod machine;

use machine::Machine;

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
    /// The same with every further round that may be asked for.
    pub device_minutes_max: f64,
}

/// What a task costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskCost {
    /// With the plan's rounds, nanoseconds.
    pub expected_ns: u64,
    /// With every further round that the pilot may ask for, nanoseconds.
    pub most_ns: u64,
}

/// A worker process with its context, nanoseconds.
const WORKER_START_NS: f64 = 2e9;
/// Load before a round's first visit, where the plan asks for none, nanoseconds.
const ROUND_LOAD_NS: f64 = 100e6;
/// Least time of an interval where short kernels are batched, nanoseconds.
const BATCH_NS: f64 = 100e3;
/// A plan's page guards: each solution runs so many times with arrays at the border of mapped memory.
const PAGE_RUNS: f64 = 2.0;

/// What a plan costs on those of the devices that it means, by class.
pub fn estimate(plan: &Plan, devices: &[FleetDevice]) -> Vec<ClassEstimate> {
    estimate_tasks(&tasks(plan, &RunId::new("estimate"), devices), devices)
}

/// What planned tasks cost, by class. Tasks of devices that are not given are left out.
pub fn estimate_tasks(planned: &Planned, devices: &[FleetDevice]) -> Vec<ClassEstimate> {
    let classes: BTreeMap<&DeviceId, (String, ClassId)> = devices
        .iter()
        .map(|device| (&device.facts.uuid, device.facts.class_key()))
        .map(|(uuid, key)| (uuid, (key.slug(), key.id())))
        .collect();
    let mut by_class: BTreeMap<&(String, ClassId), Vec<&PlannedTask>> = BTreeMap::new();
    for task in &planned.tasks {
        if let Some(class) = classes.get(&task.device) {
            by_class.entry(class).or_default().push(task);
        }
    }
    let minutes = |tasks: &[&PlannedTask], ns: fn(&TaskCost) -> u64| {
        tasks.iter().map(|task| ns(&task.cost) as f64).sum::<f64>() / 60e9
    };
    let class_estimate = |(class, tasks): (&(String, ClassId), Vec<&PlannedTask>)| ClassEstimate {
        class: class.1.clone(),
        class_slug: class.0.clone(),
        devices: tasks.iter().map(|task| &task.device).collect::<BTreeSet<_>>().len() as u64,
        tasks: tasks.len() as u64,
        device_minutes: minutes(&tasks, |cost| cost.expected_ns),
        device_minutes_max: minutes(&tasks, |cost| cost.most_ns),
    };
    by_class.into_iter().map(class_estimate).collect()
}

/// What some points cost on a device.
pub(super) fn task_cost(
    family: &dyn Family,
    points: &[Point],
    policy: &MeasuringPolicy,
    device: &DeviceFacts,
) -> TaskCost {
    let machine = Machine::of(device);
    let mut once_ns = 0.0;
    let mut round_ns = round_load_ns(policy, &machine);
    let mut largest_by_size: BTreeMap<&BTreeMap<String, u64>, u64> = BTreeMap::new();
    for point in points {
        let cost = point_cost(family, point, policy, device, &machine);
        once_ns += cost.once_ns;
        round_ns += cost.round_ns;
        let largest = largest_by_size.entry(&point.sizes).or_default();
        *largest = footprint_bytes(family, point).max(*largest);
    }
    let fills_ns: f64 = largest_by_size.values().map(|bytes| *bytes as f64 / machine.fill_bytes_per_ns).sum();
    round_ns += fills_ns;
    // Solutions are screened in a round of their own.
    once_ns += fills_ns + round_load_ns(policy, &machine);
    let settle_ns = if machine.takes_time { policy.settle_ns_max as f64 } else { 0.0 };
    let total_ns = |rounds: u64| {
        let measured_ns = (once_ns + rounds as f64 * round_ns).min(policy.task_ns_max as f64);
        (WORKER_START_NS + settle_ns + measured_ns).round() as u64
    };
    TaskCost { expected_ns: total_ns(policy.rounds), most_ns: total_ns(policy.rounds_max.max(policy.rounds)) }
}

/// What a point costs, nanoseconds.
struct PointCost {
    once_ns: f64,
    round_ns: f64,
}

fn point_cost(
    family: &dyn Family,
    point: &Point,
    policy: &MeasuringPolicy,
    device: &DeviceFacts,
    machine: &Machine,
) -> PointCost {
    let solutions = family.solutions(point, device);
    let Some(counts) = solutions.first().map(|solution| family.counts(point, solution, device)) else {
        return PointCost { once_ns: 0.0, round_ns: 0.0 };
    };
    let launch_ns = machine.launch_ns + (counts.bytes_read + counts.bytes_written) as f64 / machine.bytes_per_ns;
    let interval_ns = match (policy.caches, policy.batching) {
        (Caches::Cold, _) => launch_ns + machine.flush_ns(device),
        (Caches::Auto | Caches::Warm, Batching::Auto) => launch_ns.max(BATCH_NS),
        (Caches::Auto | Caches::Warm, Batching::Never) => launch_ns,
    };
    let poison_ns = machine.launch_ns + counts.bytes_written as f64 / machine.bytes_per_ns;
    let before_ns = poison_ns + launch_ns * policy.warmups as f64 + idle_ns(policy, machine);
    let visit_ns = |samples: u64| before_ns + interval_ns * samples as f64;
    let fitting = (policy.visit_ns_max as f64 / interval_ns) as u64;
    let samples = fitting.clamp(policy.samples_min, policy.samples_max.max(policy.samples_min));
    // Of a selection one solution is left, and nothing is screened.
    let (tried, finalists) = match policy.solutions {
        SolutionChoice::All => (solutions.len() as f64, (solutions.len() as f64).min(policy.finalists as f64)),
        SolutionChoice::Best => (1.0, 1.0),
    };
    let fill_ns = footprint_bytes(family, point) as f64 / machine.fill_bytes_per_ns;
    let guarded_ns = match policy.bounds {
        BoundsCheck::Pages => PAGE_RUNS * (fill_ns + poison_ns + launch_ns),
        BoundsCheck::Values | BoundsCheck::None => 0.0,
    };
    PointCost {
        once_ns: tried * (machine.prepare_ns + guarded_ns + visit_ns(policy.screening_samples)),
        round_ns: finalists * visit_ns(samples),
    }
}

/// Load before a round's first visit, nanoseconds.
fn round_load_ns(policy: &MeasuringPolicy, machine: &Machine) -> f64 {
    match policy.load {
        _ if !machine.takes_time => 0.0,
        Some(Load::Sustained) => policy.load_ns as f64,
        Some(Load::Burst) => 0.0,
        None => ROUND_LOAD_NS,
    }
}

/// Idleness before a visit, nanoseconds.
fn idle_ns(policy: &MeasuringPolicy, machine: &Machine) -> f64 {
    match policy.load {
        Some(Load::Burst) if machine.takes_time => policy.load_ns as f64,
        Some(Load::Burst | Load::Sustained) | None => 0.0,
    }
}

#[cfg(test)]
mod tests;
