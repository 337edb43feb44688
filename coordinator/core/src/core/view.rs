//! What can be looked at from outside.

use std::collections::BTreeMap;

use fleetcal_model::id::{AgentId, ClassId, DeviceId, RunId, TaskId};

use super::fleet::Device;
use super::run::{Run, RunState, TaskCounts};
use super::task::{Lease, Task, TaskState};
use super::{Core, CoreConfig};
use crate::event::{AgentIdentity, LeaseKey, Timestamp};
use crate::plan::FleetDevice;

/// An agent, from outside.
#[derive(Debug, Clone, Copy)]
pub struct AgentView<'c> {
    /// As it introduced itself last.
    pub identity: &'c AgentIdentity,
    /// Whether its stream is open.
    pub connected: bool,
    /// Devices of it that a task holds.
    pub busy_devices: u64,
}

/// A device, from outside.
#[derive(Debug, Clone, Copy)]
pub struct DeviceView<'c> {
    /// The device.
    pub device: &'c Device,
    /// The node label of its agent.
    pub node: &'c str,
    /// Whether its agent is connected, and has it.
    pub connected: bool,
}

impl Core {
    /// Its times and limits.
    pub fn config(&self) -> &CoreConfig {
        &self.config
    }

    /// Every run, in the order of submission.
    pub fn runs(&self) -> impl Iterator<Item = &Run> {
        self.ledger.order.iter().filter_map(|run| self.ledger.runs.get(run))
    }

    /// One run.
    pub fn run(&self, run: &RunId) -> Option<&Run> {
        self.ledger.runs.get(run)
    }

    /// The tasks of a run, in the order of its plan. Empty for a run that is not known.
    pub fn tasks(&self, run: &RunId) -> impl Iterator<Item = &Task> {
        let ids = self.run(run).map(|run| run.tasks.as_slice()).unwrap_or_default();
        ids.iter().filter_map(|task| self.ledger.tasks.get(task))
    }

    /// One task.
    pub fn task(&self, task: &TaskId) -> Option<&Task> {
        self.ledger.tasks.get(task)
    }

    /// How many of a run's tasks stand where.
    pub fn task_counts(&self, run: &RunId) -> TaskCounts {
        let mut counts = TaskCounts::default();
        for task in self.tasks(run) {
            match task.state {
                TaskState::Pending { .. } => counts.pending += 1,
                TaskState::Leased(_) => counts.leased += 1,
                TaskState::Done { .. } => counts.done += 1,
                TaskState::Failed { .. } => counts.failed += 1,
                TaskState::SetAside { .. } => counts.set_aside += 1,
            }
        }
        counts
    }

    /// Rows committed for a run, those of superseded attempts included.
    pub fn rows(&self, run: &RunId) -> u64 {
        self.tasks(run).flat_map(|task| task.rows.values()).sum()
    }

    /// Every agent that ever said hello, by identity.
    pub fn agents(&self) -> impl Iterator<Item = AgentView<'_>> {
        self.ledger.fleet.agents.iter().map(|(agent, identity)| AgentView {
            identity,
            connected: self.presence.is_attached(agent),
            busy_devices: self
                .devices()
                .filter(|view| view.device.agent == *agent && view.device.task.is_some())
                .count() as u64,
        })
    }

    /// Every device that an agent ever named, by UUID.
    pub fn devices(&self) -> impl Iterator<Item = DeviceView<'_>> {
        let agents = &self.ledger.fleet.agents;
        self.ledger.fleet.devices.values().map(|device| DeviceView {
            device,
            node: agents.get(&device.agent).map_or("", |identity| identity.node.as_str()),
            connected: self.is_present(device),
        })
    }

    /// One device.
    pub fn device(&self, device: &DeviceId) -> Option<&Device> {
        self.ledger.fleet.devices.get(device)
    }

    /// The devices that can be given work, with where they are: what a plan submitted now would be planned for.
    pub fn connected_devices(&self) -> Vec<FleetDevice> {
        let devices = self.ledger.fleet.devices.values();
        devices.filter(|device| self.is_present(device)).map(|device| self.ledger.fleet.placed(device)).collect()
    }

    /// The short name of a class that some device belongs to.
    pub fn class_slug(&self, class: &ClassId) -> Option<String> {
        let device = self.ledger.fleet.by_class.get(class)?.first()?;
        self.device(device).map(|device| device.facts.class_key().slug())
    }

    /// The present lease that a key names, if it is in force.
    pub fn lease(&self, key: &LeaseKey) -> Option<&Lease> {
        self.task(&key.task)?.lease().filter(|lease| lease.key == *key)
    }

    /// Whether a lease is in force and held by that agent.
    pub fn holds(&self, agent: &AgentId, key: &LeaseKey) -> bool {
        self.lease(key).is_some_and(|lease| lease.agent == *agent)
    }

    /// Until when a task is leased.
    pub fn lease_deadline(&self, task: &TaskId) -> Option<Timestamp> {
        self.presence.deadline(task)
    }

    /// The attempt whose rows speak for each task of a run: rows of other attempts feed no fit. It is the one that
    /// finished the task, else the latest that committed rows; tasks that have neither are left out.
    pub fn winning_attempts(&self, run: &RunId) -> BTreeMap<TaskId, u64> {
        let winner = |task: &Task| match &task.state {
            TaskState::Done { attempt, .. } => Some(*attempt),
            TaskState::Pending { .. }
            | TaskState::Leased(_)
            | TaskState::Failed { .. }
            | TaskState::SetAside { .. } => {
                task.rows.iter().rev().find(|(_, rows)| **rows > 0).map(|(attempt, _)| *attempt)
            }
        };
        self.tasks(run).filter_map(|task| Some((task.id.clone(), winner(task)?))).collect()
    }

    /// In sentences, everything about a run that is not as it was asked for: sizes dropped, tasks that are not done or
    /// left their device, and why.
    pub fn problems(&self, run: &RunId) -> Vec<String> {
        let Some(run) = self.run(run) else { return Vec::new() };
        let mut problems = run.notes.clone();
        for task in self.tasks(&run.id) {
            let what = format!("task {} ({}, on {})", task.id, task.title, task.home);
            let reason = task.reason().unwrap_or_else(|| "no reason known".to_owned());
            match &task.state {
                TaskState::Done { dropped, .. } => {
                    problems.extend(dropped.iter().map(|dropped| format!("{what} dropped {dropped}")));
                    problems.extend(task.note.iter().map(|note| format!("{what}: {note}")));
                }
                TaskState::Failed { .. } => problems.push(format!("{what} failed: {reason}")),
                TaskState::SetAside { .. } => problems.push(format!("{what} was set aside: {reason}")),
                TaskState::Pending { .. } | TaskState::Leased(_) if run.state == RunState::Active => {
                    problems.extend(task.reason().map(|reason| format!("{what} is not done yet: {reason}")));
                }
                TaskState::Pending { .. } | TaskState::Leased(_) => problems.push(format!("{what} has not ended yet")),
            }
        }
        problems
    }
}
