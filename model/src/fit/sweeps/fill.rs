//! The launch fill: how many threads fill a multiprocessor, as a set.

use std::collections::BTreeMap;

use super::curve::{Of, Work};
use super::{SweepFits, Taken, geometry};
use crate::constants::{DEVICE_FILL_THREADS, FILL_THREADS};
use crate::fit::estimated::{Outcome, Value, ValueSet, set_spread};
use crate::fit::fill::{FillRule, NoFill, fit as fit_set};
use crate::fit::interval::Spread;
use crate::fit::pool::RejectReason;
use crate::fit::{ConstantInterval, Mode};
use crate::seed::fill::{FillModel, LaunchPoint, STARVED, default_candidates, fit as fit_seed};
use crate::units::{Seconds, Unit};

/// A fill that other constants are fitted with.
pub(super) struct Filled {
    multiprocessors: u64,
    /// The best.
    pub(super) fill_threads: u64,
    /// Those that the points do not tell from it.
    pub(super) candidates: Vec<u64>,
}

impl Filled {
    /// The model of one candidate.
    pub(super) fn model(&self, fill_threads: u64) -> FillModel {
        FillModel { multiprocessors: self.multiprocessors, fill_threads }
    }
}

/// Fits one t to all geometries, each with a rate of its own.
pub(super) fn fit<'a>(taken: &Taken<'a>, mode: Mode, fits: &mut SweepFits<'a>) -> Option<Filled> {
    let part = taken.whole();
    let times = part.times(if mode == Mode::Seed { Of::Best } else { Of::Class });
    let timed = part.works.iter().zip(times).filter_map(|(work, seconds)| Some((work, seconds?)));
    let mut timed: Vec<(LaunchPoint, &Work<'a>)> = timed.map(|(work, seconds)| (point(work, seconds), work)).collect();
    // The first point's geometry leads: the first by name, and not the one that happened to be read first.
    timed.sort_by(|(left, left_work), (right, right_work)| {
        let blocks =
            |work: &Work<'_>| work.row.counts().launch_contexts.iter().map(|context| context.blocks).sum::<u64>();
        let order = (&left.geometry, blocks(left_work)).cmp(&(&right.geometry, blocks(right_work)));
        order.then(left_work.row.work().point.cmp(&right_work.row.work().point))
    });
    if timed.is_empty() {
        fits.estimated.push(taken.nothing(FILL_THREADS, Unit::Threads));
        fits.estimated.push(taken.nothing(DEVICE_FILL_THREADS, Unit::Threads));
        return None;
    }
    let starved = starved(&timed);
    for (index, part_of_best) in &starved {
        let Some((_, work)) = timed.get(*index) else { continue };
        let detail = format!(
            "{} reaches {:.1}% of its geometry's throughput, and {:.1}% are needed",
            work.row.work().point,
            part_of_best * 100.0,
            STARVED * 100.0
        );
        fits.rejected.extend(work.rejected(RejectReason::Starved, None, &detail));
    }
    let used: Vec<&Work<'a>> = timed
        .iter()
        .enumerate()
        .filter(|(index, _)| !starved.contains_key(index))
        .map(|(_, (_, work))| *work)
        .collect();
    let points: Vec<LaunchPoint> = timed.into_iter().map(|(point, _)| point).collect();
    let multiprocessors = part.works.first().map_or(0, |work| work.row.device().compute_units);
    let (outcomes, filled) = outcomes(&points, multiprocessors, mode);
    for (name, outcome) in [FILL_THREADS, DEVICE_FILL_THREADS].into_iter().zip(outcomes) {
        let used: &[&Work<'a>] = if filled.is_some() { &used } else { &[] };
        fits.estimated.push(part.estimated(name, Unit::Threads, used, outcome));
    }
    filled
}

fn point(work: &Work<'_>, seconds: f64) -> LaunchPoint {
    let (row, counts) = (work.row, work.row.counts());
    LaunchPoint {
        geometry: format!("{}/{}/{}", row.work().kernel, row.work().dtype, geometry(row)),
        contexts: counts.launch_contexts.clone(),
        tensor_ops: counts.tensor_ops,
        time: Seconds(seconds),
    }
}

/// Points that the fit leaves out, with their part of the best throughput of their geometry.
fn starved(timed: &[(LaunchPoint, &Work<'_>)]) -> BTreeMap<usize, f64> {
    let throughput = |point: &LaunchPoint| {
        point.contexts.iter().map(|context| context.operations as f64).sum::<f64>() / point.time.0
    };
    let mut best: BTreeMap<&str, f64> = BTreeMap::new();
    for (point, _) in timed {
        let best = best.entry(point.geometry.as_str()).or_insert(0.0);
        *best = best.max(throughput(point));
    }
    let part = |(index, (point, _)): (usize, &(LaunchPoint, &Work<'_>))| {
        let part = throughput(point) / best.get(point.geometry.as_str())?;
        (part < STARVED).then_some((index, part))
    };
    timed.iter().enumerate().filter_map(part).collect()
}

/// What is known of t, and of threads of the whole device.
fn outcomes(points: &[LaunchPoint], multiprocessors: u64, mode: Mode) -> ([Outcome; 2], Option<Filled>) {
    let candidates = default_candidates();
    let found = match mode {
        Mode::Robust => fit_set(points, multiprocessors, &candidates, FillRule::default())
            .map(|set| (set.best.model.fill_threads, set.fill_threads, set.best.residual_max)),
        Mode::Seed => fit_seed(points, multiprocessors, &candidates, STARVED)
            .map(|fit| (fit.model.fill_threads, fit.tied, fit.residual_max))
            .map_err(NoFill::from),
    };
    let (fill_threads, candidates, residual_max) = match found {
        Ok(found) => found,
        Err(reason @ NoFill::FormRejected { residual_max, .. }) => {
            let outcome = Outcome::FormRejected { max_residual: residual_max, reason: reason.to_string() };
            return ([outcome.clone(), outcome], None);
        }
        Err(reason) => {
            let outcome = Outcome::NotIdentified(reason.to_string());
            return ([outcome.clone(), outcome], None);
        }
    };
    let spread = if mode == Mode::Seed { Spread::none(ConstantInterval::SeedMode) } else { set_spread() };
    let value = |factor: u64| {
        let threads = |threads: u64| threads.saturating_mul(factor) as f64;
        Outcome::Measured(Value {
            set: Some(ValueSet::Candidates(candidates.iter().map(|candidate| threads(*candidate)).collect())),
            max_residual: Some(residual_max),
            ..Value::new(threads(fill_threads), spread)
        })
    };
    let outcomes = [value(1), value(multiprocessors)];
    (outcomes, Some(Filled { multiprocessors, fill_threads, candidates }))
}
