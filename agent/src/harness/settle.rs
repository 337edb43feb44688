//! Listener: loads the device before the first visit of a round, until what fresh buffers stirred up is over.
//!
//! On an H200 every visit in the first 15 ms after a round's buffers were allocated and filled was 11% slower than the
//! same visit later, whatever the kernel; from 16 ms on visits agreed within 0.2% (docs/measurements). Such a visit is
//! no replicate: it would widen the interval of whichever row came first.

use fleetcal_model::row::Origin;

use super::bench::Bench;
use super::listener::{HookResult, Listener};
use crate::device::Device;

/// How long a round's first warm-ups go on: several times the longest disturbance seen, nanoseconds.
const SETTLE_NS: u64 = 100_000_000;

/// Most warm-ups that settling takes, for a clock that stands still.
const WARMUPS_MAX: u64 = 100_000;

/// Wants warm-ups until the device was under load for [`SETTLE_NS`] since the round began.
#[derive(Debug, Default)]
pub(super) struct Settler {
    settled: bool,
    loaded_since_ns: Option<u64>,
    warmups: u64,
}

impl<D: Device> Listener<D> for Settler {
    fn name(&self) -> &'static str {
        "settler"
    }

    fn pre_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        // A simulated device knows no disturbance, and its time is not the host's.
        *self = Self { settled: bench.device.origin() == Origin::Simulated, ..Self::default() };
        Ok(())
    }

    fn needs_more_warmups(&mut self, bench: &Bench<'_, D>) -> bool {
        if self.settled {
            return false;
        }
        let now_ns = bench.setting.clock.monotonic_ns();
        let since_ns = *self.loaded_since_ns.get_or_insert(now_ns);
        self.warmups += 1;
        self.settled = now_ns.saturating_sub(since_ns) >= SETTLE_NS || self.warmups > WARMUPS_MAX;
        !self.settled
    }
}
