//! A task as agent and worker know it.

use fleetcal_model::id::{DeviceId, RunId, TaskId};
use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_model::selection::Selected;
use serde::{Deserialize, Serialize};

/// One unit of work under a lease.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskSpec {
    /// The task.
    pub task_id: TaskId,
    /// Its run.
    pub run_id: RunId,
    /// SHA-256 of the plan's text.
    pub plan_digest: String,
    /// Attempt, from 1.
    pub attempt: u64,
    /// Epoch of the lease.
    pub epoch: u64,
    /// Devices it holds.
    pub devices: Vec<DeviceId>,
    /// Points to measure, all of one sweep.
    pub points: Vec<Point>,
    /// How.
    pub policy: MeasuringPolicy,
    /// Seed of every random choice.
    pub seed: u64,
    /// Free text from the plan.
    pub label: Option<String>,
    /// Solutions that the constants in force select; looked at only where the policy measures selected solutions.
    pub selected: Vec<Selected>,
    /// Whether no other device of the node is measured meanwhile.
    pub alone_on_node: bool,
}
