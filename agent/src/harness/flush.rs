//! What is done about caches before a sample.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::Sweep;
use fleetcal_model::policy::Caches;
use fleetcal_model::row::FlushMode;

/// Caches are flushed by writing this many times their size: once to displace, once more because replacement is not
/// strictly oldest first.
const FLUSH_FACTOR: u64 = 2;

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
        let last_level = facts.dram_footprint_bytes() / fleetcal_model::device::DRAM_FOOTPRINT_FACTOR;
        let l2 = facts.l2_cache_bytes.unwrap_or(0);
        Self { mode: FlushMode::Cold, bytes: Some(last_level.saturating_add(l2).saturating_mul(FLUSH_FACTOR)) }
    }
}
