//! What the driver and NVML know of the devices.

use cudarc::driver::sys::{self, CUdevice_attribute};
use cudarc::driver::{DriverError, result};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use nvml_wrapper::Nvml;

use super::driver::{self, DriverVersion};
use super::nvml::{self, NvmlFacts};
use crate::device::DeviceError;
use crate::device::gpu::Found;

/// Every device that the driver shows. Creates no context.
pub(super) fn find(driver: DriverVersion, nvrtc: (i32, i32)) -> Result<Vec<Found>, DeviceError> {
    let runtime = format!("cuda {}.{}, nvrtc {}.{}", driver.major, driver.minor, nvrtc.0, nvrtc.1);
    let nvml = nvml::load();
    let read = || {
        let count = result::device::get_count()?;
        (0..count).map(|ordinal| device(ordinal, nvml.as_ref(), &runtime)).collect::<Result<Vec<_>, DriverError>>()
    };
    let found =
        read().map_err(|error| driver::unusable(format!("listing devices failed: {}", driver::explain(error))))?;
    if found.is_empty() {
        return Err(driver::unusable("the driver shows no device (look at `nvidia-smi -L` and CUDA_VISIBLE_DEVICES)"));
    }
    Ok(found)
}

fn device(ordinal: i32, nvml: Option<&Nvml>, runtime: &str) -> Result<Found, DriverError> {
    let handle = result::device::get(ordinal)?;
    let positive = |which: CUdevice_attribute| {
        attribute(handle, which).ok().and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0)
    };
    let name = result::device::get_name(handle)?;
    let pci_bdf = format!(
        "{:08X}:{:02X}:{:02X}.0",
        attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?,
        attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?,
        attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?,
    );
    let architecture = format!(
        "sm_{}{}",
        attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    );
    let more = nvml.map_or_else(NvmlFacts::default, |nvml| nvml::facts(nvml, &pci_bdf));
    let partition = partition_of(&name, more.partitioned);
    let prefix = if partition.as_deref().is_some_and(|mode| mode != "none") { "MIG" } else { "GPU" };
    let l2_cache_bytes = positive(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    let facts = DeviceFacts {
        uuid: DeviceId::new(uuid_text(prefix, uuid(handle)?)),
        backend: Backend::Cuda,
        vendor: "nvidia".to_owned(),
        name: name.trim().to_owned(),
        architecture,
        compute_units: positive(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT).unwrap_or(1),
        memory_bytes: total_memory(handle)?,
        memory_clock_khz: positive(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE),
        core_clock_khz: positive(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE),
        power_limit_mw: more.power_limit_mw,
        partition_mode: partition,
        ecc: more
            .ecc
            .or_else(|| Some(attribute(handle, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED).ok()? == 1)),
        sockets: None,
        pci_bdf: Some(pci_bdf),
        vbios: more.vbios,
        driver: more.driver,
        runtime: Some(runtime.to_owned()),
        l2_cache_bytes,
        last_level_cache_bytes: l2_cache_bytes,
        warp_size: positive(CUdevice_attribute::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap_or(32),
    };
    let target = facts.architecture.clone();
    Ok(Found { ordinal: usize::try_from(ordinal).unwrap_or(0), facts, target })
}

/// The MIG profile, which the driver writes behind the product's name (`NVIDIA H200 MIG 1g.18gb`), or `none`.
fn partition_of(name: &str, partitioned: Option<bool>) -> Option<String> {
    match name.split_once(" MIG ") {
        Some((_, profile)) => Some(profile.trim().to_owned()),
        None => partitioned.map(|on| if on { "mig" } else { "none" }.to_owned()),
    }
}

/// The form of NVML and `nvidia-smi`: `GPU-8d9f5a5c-0d83-7bd0-5e1b-5b2a4e6f7a80`.
fn uuid_text(prefix: &str, bytes: [u8; 16]) -> String {
    format!("{prefix}-{}", uuid::Uuid::from_bytes(bytes).hyphenated())
}

#[allow(unsafe_code)]
fn attribute(handle: sys::CUdevice, which: CUdevice_attribute) -> Result<i32, DriverError> {
    // SAFETY: the handle came from the driver.
    unsafe { result::device::get_attribute(handle, which) }
}

#[allow(unsafe_code)]
fn total_memory(handle: sys::CUdevice) -> Result<u64, DriverError> {
    // SAFETY: the handle came from the driver.
    unsafe { result::device::total_mem(handle) }.map(|bytes| bytes as u64)
}

/// The second version of the call: the first gives every MIG slice the UUID of its whole device.
#[allow(unsafe_code)]
fn uuid(handle: sys::CUdevice) -> Result<[u8; 16], DriverError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: the handle came from the driver, and the pointer is to a live value.
    unsafe { sys::cuDeviceGetUuid_v2(&raw mut uuid, handle) }.result()?;
    Ok(uuid.bytes.map(|byte| byte.to_ne_bytes()[0]))
}

#[cfg(test)]
mod tests {
    use fleetcal_kernels::support;
    use fleetcal_model::point::Sweep;
    use fleetcal_model::policy::Caches;

    use super::*;
    use crate::device::gpu::of;
    use crate::harness::flush::Flush;

    /// Defect 10 of docs/harness.md.
    #[test]
    fn a_device_is_opened_by_its_uuid_and_works_with_its_own_facts() {
        let facts = |uuid, compute_units, l2_cache_bytes| DeviceFacts {
            compute_units,
            l2_cache_bytes: Some(l2_cache_bytes),
            last_level_cache_bytes: Some(l2_cache_bytes),
            ..crate::testing::device(uuid)
        };
        let both = || {
            let found = |ordinal, facts| Found { ordinal, facts, target: String::new() };
            vec![found(0, facts("GPU-0", 16, 1 << 20)), found(1, facts("GPU-1", 132, 50 << 20))]
        };
        let (first, second) = (of(&"GPU-0".into(), both()), of(&"GPU-1".into(), both()));
        let [first, second] = [first, second].map(|found| found.expect("both are there"));
        assert_eq!([first.ordinal, second.ordinal], [0, 1]);
        let flush = |found: &Found| {
            let bytes = Flush::of(Caches::Cold, Sweep::Stream, 1, &found.facts).bytes.expect("cold means flushed");
            (bytes, support::flush(&found.facts, bytes).blocks)
        };
        assert_eq!(flush(&first), (2 << 20, 128), "16 units with 8 blocks each");
        assert_eq!(flush(&second), (100 << 20, 1056), "132 units with 8 blocks each, and its own caches");
        assert!(of(&"GPU-2".into(), both()).is_none(), "and never another device instead");
    }

    #[test]
    fn a_slice_is_told_from_a_whole_device() {
        assert_eq!(partition_of("NVIDIA H200 MIG 1g.18gb", Some(true)).as_deref(), Some("1g.18gb"));
        assert_eq!(partition_of("NVIDIA H200", Some(false)).as_deref(), Some("none"));
        assert_eq!(partition_of("NVIDIA H200", None), None, "without NVML nobody knows");
    }

    #[test]
    fn uuids_have_the_form_of_nvidia_smi() {
        let bytes = [0x8d, 0x9f, 0x5a, 0x5c, 0x0d, 0x83, 0x7b, 0xd0, 0x5e, 0x1b, 0x5b, 0x2a, 0x4e, 0x6f, 0x7a, 0x80];
        assert_eq!(uuid_text("GPU", bytes), "GPU-8d9f5a5c-0d83-7bd0-5e1b-5b2a4e6f7a80");
    }
}
