//! What is done about caches before a sample.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::Sweep;
use fleetcal_model::policy::Caches;
use fleetcal_model::row::FlushMode;

/// The rule for one point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flush {
    /// What is done.
    pub mode: FlushMode,
    /// Bytes written before each sample, outside its interval; none where nothing is flushed.
    pub bytes: Option<u64>,
}

impl Flush {
    /// The rule. Where the plan leaves it to the sweep, a footprint of four last-level caches flushes itself; below that,
    /// sweeps that ask what caches give are measured warm, as STREAM does back to back, and the others cold.
    pub fn of(caches: Caches, sweep: Sweep, bytes_distinct: u64, facts: &DeviceFacts) -> Self {
        let oversized = bytes_distinct >= facts.dram_footprint_bytes();
        match (caches, sweep) {
            (Caches::Cold, _) => Self::cold(facts),
            (Caches::Auto | Caches::Warm, _) if oversized => Self { mode: FlushMode::Oversized, bytes: None },
            (Caches::Warm, _)
            | (Caches::Auto, Sweep::Stream | Sweep::Cache | Sweep::Peak | Sweep::Onchip | Sweep::Latency) => {
                Self { mode: FlushMode::Warm, bytes: None }
            }
            (
                Caches::Auto,
                Sweep::WorkingSet | Sweep::Issue | Sweep::Launch | Sweep::Reduce | Sweep::Scan | Sweep::Transfer,
            ) => Self::cold(facts),
        }
    }

    fn cold(facts: &DeviceFacts) -> Self {
        Self { mode: FlushMode::Cold, bytes: Some(facts.flush_bytes()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::device;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_cold_flush_covers_every_cache_twice_and_does_not_depend_on_the_point() {
        for (l2, last_level, flushed) in [
            (Some(50 * MIB), Some(50 * MIB), 100 * MIB),
            (Some(4 * MIB), Some(256 * MIB), 520 * MIB),
            (Some(4 * MIB), None, 1032 * MIB),
            (None, Some(32 * MIB), 64 * MIB),
            (None, None, 1024 * MIB),
        ] {
            let facts = DeviceFacts { l2_cache_bytes: l2, last_level_cache_bytes: last_level, ..device("SIM-1") };
            for bytes_distinct in [1, MIB, 1 << 40] {
                let flush = Flush::of(Caches::Cold, Sweep::Stream, bytes_distinct, &facts);
                assert_eq!(flush, Flush { mode: FlushMode::Cold, bytes: Some(flushed) }, "{l2:?} and {last_level:?}");
            }
        }
    }
}
