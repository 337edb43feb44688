//! What the control groups of this process allow it: versions 1 and 2, the group and all its ancestors.

use std::fs;
use std::path::{Path, PathBuf};

/// Limits of the group in force: the tightest on the way to the root.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Limits {
    /// Cores' worth of time; none if unlimited.
    pub(super) cores: Option<f64>,
    /// Bytes of memory; none if unlimited.
    pub(super) memory_bytes: Option<u64>,
    /// Bytes of memory that can still be taken under that limit.
    pub(super) memory_free_bytes: Option<u64>,
}

impl Limits {
    /// Reads the groups of this process below a root, which is `/` but in tests. What is not there sets no limit.
    pub(super) fn read(root: &Path) -> Self {
        let mut limits = Self::default();
        let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':');
            let (Some(_), Some(controllers), Some(group)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let base = root.join("sys/fs/cgroup");
            if controllers.is_empty() {
                folders(&base, group).iter().for_each(|folder| limits.tighten_v2(folder));
            }
            for controller in controllers.split(',') {
                let folders = folders(&base.join(controller), group);
                match controller {
                    "cpu" => folders.iter().for_each(|folder| limits.tighten_cores_v1(folder)),
                    "memory" => folders.iter().for_each(|folder| limits.tighten_memory_v1(folder)),
                    _ => {}
                }
            }
        }
        limits
    }

    fn tighten_v2(&mut self, folder: &Path) {
        if let Some(text) = read(folder, "cpu.max") {
            let mut numbers = text.split_whitespace().map(str::parse::<f64>);
            if let (Some(Ok(quota)), Some(Ok(period))) = (numbers.next(), numbers.next()) {
                self.tighten_cores(quota, period);
            }
        }
        self.tighten_memory(folder, ["memory.max", "memory.current"], "inactive_file");
    }

    fn tighten_cores_v1(&mut self, folder: &Path) {
        let number = |name| read(folder, name)?.parse::<f64>().ok();
        if let (Some(quota), Some(period)) = (number("cpu.cfs_quota_us"), number("cpu.cfs_period_us")) {
            self.tighten_cores(quota, period);
        }
    }

    fn tighten_memory_v1(&mut self, folder: &Path) {
        self.tighten_memory(folder, ["memory.limit_in_bytes", "memory.usage_in_bytes"], "total_inactive_file");
    }

    fn tighten_cores(&mut self, quota: f64, period: f64) {
        // Version 1 writes -1 for "unlimited"; version 2 writes a word, which is no number.
        if quota > 0.0 && period > 0.0 {
            self.cores = Some(self.cores.unwrap_or(f64::INFINITY).min(quota / period));
        }
    }

    fn tighten_memory(&mut self, folder: &Path, [limit, usage]: [&str; 2], reclaimable: &str) {
        /// Version 1 writes the largest multiple of a page below 2^63 for "unlimited".
        const UNLIMITED_BYTES: u64 = 1 << 62;
        let number = |name| read(folder, name)?.parse::<u64>().ok();
        let Some(limit) = number(limit).filter(|limit| *limit < UNLIMITED_BYTES) else { return };
        self.memory_bytes = Some(self.memory_bytes.unwrap_or(u64::MAX).min(limit));
        let reclaimable = read(folder, "memory.stat")
            .and_then(|stat| {
                let line = stat.lines().find_map(|line| line.strip_prefix(reclaimable)?.strip_prefix(' '))?;
                line.trim().parse::<u64>().ok()
            })
            .unwrap_or(0);
        if let Some(usage) = number(usage) {
            let free = limit.saturating_sub(usage.saturating_sub(reclaimable));
            self.memory_free_bytes = Some(self.memory_free_bytes.unwrap_or(u64::MAX).min(free));
        }
    }
}

fn read(folder: &Path, name: &str) -> Option<String> {
    Some(fs::read_to_string(folder.join(name)).ok()?.trim().to_owned())
}

/// The folder of a group and those of its ancestors. Inside a container the group's path may not be mounted, but its
/// root, which then is the container's own group, is.
fn folders(mount: &Path, group: &str) -> Vec<PathBuf> {
    Path::new(group.trim_start_matches('/')).ancestors().map(|ancestor| mount.join(ancestor)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::tree;
    use super::*;

    #[test]
    fn the_tightest_ancestor_of_version_2_counts() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/slice/unit\n"),
            ("sys/fs/cgroup/slice/cpu.max", "250000 100000\n"),
            ("sys/fs/cgroup/slice/unit/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/slice/memory.max", "max\n"),
            ("sys/fs/cgroup/slice/unit/memory.max", "4096000\n"),
            ("sys/fs/cgroup/slice/unit/memory.current", "4000000\n"),
            ("sys/fs/cgroup/slice/unit/memory.stat", "anon 5\nactive_file 7\ninactive_file 1000000\n"),
        ]);
        let expected = Limits { cores: Some(2.5), memory_bytes: Some(4_096_000), memory_free_bytes: Some(1_096_000) };
        assert_eq!(Limits::read(root.path()), expected);
    }

    #[test]
    fn version_1_is_read_by_controller_and_its_words_for_unlimited_are_known() {
        let root = tree(&[
            ("proc/self/cgroup", "4:memory:/box\n3:cpu,cpuacct:/box\n2:pids:/box\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "300000\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        assert_eq!(Limits::read(root.path()), Limits { cores: Some(3.0), memory_bytes: None, memory_free_bytes: None });
    }

    #[test]
    fn no_groups_set_no_limits() {
        assert_eq!(Limits::read(tree(&[]).path()), Limits::default());
        let broken = tree(&[("proc/self/cgroup", "nonsense\n0::/a\n"), ("sys/fs/cgroup/a/cpu.max", "")]);
        assert_eq!(Limits::read(broken.path()), Limits::default(), "unreadable limits must not become limits");
    }
}
