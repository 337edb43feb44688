//! Tasks as they are handed out.

use fleetcal_model::id::{DeviceId, RunId};
use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_model::selection::Selected;

use super::{ConvertError, Lease, name, text};
use crate::v1;

/// A task under a lease, with all that its agent needs. Coordinator and agent each have a type of their own for it;
/// this one is what crosses.
#[derive(Debug, Clone, PartialEq)]
pub struct LeasedTask {
    /// The lease.
    pub lease: Lease,
    /// The run.
    pub run_id: RunId,
    /// SHA-256 of the plan's text, hexadecimal.
    pub plan_digest: String,
    /// The devices it holds: at least one.
    pub devices: Vec<DeviceId>,
    /// Points to measure, all of one sweep: at least one.
    pub points: Vec<Point>,
    /// How to measure.
    pub policy: MeasuringPolicy,
    /// Seed of every random choice.
    pub seed: u64,
    /// Free text from the plan.
    pub label: Option<String>,
    /// Solutions that the constants in force select; empty unless the policy measures selected solutions.
    pub selected: Vec<Selected>,
    /// Whether no other device of the node is measured meanwhile.
    pub alone_on_node: bool,
}

impl From<&LeasedTask> for v1::Task {
    fn from(task: &LeasedTask) -> Self {
        Self {
            task_id: task.lease.task_id.as_str().to_owned(),
            run_id: task.run_id.as_str().to_owned(),
            plan_digest: task.plan_digest.clone(),
            attempt: task.lease.attempt,
            epoch: task.lease.epoch,
            device_uuids: task.devices.iter().map(|device| device.as_str().to_owned()).collect(),
            points: task.points.iter().map(v1::Point::from).collect(),
            policy: Some(v1::MeasuringPolicy::from(&task.policy)),
            seed: task.seed,
            label: task.label.clone(),
            alone_on_node: task.alone_on_node,
            selected: task.selected.iter().map(v1::SelectedSolution::from).collect(),
        }
    }
}

impl TryFrom<v1::Task> for LeasedTask {
    type Error = ConvertError;

    fn try_from(wire: v1::Task) -> Result<Self, ConvertError> {
        let held = v1::HeldLease { task_id: wire.task_id, attempt: wire.attempt, epoch: wire.epoch };
        let lease = Lease::try_from(held).map_err(|error| error.within("Task"))?;
        let devices = wire
            .device_uuids
            .into_iter()
            .enumerate()
            .map(|(index, uuid)| Ok(DeviceId::new(text(uuid, &format!("Task.device_uuids[{index}]"))?)))
            .collect::<Result<Vec<_>, ConvertError>>()?;
        let points = wire
            .points
            .into_iter()
            .enumerate()
            .map(|(index, point)| {
                Point::try_from(point).map_err(|error| error.within(&format!("Task.points[{index}]")))
            })
            .collect::<Result<Vec<_>, ConvertError>>()?;
        if devices.is_empty() {
            return Err(ConvertError::missing("Task.device_uuids"));
        }
        if points.is_empty() {
            return Err(ConvertError::missing("Task.points"));
        }
        let selected = wire.selected.into_iter().enumerate().map(|(index, one)| {
            Selected::try_from(one).map_err(|error| error.within(&format!("Task.selected[{index}]")))
        });
        let selected = selected.collect::<Result<Vec<_>, ConvertError>>()?;
        Ok(Self {
            lease,
            run_id: RunId::new(text(wire.run_id, "Task.run_id")?),
            plan_digest: wire.plan_digest,
            devices,
            points,
            policy: policy(wire.policy)?,
            seed: wire.seed,
            label: wire.label,
            selected,
            alone_on_node: wire.alone_on_node,
        })
    }
}

fn policy(wire: Option<v1::MeasuringPolicy>) -> Result<MeasuringPolicy, ConvertError> {
    let wire = wire.ok_or_else(|| ConvertError::missing("Task.policy"))?;
    MeasuringPolicy::try_from(wire).map_err(|error| error.within("Task.policy"))
}

impl From<&Selected> for v1::SelectedSolution {
    fn from(selected: &Selected) -> Self {
        Self {
            sweep: selected.sweep.name().to_owned(),
            kernel: selected.kernel.clone(),
            dtype: selected.dtype.name().to_owned(),
            solution: selected.solution.clone(),
        }
    }
}

impl TryFrom<v1::SelectedSolution> for Selected {
    type Error = ConvertError;

    fn try_from(wire: v1::SelectedSolution) -> Result<Self, ConvertError> {
        Ok(Self {
            sweep: name(&wire.sweep, "SelectedSolution.sweep")?,
            kernel: text(wire.kernel, "SelectedSolution.kernel")?,
            dtype: name(&wire.dtype, "SelectedSolution.dtype")?,
            solution: text(wire.solution, "SelectedSolution.solution")?,
        })
    }
}
