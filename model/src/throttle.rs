//! Why a device ran slower than it was asked to: one bit a reason, the same for every vendor.

use std::fmt;

use crate::row::Sample;

/// A set of throttle reasons. Backends translate the words of their vendor; what they cannot name is
/// [`ThrottleReasons::OTHER`], never dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ThrottleReasons(u64);

impl ThrottleReasons {
    /// Nothing held the clock back.
    pub const NONE: Self = Self(0);
    /// Nothing runs: the clock is low because nobody needs it.
    pub const IDLE: Self = Self(1 << 0);
    /// Somebody set the clock.
    pub const CLOCK_SETTING: Self = Self(1 << 1);
    /// Software holds power at the limit of the product: the usual state under full load.
    pub const POWER_CAP: Self = Self(1 << 2);
    /// Clocks of a group of devices are kept equal.
    pub const SYNC_BOOST: Self = Self(1 << 3);
    /// Software slows it down because it is hot.
    pub const SOFTWARE_THERMAL: Self = Self(1 << 4);
    /// Hardware slows it down because it is hot.
    pub const HARDWARE_THERMAL: Self = Self(1 << 5);
    /// An external brake on power was pulled.
    pub const POWER_BRAKE: Self = Self(1 << 6);
    /// Hardware slows it down, for whatever reason.
    pub const HARDWARE_SLOWDOWN: Self = Self(1 << 7);
    /// Current is at its limit.
    pub const CURRENT: Self = Self(1 << 8);
    /// The vendor gives a reason that has no bit here.
    pub const OTHER: Self = Self(1 << 9);

    /// Every single reason, with its name in messages.
    pub const NAMED: [(Self, &'static str); 10] = [
        (Self::IDLE, "idle"),
        (Self::CLOCK_SETTING, "clock setting"),
        (Self::POWER_CAP, "power cap"),
        (Self::SYNC_BOOST, "sync boost"),
        (Self::SOFTWARE_THERMAL, "software thermal slowdown"),
        (Self::HARDWARE_THERMAL, "hardware thermal slowdown"),
        (Self::POWER_BRAKE, "power brake"),
        (Self::HARDWARE_SLOWDOWN, "hardware slowdown"),
        (Self::CURRENT, "current limit"),
        (Self::OTHER, "another reason"),
    ];

    /// Reasons under which a device does not show what its class can do: samples taken under them are discarded. Power at
    /// the product's own limit is none of them, because the limit is part of the class; nor is a clock that somebody set.
    pub const DISCARDING: Self = Self(
        Self::SOFTWARE_THERMAL.0
            | Self::HARDWARE_THERMAL.0
            | Self::POWER_BRAKE.0
            | Self::HARDWARE_SLOWDOWN.0
            | Self::CURRENT.0,
    );

    /// The set of these bits, as they stand in a row.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Names of its reasons, in the order of [`Self::NAMED`].
    pub fn names(self) -> Vec<String> {
        let named = Self::NAMED.iter().filter(|(reason, _)| self.intersects(*reason));
        named.map(|(_, name)| (*name).to_owned()).collect()
    }

    /// Its bits, as they stand in a row.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Both sets together.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether they share a reason.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Whether there is no reason.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a sample taken under them counts.
    pub const fn discards(self) -> bool {
        self.intersects(Self::DISCARDING)
    }
}

impl fmt::Display for ThrottleReasons {
    /// Names, separated by commas; `none` for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<&str> =
            Self::NAMED.iter().filter(|(reason, _)| self.intersects(*reason)).map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "unknown" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}

/// How many of a row's samples fell under reasons that discard them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Throttling {
    samples: u64,
    discarded: u64,
    reasons: ThrottleReasons,
}

impl Throttling {
    /// Counts a sample.
    pub fn add(&mut self, sample: &Sample) {
        self.samples += 1;
        let reasons = ThrottleReasons::from_bits(sample.throttle_bits.unwrap_or(0));
        if reasons.discards() {
            self.discarded += 1;
            self.reasons = self.reasons.union(ThrottleReasons(reasons.0 & ThrottleReasons::DISCARDING.0));
        }
    }

    /// Why the row says nothing of its class, where over half of its samples were discarded.
    pub fn verdict(&self) -> Option<String> {
        let Self { samples, discarded, reasons } = self;
        (discarded.saturating_mul(2) > *samples)
            .then(|| format!("{discarded} of {samples} samples were taken under throttling: {reasons}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_half_of_the_samples_make_a_throttled_row() {
        let sample = |bits: Option<u64>| Sample {
            ns: 1,
            round: 1,
            start_ns: 0,
            accepted: true,
            throttle_bits: bits,
            clock_khz: None,
        };
        let mut throttling = Throttling::default();
        assert_eq!(throttling.verdict(), None, "nothing was measured");
        let hot = ThrottleReasons::POWER_CAP.union(ThrottleReasons::HARDWARE_THERMAL).bits();
        [None, Some(0), Some(hot), Some(hot)].iter().for_each(|bits| throttling.add(&sample(*bits)));
        assert_eq!(throttling.verdict(), None, "half is not more than half");
        throttling.add(&sample(Some(hot)));
        let verdict = throttling.verdict().expect("three of five");
        assert_eq!(verdict, "3 of 5 samples were taken under throttling: hardware thermal slowdown");
    }

    #[test]
    fn reasons_are_single_bits_with_names_of_their_own() {
        let all = ThrottleReasons::NAMED.iter().fold(ThrottleReasons::NONE, |all, (reason, name)| {
            assert_eq!(reason.bits().count_ones(), 1, "{name}");
            assert!(!all.intersects(*reason), "{name} shares its bit");
            all.union(*reason)
        });
        assert_eq!(all.to_string().split(", ").count(), ThrottleReasons::NAMED.len());
        assert_eq!(ThrottleReasons::NONE.to_string(), "none");
        assert_eq!(ThrottleReasons::from_bits(1 << 40).to_string(), "unknown");
    }

    #[test]
    fn the_products_own_power_limit_discards_no_sample() {
        let usual = ThrottleReasons::POWER_CAP.union(ThrottleReasons::IDLE).union(ThrottleReasons::CLOCK_SETTING);
        assert!(!usual.discards());
        assert!(usual.union(ThrottleReasons::SOFTWARE_THERMAL).discards());
    }
}
