//! What only NVML knows of a device. Where NVML is missing (it is in some containers), these facts are unknown.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

/// NVML's part of the facts.
#[derive(Debug, Default)]
pub(super) struct NvmlFacts {
    /// Power limit in force, milliwatts.
    pub(super) power_limit_mw: Option<u64>,
    /// Whether MIG is on; a device that cannot be partitioned says no.
    pub(super) partitioned: Option<bool>,
    /// Whether memory errors are corrected.
    pub(super) ecc: Option<bool>,
    /// Firmware version.
    pub(super) vbios: Option<String>,
    /// Driver version.
    pub(super) driver: Option<String>,
}

/// Loads NVML, if it is there.
pub(super) fn load() -> Option<Nvml> {
    Nvml::init().ok()
}

/// Asks for the device at a PCI address. Never by index: the driver's order follows `CUDA_VISIBLE_DEVICES` and
/// `CUDA_DEVICE_ORDER`, NVML's does not.
pub(super) fn facts(nvml: &Nvml, pci_bdf: &str) -> NvmlFacts {
    let driver = nvml.sys_driver_version().ok();
    let Ok(device) = nvml.device_by_pci_bus_id(pci_bdf) else {
        return NvmlFacts { driver, ..NvmlFacts::default() };
    };
    let limit_mw = device.enforced_power_limit().or_else(|_| device.power_management_limit());
    let partitioned = match device.mig_mode() {
        Ok(mode) => Some(mode.current == 1),
        Err(NvmlError::NotSupported) => Some(false),
        Err(_) => None,
    };
    NvmlFacts {
        power_limit_mw: limit_mw.ok().map(u64::from),
        partitioned,
        ecc: device.is_ecc_enabled().ok().map(|mode| mode.currently_enabled),
        vbios: device.vbios_version().ok(),
        driver,
    }
}
