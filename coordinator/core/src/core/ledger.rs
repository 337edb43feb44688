//! What the journal's facts come to: equal after every replay.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_model::id::{AgentId, ClassId, RunId, TaskId};

use super::fleet::Fleet;
use super::run::{Run, RunState};
use super::task::{Task, TaskState};

/// Tasks of one class that wait, in the order in which they should be measured.
pub(crate) type Queue = BTreeMap<(u64, u64), TaskId>;

/// Everything durable that the core knows.
///
/// Queues, leases by agent, devices held and unfinished tasks are indices over the tasks; `Ledger::change` alone
/// moves a task, and keeps them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Ledger {
    /// The latest epoch given. Every grant gets a new one.
    pub(crate) epoch: u64,
    pub(crate) runs: BTreeMap<RunId, Run>,
    /// Runs by submission.
    pub(crate) order: Vec<RunId>,
    pub(crate) tasks: BTreeMap<TaskId, Task>,
    pub(crate) fleet: Fleet,
    pub(crate) queues: BTreeMap<ClassId, Queue>,
    pub(crate) leases: BTreeMap<AgentId, BTreeSet<TaskId>>,
    /// Rows of all chunks.
    pub(crate) rows: u64,
    /// Rows of tasks or attempts that never were.
    pub(crate) stray_rows: u64,
}

/// What a change of a task led to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// It waits now, and did not before or was given another time.
    pub(super) waits: bool,
    /// It was the last of its run to end.
    pub(super) run_ended: bool,
    /// The agent that no longer holds it.
    pub(super) freed: Option<AgentId>,
}

/// What is measured on a node at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Crowd {
    /// Devices that are.
    pub(crate) busy: u64,
    /// Devices that may be, as the most careful of their plans says.
    pub(crate) most: u64,
}

impl Crowd {
    /// Whether so many devices more may be, for a plan that allows so many at a time.
    pub(super) fn has_room(self, devices: u64, devices_per_node: u64) -> bool {
        self.busy + devices <= self.most.min(devices_per_node)
    }
}

impl Ledger {
    /// Adds a task that waits.
    pub(super) fn add(&mut self, task: Task) {
        self.queues.entry(task.class.clone()).or_default().insert(task.place, task.id.clone());
        if let Some(run) = self.runs.get_mut(&task.run) {
            run.tasks.push(task.id.clone());
            run.unfinished += 1;
        }
        self.tasks.insert(task.id.clone(), task);
    }

    /// Changes a task, and every index with it. `None` for a task that is not known.
    pub(super) fn change(&mut self, id: &TaskId, change: impl FnOnce(&mut Task)) -> Option<Changed> {
        let task = self.tasks.get_mut(id)?;
        let before = task.state.clone();
        change(task);
        let run = self.runs.get(&task.run).filter(|run| run.state == RunState::Cancelled);
        if let (Some(run), Some(_)) = (run, task.pending_since()) {
            // Nobody waits in a cancelled run.
            task.state = TaskState::SetAside { reason: format!("the run was cancelled: {}", run.cancel_reason) };
        }
        if let TaskState::Leased(lease) = &before {
            self.fleet.free(&lease.devices, id);
            if let Some(held) = self.leases.get_mut(&lease.agent) {
                held.remove(id);
            }
        }
        if let TaskState::Leased(lease) = &task.state {
            self.fleet.hold(&lease.devices, id);
            self.leases.entry(lease.agent.clone()).or_default().insert(id.clone());
        }
        let waits = task.pending_since().is_some();
        let queue = self.queues.entry(task.class.clone()).or_default();
        if waits {
            queue.insert(task.place, id.clone());
        } else {
            queue.remove(&task.place);
        }
        let mut run_ended = false;
        if let Some(run) = self.runs.get_mut(&task.run) {
            match (before.is_ended(), task.state.is_ended()) {
                (false, true) => {
                    run.unfinished -= 1;
                    run_ended = run.unfinished == 0;
                }
                (true, false) => run.unfinished += 1,
                (false, false) | (true, true) => {}
            }
            if run_ended && run.state == RunState::Active {
                run.state = RunState::Ended;
            }
        }
        let freed = match (before, task.lease()) {
            (TaskState::Leased(lease), None) => Some(lease.agent),
            (TaskState::Leased(_), Some(_))
            | (
                TaskState::Pending { .. }
                | TaskState::Done { .. }
                | TaskState::Failed { .. }
                | TaskState::SetAside { .. },
                _,
            ) => None,
        };
        Some(Changed { waits, run_ended, freed })
    }

    /// Devices of an agent's node that are being measured, and the fewest that the plans of those allow.
    pub(crate) fn crowd(&self, agent: &AgentId) -> Crowd {
        let held = self.leases.get(agent).into_iter().flatten();
        held.filter_map(|task| self.tasks.get(task)).fold(Crowd { busy: 0, most: u64::MAX }, |crowd, task| Crowd {
            busy: crowd.busy + task.lease().map_or(0, |lease| lease.devices.len() as u64),
            most: crowd.most.min(self.devices_per_node(task)),
        })
    }

    /// How many devices of a node may be measured while the task is.
    pub(super) fn devices_per_node(&self, task: &Task) -> u64 {
        self.runs.get(&task.run).map_or(1, |run| run.plan.limits.devices_per_node.most())
    }

    /// Tasks that an agent holds.
    pub(super) fn held_by(&self, agent: &AgentId) -> Vec<TaskId> {
        self.leases.get(agent).map(|held| held.iter().cloned().collect()).unwrap_or_default()
    }
}
