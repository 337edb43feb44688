//! Whether the devices of a class fall into two groups.
//!
//! A class of two humps (two firmwares, two coolers) has a median that says which group is larger. The test asks, as
//! Hartigan and Hartigan's does (The dip test of unimodality, Annals of Statistics 13, 1985), how far the devices'
//! distribution is from the nearest one with a single mode. It asks for no shape: skew, heavy tails and a few broken
//! devices are still one mode. It differs from theirs in one thing: the two sides of the mode are fitted apart, and need
//! not meet at it, which makes the distance up to a third smaller and far simpler; its limits are therefore its own.
//!
//! A dip sees groups of a third of a few dozen devices badly; the gap between two groups sees them better, and is the
//! second way to be called. Either says that there are two modes, not that they matter. So groups must also stand apart by several of their own
//! spreads, and by a distance that somebody would miss.

use crate::statistics::{MAD_TO_SIGMA, median, median_absolute_deviation};

/// Chance that devices of one mode are called two-humped by the dip alone, for the worst single mode, a uniform one.
/// What is left of it and of the gap after the rest of the rule is simulated by the example `humps`.
pub const FALSE_POSITIVES: f64 = 0.01;

/// Largest √devices · dip that uniform devices show, 99%: simulated by the example `humps`, with 100,000 draws up to 128
/// devices and 20,000 above. More devices than the last are held to the last.
const LIMITS: [(usize, f64); 10] = [
    (8, 0.4892),
    (12, 0.51),
    (16, 0.5216),
    (24, 0.5248),
    (32, 0.5248),
    (64, 0.5156),
    (128, 0.5089),
    (256, 0.5087),
    (512, 0.5033),
    (1024, 0.5015),
];

/// Largest gap between two sides of at least a tenth of the devices that uniform devices show, 99.7% or a little more, in
/// units of the standard deviation within the sides: simulated with 20,000 to 100,000 draws each.
const GAPS: [(usize, f64); 9] =
    [(12, 6.5), (16, 3.87), (24, 2.9), (32, 2.1), (64, 0.983), (128, 0.506), (256, 0.27), (512, 0.145), (1024, 0.076)];

/// Fewer devices are outliers, and no hump: their spread is not known, and few slow ones are alike by chance.
pub(super) const HUMP_MIN: usize = 5;

/// Groups of so many devices have robust variances that can be trusted alone; a few broken devices spoil the plain ones.
const ROBUST_FROM: usize = 12;

/// Robust variances of few devices differ by so much more than plain ones.
const ROBUST_RATIO: f64 = 2.0;

/// A group's variance is never taken below this when two are compared: 0.1%, what any device differs by.
const VARIANCE_FLOOR: f64 = 1e-6;

/// When two groups are two humps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HumpRule {
    /// Fewest devices: with fewer, any class looks grouped.
    pub devices_min: usize,
    /// Smallest part of the devices that makes a hump; a smaller one is outliers.
    pub share_min: f64,
    /// Smallest distance of the groups' medians, in units of the larger of their spreads.
    pub separation_min: f64,
    /// Smallest distance of the groups' medians, on logarithms.
    pub distance_min: f64,
    /// Largest ratio of the groups' standard deviations: devices that are slow each by its own amount are outliers.
    pub spread_ratio_max: f64,
}

impl Default for HumpRule {
    /// 16 devices, 10% of them, four spreads, 1%, a ratio of four.
    fn default() -> Self {
        Self { devices_min: 16, share_min: 0.1, separation_min: 4.0, distance_min: 0.01, spread_ratio_max: 4.0 }
    }
}

/// One group.
#[derive(Debug, Clone, PartialEq)]
pub struct Hump {
    /// Its devices, by index.
    pub devices: Vec<usize>,
    /// Median of their effects, on logarithms.
    pub center: f64,
    /// Robust standard deviation of their effects.
    pub sigma: f64,
}

/// What the devices of a class say of its modes.
#[derive(Debug, Clone, PartialEq)]
pub enum Humps {
    /// Nothing speaks against one.
    One {
        /// The dip.
        dip: f64,
        /// The dip from which on there are two modes.
        limit: f64,
    },
    /// There are two.
    Two {
        /// The dip.
        dip: f64,
        /// The dip from which on there are two modes; below it, the gap between the groups told them, or an attribute.
        limit: f64,
        /// The group of smaller effects.
        low: Hump,
        /// The group of larger effects.
        high: Hump,
    },
    /// Too few devices to tell.
    TooFewDevices {
        /// Devices there are.
        devices: usize,
        /// Devices needed.
        needed: usize,
    },
}

/// Looks for two humps among effects, on logarithms; a device without one, or with one that is no number, is passed over.
pub fn find(effects: &[Option<f64>], rule: HumpRule) -> Humps {
    let known = effects.iter().enumerate().filter_map(|(device, effect)| Some((device, (*effect)?)));
    let mut sorted: Vec<(usize, f64)> = known.filter(|(_, effect)| effect.is_finite()).collect();
    sorted.sort_by(|left, right| left.1.total_cmp(&right.1).then(left.0.cmp(&right.0)));
    // The table begins at eight.
    let needed = rule.devices_min.max(LIMITS[0].0);
    if sorted.len() < needed {
        return Humps::TooFewDevices { devices: sorted.len(), needed };
    }
    let values: Vec<f64> = sorted.iter().map(|(_, effect)| *effect).collect();
    let (dip, limit) = (dip(&values), limit(values.len()));
    match best_cut(&sorted, rule) {
        Some((gap, low, high)) if dip > limit || gap > interpolate(&GAPS, values.len()) => {
            Humps::Two { dip, limit, low, high }
        }
        _ => Humps::One { dip, limit },
    }
}

/// The cut into two sides whose values differ least from their medians, if the sides stand apart by as much as the rule
/// asks; with the gap between them in units of the standard deviation within them.
fn best_cut(sorted: &[(usize, f64)], rule: HumpRule) -> Option<(f64, Hump, Hump)> {
    let side_min = ((sorted.len() as f64 * rule.share_min).ceil() as usize).max(HUMP_MIN);
    let (from_low, from_high) = (square_sums(sorted.iter()), square_sums(sorted.iter().rev()));
    let squares = |cut: usize| from_low[cut] + from_high[sorted.len() - cut];
    let sums: Vec<f64> = std::iter::once(0.0).chain(running_sums(sorted)).collect();
    let within = |cut: usize| absolute_sum(&sums, 0, cut) + absolute_sum(&sums, cut, sorted.len());
    let cuts = side_min..=sorted.len().checked_sub(side_min)?;
    let cut = cuts.min_by(|left, right| within(*left).total_cmp(&within(*right)))?;
    let (low, high) = (hump(&sorted[..cut])?, hump(&sorted[cut..])?);
    let distance = high.center - low.center;
    let is_wide = distance >= rule.distance_min && distance >= rule.separation_min * low.sigma.max(high.sigma);
    let variance = |squares: f64, count: usize| squares.max(0.0) / (count.max(2) - 1) as f64;
    let above = sorted.len() - cut;
    let (one, other) = (variance(from_low[cut], cut), variance(from_high[above], above));
    let ratio = rule.spread_ratio_max * rule.spread_ratio_max;
    let (one, other) = (one.max(VARIANCE_FLOOR), other.max(VARIANCE_FLOOR));
    // Some slow devices among the healthy make the two deviations alike, and leave the robust ones apart.
    let robust = |hump: &Hump| (hump.sigma * hump.sigma).max(VARIANCE_FLOOR);
    let (robust_one, robust_other) = (robust(&low), robust(&high));
    let is_plainly_alike = one <= ratio * other && other <= ratio * one;
    let is_alike = (is_plainly_alike || cut.min(above) >= ROBUST_FROM)
        && robust_one <= ROBUST_RATIO * ratio * robust_other
        && robust_other <= ROBUST_RATIO * ratio * robust_one;
    let deviation = (squares(cut).max(0.0) / (sorted.len() - 2) as f64).sqrt();
    let gap = (sorted[cut].1 - sorted[cut - 1].1) / deviation.max(f64::MIN_POSITIVE);
    (is_wide && is_alike).then_some((gap, low, high))
}

/// Sums of the values up to each.
fn running_sums(sorted: &[(usize, f64)]) -> impl Iterator<Item = f64> {
    sorted.iter().scan(0.0, |sum, (_, value)| {
        *sum += value;
        Some(*sum)
    })
}

/// Sum of absolute deviations from their median of the sorted values from one to before another: those above it less
/// those below, as their running sums say.
fn absolute_sum(sums: &[f64], from: usize, to: usize) -> f64 {
    let half = (to - from) / 2;
    (sums[to] - sums[to - half]) - (sums[from + half] - sums[from])
}

/// For each count of values from the first on, the sum of their squared deviations from their mean.
fn square_sums<'s>(values: impl Iterator<Item = &'s (usize, f64)>) -> Vec<f64> {
    let (mut mean, mut sum, mut sums) = (0.0, 0.0, vec![0.0]);
    for (index, (_, value)) in values.enumerate() {
        // Welford's recurrence: no difference of large sums.
        let before = value - mean;
        mean += before / (index + 1) as f64;
        sum += before * (value - mean);
        sums.push(sum);
    }
    sums
}

fn hump(members: &[(usize, f64)]) -> Option<Hump> {
    let values: Vec<f64> = members.iter().map(|(_, effect)| *effect).collect();
    let sigma = median_absolute_deviation(&values)? * MAD_TO_SIGMA;
    let mut devices: Vec<usize> = members.iter().map(|(device, _)| *device).collect();
    devices.sort_unstable();
    Some(Hump { devices, center: median(&values)?, sigma })
}

/// The dip beyond which so many devices are two-humped.
pub fn limit(devices: usize) -> f64 {
    interpolate(&LIMITS, devices) / (devices as f64).sqrt()
}

/// A table at so many devices, by the logarithm of their number; outside of it, its nearest end.
fn interpolate(table: &[(usize, f64)], devices: usize) -> f64 {
    let after = table.iter().position(|(count, _)| *count >= devices);
    match after {
        Some(0) => table[0].1,
        None => table[table.len() - 1].1,
        Some(at) => {
            let ((before, low), (after, high)) = (table[at - 1], table[at]);
            let part = libm::log(devices as f64 / before as f64) / libm::log(after as f64 / before as f64);
            low + part * (high - low)
        }
    }
}

/// How far the distribution of ascending values is from the nearest that is convex before one of them and concave after.
///
/// Up to its mode a distribution function of one mode is convex, and concave after. For each place of the mode the
/// nearest convex function to the values before it is off by half of what `convex_excess` says; it grows with the
/// place, that of the concave side falls, and the least of the larger is where they cross.
pub fn dip(sorted: &[f64]) -> f64 {
    let count = sorted.len();
    if count < 2 {
        return 0.0;
    }
    let turned: Vec<f64> = sorted.iter().rev().map(|value| -value).collect();
    let sides = |mode: usize| (convex_excess(&sorted[..=mode]), convex_excess(&turned[..count - mode]));
    // The first place where the convex side is no better than the concave one.
    let (mut low, mut high) = (0, count - 1);
    while low < high {
        let middle = (low + high) / 2;
        let (before, after) = sides(middle);
        if before >= after { high = middle } else { low = middle + 1 }
    }
    let larger = |mode: usize| {
        let (before, after) = sides(mode);
        before.max(after)
    };
    larger(low).min(larger(low.saturating_sub(1))) / 2.0 / count as f64
}

/// Of the values' distribution function as steps of one, the largest distance of a step's top from the convex function
/// below all steps' bottoms. The last value is the mode, at which a step of any height may stand.
fn convex_excess(sorted: &[f64]) -> f64 {
    // The greatest convex function below the points (value, index) is a chain of them with growing slopes.
    let mut chain: Vec<usize> = Vec::new();
    let turns_down = |first: usize, second: usize, third: usize| {
        let rise = |from: usize, to: usize| (to - from) as f64;
        let run = |from: usize, to: usize| sorted[to] - sorted[from];
        rise(first, second) * run(second, third) >= rise(second, third) * run(first, second)
    };
    for next in 0..sorted.len() {
        while let [.., first, second] = chain[..] {
            if !turns_down(first, second, next) {
                break;
            }
            chain.pop();
        }
        chain.push(next);
    }
    let mut excess = 0.0_f64;
    for pair in chain.windows(2) {
        let (first, second) = (pair[0], pair[1]);
        let slope = (second - first) as f64 / (sorted[second] - sorted[first]);
        for index in first..second {
            // Equal values stand on one step: then the slope is no number, and the step's bottom is its value.
            let run = (sorted[index] - sorted[first]) * slope;
            let below = first as f64 + if run.is_finite() { run } else { 0.0 };
            excess = excess.max((index + 1) as f64 - below);
        }
    }
    excess
}

#[cfg(test)]
mod tests;
