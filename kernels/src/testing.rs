//! What several tests of this crate need.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;

/// A device of 132 units.
pub(crate) fn device(backend: Backend) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("test"),
        backend,
        vendor: "nvidia".to_owned(),
        name: "test".to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 132,
        memory_bytes: 1 << 37,
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
        last_level_cache_bytes: None,
        warp_size: 32,
    }
}
