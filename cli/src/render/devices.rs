//! Devices, for people and for programs.

use fleetcal_agent::worker::message::BackendReport;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::units::Bytes;
use fleetcal_proto::v1::{AgentStatus, FleetDevice};

use super::{print_json, print_table, say, table};
use crate::failure::Failure;

/// What the embedded agent found, before anything is measured.
pub(crate) fn found(devices: &[FleetDevice], agents: &[AgentStatus]) {
    // Of others the folder knows from earlier runs.
    for device in devices.iter().filter(|device| device.connected) {
        let facts = device.facts.clone().unwrap_or_default();
        say(&format!("found {} ({}, {}), class {}", facts.name, facts.backend, facts.uuid, device.class_slug));
    }
    for (backend, note) in agents.iter().filter(|agent| agent.connected).flat_map(|agent| &agent.backend_notes) {
        say(&format!("no {backend} device: {note}"));
    }
}

/// Devices of a fleet.
pub(crate) fn fleet_devices(devices: &[FleetDevice]) {
    let mut shown = table(&["CLASS", "NAME", "UUID", "NODE", "MEMORY", "STATE"]);
    for device in devices {
        let facts = device.facts.clone().unwrap_or_default();
        let state = match (&device.task_id, device.connected) {
            (_, false) => "agent away".to_owned(),
            (Some(task), true) => format!("measuring {task}"),
            (None, true) => "idle".to_owned(),
        };
        shown.add_row([
            device.class_slug.clone(),
            facts.name,
            facts.uuid,
            device.node.clone(),
            Bytes(facts.memory_bytes).to_string(),
            state,
        ]);
    }
    print_table(&shown, "no devices: no agent has introduced itself");
}

/// Devices of a fleet, as an array of objects: the facts, and who has them.
pub(crate) fn fleet_devices_json(devices: &[FleetDevice]) -> Result<(), Failure> {
    let values = devices
        .iter()
        .map(|device| {
            let facts = device.facts.clone().unwrap_or_default();
            let facts = DeviceFacts::try_from(facts).map_err(Failure::internal)?;
            Ok(serde_json::json!({
                "class_id": device.class_id,
                "class": device.class_slug,
                "agent_id": device.agent_id,
                "node": device.node,
                "connected": device.connected,
                "task_id": device.task_id,
                "facts": facts,
            }))
        })
        .collect::<Result<Vec<_>, Failure>>()?;
    print_json(&values)
}

/// Devices of this machine, and why a backend has none.
pub(crate) fn local_devices(reports: &[BackendReport]) {
    let mut shown = table(&["BACKEND", "CLASS", "NAME", "UUID", "MEMORY", "LAST-LEVEL CACHE"]);
    for report in reports {
        for facts in &report.devices {
            shown.add_row([
                report.backend.clone(),
                facts.class_key().slug(),
                facts.name.clone(),
                facts.uuid.to_string(),
                Bytes(facts.memory_bytes).to_string(),
                facts.last_level_cache_bytes.map_or_else(|| "unknown".to_owned(), |size| Bytes(size).to_string()),
            ]);
        }
    }
    print_table(&shown, "no devices");
    for report in reports {
        if let Some(note) = &report.note {
            say(&format!("{}: {note}", report.backend));
        }
    }
}

/// Devices of this machine, as an array of objects, one a backend.
pub(crate) fn local_devices_json(reports: &[BackendReport]) -> Result<(), Failure> {
    print_json(&reports)
}
