//! Whether a few values fall into two groups.
//!
//! A row whose rounds come out in two groups (two states of a cache, two clocks) has a median that says which group won,
//! not how fast the device is. With a handful of rounds only a clear case can be told from noise, so the rule is strict:
//! cut at the widest gap that leaves at least three values on each side, and compare the gap with the spread within
//! the two sides. The limits below are the 99.9% points of that ratio for normal noise, so one row in a thousand is called
//! wrongly; noise with single outliers stays below one in a hundred, because an outlier alone is no group.

#[cfg(test)]
mod tests;

use crate::statistics::median;

/// Fewest values on each side.
const GROUP_MIN: usize = 3;

/// A gap narrower than this part of the values is not worth a word.
const GAP_MIN: f64 = 0.001;

/// Largest ratios of gap to pooled standard deviation that normal noise shows, 99.9%, for 6 to 15 values: simulated with
/// 400,000 draws each. More values show smaller ones, and are held to the last.
const RATIOS: [f64; 10] = [11.0, 9.2, 7.5, 6.4, 5.6, 5.0, 4.5, 4.1, 3.8, 3.5];

/// Whether `values` fall into two groups, `resolution` being the smallest difference that their instrument shows.
///
/// `None` for fewer than six values, and where one is not positive and finite. Values that differ by less than three
/// times the resolution, or by less than 0.1%, are one group: a clock that ticks coarsely makes two groups of anything.
pub fn two_groups(values: &[f64], resolution: f64) -> Option<bool> {
    let center = median(values).filter(|center| *center > 0.0)?;
    if values.len() < 2 * GROUP_MIN || values.iter().any(|value| *value <= 0.0) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let gap_at = |cut: usize| sorted[cut] - sorted[cut - 1];
    let cut = (GROUP_MIN..=sorted.len() - GROUP_MIN).max_by(|left, right| gap_at(*left).total_cmp(&gap_at(*right)))?;
    let (gap, (low, high)) = (gap_at(cut), sorted.split_at(cut));
    let within = ((square_sum(low) + square_sum(high)) / (sorted.len() - 2) as f64).sqrt();
    let ratio = RATIOS[(sorted.len() - 2 * GROUP_MIN).min(RATIOS.len() - 1)];
    Some(gap > (GAP_MIN * center).max(3.0 * resolution) && gap > ratio * within)
}

/// Sum of squared deviations from the mean.
fn square_sum(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean) * (value - mean)).sum()
}
