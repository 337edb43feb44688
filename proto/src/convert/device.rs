//! Facts of a device.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;

use super::{ConvertError, name, text};
use crate::v1;

impl From<&DeviceFacts> for v1::DeviceFacts {
    fn from(facts: &DeviceFacts) -> Self {
        Self {
            uuid: facts.uuid.as_str().to_owned(),
            backend: facts.backend.name().to_owned(),
            vendor: facts.vendor.clone(),
            name: facts.name.clone(),
            architecture: facts.architecture.clone(),
            compute_units: facts.compute_units,
            memory_bytes: facts.memory_bytes,
            memory_clock_khz: facts.memory_clock_khz,
            core_clock_khz: facts.core_clock_khz,
            power_limit_mw: facts.power_limit_mw,
            partition_mode: facts.partition_mode.clone(),
            ecc: facts.ecc,
            sockets: facts.sockets,
            pci_bdf: facts.pci_bdf.clone(),
            vbios: facts.vbios.clone(),
            driver: facts.driver.clone(),
            runtime: facts.runtime.clone(),
            l2_cache_bytes: facts.l2_cache_bytes,
            last_level_cache_bytes: facts.last_level_cache_bytes,
            warp_size: facts.warp_size,
        }
    }
}

impl TryFrom<v1::DeviceFacts> for DeviceFacts {
    type Error = ConvertError;

    fn try_from(wire: v1::DeviceFacts) -> Result<Self, ConvertError> {
        Ok(Self {
            uuid: DeviceId::new(text(wire.uuid, "DeviceFacts.uuid")?),
            backend: name(&wire.backend, "DeviceFacts.backend")?,
            vendor: text(wire.vendor, "DeviceFacts.vendor")?,
            name: text(wire.name, "DeviceFacts.name")?,
            architecture: text(wire.architecture, "DeviceFacts.architecture")?,
            compute_units: wire.compute_units,
            memory_bytes: wire.memory_bytes,
            memory_clock_khz: wire.memory_clock_khz,
            core_clock_khz: wire.core_clock_khz,
            power_limit_mw: wire.power_limit_mw,
            partition_mode: wire.partition_mode,
            ecc: wire.ecc,
            sockets: wire.sockets,
            pci_bdf: wire.pci_bdf,
            vbios: wire.vbios,
            driver: wire.driver,
            runtime: wire.runtime,
            l2_cache_bytes: wire.l2_cache_bytes,
            last_level_cache_bytes: wire.last_level_cache_bytes,
            warp_size: wire.warp_size,
        })
    }
}
