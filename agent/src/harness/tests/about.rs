//! What is known of the fake device and its node.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;

use crate::worker::message::RowLabels;

pub(crate) fn labels() -> RowLabels {
    RowLabels { agent_id: "agent".to_owned(), node: "node".to_owned(), host: "host".to_owned(), rack: None }
}

pub(crate) fn facts() -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("fake"),
        backend: Backend::Sim,
        vendor: "sim".to_owned(),
        name: "Fake".to_owned(),
        architecture: "fake".to_owned(),
        compute_units: 1,
        memory_bytes: 1 << 40,
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
        last_level_cache_bytes: Some(1 << 20),
        warp_size: 1,
    }
}
