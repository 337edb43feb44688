//! Launch fill: how many threads a multiprocessor needs, and the rate of a full device.

use std::collections::BTreeMap;

use super::is_time;
use crate::row::LaunchContext;
use crate::units::Seconds;

/// Candidates where none are given: multiples of a warp up to the most threads that a multiprocessor holds. The original
/// names a default list and does not show it.
pub const DEFAULT_CANDIDATES: std::ops::RangeInclusive<u64> = 1..=64;
/// Threads of a step of [`DEFAULT_CANDIDATES`].
pub const CANDIDATE_STEP: u64 = 32;
/// Points below this part of their geometry's best throughput are left out.
pub const STARVED: f64 = 1.0 / 8.0;
/// Below this fill a launch counts as partial.
const PARTIAL_FILL: f64 = 0.9;
/// Partial points that a fit needs, to have left full fill at all.
const PARTIAL_POINTS_MIN: usize = 2;
/// Fewest points. The original states no number.
const POINTS_MIN: usize = 2;

/// How blocks fill a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FillForm {
    /// A block counts at most `t` threads: min(1, B · min(T, t) / (P · t)).
    Capped,
    /// A block counts all of its threads: min(1, B · T / (P · t)).
    Uncapped,
}

/// A device's fill: `multiprocessors` P, and `fill_threads` t at which each is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FillModel {
    /// Multiprocessors.
    pub multiprocessors: u64,
    /// Threads at which one of them is full.
    pub fill_threads: u64,
}

impl FillModel {
    /// Part of the device that a context fills: above 0, at most 1; 0 where nothing is launched.
    pub fn context_fill(self, form: FillForm, context: LaunchContext) -> f64 {
        let threads = match form {
            FillForm::Capped => context.threads.min(self.fill_threads),
            FillForm::Uncapped => context.threads,
        };
        let full = self.multiprocessors as f64 * self.fill_threads as f64;
        (context.blocks as f64 * threads as f64 / full).min(1.0)
    }

    /// Operations of some contexts, each divided by its fill. A context without operations takes no part, launched or
    /// not; one with operations that launches nothing makes the sum infinite.
    pub fn effective_ops(self, form: FillForm, contexts: &[LaunchContext]) -> f64 {
        let working = contexts.iter().filter(|context| context.operations > 0);
        working.map(|context| context.operations as f64 / self.context_fill(form, *context)).sum()
    }

    /// Operations over effective operations, capped form; none where nothing is launched, and of a device of no threads.
    pub fn launch_fill(self, contexts: &[LaunchContext]) -> Option<f64> {
        let fill = operations(contexts) / self.effective_ops(FillForm::Capped, contexts);
        let has_threads = self.multiprocessors > 0 && self.fill_threads > 0;
        (has_threads && fill.is_finite() && fill > 0.0).then_some(fill)
    }
}

/// One point of a launch sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchPoint {
    /// The pinned geometry: points of one geometry share a rate.
    pub geometry: String,
    /// Parallel contexts of the kernel.
    pub contexts: Vec<LaunchContext>,
    /// Operations of tensor units, which the model does not price.
    pub tensor_ops: u64,
    /// Best time.
    pub time: Seconds,
}

/// A fitted fill.
#[derive(Debug, Clone, PartialEq)]
pub struct FillFit {
    /// P and the best t. Of candidates that fit equally well, the smallest.
    pub model: FillModel,
    /// Every candidate that fits equally well, ascending: the capped form cannot tell candidates apart that are no larger
    /// than the narrowest block.
    pub tied: Vec<u64>,
    /// Scalar operations per second of a full device, of the first point's geometry.
    pub rate: f64,
    /// Sum of squared relative residuals over the points.
    pub squares: f64,
    /// Largest relative error over the points.
    pub residual_max: f64,
    /// Geometries among the points, each with a rate of its own.
    pub geometries: usize,
    /// Points whose fill is below 0.9.
    pub partial_points: usize,
    /// Points fitted.
    pub points: usize,
    /// Points left out as starved.
    pub starved_points: usize,
    /// The same points' rate without a fill, of the first point's geometry.
    pub raw_rate: Option<f64>,
    /// Largest relative error of that.
    pub raw_residual: Option<f64>,
    /// The best t of the uncapped form, with its largest relative error.
    pub uncapped: Option<(u64, f64)>,
}

/// Why no fill is identified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum FillUnfittable {
    /// Fewer than two points with a time and operations.
    #[error("{points} points have a time and operations, and {POINTS_MIN} are needed")]
    TooFewPoints {
        /// How many there are.
        points: usize,
    },
    /// A point has work of tensor units.
    #[error("point {index} has work of tensor units, whose rate is another")]
    TensorWork {
        /// Index of the first such point.
        index: usize,
    },
    /// No candidate gives finite numbers.
    #[error("no candidate gives a finite fit")]
    NoFiniteFit,
    /// No geometry has points on both sides of full fill: its rate would absorb any saturation.
    #[error("no geometry both reaches full fill and falls below it")]
    NoGeometryCrosses,
    /// The sweep never leaves full fill.
    #[error("{partial_points} points are below 0.9 of full fill, and {PARTIAL_POINTS_MIN} are needed")]
    NeverPartial {
        /// How many are.
        partial_points: usize,
    },
}

/// [`DEFAULT_CANDIDATES`] as threads.
pub fn default_candidates() -> Vec<u64> {
    DEFAULT_CANDIDATES.map(|step| step * CANDIDATE_STEP).collect()
}

/// Fits fill and rates.
///
/// For each candidate and each geometry the proportional fit time = effective operations / rate that minimises squared
/// relative residuals: with x = effective operations / time, rate = Σx² / Σx, and the sum of squares is n − (Σx)² / Σx².
/// Per geometry, because a wider tile reuses more; relative, because times span orders of magnitude; through the
/// origin, because the sweep holds operations fixed. The candidate with the smallest sum over geometries wins.
///
/// # Errors
/// [`FillUnfittable`].
pub fn fit(
    points: &[LaunchPoint],
    multiprocessors: u64,
    candidates: &[u64],
    starved: f64,
) -> Result<FillFit, FillUnfittable> {
    if let Some(index) = points.iter().position(|point| point.tensor_ops > 0) {
        return Err(FillUnfittable::TensorWork { index });
    }
    let timed: Vec<&LaunchPoint> =
        points.iter().filter(|point| is_time(point.time.0) && operations(&point.contexts) > 0.0).collect();
    let fed = not_starved(&timed, starved);
    if fed.len() < POINTS_MIN {
        return Err(FillUnfittable::TooFewPoints { points: fed.len() });
    }
    let best = best_of(&fed, multiprocessors, candidates, FillForm::Capped).ok_or(FillUnfittable::NoFiniteFit)?;
    let model = FillModel { multiprocessors, fill_threads: best.fill_threads };
    let fill_of = |point: &LaunchPoint| model.launch_fill(&point.contexts).unwrap_or(0.0);
    let crosses = by_geometry(&fed).values().any(|points| {
        points.iter().any(|point| fill_of(point) >= 1.0) && points.iter().any(|point| fill_of(point) < 1.0)
    });
    if !crosses {
        return Err(FillUnfittable::NoGeometryCrosses);
    }
    let partial_points = fed.iter().filter(|point| fill_of(point) < PARTIAL_FILL).count();
    if partial_points < PARTIAL_POINTS_MIN {
        return Err(FillUnfittable::NeverPartial { partial_points });
    }
    let lead = fed.first().map_or("", |point| point.geometry.as_str());
    let raw = proportional(&fed, |point| operations(&point.contexts));
    let uncapped = best_of(&fed, multiprocessors, candidates, FillForm::Uncapped);
    Ok(FillFit {
        model,
        tied: best.tied,
        rate: best.fit.rates.get(lead).copied().ok_or(FillUnfittable::NoFiniteFit)?,
        squares: best.fit.squares,
        residual_max: best.fit.residual_max,
        geometries: best.fit.rates.len(),
        partial_points,
        points: fed.len(),
        starved_points: timed.len() - fed.len(),
        raw_rate: raw.as_ref().and_then(|raw| raw.rates.get(lead).copied()),
        raw_residual: raw.as_ref().map(|raw| raw.residual_max),
        uncapped: uncapped.map(|best| (best.fill_threads, best.fit.residual_max)),
    })
}

fn operations(contexts: &[LaunchContext]) -> f64 {
    contexts.iter().map(|context| context.operations as f64).sum()
}

fn by_geometry<'p>(points: &[&'p LaunchPoint]) -> BTreeMap<&'p str, Vec<&'p LaunchPoint>> {
    let mut geometries: BTreeMap<&str, Vec<&LaunchPoint>> = BTreeMap::new();
    for point in points {
        geometries.entry(point.geometry.as_str()).or_default().push(point);
    }
    geometries
}

/// Points that are not far below the best throughput of their geometry, in their order.
fn not_starved<'p>(points: &[&'p LaunchPoint], starved: f64) -> Vec<&'p LaunchPoint> {
    let throughput = |point: &LaunchPoint| operations(&point.contexts) / point.time.0;
    let best: BTreeMap<&str, f64> = by_geometry(points)
        .into_iter()
        .map(|(geometry, points)| (geometry, points.into_iter().map(throughput).fold(0.0, f64::max)))
        .collect();
    let fed = |point: &&&LaunchPoint| {
        best.get(point.geometry.as_str()).is_none_or(|best| throughput(point) >= starved * best)
    };
    points.iter().filter(fed).copied().collect()
}

/// Rates by geometry, and how well they fit.
struct Proportional<'p> {
    rates: BTreeMap<&'p str, f64>,
    squares: f64,
    residual_max: f64,
}

/// The proportional fit of every geometry; none where a number is not finite.
fn proportional<'p>(
    points: &[&'p LaunchPoint],
    effective_ops: impl Fn(&LaunchPoint) -> f64,
) -> Option<Proportional<'p>> {
    let mut fit = Proportional { rates: BTreeMap::new(), squares: 0.0, residual_max: 0.0 };
    for (geometry, points) in by_geometry(points) {
        let rates: Vec<f64> = points.iter().map(|point| effective_ops(point) / point.time.0).collect();
        let (sum, square_sum) = rates.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let rate = square_sum / sum;
        fit.squares += rates.len() as f64 - sum * sum / square_sum;
        fit.residual_max = rates.iter().map(|x| (x / rate - 1.0).abs()).fold(fit.residual_max, f64::max);
        fit.rates.insert(geometry, rate);
    }
    let finite = fit.squares.is_finite() && fit.rates.values().all(|rate| rate.is_finite() && *rate > 0.0);
    finite.then_some(fit)
}

struct Best<'p> {
    fill_threads: u64,
    tied: Vec<u64>,
    fit: Proportional<'p>,
}

/// Sums of squares nearer than this, relative to the number of points, are equal: they differ by rounding alone.
const TIE: f64 = 1e-12;

fn best_of<'p>(
    points: &[&'p LaunchPoint],
    multiprocessors: u64,
    candidates: &[u64],
    form: FillForm,
) -> Option<Best<'p>> {
    let mut candidates: Vec<u64> = candidates.iter().copied().filter(|threads| *threads > 0).collect();
    candidates.sort_unstable();
    candidates.dedup();
    let fits: Vec<(u64, Proportional<'p>)> = candidates
        .into_iter()
        .filter_map(|fill_threads| {
            let model = FillModel { multiprocessors, fill_threads };
            Some((fill_threads, proportional(points, |point| model.effective_ops(form, &point.contexts))?))
        })
        .collect();
    let least = fits.iter().map(|(_, fit)| fit.squares).fold(f64::INFINITY, f64::min);
    let ties = |fit: &Proportional<'_>| fit.squares - least <= TIE * points.len() as f64;
    let tied: Vec<u64> = fits.iter().filter(|(_, fit)| ties(fit)).map(|(threads, _)| *threads).collect();
    let (fill_threads, fit) = fits.into_iter().find(|(_, fit)| ties(fit))?;
    Some(Best { fill_threads, tied, fit })
}

#[cfg(test)]
mod tests;
