//! What procfs and sysfs say of the host processor.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;

use super::cgroup::Limits;

/// Bytes of a kibibyte, the unit of `/proc/meminfo`.
const KIB_BYTES: u64 = 1024;

/// The cores to use: of those that the affinity mask allows, one hardware thread a core (a second one shares its load
/// and store ports and adds no bandwidth), and no more than the control group pays for.
pub(super) fn usable_cores(root: &Path, allowed: &[usize]) -> Vec<usize> {
    let mut seen = BTreeSet::new();
    let mut cores: Vec<usize> = Vec::new();
    for &processor in allowed {
        let topology = cpu_folder(root, processor).join("topology");
        let siblings = text(&topology.join("core_cpus_list")).or_else(|| text(&topology.join("thread_siblings_list")));
        if siblings.is_none_or(|siblings| seen.insert(siblings)) {
            cores.push(processor);
        }
    }
    if let Some(quota) = Limits::read(root).cores {
        // A fraction of a core would throttle all threads at times; a float beyond usize saturates.
        cores.truncate((quota.floor() as usize).max(1));
    }
    cores
}

/// The facts of the host processor with these usable cores.
pub(super) fn read(root: &Path, uuid: DeviceId, cores: &[usize]) -> DeviceFacts {
    let info = text(&root.join("proc/cpuinfo")).unwrap_or_default();
    let first = cores.first().copied().unwrap_or(0);
    let frequency = |name: &str| number(&cpu_folder(root, first).join("cpufreq").join(name));
    DeviceFacts {
        uuid,
        backend: Backend::Cpu,
        vendor: vendor(&info),
        name: name(&info),
        architecture: std::env::consts::ARCH.to_owned(),
        compute_units: u64::try_from(cores.len()).unwrap_or(u64::MAX),
        memory_bytes: memory_bytes(root),
        memory_clock_khz: None,
        core_clock_khz: frequency("base_frequency").or_else(|| frequency("cpuinfo_max_freq")),
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: sockets(root, cores),
        pci_bdf: None,
        vbios: None,
        driver: text(&root.join("proc/sys/kernel/osrelease")),
        runtime: None,
        l2_cache_bytes: cache_bytes(root, cores, |level| level == 2),
        last_level_cache_bytes: cache_bytes(root, cores, |_| true),
        warp_size: 1,
    }
}

/// Bytes that can be taken now without swapping and without breaking the control group's limit, none kept back.
pub(super) fn memory_free_bytes(root: &Path) -> u64 {
    let available = meminfo_bytes(root, "MemAvailable").unwrap_or(0);
    available.min(Limits::read(root).memory_free_bytes.unwrap_or(u64::MAX))
}

fn memory_bytes(root: &Path) -> u64 {
    let physical = meminfo_bytes(root, "MemTotal").unwrap_or(0);
    physical.min(Limits::read(root).memory_bytes.unwrap_or(u64::MAX))
}

fn meminfo_bytes(root: &Path, key: &str) -> Option<u64> {
    let info = text(&root.join("proc/meminfo"))?;
    let value = field(&info, key)?.strip_suffix("kB")?.trim().parse::<u64>().ok()?;
    Some(value.saturating_mul(KIB_BYTES))
}

/// The vendor in lower case. ARM processors give their implementer's number in JEDEC's code (ARM DDI 0487, MIDR_EL1).
fn vendor(cpuinfo: &str) -> String {
    let implementer = |code: &str| match code {
        "0x41" => "arm",
        "0x46" => "fujitsu",
        "0x48" => "hisilicon",
        "0x4e" => "nvidia",
        "0x51" => "qualcomm",
        "0x61" => "apple",
        "0xc0" => "ampere",
        _ => "unknown",
    };
    match field(cpuinfo, "vendor_id") {
        Some("GenuineIntel") => "intel".to_owned(),
        Some("AuthenticAMD") => "amd".to_owned(),
        Some("HygonGenuine") => "hygon".to_owned(),
        Some(other) => other.to_lowercase(),
        None => field(cpuinfo, "CPU implementer").map_or("unknown", implementer).to_owned(),
    }
}

/// The model's name; where the processor has none, as on ARM, its part number.
fn name(cpuinfo: &str) -> String {
    let named = field(cpuinfo, "model name").filter(|name| !name.is_empty()).map(str::to_owned);
    named
        .or_else(|| field(cpuinfo, "CPU part").map(|part| format!("part {part}")))
        .unwrap_or_else(|| "unknown".to_owned())
}

/// Sockets that the usable cores sit on, or `None` where one does not say.
fn sockets(root: &Path, cores: &[usize]) -> Option<u64> {
    let package = |core: &usize| text(&cpu_folder(root, *core).join("topology/physical_package_id"));
    let packages: BTreeSet<String> = cores.iter().map(package).collect::<Option<_>>()?;
    u64::try_from(packages.len()).ok().filter(|sockets| *sockets > 0)
}

/// Total size of the highest wanted level of data cache over the usable cores: every cache that several of them share
/// is counted once, so that a processor of many small last-level caches shows their sum.
fn cache_bytes(root: &Path, cores: &[usize], wanted: impl Fn(u64) -> bool) -> Option<u64> {
    let mut caches = BTreeSet::new();
    for &core in cores {
        let folder = cpu_folder(root, core).join("cache");
        for index in 0.. {
            let cache = folder.join(format!("index{index}"));
            let Some(level) = number(&cache.join("level")) else { break };
            let holds_data = text(&cache.join("type")).is_some_and(|kind| kind != "Instruction");
            let size = text(&cache.join("size")).and_then(|size| size_bytes(&size));
            if let (true, true, Some(size)) = (holds_data, wanted(level), size) {
                let shared = text(&cache.join("shared_cpu_list")).unwrap_or_else(|| core.to_string());
                caches.insert((level, shared, size));
            }
        }
    }
    let highest = caches.iter().map(|(level, _, _)| *level).max()?;
    Some(caches.iter().filter(|(level, _, _)| *level == highest).map(|(_, _, size)| size).sum())
}

/// Reads sizes as sysfs writes them: `48K`, `260M`.
fn size_bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        "G" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

/// The first value of a `key : value` line.
fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        (found.trim() == key).then(|| value.trim())
    })
}

fn cpu_folder(root: &Path, processor: usize) -> std::path::PathBuf {
    root.join("sys/devices/system/cpu").join(format!("cpu{processor}"))
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests;
