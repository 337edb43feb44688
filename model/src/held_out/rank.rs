//! How well an order is predicted: rank correlation, and what choosing by the prediction costs.

use std::cmp::Ordering;

use super::Candidate;
use crate::vocabulary;

/// Fewest points that an order says anything of.
pub const POINTS_MIN: usize = 3;

vocabulary! {
    /// One of the two times of a point.
    Side, "side" {
        /// What the model says.
        Predicted => "predicted",
        /// What was measured.
        Measured => "measured",
    }
}

/// Whether the predicted order is the measured one.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "outcome", rename_all = "snake_case"))]
pub enum RankCorrelation {
    /// Both coefficients run from −1, the order reversed, to 1, the same order.
    Ranked {
        /// Spearman's ρ: the correlation of ranks, those of ties averaged.
        spearman: f64,
        /// Kendall's τ-b: pairs in the same order less pairs in the other, corrected for ties.
        kendall: f64,
        /// Pairs that the prediction does not tell apart.
        tied_predicted: u64,
        /// Pairs that the measurement does not tell apart.
        tied_measured: u64,
    },
    /// Fewer than three points.
    TooFewPoints {
        /// How many there are.
        points: u64,
    },
    /// All times of one side are the same: they have no order.
    AllTied {
        /// Which side.
        side: Side,
    },
}

/// What choosing by the prediction costs, over problems that several candidates solve.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "outcome", rename_all = "snake_case"))]
pub enum Regret {
    /// The regret of a problem is the measured time of the candidate that is predicted best over that of the best one,
    /// less 1.
    Chosen {
        /// Problems with at least two candidates.
        problems: u64,
        /// Of these, problems where the prediction ties several candidates for the best: each counts with the worst of
        /// them.
        tied: u64,
        /// Problems where the candidate predicted best is the best.
        right: u64,
        /// Median over problems.
        median: f64,
        /// The largest.
        worst: f64,
        /// Its problem.
        worst_problem: String,
    },
    /// No problem has two candidates.
    NoChoice {
        /// Problems, of one candidate each.
        problems: u64,
    },
}

/// Correlates the order of predictions with that of measurements, over positive, finite times. Kendall's takes the square
/// of the number of points.
pub fn correlate(pairs: &[(f64, f64)]) -> RankCorrelation {
    if pairs.len() < POINTS_MIN {
        return RankCorrelation::TooFewPoints { points: pairs.len() as u64 };
    }
    let predicted: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
    let measured: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
    for (side, times) in [(Side::Predicted, &predicted), (Side::Measured, &measured)] {
        if times.iter().all(|time| *time == times[0]) {
            return RankCorrelation::AllTied { side };
        }
    }
    let (mut agreeing, mut tied_predicted, mut tied_measured, mut total) = (0_i64, 0_u64, 0_u64, 0_u64);
    for (index, first) in pairs.iter().enumerate() {
        for second in &pairs[..index] {
            let (left, right) = (first.0.total_cmp(&second.0), first.1.total_cmp(&second.1));
            total += 1;
            tied_predicted += u64::from(left == Ordering::Equal);
            tied_measured += u64::from(right == Ordering::Equal);
            agreeing += left as i64 * right as i64;
        }
    }
    let untied = |tied: u64| (total - tied) as f64;
    let kendall = agreeing as f64 / (untied(tied_predicted) * untied(tied_measured)).sqrt();
    let spearman = correlation(&ranks(&predicted), &ranks(&measured));
    let within = |coefficient: f64| coefficient.clamp(-1.0, 1.0);
    RankCorrelation::Ranked { spearman: within(spearman), kendall: within(kendall), tied_predicted, tied_measured }
}

/// Ranks from 0, those of ties averaged.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].total_cmp(&values[right]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for tie in order.chunk_by(|&left, &right| values[left] == values[right]) {
        let rank = start as f64 + (tie.len() - 1) as f64 / 2.0;
        tie.iter().for_each(|&index| ranks[index] = rank);
        start += tie.len();
    }
    ranks
}

/// Pearson's correlation of two lists of one length that are not constant.
fn correlation(left: &[f64], right: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (left_mean, right_mean) = (mean(left), mean(right));
    let product = |(left, right): (&f64, &f64)| (left - left_mean) * (right - right_mean);
    let square = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
    let covariance: f64 = left.iter().zip(right).map(product).sum();
    covariance / (square(left, left_mean) * square(right, right_mean)).sqrt()
}

/// The regret over problems, each of at least one candidate.
pub(super) fn regret(problems: &[(&str, Vec<&Candidate>)]) -> Regret {
    let with_choice: Vec<_> = problems.iter().filter(|(_, candidates)| candidates.len() > 1).collect();
    let mut regrets: Vec<(f64, &str)> = Vec::new();
    let mut tied = 0;
    for (problem, candidates) in with_choice {
        let best = |time: fn(&Candidate) -> f64| candidates.iter().map(|one| time(one)).fold(f64::INFINITY, f64::min);
        let (best_predicted, best_measured) = (best(|one| one.predicted.0), best(|one| one.measured.0));
        let chosen: Vec<f64> = candidates
            .iter()
            .filter(|candidate| candidate.predicted.0 == best_predicted)
            .map(|candidate| candidate.measured.0)
            .collect();
        tied += u64::from(chosen.len() > 1);
        let regret = chosen.into_iter().fold(best_measured, f64::max) / best_measured - 1.0;
        // Beyond the numbers the largest of them says it well enough.
        regrets.push((regret.min(f64::MAX), problem));
    }
    regrets.sort_by(|left, right| left.0.total_cmp(&right.0).then(right.1.cmp(left.1)));
    let values: Vec<f64> = regrets.iter().map(|(regret, _)| *regret).collect();
    match (crate::statistics::median(&values), regrets.last()) {
        (Some(median), Some((worst, problem))) => Regret::Chosen {
            problems: values.len() as u64,
            tied,
            right: values.iter().filter(|regret| **regret == 0.0).count() as u64,
            median,
            worst: *worst,
            worst_problem: (*problem).to_owned(),
        },
        _ => Regret::NoChoice { problems: problems.len() as u64 },
    }
}
