//! The issue rate: the regime of time over scalar operations that begins with the shortest launch.

use std::collections::BTreeMap;

use super::curve::{Of, Refit, Work, refits, spread};
use super::fill::Filled;
use super::{Part, SweepFits, Taken, as_winner};
use crate::constants::{FULL_ISSUE_RATE, ISSUE_LATENCY, ISSUE_RATE};
use crate::fit::estimated::{Covariance, Estimated, Outcome, Value, ValueSet};
use crate::fit::interval::{Domain, Spread};
use crate::fit::pool::RejectReason;
use crate::fit::regime::{NoRegime, Regime, RegimeRule, find};
use crate::fit::{ConstantInterval, Mode};
use crate::point::Dtype;
use crate::seed::fill::FillModel;
use crate::seed::issue::{IssuePoint, fit as fit_seed};
use crate::units::{Seconds, Unit};

/// What one part's line says.
struct Lined<'a> {
    part: Part<'a>,
    estimated: [Estimated<'a>; 3],
    /// The rate that winners are compared by: of a full device where a fill is known.
    rate: Option<f64>,
}

/// Fits every part, and names the winner of each number format.
pub(super) fn fit<'a>(taken: &Taken<'a>, fill: Option<&Filled>, mode: Mode, fits: &mut SweepFits<'a>) {
    if taken.works.is_empty() {
        fits.estimated.push(taken.nothing(ISSUE_RATE, Unit::OperationsPerSecond));
        fits.estimated.push(taken.nothing(FULL_ISSUE_RATE, Unit::OperationsPerSecond));
        return;
    }
    let lined = taken.parts().into_iter().map(|part| match mode {
        Mode::Robust => robust(part, fill, fits),
        Mode::Seed => seed(part, fill),
    });
    let mut dtypes: BTreeMap<Dtype, Vec<Lined<'a>>> = BTreeMap::new();
    for lined in lined.collect::<Vec<_>>() {
        dtypes.entry(lined.part.dtype).or_default().push(lined);
    }
    for (dtype, lined) in dtypes {
        let best = lined.iter().reduce(|best, next| if next.rate > best.rate { next } else { best });
        let mut condition = taken.condition.to_map();
        condition.insert("dtype".to_owned(), dtype.name().to_owned());
        if let Some(best) = best {
            let winner = |constant| as_winner(constant, &best.part.title, condition.clone());
            fits.estimated.extend(best.estimated.iter().map(winner));
        }
        fits.estimated.extend(lined.into_iter().flat_map(|lined| lined.estimated));
    }
}

/// Scalar operations of a work, for a full device where a fill is given.
fn operations(work: &Work<'_>, fill: Option<FillModel>) -> Option<f64> {
    let operations = work.row.counts().scalar_ops as f64;
    let full = match fill {
        None => operations,
        Some(fill) => operations / fill.launch_fill(&work.row.counts().launch_contexts)?,
    };
    (full.is_finite() && full > 0.0).then_some(full)
}

/// The regime of some times, and for each of its points the index of its work.
fn regime(
    works: &[Work<'_>],
    times: &[Option<f64>],
    fill: Option<FillModel>,
) -> (Vec<usize>, Result<Regime, NoRegime>) {
    let point = |(index, (work, seconds)): (usize, (&Work<'_>, &Option<f64>))| {
        Some((index, (operations(work, fill)?, (*seconds)?)))
    };
    let (indices, points): (Vec<usize>, Vec<(f64, f64)>) =
        works.iter().zip(times).enumerate().filter_map(point).unzip();
    let regime = find(&points, RegimeRule::default());
    (indices, regime)
}

fn refit(works: &[Work<'_>], times: &[Option<f64>], fill: Option<FillModel>) -> Refit<2> {
    match regime(works, times, fill).1 {
        Ok(regime) if regime.line.slope.recip().is_finite() => {
            Refit::Fitted([regime.line.slope.recip(), regime.line.intercept])
        }
        Err(NoRegime::TooFewPoints { .. }) => Refit::TooFew,
        _ => Refit::Failed,
    }
}

fn robust<'a>(part: Part<'a>, fill: Option<&Filled>, fits: &mut SweepFits<'a>) -> Lined<'a> {
    let times = part.times(Of::Class);
    let (indices, found) = regime(&part.works, &times, None);
    let regime = match found.map_err(|reason| reason.to_string()) {
        Ok(regime) if regime.line.slope.recip().is_finite() => regime,
        Ok(_) => return nothing(part, "the slope is too small for a rate"),
        Err(reason) => return nothing(part, &reason),
    };
    for (points, reason, what) in [
        (&regime.dropped, RejectReason::Residual, "from the line of the others"),
        (&regime.beyond, RejectReason::BeyondKnee, "from the line of the shorter ones: another resource binds it"),
    ] {
        for point in points {
            let Some(work) = indices.get(point.index).and_then(|index| part.works.get(*index)) else { continue };
            // The fit's residual is a part of the point's own time; what is told is how much slower than the line it is.
            let slower = point.residual / (1.0 - point.residual);
            let detail = format!("{} is {:+.1}% {what}", work.row.work().point, slower * 100.0);
            fits.rejected.extend(work.rejected(reason, Some(slower).filter(|slower| slower.is_finite()), &detail));
        }
    }
    let used: Vec<&Work<'a>> = regime.used.iter().filter_map(|point| part.works.get(*indices.get(*point)?)).collect();
    let refitted = refits(&part.works_of(&used), |times| refit(&part.works_of(&used), times, None));
    let (rate, latency_s) = (regime.line.slope.recip(), regime.line.intercept);
    let pairs: Vec<(f64, f64)> = refitted.1.iter().flatten().map(|values| (values[0], values[1])).collect();
    let value = |value: f64, at: usize, domain: Domain, with: &str| Value {
        max_residual: Some(regime.residual_max),
        covariances: Covariance::of(with, &pairs).into_iter().collect(),
        ..Value::new(value, spread(&refitted, |values| values[at], value, domain))
    };
    let plain = Outcome::Measured(value(rate, 0, Domain::Positive, ISSUE_LATENCY));
    // The intercept may be negative, and is said as it is: the score does not price it.
    let latency = Outcome::Measured(value(latency_s, 1, Domain::Real, ISSUE_RATE));
    let full = full(&part, &used, fill, regime.residual_max);
    let of_full = if let Outcome::Measured(full) = &full { Some(full.value) } else { None };
    let estimated = [
        part.estimated(ISSUE_RATE, Unit::OperationsPerSecond, &used, plain),
        part.estimated(FULL_ISSUE_RATE, Unit::OperationsPerSecond, &used, full),
        part.estimated(ISSUE_LATENCY, Unit::Seconds, &used, latency),
    ];
    Lined { part, estimated, rate: of_full.or(Some(rate)) }
}

/// The rate of a full device over the works of the regime, and its range over the threads that may fill it.
fn full<'a>(part: &Part<'a>, used: &[&Work<'a>], fill: Option<&Filled>, max_residual: f64) -> Outcome {
    let Some(fill) = fill else {
        return Outcome::NotIdentified("no launch fill is identified under this condition".to_owned());
    };
    let works = part.works_of(used);
    let times: Vec<Option<f64>> = works.iter().map(|work| work.seconds(Of::Class)).collect();
    let rate = |threads: u64| match refit(&works, &times, Some(fill.model(threads))) {
        Refit::Fitted([rate, _]) => Some(rate),
        Refit::TooFew | Refit::Failed => None,
    };
    let Some(best) = rate(fill.fill_threads) else {
        return Outcome::NotIdentified("operations over their launch fill lie on no line".to_owned());
    };
    let over: Vec<f64> = fill.candidates.iter().filter_map(|threads| rate(*threads)).collect();
    let (low, high) = over.iter().fold((best, best), |(low, high), rate| (low.min(*rate), high.max(*rate)));
    let refitted = refits(&works, |times| refit(&works, times, Some(fill.model(fill.fill_threads))));
    Outcome::Measured(Value {
        max_residual: Some(max_residual),
        set: Some(ValueSet::Bracket { low: Some(low), high: Some(high) }),
        ..Value::new(best, spread(&refitted, |values| values[0], best, Domain::Positive))
    })
}

fn nothing<'a>(part: Part<'a>, reason: &str) -> Lined<'a> {
    let rate = Unit::OperationsPerSecond;
    let constant = |name, unit| part.estimated(name, unit, &[], Outcome::NotIdentified(reason.to_owned()));
    let estimated =
        [constant(ISSUE_RATE, rate), constant(FULL_ISSUE_RATE, rate), constant(ISSUE_LATENCY, Unit::Seconds)];
    Lined { part, estimated, rate: None }
}

/// The original's line, over every point.
fn seed<'a>(part: Part<'a>, fill: Option<&Filled>) -> Lined<'a> {
    let times = part.times(Of::Best);
    let timed: Vec<(&Work<'a>, f64)> =
        part.works.iter().zip(times).filter_map(|(work, seconds)| Some((work, seconds?))).collect();
    let point = |(work, seconds): &(&Work<'a>, f64)| {
        let counts = work.row.counts();
        IssuePoint { scalar_ops: counts.scalar_ops, time: Seconds(*seconds), contexts: counts.launch_contexts.clone() }
    };
    let points: Vec<IssuePoint> = timed.iter().map(point).collect();
    let used: Vec<&Work<'a>> = timed.iter().map(|(work, _)| *work).collect();
    let value = |value: f64, max_residual: f64| {
        let spread = Spread::none(ConstantInterval::SeedMode);
        Outcome::Measured(Value { max_residual: Some(max_residual), ..Value::new(value, spread) })
    };
    let plain = fit_seed(&points, None);
    let full = fill.map(|fill| fit_seed(&points, Some(fill.model(fill.fill_threads))));
    let outcome = |found: Result<(f64, f64), String>| match found {
        Ok((found, residual_max)) => value(found, residual_max),
        Err(reason) => Outcome::NotIdentified(reason),
    };
    let rate = plain.map(|fit| (fit.rate, fit.residual_max)).map_err(|reason| reason.to_string());
    let latency = plain.map(|fit| (fit.latency.0, fit.residual_max)).map_err(|reason| reason.to_string());
    let full = full.ok_or_else(|| "no launch fill is identified under this condition".to_owned());
    let full = full.and_then(|fit| fit.map_err(|reason| reason.to_string())).map(|fit| (fit.rate, fit.residual_max));
    let compared = full.clone().or(rate.clone()).ok().map(|(rate, _)| rate);
    let estimated = [
        part.estimated(ISSUE_RATE, Unit::OperationsPerSecond, &used, outcome(rate)),
        part.estimated(FULL_ISSUE_RATE, Unit::OperationsPerSecond, &used, outcome(full)),
        part.estimated(ISSUE_LATENCY, Unit::Seconds, &used, outcome(latency)),
    ];
    Lined { part, estimated, rate: compared }
}

impl<'a> Part<'a> {
    /// The works that were used, for refits of the same points.
    fn works_of(&self, used: &[&Work<'a>]) -> Vec<Work<'a>> {
        used.iter().map(|work| (*work).clone()).collect()
    }
}
