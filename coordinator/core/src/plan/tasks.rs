//! From a plan and the devices at hand to tasks. Pure, deterministic, and touches no GPU.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_kernels::Family;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::{DeviceId, RunId, TaskId};
use fleetcal_model::point::{Dtype, Point};

use super::catalog::size_on;
use super::estimate::{TaskCost, task_cost};
use super::select::{FleetDevice, Selector, selected};
use super::{Plan, SweepPlan};

/// Of a device's memory, what its driver and its other tenants keep: one part in this many.
const RESERVED_MEMORY_PART: u64 = 16;

/// One unit of work: some points of one sweep and number format, for one device.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedTask {
    /// Its identity: the run's, and its place in the plan.
    pub id: TaskId,
    /// The device that should measure it.
    pub device: DeviceId,
    /// What to measure, by size and then in the plan's order of kernels.
    pub points: Vec<Point>,
    /// For people: `stream f32, 28 points, elements 262144 to 1073741824`.
    pub title: String,
    /// What it should take; see [`super::estimate`].
    pub cost: TaskCost,
}

/// What a plan comes to on some devices.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Planned {
    /// The tasks, in the order in which they should be measured.
    pub tasks: Vec<PlannedTask>,
    /// What a person should know: sizes that were dropped, and where.
    pub notes: Vec<String>,
}

impl Planned {
    /// SHA-256 over the tasks, hexadecimal: their identities, devices and points, in order.
    pub fn digest(&self) -> String {
        let mut text = String::new();
        for task in &self.tasks {
            let points = joined(task.points.iter().map(Point::to_string), " ").unwrap_or_default();
            text += &format!("{} {} {points}\n", task.id, task.device);
        }
        Sha256Digest::of(text.as_bytes()).to_hex()
    }
}

/// Why a plan cannot start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No device is meant by the selectors.
    #[error("no device matches {selectors}; connected devices: {known}")]
    NoDevice {
        /// The selectors of the plan and of the submission.
        selectors: String,
        /// The devices there are, each as `class (uuid on node)`.
        known: String,
    },
    /// Every size was dropped.
    #[error("nothing is left to measure: {notes}")]
    NothingFits {
        /// What was dropped, and why.
        notes: String,
    },
    /// A device could be busy for longer than the plan allows.
    #[error(
        "device {device} may be busy for up to about {most_s} s, and the plan's limits.device_time is {limit_s} s: \
         measure fewer sizes, lower rounds_max, or raise the limit"
    )]
    OverBudget {
        /// The device.
        device: DeviceId,
        /// The estimate with every further round, seconds.
        most_s: u64,
        /// The limit, seconds.
        limit_s: u64,
    },
}

/// The tasks of a plan: one for each device, sweep and number format, split at `points_per_task`. Every device given
/// that the plan's selectors mean takes part. Sizes that a device has no memory for are dropped, and said.
pub fn tasks(plan: &Plan, run: &RunId, devices: &[FleetDevice]) -> Planned {
    let mut planned = Planned { notes: plan.cautions(), ..Planned::default() };
    for sweep in &plan.sweeps {
        let Some(family) = fleetcal_kernels::family(sweep.sweep) else { continue };
        for device in devices.iter().filter(|device| selected(&plan.selectors, device)) {
            for dtype in &sweep.dtypes {
                let points = points(plan, family, sweep, *dtype, device, &mut planned.notes);
                let most = sweep.points_per_task.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
                for points in points.chunks(most.max(1)) {
                    planned.tasks.push(PlannedTask {
                        id: TaskId::new(format!("{run}-{:05}", planned.tasks.len())),
                        device: device.facts.uuid.clone(),
                        title: title(sweep, *dtype, points),
                        cost: task_cost(family, points, &plan.measure, &device.facts),
                        points: points.to_vec(),
                    });
                }
            }
        }
    }
    planned
}

/// Whether a planned run may start.
///
/// # Errors
/// Why not: no device is meant, no size fits, or a device would be busy for longer than the plan allows.
pub fn admit(plan: &Plan, narrowing: &[Selector], connected: &[FleetDevice], planned: &Planned) -> Result<(), Refusal> {
    let meant = |device: &&FleetDevice| selected(&plan.selectors, device) && selected(narrowing, device);
    if !connected.iter().any(|device| meant(&device)) {
        return Err(Refusal::NoDevice {
            selectors: sentence_of(&plan.selectors, narrowing),
            known: joined(connected.iter().map(describe), ", ").unwrap_or_else(|| "none".to_owned()),
        });
    }
    if planned.tasks.is_empty() {
        let notes = joined(planned.notes.iter().cloned(), "; ").unwrap_or_else(|| "the plan has no points".to_owned());
        return Err(Refusal::NothingFits { notes });
    }
    let Some(limit_ns) = plan.limits.device_ns_max else { return Ok(()) };
    let devices: BTreeSet<&DeviceId> = planned.tasks.iter().map(|task| &task.device).collect();
    for device in devices {
        let tasks = planned.tasks.iter().filter(|task| task.device == *device);
        let most_ns = tasks.fold(0_u64, |total, task| total.saturating_add(task.cost.most_ns));
        if most_ns > limit_ns {
            let (most_s, limit_s) = (most_ns.div_ceil(1_000_000_000), limit_ns / 1_000_000_000);
            return Err(Refusal::OverBudget { device: device.clone(), most_s, limit_s });
        }
    }
    Ok(())
}

/// The points of one sweep and number format that the device has kernels and memory for. What is left out is said.
fn points(
    plan: &Plan,
    family: &dyn Family,
    sweep: &SweepPlan,
    dtype: Dtype,
    device: &FleetDevice,
    notes: &mut Vec<String>,
) -> Vec<Point> {
    let mut points = Vec::new();
    let mut declined = BTreeSet::new();
    for sizes in crossed(plan, family, sweep, dtype, device) {
        let kernels = sweep.kernels.iter().filter(|kernel| family.supports(kernel, dtype));
        let point = |kernel: &String| Point { sweep: sweep.sweep, kernel: kernel.clone(), dtype, sizes: sizes.clone() };
        let right = kernels.map(point).filter(|point| family.check(point).is_ok());
        let (all, without): (Vec<Point>, Vec<Point>) =
            right.partition(|point| !family.solutions(point, &device.facts).is_empty());
        declined.extend(without.iter().map(|point| family.declined(point, &device.facts)));
        let (fitting, dropped): (Vec<Point>, Vec<Point>) =
            all.into_iter().partition(|point| footprint_bytes(family, point) <= usable_bytes(&device.facts));
        if let Some(largest) = dropped.iter().map(|point| footprint_bytes(family, point)).max() {
            let kernels = joined(dropped.iter().map(|point| point.kernel.clone()), ", ").unwrap_or_default();
            let named = joined(sizes.iter().map(|(name, size)| format!("{name} = {size}")), ", ").unwrap_or_default();
            notes.push(format!(
                "{} {dtype} {named} dropped for {kernels} on {}: it needs {}, the device has {} of use",
                sweep.sweep,
                describe(device),
                gibibytes(largest),
                gibibytes(usable_bytes(&device.facts)),
            ));
        }
        points.extend(fitting);
    }
    notes.extend(declined.into_iter().map(|why| format!("{dtype} on {}: {why}", describe(device))));
    points
}

/// Every combination of the values of a sweep's sizes, the last size changing fastest.
fn crossed(
    plan: &Plan,
    family: &dyn Family,
    sweep: &SweepPlan,
    dtype: Dtype,
    device: &FleetDevice,
) -> Vec<BTreeMap<String, u64>> {
    let mut combinations = vec![BTreeMap::new()];
    for (name, sizes) in &sweep.sizes {
        let values: BTreeSet<u64> =
            sizes.iter().map(|size| size_on(*size, family, dtype, &device.facts, &plan.fit)).collect();
        let with = |known: &BTreeMap<String, u64>, value: u64| {
            let mut sizes = known.clone();
            sizes.insert((*name).to_owned(), value);
            sizes
        };
        combinations =
            combinations.iter().flat_map(|known| values.iter().map(move |value| with(known, *value))).collect();
    }
    combinations.into_iter().map(|sizes| family.complete(sizes)).collect()
}

/// Bytes of the arrays of a point.
pub(super) fn footprint_bytes(family: &dyn Family, point: &Point) -> u64 {
    family.buffers(point).iter().fold(0, |total, buffer| total.saturating_add(buffer.bytes()))
}

fn usable_bytes(device: &DeviceFacts) -> u64 {
    device.memory_bytes - device.memory_bytes / RESERVED_MEMORY_PART
}

fn title(sweep: &SweepPlan, dtype: Dtype, points: &[Point]) -> String {
    let names: BTreeSet<&String> = points.iter().flat_map(|point| point.sizes.keys()).collect();
    let ranges = names.into_iter().filter_map(|name| {
        let sizes = points.iter().filter_map(|point| point.size(name));
        match (sizes.clone().min(), sizes.max()) {
            (Some(least), Some(most)) if least < most => Some(format!(", {name} {least} to {most}")),
            (Some(only), _) => Some(format!(", {name} {only}")),
            (None, _) => None,
        }
    });
    let plural = if points.len() == 1 { "" } else { "s" };
    format!("{} {dtype}, {} point{plural}{}", sweep.sweep, points.len(), ranges.collect::<String>())
}

fn describe(device: &FleetDevice) -> String {
    format!("{} ({} on {})", device.facts.class_key(), device.facts.uuid, device.node)
}

fn sentence_of(plan: &[Selector], narrowing: &[Selector]) -> String {
    let list = |selectors: &[Selector]| joined(selectors.iter().map(|selector| format!("`{selector}`")), " or ");
    match (list(plan), list(narrowing)) {
        (None, None) => "a plan for every device".to_owned(),
        (Some(only), None) | (None, Some(only)) => only,
        (Some(plan), Some(narrowing)) => format!("{plan}, narrowed to {narrowing}"),
    }
}

fn joined(texts: impl Iterator<Item = String>, separator: &str) -> Option<String> {
    texts.reduce(|all, text| all + separator + &text)
}

fn gibibytes(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30))
}
