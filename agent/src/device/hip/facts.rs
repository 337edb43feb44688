//! What the runtime and the kernel know of the devices. Each GCD, and each partition, is a device of its own: the
//! runtime shows it as one.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::path::Path;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use hip_runtime_sys::hipDeviceAttribute_t;

use super::runtime::Runtime;
use super::status::Fault;
use super::sysfs::{self, KernelFacts};
use crate::device::DeviceError;
use crate::device::gpu::Found;
use crate::identity::part_of_machine;

/// Architectures of which no device has a cache behind the L2: of others it is unknown unless the kernel says so.
const WITHOUT_LEVEL_3: [&str; 6] = ["gfx900", "gfx906", "gfx908", "gfx90a", "gfx1010", "gfx1012"];

/// Every device that the runtime shows. `compiler` is the compiler's release. Creates no context.
pub(super) fn find(runtime: &Runtime, compiler: (i32, i32)) -> Result<Vec<Found>, DeviceError> {
    let failed = |fault: Fault| unusable(format!("listing devices failed: {}", fault.words));
    let count = runtime.count_devices().map_err(failed)?;
    let text = runtime_text(runtime.version().map_err(failed)?, compiler, runtime.emulator);
    let mut found = (0..count).map(|device| read(runtime, device, &text)).collect::<Result<Vec<_>, _>>()?;
    let ids = distinct(found.iter().map(|found| &found.facts));
    for (found, id) in found.iter_mut().zip(ids) {
        found.facts.uuid = id;
    }
    Ok(found)
}

/// The runtime library is of no use, and why.
pub(super) fn unusable(reason: impl Into<String>) -> DeviceError {
    DeviceError::Library { library: "libamdhip64".to_owned(), reason: reason.into() }
}

/// HIP writes its release as major · 10⁷ + minor · 10⁵ + patch.
fn runtime_text(version: c_int, compiler: (i32, i32), emulator: Option<c_int>) -> String {
    let hip = format!("hip {}.{}, hiprtc {}.{}", version / 10_000_000, version / 100_000 % 100, compiler.0, compiler.1);
    emulator.map_or_else(|| hip.clone(), |version| format!("{hip}, emulator {version}"))
}

fn read(runtime: &Runtime, device: c_int, runtime_text: &str) -> Result<Found, DeviceError> {
    let root = Path::new("/");
    let failed = |fault: Fault| unusable(format!("reading device {device} failed: {}", fault.words));
    let positive = |which| {
        let value = runtime.attribute(device, which).ok().and_then(|value| u64::try_from(value).ok());
        value.filter(|value| *value > 0)
    };
    let needed = |which| {
        let value = runtime.attribute(device, which).map_err(failed)?;
        u64::try_from(value).ok().filter(|value| *value > 0).ok_or_else(|| unusable(format!("{which:?} is {value}")))
    };
    let target = runtime.architecture(device).ok_or_else(|| {
        unusable(format!("it does not say the architecture of device {device}: is it newer than ROCm 7?"))
    })?;
    let pci_bdf = runtime.pci_address(device).or_else(|| pci_of_attributes(runtime, device));
    let kernel = match (&pci_bdf, runtime.emulator) {
        (Some(pci_bdf), None) => sysfs::facts(root, pci_bdf),
        (_, Some(_)) | (None, None) => KernelFacts::default(),
    };
    let architecture = target.split(':').next().unwrap_or_default().to_owned();
    let l2_cache_bytes = positive(hipDeviceAttribute_t::hipDeviceAttributeL2CacheSize);
    let facts = DeviceFacts {
        uuid: DeviceId::new(id_of(root, runtime.uuid(device), pci_bdf.as_deref(), device)),
        backend: Backend::Hip,
        vendor: "amd".to_owned(),
        name: runtime.name(device).map_err(failed)?,
        compute_units: needed(hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount)?,
        memory_bytes: runtime.total_memory(device).map_err(failed)?,
        memory_clock_khz: positive(hipDeviceAttribute_t::hipDeviceAttributeMemoryClockRate),
        core_clock_khz: positive(hipDeviceAttribute_t::hipDeviceAttributeClockRate),
        power_limit_mw: kernel.power_limit_mw,
        partition_mode: kernel.partition_mode,
        ecc: ecc_of(&target, runtime.attribute(device, hipDeviceAttribute_t::hipDeviceAttributeEccEnabled).ok()),
        sockets: None,
        pci_bdf,
        vbios: kernel.vbios,
        driver: kernel.driver.or_else(|| runtime.driver_version().map(|version| version.to_string())),
        runtime: Some(runtime_text.to_owned()),
        l2_cache_bytes,
        last_level_cache_bytes: last_level_bytes(&architecture, l2_cache_bytes, kernel.level_3_bytes),
        warp_size: needed(hipDeviceAttribute_t::hipDeviceAttributeWarpSize)?,
        architecture,
    };
    Ok(Found { ordinal: usize::try_from(device).unwrap_or(0), facts, target })
}

fn pci_of_attributes(runtime: &Runtime, device: c_int) -> Option<String> {
    let part = |which| runtime.attribute(device, which).ok();
    let domain = part(hipDeviceAttribute_t::hipDeviceAttributePciDomainID)?;
    let bus = part(hipDeviceAttribute_t::hipDeviceAttributePciBusId)?;
    Some(format!("{domain:04x}:{bus:02x}:{:02x}.0", part(hipDeviceAttribute_t::hipDeviceAttributePciDeviceId)?))
}

/// The form of `rocminfo`: `GPU-` and the 16 hexadecimal digits that AMD's bytes are. A device without a number of its
/// own (consumer cards say `XX`) is named by its place.
fn id_of(root: &Path, uuid: Option<[u8; 16]>, pci_bdf: Option<&str>, device: c_int) -> String {
    match uuid {
        Some(bytes) if bytes.iter().all(u8::is_ascii_hexdigit) && bytes.iter().any(|digit| *digit != b'0') => {
            format!("GPU-{}", String::from_utf8_lossy(&bytes))
        }
        Some(bytes) if !bytes.starts_with(b"XX") && bytes.iter().any(|byte| !matches!(*byte, 0 | b'0')) => {
            format!("GPU-{}", uuid::Uuid::from_bytes(bytes).hyphenated())
        }
        Some(_) | None => {
            let place = pci_bdf.map_or_else(|| device.to_string(), str::to_owned);
            let of_machine = part_of_machine(root, &format!("gpu {place}")).map(|uuid| format!("GPU-{uuid}"));
            of_machine
                .unwrap_or_else(|| format!("GPU-{}-{place}", rustix::system::uname().nodename().to_string_lossy()))
        }
    }
}

/// Names of devices, of which partitions may share one: those are told apart by their place on the bus, or else by
/// their order.
fn distinct<'a>(devices: impl Iterator<Item = &'a DeviceFacts> + Clone) -> Vec<DeviceId> {
    let mut counts: BTreeMap<(&DeviceId, Option<&str>), usize> = BTreeMap::new();
    let mut names: BTreeMap<&DeviceId, usize> = BTreeMap::new();
    devices.clone().for_each(|facts| *names.entry(&facts.uuid).or_default() += 1);
    let name = |facts: &'a DeviceFacts| {
        if names.get(&facts.uuid) == Some(&1) {
            return facts.uuid.clone();
        }
        let place = facts.pci_bdf.as_deref();
        let order = counts.entry((&facts.uuid, place)).or_default();
        *order += 1;
        DeviceId::new(format!("{}@{}/{order}", facts.uuid, place.unwrap_or("unknown")))
    };
    devices.map(name).collect()
}

/// Whether memory errors are corrected: the architecture's name says it where the device can do both.
fn ecc_of(target: &str, attribute: Option<c_int>) -> Option<bool> {
    if target.contains(":sramecc+") {
        return Some(true);
    }
    attribute.map(|enabled| enabled != 0)
}

/// The last cache before memory: what the kernel knows behind the L2, or the L2 where nothing is behind it.
fn last_level_bytes(architecture: &str, l2_bytes: Option<u64>, level_3_bytes: Option<u64>) -> Option<u64> {
    level_3_bytes.or_else(|| l2_bytes.filter(|_| WITHOUT_LEVEL_3.contains(&architecture)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn uuids_have_the_form_of_rocminfo_and_a_device_without_one_is_named_by_its_place() {
        let root = tree(&[("etc/machine-id", "8a1d0c9d7e2c4a53a1a6e1b2c3d4e5f6\n")]);
        let at = |place, bytes: &[u8; 16]| id_of(root.path(), Some(*bytes), Some(place), 3);
        let text = |bytes: &[u8; 16]| at("0000:c1:00.0", bytes);
        assert_eq!(text(b"9391bc8c3c4dbf45"), "GPU-9391bc8c3c4dbf45");
        let binary = [0x8d, 0x9f, 0x5a, 0x5c, 0x0d, 0x83, 0x7b, 0xd0, 0x5e, 0x1b, 0x5b, 0x2a, 0x4e, 0x6f, 0x7a, 0x80];
        assert_eq!(text(&binary), "GPU-8d9f5a5c-0d83-7bd0-5e1b-5b2a4e6f7a80");
        for none in [b"XX\0\0\0\0\0\0\0\0\0\0\0\0\0\0", &[0; 16], b"0000000000000000"] {
            assert_eq!(text(none), text(&[0; 16]), "the same at each look");
            assert_ne!(text(none), at("0000:c2:00.0", none), "and another at another place");
        }
        let nowhere = id_of(Path::new("/nowhere"), None, None, 3);
        assert!(nowhere.starts_with("GPU-") && nowhere.ends_with("-3"), "{nowhere}");
    }

    #[test]
    fn partitions_that_share_a_number_are_told_apart() {
        let facts =
            |uuid: &str, place: &str| DeviceFacts { pci_bdf: Some(place.to_owned()), ..crate::testing::device(uuid) };
        let devices = [
            facts("GPU-a", "0:1:0.0"),
            facts("GPU-b", "0:2:0.0"),
            facts("GPU-b", "0:2:0.1"),
            facts("GPU-b", "0:2:0.1"),
        ];
        let ids = distinct(devices.iter());
        let ids: Vec<&str> = ids.iter().map(|id| id.as_str()).collect();
        assert_eq!(ids, ["GPU-a", "GPU-b@0:2:0.0/1", "GPU-b@0:2:0.1/1", "GPU-b@0:2:0.1/2"]);
    }

    #[test]
    fn what_is_not_known_of_caches_and_errors_is_not_guessed() {
        let l2 = Some(8 << 20);
        assert_eq!(last_level_bytes("gfx90a", l2, None), l2);
        assert_eq!(last_level_bytes("gfx942", l2, None), None, "it has another cache, of unknown size");
        assert_eq!(last_level_bytes("gfx942", l2, Some(256 << 20)), Some(256 << 20));
        assert_eq!(ecc_of("gfx90a:sramecc+:xnack-", Some(0)), Some(true));
        assert_eq!(ecc_of("gfx906:sramecc-:xnack-", Some(0)), Some(false));
        assert_eq!(ecc_of("gfx1100", None), None);
    }

    #[test]
    fn the_runtime_is_said_as_people_know_it() {
        assert_eq!(runtime_text(60_342_131, (6, 3), None), "hip 6.3, hiprtc 6.3");
        assert_eq!(runtime_text(50_422_804, (5, 4), Some(1)), "hip 5.4, hiprtc 5.4, emulator 1");
    }
}
