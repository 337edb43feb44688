use super::super::tests::tree;
use super::*;

const ARM: &str = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n";
const INTEL: &str =
    "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Processor\n\nprocessor\t: 1\n";

/// Two sockets of two cores with two hardware threads each: 0 and 4 are one core, 1 and 5, ...
fn two_sockets() -> tempfile::TempDir {
    let mut files: Vec<(String, String)> = vec![
        ("proc/cpuinfo".to_owned(), INTEL.to_owned()),
        ("proc/meminfo".to_owned(), "MemTotal: 16777216 kB\nMemAvailable: 8388608 kB\n".to_owned()),
        ("proc/sys/kernel/osrelease".to_owned(), "6.1.0-test\n".to_owned()),
        ("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq".to_owned(), "3800000\n".to_owned()),
    ];
    for processor in 0..8 {
        let (core, socket) = (processor % 4, processor % 4 / 2);
        let mut file = |name: &str, value: String| {
            files.push((format!("sys/devices/system/cpu/cpu{processor}/{name}"), value));
        };
        file("topology/core_cpus_list", format!("{core},{}\n", core + 4));
        file("topology/physical_package_id", format!("{socket}\n"));
        let levels = [("1", "Instruction", "32K"), ("2", "Unified", "2048K"), ("3", "Unified", "30M")];
        for (index, (level, kind, size)) in levels.into_iter().enumerate() {
            let shared = if level == "3" { format!("socket {socket}") } else { format!("{core},{}", core + 4) };
            file(&format!("cache/index{index}/level"), level.to_owned());
            file(&format!("cache/index{index}/type"), kind.to_owned());
            file(&format!("cache/index{index}/size"), size.to_owned());
            file(&format!("cache/index{index}/shared_cpu_list"), shared);
        }
    }
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    tree(&files)
}

#[test]
fn one_hardware_thread_a_core_is_used() {
    let root = two_sockets();
    assert_eq!(usable_cores(root.path(), &[0, 1, 2, 3, 4, 5, 6, 7]), [0, 1, 2, 3]);
    assert_eq!(usable_cores(root.path(), &[4, 5]), [4, 5], "the mask may leave only second threads");
    assert_eq!(usable_cores(tree(&[]).path(), &[2, 3]), [2, 3], "without topology every processor is a core");
}

#[test]
fn a_quota_limits_the_cores_but_never_to_none() {
    for (quota, expected) in [("250000 100000", 2), ("50000 100000", 1), ("max 100000", 4)] {
        let root = tree(&[("proc/self/cgroup", "0::/\n"), ("sys/fs/cgroup/cpu.max", quota)]);
        assert_eq!(usable_cores(root.path(), &[0, 1, 2, 3]).len(), expected, "quota {quota}");
    }
}

#[test]
fn facts_come_from_the_tree() {
    let root = two_sockets();
    let facts = read(root.path(), DeviceId::new("CPU-1"), &[0, 1, 2, 3]);
    assert_eq!((facts.vendor.as_str(), facts.name.as_str()), ("intel", "Intel(R) Xeon(R) Processor"));
    assert_eq!((facts.compute_units, facts.sockets), (4, Some(2)));
    assert_eq!(facts.memory_bytes, 16 << 30);
    assert_eq!(facts.core_clock_khz, Some(3_800_000));
    assert_eq!(facts.l2_cache_bytes, Some(4 * (2 << 20)), "one level-2 cache for each core");
    assert_eq!(facts.last_level_cache_bytes, Some(2 * (30 << 20)), "one level-3 cache for each socket");
    assert_eq!(facts.driver.as_deref(), Some("6.1.0-test"));
    assert_eq!(memory_free_bytes(root.path()), 8 << 30);
    let one_socket = read(root.path(), DeviceId::new("CPU-1"), &[0, 1]);
    assert_eq!((one_socket.sockets, one_socket.last_level_cache_bytes), (Some(1), Some(30 << 20)));
}

#[test]
fn what_cannot_be_read_is_unknown() {
    let facts = read(tree(&[]).path(), DeviceId::new("CPU-1"), &[0]);
    assert_eq!((facts.vendor.as_str(), facts.name.as_str()), ("unknown", "unknown"));
    assert_eq!(
        (facts.sockets, facts.last_level_cache_bytes, facts.core_clock_khz, facts.driver),
        (None, None, None, None)
    );
}

#[test]
fn arm_is_named_by_implementer_and_part() {
    let facts = read(tree(&[("proc/cpuinfo", ARM)]).path(), DeviceId::new("CPU-1"), &[0]);
    assert_eq!((facts.vendor.as_str(), facts.name.as_str()), ("arm", "part 0xd40"));
}

#[test]
fn cache_sizes_have_units() {
    let read = ["48K", "260M", "1G", "64", "48Q", "K", ""].map(size_bytes);
    assert_eq!(read, [Some(48 << 10), Some(260 << 20), Some(1 << 30), Some(64), None, None, None]);
}
