//! A naive agent: what it believes it holds, and what it has not been able to say.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_core::event::{AgentIdentity, Event, LeaseKey};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::{AgentId, DeviceId, TaskId};

/// Whether the agent's process runs, and whether it reaches the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// It said hello to this coordinator.
    Open,
    /// It measures on, unheard.
    Cut,
    /// There is no process.
    Dead,
}

/// One agent.
pub(crate) struct Node {
    pub(crate) identity: AgentIdentity,
    pub(crate) link: Link,
    /// What it believes it holds, and on which devices.
    pub(crate) held: BTreeMap<TaskId, (LeaseKey, Vec<DeviceId>)>,
    /// Messages that the network still carries.
    pub(crate) late: Vec<Event>,
}

impl Node {
    /// An agent with some devices, every second of another class.
    pub(crate) fn new(index: usize, devices: usize) -> Self {
        let devices = (0..devices).map(|device| facts(&format!("gpu-{index}-{device}"), device % 2 == 0)).collect();
        let identity = AgentIdentity {
            agent: AgentId::new(format!("agent-{index}")),
            node: format!("node-{index}"),
            host: format!("host-{index}"),
            rack: None,
            version: "1".to_owned(),
            devices,
            backend_notes: BTreeMap::new(),
        };
        Self { identity, link: Link::Dead, held: BTreeMap::new(), late: Vec::new() }
    }

    pub(crate) fn id(&self) -> AgentId {
        self.identity.agent.clone()
    }

    pub(crate) fn keys(&self) -> Vec<LeaseKey> {
        self.held.values().map(|(key, _)| key.clone()).collect()
    }

    pub(crate) fn idle(&self) -> Vec<DeviceId> {
        let busy: BTreeSet<&DeviceId> = self.held.values().flat_map(|(_, devices)| devices).collect();
        let devices = self.identity.devices.iter().map(|facts| &facts.uuid);
        devices.filter(|device| !busy.contains(device)).cloned().collect()
    }

    /// Whether an open link would carry the message now.
    pub(crate) fn is_open(&self) -> bool {
        self.link == Link::Open
    }
}

fn facts(uuid: &str, large: bool) -> DeviceFacts {
    DeviceFacts {
        uuid: uuid.into(),
        backend: Backend::Sim,
        vendor: "sim".to_owned(),
        name: if large { "Sim L" } else { "Sim S" }.to_owned(),
        architecture: "sim".to_owned(),
        compute_units: 8,
        memory_bytes: if large { 16 << 30 } else { 8 << 30 },
        memory_clock_khz: None,
        core_clock_khz: None,
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: None,
        l2_cache_bytes: None,
        last_level_cache_bytes: Some(32 << 20),
        warp_size: 32,
    }
}
