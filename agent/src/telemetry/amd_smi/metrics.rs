//! The table of metrics, `amdsmi_gpu_metrics_t`.
//!
//! It has grown with almost every release, always behind what it had: the fields below stand at these places in the
//! headers and bindings of 23.4 (ROCm 6.0), 24.5, 24.6, 24.7 (6.1 to 6.3), 25 (6.4.0 and 6.4.4), 26.0 (7.0) and 26.5.
//! What a release does not write stays as it was before the call: all ones, which is the library's own word for
//! unknown.

use fleetcal_model::throttle::ThrottleReasons;

/// Room for the table, in 64-bit words. The largest one seen has 4.6 kB.
const WORDS: usize = 4096;

const EDGE_C: usize = 4;
const HOT_SPOT_C: usize = 6;
const MEMORY_C: usize = 8;
const BUSY_PERCENT: usize = 16;
const AVERAGE_POWER_W: usize = 22;
const CORE_CLOCK_MHZ: usize = 54;
const MEMORY_CLOCK_MHZ: usize = 58;
const THROTTLERS: usize = 112;
const POWER_W: usize = 120;
/// Clocks of the dies, where there are several.
const DIE_CLOCKS_MHZ: usize = 312;
const DIES: usize = 8;
/// The first of a count of cycles and five counts of throttled ones; from 24.7 on.
const RESIDENCIES: usize = 424;

/// What the counts of [`Residencies`] stand for, in their order: processor hot, package power, socket, voltage
/// regulators and memory too hot.
const COUNTED: [ThrottleReasons; 5] = [
    ThrottleReasons::HARDWARE_THERMAL,
    ThrottleReasons::POWER_CAP,
    ThrottleReasons::HARDWARE_THERMAL,
    ThrottleReasons::HARDWARE_THERMAL,
    ThrottleReasons::HARDWARE_THERMAL,
];

/// The memory that the library writes to.
#[derive(Debug)]
pub(super) struct Table(Vec<u64>);

/// What a table says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Metrics {
    pub(super) core_clock_mhz: Option<u16>,
    pub(super) memory_clock_mhz: Option<u16>,
    pub(super) power_w: Option<u16>,
    pub(super) edge_c: Option<u16>,
    pub(super) hot_spot_c: Option<u16>,
    pub(super) memory_c: Option<u16>,
    pub(super) busy_percent: Option<u16>,
    /// A bit for each throttler at work, the same for all devices.
    pub(super) throttlers: Option<u64>,
    pub(super) residencies: Option<Residencies>,
}

/// Cycles of the firmware's control loop, and those in which it throttled, since the device was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Residencies {
    pub(super) cycles: u64,
    throttled: [Option<u64>; COUNTED.len()],
}

impl Table {
    pub(super) fn new() -> Self {
        Self(vec![u64::MAX; WORDS])
    }

    /// Makes everything unknown.
    pub(super) fn forget(&mut self) {
        self.0.fill(u64::MAX);
    }

    /// Where the library writes to: at least 32 kB, aligned for 64-bit words.
    pub(super) fn as_mut_ptr(&mut self) -> *mut u64 {
        self.0.as_mut_ptr()
    }

    /// What it says. `residencies`: whether the release has counts of throttled cycles.
    pub(super) fn metrics(&self, residencies: bool) -> Metrics {
        let positive = |at| self.half_word(at).filter(|value| *value > 0);
        let dies = (0..DIES).filter_map(|die| positive(DIE_CLOCKS_MHZ + 2 * die));
        Metrics {
            core_clock_mhz: dies.min().or_else(|| positive(CORE_CLOCK_MHZ)),
            memory_clock_mhz: positive(MEMORY_CLOCK_MHZ),
            power_w: positive(POWER_W).or_else(|| positive(AVERAGE_POWER_W)),
            edge_c: self.half_word(EDGE_C),
            hot_spot_c: self.half_word(HOT_SPOT_C),
            memory_c: self.half_word(MEMORY_C),
            busy_percent: self.half_word(BUSY_PERCENT).filter(|part| *part <= 100),
            throttlers: self.word(THROTTLERS),
            residencies: residencies.then(|| self.residencies()).flatten(),
        }
    }

    fn residencies(&self) -> Option<Residencies> {
        let count = |index: usize| self.word(RESIDENCIES + 8 * index);
        let counts = Residencies { cycles: count(0)?, throttled: std::array::from_fn(|index| count(index + 1)) };
        counts.throttled.iter().any(Option::is_some).then_some(counts)
    }

    /// A 16-bit field; all ones are unknown.
    fn half_word(&self, at: usize) -> Option<u16> {
        let bytes = self.0.get(at / 8)?.to_ne_bytes();
        let value = u16::from_ne_bytes([*bytes.get(at % 8)?, *bytes.get(at % 8 + 1)?]);
        (value != u16::MAX).then_some(value)
    }

    /// A 64-bit field; all ones are unknown.
    fn word(&self, at: usize) -> Option<u64> {
        self.0.get(at / 8).copied().filter(|value| *value != u64::MAX)
    }
}

impl Residencies {
    /// What throttled between an earlier table and this one. Unknown where the counts were reset between them, and
    /// where none of those that are known grew but others are unknown.
    pub(super) fn since(&self, before: &Self) -> Option<ThrottleReasons> {
        if self.cycles <= before.cycles {
            return None;
        }
        let mut reasons = ThrottleReasons::NONE;
        let mut all_known = true;
        for ((now, then), reason) in self.throttled.iter().zip(before.throttled).zip(COUNTED) {
            match now.zip(then) {
                Some((now, then)) if now > then => reasons = reasons.union(reason),
                Some((now, then)) => all_known &= now == then,
                None => all_known = false,
            }
        }
        (all_known || reasons != ThrottleReasons::NONE).then_some(reasons)
    }
}

/// Throttlers at work as reasons: the driver keeps 16 bits for power, 16 for currents, 16 for temperatures and 16 for
/// others (`amdgpu_smu.h` of Linux).
pub(super) fn named(throttlers: u64) -> ThrottleReasons {
    let groups = [
        ThrottleReasons::POWER_CAP,
        ThrottleReasons::CURRENT,
        ThrottleReasons::HARDWARE_THERMAL,
        ThrottleReasons::OTHER,
    ];
    let seen = groups.into_iter().enumerate().filter(|(index, _)| throttlers >> (16 * index) & 0xffff != 0);
    seen.fold(ThrottleReasons::NONE, |reasons, (_, reason)| reasons.union(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(cycles: u64, throttled: [u64; 5]) -> Residencies {
        let known = |count: u64| (count != u64::MAX).then_some(count);
        Residencies { cycles, throttled: throttled.map(known) }
    }

    #[test]
    fn each_throttler_is_a_reason_and_an_unknown_one_is_another() {
        for (bits, expected) in [
            (0, ThrottleReasons::NONE),
            (1 << 0, ThrottleReasons::POWER_CAP),
            (1 << 7, ThrottleReasons::POWER_CAP),
            (1 << 16, ThrottleReasons::CURRENT),
            (1 << 22, ThrottleReasons::CURRENT),
            (1 << 32, ThrottleReasons::HARDWARE_THERMAL),
            (1 << 36, ThrottleReasons::HARDWARE_THERMAL),
            (1 << 47, ThrottleReasons::HARDWARE_THERMAL),
            (1 << 56, ThrottleReasons::OTHER),
            (1 << 63, ThrottleReasons::OTHER),
            (1 | 1 << 34, ThrottleReasons::POWER_CAP.union(ThrottleReasons::HARDWARE_THERMAL)),
        ] {
            assert_eq!(named(bits), expected, "{bits:#x}");
        }
    }

    #[test]
    fn counts_that_grew_are_reasons_and_what_cannot_be_known_is_unknown() {
        let before = counts(100, [7, 20, 3, 0, 5]);
        let said = |cycles, throttled| counts(cycles, throttled).since(&before);
        assert_eq!(said(200, [7, 20, 3, 0, 5]), Some(ThrottleReasons::NONE));
        assert_eq!(said(200, [7, 21, 3, 0, 5]), Some(ThrottleReasons::POWER_CAP));
        for hot in [[8, 20, 3, 0, 5], [7, 20, 4, 0, 5], [7, 20, 3, 1, 5], [7, 20, 3, 0, 6]] {
            assert_eq!(said(200, hot), Some(ThrottleReasons::HARDWARE_THERMAL), "{hot:?}");
        }
        assert_eq!(said(100, [7, 25, 3, 0, 5]), None, "the same table twice");
        assert_eq!(said(50, [0, 1, 0, 0, 0]), None, "the device was started anew");
        assert_eq!(said(200, [7, 20, 3, 0, u64::MAX]), None, "one is unknown, and none of the others grew");
        assert_eq!(said(200, [7, 21, 3, 0, u64::MAX]), Some(ThrottleReasons::POWER_CAP));
        assert_eq!(said(200, [7, 20, 2, 0, 5]), None, "a count cannot shrink");
    }

    #[test]
    fn a_table_that_nobody_wrote_says_nothing() {
        let mut table = Table::new();
        assert_eq!(table.metrics(true), Metrics::default());
        table.0.fill(0);
        let zeros = table.metrics(false);
        assert_eq!((zeros.core_clock_mhz, zeros.power_w, zeros.residencies), (None, None, None), "nothing is no value");
        assert_eq!(zeros.throttlers, Some(0));
        table.forget();
        assert_eq!(table.metrics(true), Metrics::default());
    }
}
