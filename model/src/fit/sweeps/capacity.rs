//! Capacities of caches and their rates: the proxy's from `working_set` rows, the last level's from `cache` rows.

use super::curve::{Of, Refit, Work, refits, spread};
use super::{Part, SweepFits, Taken, as_winner};
use crate::constants::{CACHE_BANDWIDTH, CACHE_CAPACITY, LAST_LEVEL_CACHE_BANDWIDTH, LAST_LEVEL_CACHE_CAPACITY};
use crate::fit::capacity::{Bracket, CapacityFit, Merged, fit as fit_points, merge};
use crate::fit::estimated::{Estimated, Outcome, Value, ValueSet, set_spread};
use crate::fit::interval::{Domain, Spread};
use crate::fit::pool::RejectReason;
use crate::fit::{ConstantInterval, Mode};
use crate::seed::capacity::{CapacityFit as SeedFit, WorkingSetPoint, fit as fit_seed};
use crate::units::{Bytes, BytesPerSecond, Seconds, Unit};

/// Names of a capacity and of its rate.
pub(super) type Names = (&'static str, &'static str);

/// Of the score's proxy.
pub(super) const PROXY: Names = (CACHE_CAPACITY, CACHE_BANDWIDTH);

/// Of the hardware.
pub(super) const LAST_LEVEL: Names = (LAST_LEVEL_CACHE_CAPACITY, LAST_LEVEL_CACHE_BANDWIDTH);

/// What one part says.
struct Found<'a> {
    title: String,
    bracket: Bracket,
    capacity: Estimated<'a>,
    rate: Estimated<'a>,
}

/// Fits every part, and names the one whose bracket is the narrowest, as long as no other contradicts it.
pub(super) fn fit<'a>(taken: &Taken<'a>, names: Names, memory: Option<f64>, mode: Mode, fits: &mut SweepFits<'a>) {
    if taken.works.is_empty() {
        fits.estimated.push(taken.nothing(names.0, Unit::Bytes));
        fits.estimated.push(taken.nothing(names.1, Unit::BytesPerSecond));
        return;
    }
    let memory = memory.map(BytesPerSecond);
    let found = taken.parts().into_iter().map(|part| match mode {
        Mode::Robust => robust(&part, names, memory, fits),
        Mode::Seed => seed(&part, names, memory),
    });
    let found: Vec<Found<'a>> = found.collect();
    fits.estimated.extend(winner(taken, &found));
    fits.estimated.extend(found.into_iter().flat_map(|found| [found.capacity, found.rate]));
}

fn winner<'a>(taken: &Taken<'a>, found: &[Found<'a>]) -> Vec<Estimated<'a>> {
    let width = |found: &Found<'_>| match (found.bracket.low, found.bracket.high) {
        (Some(low), Some(high)) => high.0 as f64 / low.0 as f64,
        _ => f64::INFINITY,
    };
    let Some(best) = found.iter().reduce(|best, next| if width(next) < width(best) { next } else { best }) else {
        return Vec::new();
    };
    let condition = taken.condition.to_map();
    let mut capacity = as_winner(&best.capacity, &best.title, condition.clone());
    let rate = as_winner(&best.rate, &best.title, condition);
    if found.iter().any(|other| !merge(&[best.bracket, other.bracket]).consistent) {
        // Every shape's answer, those that agree too: who uses the score sees which shape is like theirs.
        let says = |found: &Found<'_>| format!("{} says {}", found.title, bounds(found.bracket));
        let all: Vec<String> = found.iter().map(says).collect();
        let reason = format!("the capacity does not carry over between shapes: {}", all.join(", "));
        capacity.outcome = Outcome::NotIdentified(reason);
    }
    vec![capacity, rate]
}

/// For people: `20.0 MiB to 40.0 MiB`, `at least 20.0 MiB`.
fn bounds(bracket: Bracket) -> String {
    match (bracket.low, bracket.high) {
        (Some(low), Some(high)) => format!("{low} to {high}"),
        (Some(low), None) => format!("at least {low}"),
        (None, Some(high)) => format!("less than {high}"),
        (None, None) => "nothing".to_owned(),
    }
}

/// Points of some times, and for each the index of its work.
fn points(works: &[Work<'_>], times: &[Option<f64>]) -> (Vec<usize>, Vec<WorkingSetPoint>) {
    let point = |(index, (work, seconds)): (usize, (&Work<'_>, &Option<f64>))| {
        let working_set = Bytes(work.row.counts().working_set_bytes?);
        Some((
            index,
            WorkingSetPoint {
                working_set,
                requested: Bytes(work.row.counts().bytes_requested),
                time: Seconds((*seconds)?),
            },
        ))
    };
    works.iter().zip(times).enumerate().filter_map(point).unzip()
}

fn robust<'a>(part: &Part<'a>, names: Names, memory: Option<BytesPerSecond>, fits: &mut SweepFits<'a>) -> Found<'a> {
    let (indices, class_points) = points(&part.works, &part.times(Of::Class));
    let class = fit_points(&class_points, memory);
    let of_devices = part.devices().into_keys().map(|device| {
        let (_, points) = points(&part.works, &part.times(Of::Device(device)));
        fit_points(&points, memory).ok().map(|fit| fit.bracket)
    });
    let brackets: Vec<Bracket> = of_devices.flatten().collect();
    let class = match class {
        Ok(class) => class,
        Err(reason) => {
            let outcome = Outcome::NotIdentified(reason.to_string());
            return found(part, names, Bracket { low: None, high: None }, [outcome.clone(), outcome], &[]);
        }
    };
    let launch = format!("is mostly launch, which takes {}", class.latency);
    let slow = "is slow at a working set below those that the cache serves".to_owned();
    for (points, reason, what) in
        [(&class.launch_bound, RejectReason::LaunchBound, launch), (&class.short, RejectReason::SlowBelowCache, slow)]
    {
        let works = points.iter().filter_map(|point| part.works.get(*indices.get(*point)?));
        let rows = works.flat_map(|work| work.rejected(reason, None, &format!("{} {what}", work.row.work().point)));
        fits.rejected.extend(rows);
    }
    let left_out = |point: &usize| class.launch_bound.contains(point) || class.short.contains(point);
    let judged = (0..indices.len()).filter(|point| !left_out(point));
    let used: Vec<&Work<'a>> = judged.filter_map(|point| part.works.get(*indices.get(point)?)).collect();
    let merged = if brackets.is_empty() { merge(&[class.bracket]) } else { merge(&brackets) };
    let capacity = capacity_outcome(&merged, &class);
    let rate = match class.cache_rate {
        None => Outcome::NotIdentified(format!("{} points are served at the cache's rate", class.cached_points)),
        Some(rate) => {
            let refitted = refits(&part.works, |times| match fit_points(&points(&part.works, times).1, memory) {
                Ok(CapacityFit { cache_rate: Some(rate), .. }) => Refit::Fitted([rate.0]),
                // What a replicate does not see of the cache bounds nothing.
                Ok(_) | Err(_) => Refit::TooFew,
            });
            Outcome::Measured(Value::new(rate.0, spread(&refitted, |values| values[0], rate.0, Domain::Positive)))
        }
    };
    found(part, names, merged.bracket, [capacity, rate], &used)
}

fn capacity_outcome(merged: &Merged, class: &CapacityFit) -> Outcome {
    let Bracket { low, high } = merged.bracket;
    let end = |end: Option<Bytes>| end.map(|bytes| bytes.0 as f64);
    let set = ValueSet::Bracket { low: end(low), high: end(high) };
    match merged.bracket.center() {
        Some(center) => Outcome::Measured(Value { set: Some(set), ..Value::new(center.0 as f64, set_spread()) }),
        None if low.is_none() && high.is_none() => Outcome::NotIdentified(format!(
            "{} points are cached and {} spilled: two of a side make it one",
            class.cached_points, class.spilled_points
        )),
        None => {
            let missing = if low.is_some() { "larger" } else { "smaller" };
            let bounds = bounds(merged.bracket);
            Outcome::Bounded {
                set,
                reason: format!("it is {bounds}: measure {missing} working sets for the other side"),
            }
        }
    }
}

fn found<'a>(part: &Part<'a>, names: Names, bracket: Bracket, outcomes: [Outcome; 2], used: &[&Work<'a>]) -> Found<'a> {
    let [capacity, rate] = outcomes;
    Found {
        title: part.title.clone(),
        bracket,
        capacity: part.estimated(names.0, Unit::Bytes, used, capacity),
        rate: part.estimated(names.1, Unit::BytesPerSecond, used, rate),
    }
}

/// The original's fit of the shortest samples.
fn seed<'a>(part: &Part<'a>, names: Names, memory: Option<BytesPerSecond>) -> Found<'a> {
    let (indices, points) = points(&part.works, &part.times(Of::Best));
    let used: Vec<&Work<'a>> = indices.iter().filter_map(|index| part.works.get(*index)).collect();
    let spread = Spread::none(ConstantInterval::SeedMode);
    let measured = |value: f64, set: Option<ValueSet>| Outcome::Measured(Value { set, ..Value::new(value, spread) });
    let bracket_of = |low: Option<Bytes>, high: Option<Bytes>| ValueSet::Bracket {
        low: low.map(|bytes| bytes.0 as f64),
        high: high.map(|bytes| bytes.0 as f64),
    };
    let none = Bracket { low: None, high: None };
    let unknown = |reason: String| Outcome::NotIdentified(reason);
    let (bracket, outcomes) = match fit_seed(&points, memory) {
        SeedFit::Transition { cached, spilled, capacity, monotone, cache_rate } => {
            let (low, high) = (cached.min(spilled), cached.max(spilled));
            let bracket = Bracket { low: Some(low), high: Some(high) };
            let capacity = if monotone {
                measured(capacity.0 as f64, Some(bracket_of(Some(low), Some(high))))
            } else {
                unknown(format!("cached and spilled working sets overlap: {capacity} would be a guess"))
            };
            (bracket, [capacity, measured(cache_rate.0, None)])
        }
        SeedFit::AllCached { largest, cache_rate } => {
            let (set, reason) = (bracket_of(Some(largest), None), format!("every point is cached, up to {largest}"));
            let bracket = Bracket { low: Some(largest), high: None };
            (bracket, [Outcome::Bounded { set, reason }, measured(cache_rate.0, None)])
        }
        SeedFit::AllSpilled { smallest } => {
            let (set, reason) = (bracket_of(None, Some(smallest)), format!("every point is spilled, from {smallest}"));
            let bracket = Bracket { low: None, high: Some(smallest) };
            (bracket, [Outcome::Bounded { set, reason }, unknown("no point is cached".to_owned())])
        }
        SeedFit::NoTransition { contrast } => {
            let reason = format!("rates differ by a factor of {contrast:.2} only, and no rate of memory is known");
            (none, [unknown(reason.clone()), unknown(reason)])
        }
        SeedFit::TooFewPoints => {
            let reason = "fewer than two points are left".to_owned();
            (none, [unknown(reason.clone()), unknown(reason)])
        }
    };
    found(part, names, bracket, outcomes, &used)
}
