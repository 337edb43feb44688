//! What only the kernel's files say of a device: partitions, firmware, power limit, and the cache behind the L2.

use std::fs;
use std::path::{Path, PathBuf};

use crate::telemetry::pci::PciAddress;

/// The kernel's part of the facts. What its files do not say is unknown.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct KernelFacts {
    /// `none` where the device is whole, else modes of its compute units and memory: `CPX/NPS4`.
    pub(super) partition_mode: Option<String>,
    /// Firmware version.
    pub(super) vbios: Option<String>,
    /// Version of the kernel's driver.
    pub(super) driver: Option<String>,
    /// Power limit in force, milliwatts.
    pub(super) power_limit_mw: Option<u64>,
    /// The cache behind the L2, bytes, where it has one and the kernel knows of it.
    pub(super) level_3_bytes: Option<u64>,
}

/// Reads what lies below `root` (`/`, but in tests) of the device at a PCI address.
pub(super) fn facts(root: &Path, pci_bdf: &str) -> KernelFacts {
    let device = root.join("sys/bus/pci/devices").join(pci_bdf.to_lowercase());
    let in_device = |name: &str| text(&device.join(name));
    KernelFacts {
        partition_mode: in_device("current_compute_partition")
            .map(|compute| partition(&compute, in_device("current_memory_partition").as_deref())),
        vbios: in_device("vbios_version"),
        driver: text(&root.join("sys/module/amdgpu/version")),
        power_limit_mw: power_limit_mw(&device),
        level_3_bytes: level_3_bytes(root, pci_bdf),
    }
}

/// A device that is one, with its memory in one piece, has no partitions.
fn partition(compute: &str, memory: Option<&str>) -> String {
    match (compute, memory) {
        ("SPX", None | Some("NPS1")) => "none".to_owned(),
        (compute, None) => compute.to_owned(),
        (compute, Some(memory)) => format!("{compute}/{memory}"),
    }
}

/// A file's text without what surrounds it; none where there is no file, or nothing in it.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

/// Folders below one, in the order of their names.
fn folders(path: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    folders.sort_unstable();
    folders
}

/// The kernel gives microwatts.
fn power_limit_mw(device: &Path) -> Option<u64> {
    let limits = folders(&device.join("hwmon")).into_iter().filter_map(|folder| text(&folder.join("power1_cap")));
    limits
        .filter_map(|microwatts| microwatts.parse::<u64>().ok())
        .map(|microwatts| microwatts / 1000)
        .find(|mw| *mw > 0)
}

/// One number of a file of lines `name value`.
fn property(text: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.trim().split_once(' '));
    lines.find(|(found, _)| *found == name).and_then(|(_, value)| value.trim().parse().ok())
}

/// The kernel's topology has a folder a device, with a folder a cache; sizes are in KiB.
fn level_3_bytes(root: &Path, pci_bdf: &str) -> Option<u64> {
    let address = PciAddress::parse(pci_bdf)?;
    let is_it = |node: &PathBuf| {
        let properties = text(&node.join("properties")).unwrap_or_default();
        let place = property(&properties, "domain").zip(property(&properties, "location_id"));
        place.map(|(domain, on_bus)| domain << 32 | on_bus) == Some(address.rocm_smi_id())
    };
    let node = folders(&root.join("sys/class/kfd/kfd/topology/nodes")).into_iter().find(is_it)?;
    let caches = folders(&node.join("caches")).into_iter().filter_map(|cache| text(&cache.join("properties")));
    let kibibytes =
        caches.filter(|cache| property(cache, "level") == Some(3)).filter_map(|cache| property(&cache, "size"));
    kibibytes.max().filter(|size| *size > 0).map(|size| size << 10)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn the_kernels_files_of_the_right_device_are_read() {
        let node = "cpu_cores_count 0\nlocation_id 49408\ndomain 0\n";
        let root = tree(&[
            ("sys/bus/pci/devices/0000:c1:00.0/current_compute_partition", "CPX\n"),
            ("sys/bus/pci/devices/0000:c1:00.0/current_memory_partition", "NPS4\n"),
            ("sys/bus/pci/devices/0000:c1:00.0/vbios_version", "113-M3000100-102\n"),
            ("sys/bus/pci/devices/0000:c1:00.0/hwmon/hwmon7/power1_cap", "750000000\n"),
            ("sys/bus/pci/devices/0000:c2:00.0/vbios_version", "another\n"),
            ("sys/module/amdgpu/version", "6.10.5\n"),
            ("sys/class/kfd/kfd/topology/nodes/0/properties", "location_id 0\ndomain 0\n"),
            ("sys/class/kfd/kfd/topology/nodes/0/caches/0/properties", "level 3\nsize 1\n"),
            ("sys/class/kfd/kfd/topology/nodes/1/properties", node),
            ("sys/class/kfd/kfd/topology/nodes/1/caches/0/properties", "level 2\nsize 4096\n"),
            ("sys/class/kfd/kfd/topology/nodes/1/caches/1/properties", "level 3\nsize 262144\n"),
        ]);
        let expected = KernelFacts {
            partition_mode: Some("CPX/NPS4".to_owned()),
            vbios: Some("113-M3000100-102".to_owned()),
            driver: Some("6.10.5".to_owned()),
            power_limit_mw: Some(750_000),
            level_3_bytes: Some(256 << 20),
        };
        assert_eq!(facts(root.path(), "0000:C1:00.0"), expected);
        let other = facts(root.path(), "0000:c3:00.0");
        assert_eq!(other, KernelFacts { driver: Some("6.10.5".to_owned()), ..KernelFacts::default() });
        assert_eq!(facts(Path::new("/nowhere"), "no address"), KernelFacts::default());
    }

    #[test]
    fn only_a_whole_device_has_no_partitions() {
        assert_eq!(partition("SPX", Some("NPS1")), "none");
        assert_eq!(partition("SPX", None), "none");
        assert_eq!(partition("SPX", Some("NPS4")), "SPX/NPS4");
        assert_eq!(partition("DPX", None), "DPX");
    }
}
