//! Units as types: a number of bytes is no duration, and only operators with a meaning exist.

use std::fmt;
use std::ops::Div;

use crate::vocabulary;

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub u64);

/// A duration, seconds.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Seconds(pub f64);

/// A rate, bytes per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct BytesPerSecond(pub f64);

/// A number of operations: floating-point ones, where a dtype says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Operations(pub u64);

/// A rate, operations per second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct OperationsPerSecond(pub f64);

impl Seconds {
    /// Converts from nanoseconds, the unit of rows.
    pub fn from_ns(ns: f64) -> Self {
        Self(ns * 1e-9)
    }
}

impl Div<Seconds> for Bytes {
    type Output = BytesPerSecond;
    fn div(self, time: Seconds) -> BytesPerSecond {
        BytesPerSecond(self.0 as f64 / time.0)
    }
}

impl Div<BytesPerSecond> for Bytes {
    type Output = Seconds;
    fn div(self, rate: BytesPerSecond) -> Seconds {
        Seconds(self.0 as f64 / rate.0)
    }
}

impl Div<Seconds> for Operations {
    type Output = OperationsPerSecond;
    fn div(self, time: Seconds) -> OperationsPerSecond {
        OperationsPerSecond(self.0 as f64 / time.0)
    }
}

impl Div<OperationsPerSecond> for Operations {
    type Output = Seconds;
    fn div(self, rate: OperationsPerSecond) -> Seconds {
        Seconds(self.0 as f64 / rate.0)
    }
}

impl fmt::Display for Bytes {
    /// Binary prefixes and one decimal, as memories are sold: `2.0 GiB`. Below 1 KiB it is whole: `512 B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 1024 {
            return write!(f, "{} B", self.0);
        }
        let mut value = self.0 as f64 / 1024.0;
        let mut prefixes = ["Ki", "Mi", "Gi", "Ti", "Pi"].into_iter();
        let mut prefix = prefixes.next().unwrap_or_default();
        // 1023.96 would print as 1024.0, hence the bound below 1024.
        while value >= 1023.95 {
            let Some(next) = prefixes.next() else { break };
            prefix = next;
            value /= 1024.0;
        }
        write!(f, "{value:.1} {prefix}B")
    }
}

impl fmt::Display for Seconds {
    /// SI prefixes and four digits: `12.34 µs`; minutes from two of them on, and hours, as people count them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MINUTE: f64 = 60.0;
        const HOUR: f64 = 3600.0;
        match self.0.abs() {
            long if long >= 2.0 * HOUR => write!(f, "{:.1} h", self.0 / HOUR),
            long if long >= 2.0 * MINUTE => write!(f, "{:.1} min", self.0 / MINUTE),
            _ => write_si(f, self.0, "s"),
        }
    }
}

impl fmt::Display for BytesPerSecond {
    /// SI prefixes and four digits, as bandwidths are sold: `4.379 TB/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_si(f, self.0, "B/s")
    }
}

impl fmt::Display for OperationsPerSecond {
    /// SI prefixes and four digits: `3.671 Top/s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_si(f, self.0, "op/s")
    }
}

vocabulary! {
    /// Unit of a constant's value. Prefixes are for people only; values in documents carry none.
    Unit, "unit" {
        /// Bytes per second.
        BytesPerSecond => "B/s",
        /// Seconds.
        Seconds => "s",
        /// Operations per second.
        OperationsPerSecond => "op/s",
        /// Floating-point operations per second.
        FlopsPerSecond => "flop/s",
        /// Bytes.
        Bytes => "B",
        /// Threads, a whole number.
        Threads => "threads",
    }
}

impl Unit {
    /// A value of this unit for people, with an SI prefix: `4.379 TB/s`.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::BytesPerSecond => BytesPerSecond(value).to_string(),
            Self::Seconds => Seconds(value).to_string(),
            Self::OperationsPerSecond => OperationsPerSecond(value).to_string(),
            Self::FlopsPerSecond => Si(value, "flop/s").to_string(),
            // A saturating conversion: sizes below zero or not numbers show as 0 B.
            Self::Bytes => Bytes(value.round() as u64).to_string(),
            Self::Threads => format!("{value} threads"),
        }
    }
}

/// A value with the name of its unit.
struct Si(f64, &'static str);

impl fmt::Display for Si {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_si(f, self.0, self.1)
    }
}

/// Prefixes with their factors, the largest first.
const SI_PREFIXES: [(f64, &str); 9] =
    [(1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];

/// Writes four significant digits with a prefix; beyond the prefixes it falls back to powers of ten.
fn write_si(f: &mut fmt::Formatter<'_>, value: f64, unit: &str) -> fmt::Result {
    let magnitude = value.abs();
    if magnitude == 0.0 {
        return write!(f, "0 {unit}");
    }
    // A prefix serves from where the value, rounded to four digits, reaches 1.000 of it.
    let fitting = SI_PREFIXES.iter().find(|(factor, _)| magnitude >= factor * 0.999_95);
    match fitting {
        Some(&(factor, prefix)) if magnitude < 1e18 => {
            let scaled = value / factor;
            let decimals = match scaled.abs() {
                size if size < 9.9995 => 3,
                size if size < 99.995 => 2,
                _ => 1,
            };
            write!(f, "{scaled:.decimals$} {prefix}{unit}")
        }
        _ => write!(f, "{value:.3e} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_read_rates_with_si_prefixes() {
        assert_eq!(BytesPerSecond(4.379e12).to_string(), "4.379 TB/s");
        assert_eq!(BytesPerSecond(55.5e9).to_string(), "55.50 GB/s");
        assert_eq!(BytesPerSecond(999.96e9).to_string(), "1.000 TB/s");
        assert_eq!(BytesPerSecond(0.0).to_string(), "0 B/s");
        assert_eq!(BytesPerSecond(1e300).to_string(), "1.000e300 B/s");
    }

    #[test]
    fn people_read_durations_with_si_prefixes() {
        assert_eq!(Seconds(12.34e-6).to_string(), "12.34 µs");
        assert_eq!(Seconds(-1.5e-3).to_string(), "-1.500 ms");
        assert_eq!(Seconds(1e-20).to_string(), "1.000e-20 s");
        assert_eq!(Seconds(90.0).to_string(), "90.00 s");
        assert_eq!(Seconds(3_000.0).to_string(), "50.0 min", "nobody counts in kiloseconds");
        assert_eq!(Seconds(9_000.0).to_string(), "2.5 h");
        assert_eq!(Unit::Seconds.show(2.0), "2.000 s");
        assert_eq!(Unit::BytesPerSecond.show(2e9), "2.000 GB/s");
        assert_eq!(Unit::OperationsPerSecond.show(3.671e12), "3.671 Top/s");
        assert_eq!(Unit::FlopsPerSecond.show(6.526e13), "65.26 Tflop/s");
        assert_eq!(Unit::Bytes.show(60.8e6), "58.0 MiB");
        assert_eq!(Unit::Threads.show(480.0), "480 threads");
    }

    #[test]
    fn people_read_sizes_with_binary_prefixes() {
        assert_eq!(Bytes(512).to_string(), "512 B");
        assert_eq!(Bytes(2 << 30).to_string(), "2.0 GiB");
        assert_eq!(Bytes((1 << 30) - 1).to_string(), "1.0 GiB");
        assert_eq!(Bytes(u64::MAX).to_string(), "16384.0 PiB");
    }

    #[test]
    fn a_rate_is_bytes_over_time_and_gives_the_time_back() {
        let rate = Bytes(8_000) / Seconds::from_ns(2_000.0);
        assert!((rate.0 - 4e9).abs() < 1.0, "8000 bytes in 2 µs are 4 GB/s, not {rate}");
        let operations = Operations(12_000) / Seconds(4.0);
        assert_eq!((operations.0, (Operations(6_000) / operations).0), (3_000.0, 2.0));
        let time = Bytes(8_000) / rate;
        assert!((time.0 - 2e-6).abs() < 1e-18, "8000 bytes at 4 GB/s take 2 µs, not {time}");
    }
}
