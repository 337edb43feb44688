//! Launch fill from data as it is: a set of thread counts rather than one, and a form that may be rejected.
//!
//! The form is that of [`crate::seed::fill`]; what differs is what is claimed. Real sweeps rarely identify a single t:
//! candidates below the narrowest block tie exactly, neighbours tie within noise, and multiprocessors and t are known as
//! their product alone. And real devices may not follow the form at all; then no t is published.

use crate::seed::fill::{FillFit, FillModel, FillUnfittable, LaunchPoint, STARVED, fit as fit_seed};
use crate::statistics::student_t_975;

/// How a fill is judged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FillRule {
    /// Points below this part of their geometry's best throughput are left out.
    pub starved: f64,
    /// A form whose largest relative residual is above this is rejected. On a device that follows it (an H200), waves of
    /// blocks leave 18.6%; one that does not (a Radeon 8060S) is off by 24% and more.
    pub residual_max: f64,
}

impl Default for FillRule {
    /// An eighth, and 20%.
    fn default() -> Self {
        Self { starved: STARVED, residual_max: 0.2 }
    }
}

/// A fill with what is identified of it.
#[derive(Debug, Clone, PartialEq)]
pub struct FillSet {
    /// The best fit.
    pub best: FillFit,
    /// Every candidate that fits the points as well within their noise, ascending; never empty.
    pub fill_threads: Vec<u64>,
    /// Threads at which the whole device is full, smallest and largest: multiprocessors times the set's ends. This is
    /// what is identified; another way to count multiprocessors gives another t and the same product.
    pub device_threads: (u64, u64),
    /// The smallest and the largest rate of a full device over the set, operations per second: rate and t are fitted
    /// together, and a larger t goes with a larger rate.
    pub rate_range: (f64, f64),
}

/// Why no fill is claimed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoFill {
    /// The points do not determine one.
    #[error(transparent)]
    Unfittable(#[from] FillUnfittable),
    /// The device does not follow the form.
    #[error(
        "the form is rejected: the best of its fits, with {fill_threads} threads a multiprocessor, is off by {:.1}% at \
         worst, and at most {:.0}% is allowed",
        residual_max * 100.0, limit * 100.0
    )]
    FormRejected {
        /// The best candidate.
        fill_threads: u64,
        /// Its largest relative residual.
        residual_max: f64,
        /// The limit.
        limit: f64,
    },
}

/// Fits the fill, and the set of candidates that the points cannot tell from the best.
///
/// A candidate is in the set if its sum of squared relative residuals is above the least by no more than one more
/// parameter explains by chance: least · t² / (degrees of freedom), Student's 97.5% quantile (the likelihood interval of
/// one parameter under normal noise whose size is not known).
///
/// # Errors
/// [`NoFill`].
pub fn fit(
    points: &[LaunchPoint],
    multiprocessors: u64,
    candidates: &[u64],
    rule: FillRule,
) -> Result<FillSet, NoFill> {
    let best = fit_seed(points, multiprocessors, candidates, rule.starved)?;
    if best.residual_max > rule.residual_max {
        let fill_threads = best.model.fill_threads;
        return Err(NoFill::FormRejected { fill_threads, residual_max: best.residual_max, limit: rule.residual_max });
    }
    // A geometry's rate and the common t are parameters; what is left are degrees of freedom.
    let degrees = best.points.saturating_sub(best.geometries + 1).max(1) as u64;
    let quantile = student_t_975(degrees).unwrap_or(0.0);
    let bound = best.squares * (1.0 + quantile * quantile / degrees as f64);
    let mut set: Vec<(u64, f64)> = candidates
        .iter()
        .filter_map(|&threads| {
            let alone = fit_seed(points, multiprocessors, &[threads], rule.starved).ok()?;
            let ties = best.tied.contains(&threads) || alone.squares <= bound;
            ties.then_some((threads, alone.rate))
        })
        .collect();
    if set.is_empty() {
        set.push((best.model.fill_threads, best.rate));
    }
    set.sort_by_key(|(threads, _)| *threads);
    set.dedup_by_key(|(threads, _)| *threads);
    let rates = || set.iter().map(|(_, rate)| *rate);
    let rate_range = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
    let FillModel { multiprocessors, .. } = best.model;
    let ends = set.first().zip(set.last()).map_or((0, 0), |(first, last)| (first.0, last.0));
    let device_threads = (multiprocessors.saturating_mul(ends.0), multiprocessors.saturating_mul(ends.1));
    Ok(FillSet {
        best,
        fill_threads: set.into_iter().map(|(threads, _)| threads).collect(),
        device_threads,
        rate_range,
    })
}

#[cfg(test)]
mod tests;
