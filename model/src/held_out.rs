//! Held-out points: predicted, never fitted, and how far off the predictions are.
//!
//! The residual of a fit says how well the points that were fitted are described. What a user of constants wants to know
//! is another thing: how far off a shape is that the calibration never saw, and what it costs to choose a variant by
//! the model. So points of other shapes are measured with the role `held_out`, predicted from the constants, and compared:
//!
//! ```
//! use fleetcal_model::held_out::{Errors, Evaluation, Point};
//! use fleetcal_model::units::Seconds;
//!
//! let point = |problem: &str, candidate: &str, predicted_s, measured_s| Point {
//!     shape: "m=256/n=1024".to_owned(),
//!     problem: problem.to_owned(),
//!     candidate: candidate.to_owned(),
//!     predicted: Seconds(predicted_s),
//!     measured: Seconds(measured_s),
//! };
//! let points = [point("k=1", "a", 1.0, 1.1), point("k=1", "b", 2.0, 2.0), point("k=2", "a", 2.2, 2.5)];
//! let evaluation = Evaluation::of(&points);
//! assert!(matches!(evaluation.overall.errors, Errors::Known { points: 3, worst, .. } if worst < 0.13));
//! ```
//!
//! A **shape** is what the calibration's points and these differ in; a **problem** is one piece of work; its
//! **candidates** are the variants that solve it. Errors and rank correlation are over a shape's candidates, regret is
//! over its problems.

use std::collections::BTreeMap;

use crate::score::SCORE_VERSION;
use crate::statistics::median;
use crate::units::Seconds;

mod rank;
mod rows;
#[cfg(test)]
mod tests;

pub use rank::{POINTS_MIN, RankCorrelation, Regret, Side, correlate};
pub(crate) use rows::fitted_shapes;
pub use rows::{Excluded, Exclusion, HeldOutRows, NotHeldOut, Predicted};

/// One measurement and its prediction.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// The shape, for example `issue/f32/m=256/n=1024`.
    pub shape: String,
    /// The work, for example `issue/f32/k=4096/m=256/n=1024`.
    pub problem: String,
    /// The variant.
    pub candidate: String,
    /// What the model says.
    pub predicted: Seconds,
    /// What was measured.
    pub measured: Seconds,
}

/// Relative errors: |predicted − measured| / measured.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "outcome", rename_all = "snake_case"))]
pub enum Errors {
    /// There are enough points.
    Known {
        /// Points: candidates of problems.
        points: u64,
        /// The median.
        median: f64,
        /// The smallest error that 90% of the points do not exceed.
        percentile_90: f64,
        /// The largest.
        worst: f64,
        /// Problem and candidate of the largest.
        worst_point: String,
        /// Median with its sign: above zero, predictions are too slow.
        bias: f64,
    },
    /// Fewer than three points.
    TooFewPoints {
        /// How many there are.
        points: u64,
    },
}

/// How well some points are predicted.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Accuracy {
    /// By how much predictions are off.
    pub errors: Errors,
    /// Whether they are in the right order.
    pub rank_correlation: RankCorrelation,
    /// What choosing by them costs.
    pub regret: Regret,
}

/// How well held-out points are predicted.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Evaluation {
    /// [`SCORE_VERSION`] of the predictions.
    pub score_version: u64,
    /// Over all points. Where shapes differ in size by much, so do their times, and any model ranks them well.
    pub overall: Accuracy,
    /// By shape.
    pub shapes: BTreeMap<String, Accuracy>,
    /// Points left out because a time is not positive and finite, by problem and candidate.
    pub without_time: Vec<String>,
}

/// A variant of one problem, over its measurements.
#[derive(Debug, Clone)]
struct Candidate {
    name: String,
    predicted: Seconds,
    measured: Seconds,
}

impl Candidate {
    fn error(&self) -> f64 {
        // Beyond the numbers the largest of them says it well enough.
        (self.predicted.0 / self.measured.0 - 1.0).min(f64::MAX)
    }
}

/// Candidates by shape and problem.
type Shapes<'p> = BTreeMap<&'p str, BTreeMap<&'p str, Vec<Candidate>>>;

impl Evaluation {
    /// Compares points with their predictions. The order of the points does not matter; several of one shape, problem and
    /// candidate, such as those of several devices, count as one, with the medians of their times.
    pub fn of(points: &[Point]) -> Self {
        let is_time = |time: Seconds| time.0.is_finite() && time.0 > 0.0;
        let (sound, unsound): (Vec<&Point>, Vec<&Point>) =
            points.iter().partition(|point| is_time(point.predicted) && is_time(point.measured));
        let mut without_time: Vec<String> =
            unsound.iter().map(|point| label(&point.problem, &point.candidate)).collect();
        without_time.sort();
        let shapes = candidates(&sound);
        let all: Vec<(&str, &Vec<Candidate>)> =
            shapes.values().flatten().map(|(problem, candidates)| (*problem, candidates)).collect();
        let of_shape = |problems: &BTreeMap<&str, Vec<Candidate>>| {
            accuracy(&problems.iter().map(|(problem, candidates)| (*problem, candidates)).collect::<Vec<_>>())
        };
        Self {
            score_version: SCORE_VERSION,
            overall: accuracy(&all),
            shapes: shapes.iter().map(|(shape, problems)| ((*shape).to_owned(), of_shape(problems))).collect(),
            without_time,
        }
    }
}

fn candidates<'p>(points: &[&'p Point]) -> Shapes<'p> {
    let mut measurements: BTreeMap<(&str, &str, &str), Vec<&Point>> = BTreeMap::new();
    for &point in points {
        let key = (point.shape.as_str(), point.problem.as_str(), point.candidate.as_str());
        measurements.entry(key).or_default().push(point);
    }
    let mut shapes: Shapes<'p> = BTreeMap::new();
    for ((shape, problem, candidate), points) in measurements {
        let middle = |time: fn(&Point) -> f64| median(&points.iter().map(|point| time(point)).collect::<Vec<_>>());
        let times = middle(|point| point.predicted.0).zip(middle(|point| point.measured.0));
        let Some((predicted, measured)) = times else { continue };
        shapes.entry(shape).or_default().entry(problem).or_default().push(Candidate {
            name: label(problem, candidate),
            predicted: Seconds(predicted),
            measured: Seconds(measured),
        });
    }
    shapes
}

fn label(problem: &str, candidate: &str) -> String {
    format!("{problem} {candidate}")
}

fn accuracy(problems: &[(&str, &Vec<Candidate>)]) -> Accuracy {
    let all: Vec<&Candidate> = problems.iter().flat_map(|(_, candidates)| candidates.iter()).collect();
    let pairs: Vec<(f64, f64)> = all.iter().map(|one| (one.predicted.0, one.measured.0)).collect();
    let problems: Vec<(&str, Vec<&Candidate>)> =
        problems.iter().map(|(problem, candidates)| (*problem, candidates.iter().collect())).collect();
    Accuracy { errors: errors(&all), rank_correlation: correlate(&pairs), regret: rank::regret(&problems) }
}

fn errors(candidates: &[&Candidate]) -> Errors {
    let points = candidates.len() as u64;
    let mut by_size: Vec<(f64, &Candidate)> = candidates.iter().map(|one| (one.error().abs(), *one)).collect();
    by_size.sort_by(|left, right| left.0.total_cmp(&right.0).then_with(|| right.1.name.cmp(&left.1.name)));
    let sizes: Vec<f64> = by_size.iter().map(|(size, _)| *size).collect();
    let signed: Vec<f64> = candidates.iter().map(|candidate| candidate.error()).collect();
    // The nearest rank: nine tenths of the points, rounded up.
    let rank_90 = (9 * sizes.len()).div_ceil(10).saturating_sub(1);
    match (median(&sizes), median(&signed), sizes.get(rank_90), by_size.last()) {
        (Some(median), Some(bias), Some(&percentile_90), Some(&(worst, candidate))) if sizes.len() >= POINTS_MIN => {
            Errors::Known { points, median, percentile_90, worst, worst_point: candidate.name.clone(), bias }
        }
        _ => Errors::TooFewPoints { points },
    }
}
