//! Devices and the classes that constants are fitted for.

use std::fmt;

use crate::digest::Sha256Digest;
use crate::id::{ClassId, DeviceId};
use crate::vocabulary;

vocabulary! {
    /// Who drives a device.
    Backend, "backend" {
        /// NVIDIA devices, through the CUDA driver.
        Cuda => "cuda",
        /// AMD devices, through HIP.
        Hip => "hip",
        /// The host processor.
        Cpu => "cpu",
        /// The seeded model: rows from it say `simulated`.
        Sim => "sim",
    }
}

/// What is known of one device. A field that could not be read is `None`, never a guess.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct DeviceFacts {
    /// Identity that survives a reboot.
    pub uuid: DeviceId,
    /// Who drives it.
    pub backend: Backend,
    /// Vendor, in lower case: `nvidia`, `amd`, `intel`, `sim`.
    pub vendor: String,
    /// Product name, as the driver says it.
    pub name: String,
    /// Architecture: `sm_90`, `gfx942`, `x86_64`.
    pub architecture: String,
    /// Multiprocessors, compute units, or usable cores of a CPU.
    pub compute_units: u64,
    /// Device memory, bytes.
    pub memory_bytes: u64,
    /// Nominal memory clock, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Nominal core clock, kHz.
    pub core_clock_khz: Option<u64>,
    /// Power limit in force, milliwatts.
    pub power_limit_mw: Option<u64>,
    /// MIG profile, XCD mode, or `none` where partitioning is off.
    pub partition_mode: Option<String>,
    /// Whether memory errors are corrected.
    pub ecc: Option<bool>,
    /// Sockets of a CPU.
    pub sockets: Option<u64>,
    /// PCI address with domain, for example `00000000:01:00.0`.
    pub pci_bdf: Option<String>,
    /// Firmware version.
    pub vbios: Option<String>,
    /// Driver version.
    pub driver: Option<String>,
    /// Runtime and compiler version, for example `cuda 13.0, nvrtc 13.0`.
    pub runtime: Option<String>,
    /// L2 cache as reported, bytes.
    pub l2_cache_bytes: Option<u64>,
    /// Last cache before memory as reported, bytes; on a GPU without a further level it is the L2.
    pub last_level_cache_bytes: Option<u64>,
    /// Threads of a warp or wave; 1 for a CPU.
    pub warp_size: u64,
}

/// Footprint that stands in for the last-level cache where nothing reports one: twice the largest one of a
/// GPU (256 MiB, MI300), so that a row within a cache never passes for one of main memory.
pub const UNKNOWN_LAST_LEVEL_CACHE_BYTES: u64 = 512 << 20;

/// A row may speak for main memory only if its distinct bytes are at least this many times the last-level cache.
pub const DRAM_FOOTPRINT_FACTOR: u64 = 4;

impl DeviceFacts {
    /// Distinct bytes from which a row speaks for main memory: four times the last-level cache, or four times
    /// 512 MiB where its size is unknown.
    pub fn dram_footprint_bytes(&self) -> u64 {
        self.last_level_cache_bytes.unwrap_or(UNKNOWN_LAST_LEVEL_CACHE_BYTES).saturating_mul(DRAM_FOOTPRINT_FACTOR)
    }

    /// Bytes that a buffer has whose reading and writing leaves nothing else in the caches: twice all of them. The level-2
    /// cache counts by itself only where another level is behind it.
    pub fn flush_bytes(&self) -> u64 {
        // Once to displace, once more because replacement is not strictly oldest first.
        const FLUSH_FACTOR: u64 = 2;
        let last_level_bytes = self.last_level_cache_bytes.unwrap_or(UNKNOWN_LAST_LEVEL_CACHE_BYTES);
        let before_it_bytes = self.l2_cache_bytes.filter(|l2| self.last_level_cache_bytes != Some(*l2)).unwrap_or(0);
        last_level_bytes.saturating_add(before_it_bytes).saturating_mul(FLUSH_FACTOR)
    }

    /// The key of the class that this device belongs to.
    pub fn class_key(&self) -> ClassKey {
        ClassKey {
            vendor: self.vendor.clone(),
            name: self.name.clone(),
            architecture: self.architecture.clone(),
            compute_units: self.compute_units,
            memory_gib: self.sockets.is_none().then(|| nominal_gib(self.memory_bytes)),
            memory_clock_khz: self.memory_clock_khz,
            power_limit_mw: self.power_limit_mw,
            partition_mode: self.partition_mode.clone(),
            ecc: self.ecc,
            sockets: self.sockets,
        }
    }
}

/// Nominal memory of a class: GiB, rounded to the nearest.
pub(crate) fn nominal_gib(memory_bytes: u64) -> u64 {
    memory_bytes.saturating_add(1 << 29) >> 30
}

/// What makes devices alike. Driver, firmware and host are recorded and compared, never keyed: the same architecture
/// name is not the same class (MI300A and MI300X are both gfx942).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ClassKey {
    /// Vendor, in lower case.
    pub vendor: String,
    /// Product name.
    pub name: String,
    /// Architecture.
    pub architecture: String,
    /// Multiprocessors, compute units or cores.
    pub compute_units: u64,
    /// Nominal memory, GiB, rounded to the nearest; none for a CPU, whose nodes are bought with any amount.
    pub memory_gib: Option<u64>,
    /// Nominal memory clock, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power limit, milliwatts.
    pub power_limit_mw: Option<u64>,
    /// Partition mode.
    pub partition_mode: Option<String>,
    /// Error correction of memory.
    pub ecc: Option<bool>,
    /// Sockets of a CPU.
    pub sockets: Option<u64>,
}

impl ClassKey {
    /// The digest of the key: 128 bits in hexadecimal.
    pub fn id(&self) -> ClassId {
        let mut text = String::new();
        let mut field = |name: &str, value: &str| {
            text.push_str(name);
            text.push('\u{1f}');
            text.push_str(value);
            text.push('\u{1e}');
        };
        let number = |value: Option<u64>| value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        field("vendor", &self.vendor);
        field("name", &self.name);
        field("architecture", &self.architecture);
        field("compute_units", &self.compute_units.to_string());
        field("memory_gib", &number(self.memory_gib));
        field("memory_clock_khz", &number(self.memory_clock_khz));
        field("power_limit_mw", &number(self.power_limit_mw));
        field("partition_mode", self.partition_mode.as_deref().unwrap_or("unknown"));
        field("ecc", self.ecc.map_or("unknown", |on| if on { "on" } else { "off" }));
        field("sockets", &number(self.sockets));
        ClassId::new(Sha256Digest::of(text.as_bytes()).to_hex()[..32].to_owned())
    }

    /// A short name for people: `nvidia-h200-140g-700w`. Not unique; [`ClassKey::id`] is.
    pub fn slug(&self) -> String {
        let mut words: Vec<String> = Vec::new();
        for word in format!("{} {}", self.vendor, self.name)
            .to_lowercase()
            .split(|letter: char| !letter.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty() && !matches!(*word, "r" | "tm" | "cpu" | "processor"))
        {
            if words.last().is_none_or(|last| last != word) {
                words.push(word.to_owned());
            }
        }
        match self.sockets {
            Some(_) => words.push(format!("{}c", self.compute_units)),
            None => words.extend(self.memory_gib.map(|gib| format!("{gib}g"))),
        }
        if let Some(power_mw) = self.power_limit_mw {
            words.push(format!("{}w", power_mw / 1000));
        }
        if let Some(mode) = self.partition_mode.as_deref().filter(|mode| *mode != "none") {
            words.push(mode.to_lowercase().replace(|letter: char| !letter.is_ascii_alphanumeric(), "-"));
        }
        words.join("-")
    }
}

impl fmt::Display for ClassKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.slug())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(sockets: Option<u64>, memory_bytes: u64) -> DeviceFacts {
        DeviceFacts {
            uuid: "u".into(),
            backend: if sockets.is_some() { Backend::Cpu } else { Backend::Cuda },
            vendor: "nvidia".to_owned(),
            name: "H200".to_owned(),
            architecture: "sm_90".to_owned(),
            compute_units: 132,
            memory_bytes,
            memory_clock_khz: None,
            core_clock_khz: None,
            power_limit_mw: None,
            partition_mode: None,
            ecc: None,
            sockets,
            pci_bdf: None,
            vbios: None,
            driver: None,
            runtime: None,
            l2_cache_bytes: None,
            last_level_cache_bytes: None,
            warp_size: 32,
        }
    }

    #[test]
    fn memory_parts_classes_of_gpus_and_not_those_of_processors() {
        let class = |sockets, gib: u64| facts(sockets, gib << 30).class_key().id();
        assert_ne!(class(None, 80), class(None, 141), "a GPU with other memory is another product");
        assert_eq!(class(Some(2), 256), class(Some(2), 512), "a processor is the same with more memory beside it");
        assert_ne!(class(Some(1), 256), class(Some(2), 256), "one socket is not two");
    }
}
