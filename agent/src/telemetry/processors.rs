//! How the host's processors spent their time: what this process used, what others used, and what the hypervisor gave
//! away. All from procfs below a root, so that it can be tested anywhere.

use std::fs;
use std::path::{Path, PathBuf};

/// Processors of the host, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processors {
    /// `/`, but in tests.
    pub root: PathBuf,
    /// Their numbers; empty means all of them.
    pub numbers: Vec<usize>,
}

/// Ticks since the machine started, summed over some processors (`proc_stat(5)`). Ticks are counted by the kernel's
/// timer, usually every 10 ms: each number is right to about one tick a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    processors: u64,
    busy_ticks: u64,
    steal_ticks: u64,
    total_ticks: u64,
    own_ticks: u64,
}

/// What happened between two looks, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Spent {
    /// All of it.
    pub total_ticks: u64,
    /// Work of other processes and of the kernel, less what rounding can feign.
    pub others_ticks: u64,
    /// Time that the hypervisor gave to other guests.
    pub steal_ticks: u64,
}

impl Processors {
    /// All processors of the host below a root.
    pub fn all(root: &Path) -> Self {
        Self { root: root.to_owned(), numbers: Vec::new() }
    }

    /// How they spent their time until now; unknown where procfs does not say.
    pub fn times(&self) -> Option<Times> {
        let stat = fs::read_to_string(self.root.join("proc/stat")).ok()?;
        let own_ticks = own_ticks(&fs::read_to_string(self.root.join("proc/self/stat")).ok()?)?;
        let mut times = Times { processors: 0, busy_ticks: 0, steal_ticks: 0, total_ticks: 0, own_ticks };
        for line in stat.lines().filter(|line| self.wants(line)) {
            times.add(line)?;
        }
        (times.processors > 0).then_some(times)
    }

    /// Load average over a minute; unknown where procfs does not say.
    pub fn load_average(&self) -> Option<f64> {
        let text = fs::read_to_string(self.root.join("proc/loadavg")).ok()?;
        let load: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
        (load.is_finite() && load >= 0.0).then_some(load)
    }

    fn wants(&self, line: &str) -> bool {
        // The line of all together has a space right behind the word, and no number.
        let number = line.strip_prefix("cpu").and_then(|rest| rest.split(' ').next()?.parse().ok());
        number.is_some_and(|number| self.numbers.is_empty() || self.numbers.contains(&number))
    }
}

impl Times {
    /// Adds a processor's line: user, nice, system, idle, iowait, irq, softirq, steal; guests are counted in the first two.
    fn add(&mut self, line: &str) -> Option<()> {
        let ticks: Vec<u64> =
            line.split_ascii_whitespace().skip(1).take(8).map(str::parse).collect::<Result<_, _>>().ok()?;
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.try_into().ok()?;
        let busy_ticks = user + nice + system + irq + softirq;
        self.processors += 1;
        self.busy_ticks += busy_ticks;
        self.steal_ticks += steal;
        self.total_ticks += busy_ticks + idle + iowait + steal;
        Some(())
    }

    /// What happened since an earlier look. Unknown where no tick passed, or where counters went back, which they do when
    /// a processor is taken away.
    pub fn since(self, earlier: Self) -> Option<Spent> {
        let total_ticks = self.total_ticks.checked_sub(earlier.total_ticks).filter(|ticks| *ticks > 0)?;
        let busy_ticks = self.busy_ticks.checked_sub(earlier.busy_ticks)?;
        let steal_ticks = self.steal_ticks.checked_sub(earlier.steal_ticks)?;
        let own_ticks = self.own_ticks.checked_sub(earlier.own_ticks)?;
        // One tick a processor for its counters, two for ours: user and system.
        let rounding_ticks = self.processors + 2;
        let others_ticks = busy_ticks.saturating_sub(own_ticks).saturating_sub(rounding_ticks);
        Some(Spent { total_ticks, others_ticks, steal_ticks })
    }
}

impl Spent {
    /// Both together.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            total_ticks: self.total_ticks + other.total_ticks,
            others_ticks: self.others_ticks + other.others_ticks,
            steal_ticks: self.steal_ticks + other.steal_ticks,
        }
    }

    /// Part that this process could not have had, 0 to 1: what others used and what was stolen.
    pub fn lost_share(self) -> f64 {
        share(self.others_ticks.saturating_add(self.steal_ticks), self.total_ticks)
    }

    /// Part that the hypervisor gave to others, 0 to 1.
    pub fn steal_share(self) -> f64 {
        share(self.steal_ticks, self.total_ticks)
    }
}

fn share(ticks: u64, total_ticks: u64) -> f64 {
    if total_ticks == 0 { 0.0 } else { ticks.min(total_ticks) as f64 / total_ticks as f64 }
}

/// User and system time of this process (`proc_pid_stat(5)`, fields 14 and 15). The name before them may hold anything,
/// brackets and spaces too.
fn own_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const OWN: &str = "7 (a ) worker) R 1 7 7 0 -1 4194304 101 0 0 0 USER SYSTEM 0 0 20 0 1 0 9 9 9";

    /// A host whose processors 0 and 1 have these lines and whose process used so much.
    fn times(numbers: &[usize], lines: [&str; 2], own: (u64, u64)) -> Option<Times> {
        let stat = format!("cpu  9 9 9 9 9 9 9 9 0 0\ncpu0 {}\ncpu1 {}\nintr 5\n", lines[0], lines[1]);
        let own = OWN.replace("USER", &own.0.to_string()).replace("SYSTEM", &own.1.to_string());
        let root = tree(&[("proc/stat", &stat), ("proc/self/stat", &own), ("proc/loadavg", "1.50 1.2 0.9 1/99 7\n")]);
        let processors = Processors { root: root.path().to_owned(), numbers: numbers.to_vec() };
        assert_eq!(processors.load_average(), Some(1.5));
        processors.times()
    }

    const IDLE: &str = "100 0 100 1000 0 0 0 0 0 0";

    #[test]
    fn own_work_is_no_contention_and_that_of_others_is() {
        let before = times(&[], [IDLE, IDLE], (50, 50)).expect("procfs says so");
        let own = times(&[], ["190 0 110 1000 0 0 0 0 0 0", IDLE], (140, 60)).expect("procfs says so");
        let spent = own.since(before).expect("ticks passed");
        assert_eq!(spent, Spent { total_ticks: 100, others_ticks: 0, steal_ticks: 0 });
        let crowded = times(&[], ["150 10 140 1000 0 0 0 20 5 0", "100 0 100 1100 0 0 0 0 0 0"], (60, 50));
        let spent = crowded.and_then(|times| times.since(before)).expect("ticks passed");
        // 100 busy, 10 of them ours, 4 of rounding.
        assert_eq!(spent, Spent { total_ticks: 220, others_ticks: 86, steal_ticks: 20 });
        assert!((spent.lost_share() - 106.0 / 220.0).abs() < 1e-12, "{spent:?}");
        assert!((spent.steal_share() - 20.0 / 220.0).abs() < 1e-12, "{spent:?}");
    }

    #[test]
    fn work_elsewhere_is_not_seen_and_rounding_is_no_load() {
        let before = times(&[0], [IDLE, IDLE], (0, 0)).expect("procfs says so");
        let elsewhere = times(&[0], ["103 0 100 1100 0 0 0 0 0 0", "900 0 100 1000 0 0 0 0 0 0"], (0, 0));
        let spent = elsewhere.and_then(|times| times.since(before)).expect("ticks passed");
        assert_eq!(spent.others_ticks, 0, "{spent:?}");
    }

    #[test]
    fn what_procfs_does_not_say_is_unknown() {
        let before = times(&[], [IDLE, IDLE], (1, 1)).expect("procfs says so");
        assert_eq!(before.since(before), None, "no tick passed");
        assert_eq!(times(&[], ["1 0 1 1 0 0 0 0", IDLE], (1, 1)).and_then(|times| times.since(before)), None);
        assert_eq!(times(&[5], [IDLE, IDLE], (1, 1)), None, "there is no such processor");
        assert_eq!(times(&[], ["1 2 x 4 5 6 7 8", IDLE], (1, 1)), None);
        assert_eq!(Processors::all(Path::new("/nowhere")).times(), None);
        assert_eq!(Processors::all(Path::new("/nowhere")).load_average(), None);
    }
}
