//! Agents and devices as the journal knows them.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{AgentId, ClassId, DeviceId, TaskId};

use crate::event::AgentIdentity;
use crate::plan::FleetDevice;

/// A device that some agent has said it has.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    /// What is known of it.
    pub facts: DeviceFacts,
    /// Its class.
    pub class: ClassId,
    /// The agent that said so last.
    pub agent: AgentId,
    /// The task that holds it.
    pub task: Option<TaskId>,
}

/// All agents and devices that ever said hello.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fleet {
    pub(crate) agents: BTreeMap<AgentId, AgentIdentity>,
    pub(crate) devices: BTreeMap<DeviceId, Device>,
    pub(crate) by_class: BTreeMap<ClassId, BTreeSet<DeviceId>>,
}

impl Fleet {
    /// An agent says hello: what it says of its devices replaces what was known.
    pub(super) fn join(&mut self, identity: AgentIdentity) {
        for facts in &identity.devices {
            let class = facts.class_key().id();
            let before = self.devices.remove(&facts.uuid);
            if let Some(members) = before.as_ref().and_then(|device| self.by_class.get_mut(&device.class)) {
                members.remove(&facts.uuid);
            }
            self.by_class.entry(class.clone()).or_default().insert(facts.uuid.clone());
            let task = before.and_then(|device| device.task);
            let device = Device { facts: facts.clone(), class, agent: identity.agent.clone(), task };
            self.devices.insert(facts.uuid.clone(), device);
        }
        self.agents.insert(identity.agent.clone(), identity);
    }

    /// Whether the agent has the device now: it said so last, in its latest hello.
    pub(super) fn has(&self, agent: &AgentId, device: &Device) -> bool {
        let identity = self.agents.get(agent);
        device.agent == *agent
            && identity.is_some_and(|identity| identity.devices.iter().any(|facts| facts.uuid == device.facts.uuid))
    }

    /// A device with where it is.
    pub(super) fn placed(&self, device: &Device) -> FleetDevice {
        let identity = self.agents.get(&device.agent);
        FleetDevice {
            facts: device.facts.clone(),
            node: identity.map(|identity| identity.node.clone()).unwrap_or_default(),
            host: identity.map(|identity| identity.host.clone()).unwrap_or_default(),
            rack: identity.and_then(|identity| identity.rack.clone()),
        }
    }

    /// The class of a device that is known.
    pub(super) fn class_of(&self, device: &DeviceId) -> Option<&ClassId> {
        self.devices.get(device).map(|device| &device.class)
    }

    /// Marks devices as held by a task.
    pub(super) fn hold(&mut self, devices: &[DeviceId], task: &TaskId) {
        for device in devices {
            if let Some(device) = self.devices.get_mut(device) {
                device.task = Some(task.clone());
            }
        }
    }

    /// Marks devices as free again.
    pub(super) fn free(&mut self, devices: &[DeviceId], task: &TaskId) {
        for device in devices {
            if let Some(device) = self.devices.get_mut(device).filter(|device| device.task.as_ref() == Some(task)) {
                device.task = None;
            }
        }
    }
}
