//! Where the spread of a class comes from: devices, hosts, hours, or repeats.
//!
//! The model is log y = point + host + device + hour + repeat, devices within hosts, hours across both, all random. Two
//! readings of one point differ by what they do not share, so the variance of their difference is a sum: that of two
//! repeats on one device in one hour is 2 · repeat, on two devices of one host 2 · (repeat + device), and so on (Koch,
//! Some further remarks concerning "A general approach to the estimation of variance components", Technometrics 10,
//! 1968). Six kinds of pairs give six such sums for four unknowns, whatever is missing from the design; no point's level
//! need be known. Each kind's variance is an M-estimate that bounds what a single pair adds, so that a few slow devices, a
//! spiked reading or one throttled hour do not make the answer; what they are is said elsewhere.
//!
//! Limits. It spends no likelihood: with balanced normal data it is less precise than REML by a tenth or two. A source of
//! few levels is known as badly as any variance from few values: eight hours give its standard deviation to about 25%.
//! Where a fifth of the devices is slow they should be left out first, or the spread of devices comes out too large. An
//! hour is taken to act on the whole fleet alike; an hour of one host is counted to repeats.

use std::collections::BTreeMap;

use crate::statistics::{MAD_TO_SIGMA, median};
use crate::vocabulary;

mod solve;

vocabulary! {
    /// Where spread comes from.
    Source, "source of spread" {
        /// Readings of one device in one hour.
        Repeat => "repeat",
        /// Devices of one host.
        Device => "device",
        /// Hours.
        Hour => "hour",
        /// Hosts.
        Host => "host",
    }
}

/// One reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading {
    /// Which point; readings of different points are never compared.
    pub point: usize,
    /// Which device.
    pub device: usize,
    /// Which host it is in.
    pub host: usize,
    /// In which hour it was taken.
    pub hour: usize,
    /// Logarithm of what was measured.
    pub logarithm: f64,
}

/// What one source adds.
#[derive(Debug, Clone, PartialEq)]
pub struct Component {
    /// The source.
    pub source: Source,
    /// Its variance, of logarithms; none where the design does not tell it from another.
    pub variance: Option<f64>,
    /// What the equations gave, where that was negative: the variance is then zero, which says that this source adds
    /// less than the readings can show.
    pub negative: Option<f64>,
    /// Distinct devices, hosts or hours; for repeats the readings.
    pub levels: usize,
    /// Sources that the design does not tell from this one: the variance is theirs together.
    pub includes: Vec<Source>,
}

impl Component {
    /// Its standard deviation, of logarithms: 0.005 is 0.5%.
    pub fn sigma(&self) -> Option<f64> {
        self.variance.map(f64::sqrt)
    }
}

/// The spread of a class, split.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// The sources, in the order of [`Source::ALL`].
    pub components: Vec<Component>,
    /// Pairs of readings behind it.
    pub pairs: usize,
}

impl Split {
    /// The component of a source.
    pub fn of(&self, source: Source) -> Option<&Component> {
        self.components.iter().find(|component| component.source == source)
    }
}

/// Why there is no split.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoSplit {
    /// A logarithm is no number.
    #[error("a reading is not finite")]
    NotFinite,
    /// Too few pairs of readings share a point.
    #[error("{pairs} pairs of readings of one point are too few: {PAIRS_MIN} of a kind are needed")]
    TooFewPairs {
        /// Pairs there are.
        pairs: usize,
    },
}

/// Pairs of a kind below which its variance says nothing.
const PAIRS_MIN: usize = 10;

/// A difference counts as at most so many standard deviations.
const BOUND: f64 = 2.0;

/// Mean of min(z², 4) of a standard normal z.
const BOUNDED_SQUARE: f64 = 0.920_536_4;

/// Lists up to this length are compared each with each; longer ones by steps, so that cost stays linear.
const ALL_PAIRS_MAX: usize = 24;

/// Splits the spread of readings. Their order does not matter.
///
/// # Errors
/// [`NoSplit`].
pub fn split(readings: &[Reading]) -> Result<Split, NoSplit> {
    if readings.iter().any(|reading| !reading.logarithm.is_finite()) {
        return Err(NoSplit::NotFinite);
    }
    let differences = differences(readings);
    let pairs = differences.values().map(Vec::len).sum();
    let sums: Vec<([bool; 4], f64)> = differences
        .into_iter()
        .filter(|(_, differences)| differences.len() >= PAIRS_MIN)
        .map(|(kind, differences)| (kind, bounded_variance(differences) / 2.0))
        .collect();
    if sums.is_empty() {
        return Err(NoSplit::TooFewPairs { pairs });
    }
    let solved = solve::solve(&sums);
    let levels = |source: Source| match source {
        Source::Repeat => readings.len(),
        Source::Device => distinct(readings, |reading| reading.device),
        Source::Hour => distinct(readings, |reading| reading.hour),
        Source::Host => distinct(readings, |reading| reading.host),
    };
    let component = |(at, &source): (usize, &Source)| Component {
        source,
        variance: solved.variances[at],
        negative: solved.negative[at],
        levels: levels(source),
        includes: solved.includes[at].iter().map(|&other| Source::ALL[other]).collect(),
    };
    Ok(Split { components: Source::ALL.iter().enumerate().map(component).collect(), pairs })
}

fn distinct(readings: &[Reading], key: fn(&Reading) -> usize) -> usize {
    readings.iter().map(key).collect::<std::collections::BTreeSet<_>>().len()
}

/// Differences of pairs by which sources they do not share, in the order of [`Source::ALL`].
fn differences(readings: &[Reading]) -> BTreeMap<[bool; 4], Vec<f64>> {
    let mut sorted: Vec<&Reading> = readings.iter().collect();
    sorted.sort_by(|left, right| {
        let key = |reading: &Reading| (reading.point, reading.host, reading.device, reading.hour);
        key(left).cmp(&key(right)).then(left.logarithm.total_cmp(&right.logarithm))
    });
    let mut found: BTreeMap<[bool; 4], Vec<f64>> = BTreeMap::new();
    let mut compare = |left: &Reading, right: &Reading, wanted: (bool, bool)| {
        let (host, device, hour) = (left.host != right.host, left.device != right.device, left.hour != right.hour);
        if (host, device) == wanted {
            found.entry([true, device, hour, host]).or_default().push(left.logarithm - right.logarithm);
        }
    };
    for of_point in sorted.chunk_by(|left, right| left.point == right.point) {
        each_pair(of_point, |left, right| compare(left, right, (true, true)));
        for of_host in of_point.chunk_by(|left, right| left.host == right.host) {
            each_pair(of_host, |left, right| compare(left, right, (false, true)));
            for of_device in of_host.chunk_by(|left, right| left.device == right.device) {
                each_pair(of_device, |left, right| compare(left, right, (false, false)));
            }
        }
    }
    found
}

/// Every pair of a short list; of a long one, each member with sixteen others that lie spread over it.
fn each_pair(members: &[&Reading], mut see: impl FnMut(&Reading, &Reading)) {
    let count = members.len();
    if count <= ALL_PAIRS_MAX {
        for (at, left) in members.iter().enumerate() {
            members[at + 1..].iter().for_each(|right| see(left, right));
        }
        return;
    }
    let far = (1..=8).map(|part| part * count / 18 + 1);
    let steps: std::collections::BTreeSet<usize> = [1, 2, 3, 4, 5, 7, 9, 11].into_iter().chain(far).collect();
    for step in steps {
        for at in 0..count {
            see(members[at], members[(at + step) % count]);
        }
    }
}

/// Variance of differences about zero: an M-estimate in which each counts as two standard deviations at most.
fn bounded_variance(mut differences: Vec<f64>) -> f64 {
    differences.iter_mut().for_each(|difference| *difference *= *difference);
    let squares = differences;
    let middle = median(&squares).unwrap_or(0.0);
    let mut variance = middle * MAD_TO_SIGMA * MAD_TO_SIGMA;
    if variance <= 0.0 {
        // More than half of them are zero: the plain mean is all there is.
        return squares.iter().sum::<f64>() / squares.len() as f64;
    }
    for _ in 0..100 {
        let bound = BOUND * BOUND * variance;
        let mean = squares.iter().map(|square| square.min(bound)).sum::<f64>() / squares.len() as f64;
        let next = mean / BOUNDED_SQUARE;
        let settled = (next - variance).abs() <= 1e-9 * next;
        variance = next;
        if settled {
            break;
        }
    }
    variance
}

#[cfg(test)]
mod tests;
