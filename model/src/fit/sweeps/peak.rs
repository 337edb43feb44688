//! Demonstrated maxima and minima: arithmetic peaks, and the launch that does nothing.

use std::collections::BTreeMap;

use super::curve::{Of, Refit, Work, refits, spread};
use super::{SweepFits, Taken, as_winner};
use crate::constants::{LAUNCH_LATENCY, MEMORY_BANDWIDTH, PEAK_FLOPS, PIPE};
use crate::fit::devices::LEVELED_MIN;
use crate::fit::estimated::{Estimated, Outcome, Value};
use crate::fit::interval::{Domain, Spread};
use crate::fit::{ConstantInterval, Mode, Options};
use crate::machine::Pipe;
use crate::seed::envelope::{self, EnvelopeRow};
use crate::units::{Seconds, Unit};

/// The kernel that does nothing.
const EMPTY: &str = "empty";

/// The largest rate of each kernel and solution, and of each pipe and number format.
pub(super) fn peaks<'a>(taken: &Taken<'a>, mode: Mode, fits: &mut SweepFits<'a>) {
    if taken.works.is_empty() {
        fits.estimated.push(taken.nothing(PEAK_FLOPS, Unit::FlopsPerSecond));
        return;
    }
    let mut pipes: BTreeMap<(Pipe, _), Vec<(f64, String, Estimated<'a>)>> = BTreeMap::new();
    for mut part in taken.parts() {
        let of = if mode == Mode::Seed { Of::Best } else { Of::Class };
        let flops = |work: &Work<'_>| work.row.counts().flops as f64;
        let rate = |work: &Work<'_>| {
            let rate = flops(work) / work.seconds(of)?;
            (work.row.counts().ops_exact && rate.is_finite() && rate > 0.0).then_some(rate)
        };
        // A size that only one unusual device measured does not speak for its class; three do, their own effects taken out.
        let most = part.works.iter().map(|work| work.devices()).max().unwrap_or(0);
        let shown = part.works.iter().filter(|work| work.devices() >= LEVELED_MIN.min(most.div_ceil(2)));
        let best = shown
            .filter_map(|work| Some((work, rate(work)?)))
            .reduce(|best, next| if next.1 > best.1 { next } else { best });
        let pipe = match part.works.iter().any(|work| work.row.counts().tensor_ops > 0) {
            true => Pipe::Tensor,
            false => Pipe::Scalar,
        };
        part.condition.insert(PIPE.to_owned(), pipe.name().to_owned());
        let Some((work, best)) = best else {
            let reason = "no row has exact operations and a rate".to_owned();
            fits.estimated.push(part.estimated(PEAK_FLOPS, Unit::FlopsPerSecond, &[], Outcome::NotIdentified(reason)));
            continue;
        };
        let value = Value {
            witness: work.witness(|seconds| flops(work) / seconds),
            ..Value::new(best, Spread::none(ConstantInterval::Witness))
        };
        let estimated = part.estimated(PEAK_FLOPS, Unit::FlopsPerSecond, &[work], Outcome::Measured(value));
        pipes.entry((pipe, part.dtype)).or_default().push((best, part.title.clone(), estimated));
    }
    for ((pipe, dtype), parts) in pipes {
        let mut condition = taken.condition.to_map();
        let names = [(PIPE, pipe.name()), ("dtype", dtype.name())];
        condition.extend(names.map(|(name, value)| (name.to_owned(), value.to_owned())));
        let best = parts.iter().reduce(|best, next| if next.0 > best.0 { next } else { best });
        fits.estimated.extend(best.map(|(_, title, estimated)| as_winner(estimated, title, condition)));
        fits.estimated.extend(parts.into_iter().map(|(_, _, estimated)| estimated));
    }
}

/// The time of the fastest empty launch.
pub(super) fn launch_latency<'a>(taken: &Taken<'a>, mode: Mode, fits: &mut SweepFits<'a>) {
    let mut part = taken.whole();
    part.works.retain(|work| work.row.work().kernel == EMPTY);
    let of = if mode == Mode::Seed { Of::Best } else { Of::Class };
    let timed = part.works.iter().filter_map(|work| Some((work, work.seconds(of)?)));
    let Some((work, seconds)) = timed.reduce(|best, next| if next.1 < best.1 { next } else { best }) else {
        fits.estimated.push(taken.nothing(LAUNCH_LATENCY, Unit::Seconds));
        return;
    };
    let refitted = refits(std::slice::from_ref(work), |times| match times.first().copied().flatten() {
        Some(seconds) => Refit::Fitted([seconds]),
        None => Refit::TooFew,
    });
    let spread = match mode {
        Mode::Robust => spread(&refitted, |values| values[0], seconds, Domain::Positive),
        Mode::Seed => Spread::none(ConstantInterval::SeedMode),
    };
    let solution = Some(format!("{EMPTY} {}", work.row.work().solution));
    let outcome = Outcome::Measured(Value::new(seconds, spread));
    fits.estimated.push(Estimated { solution, ..part.estimated(LAUNCH_LATENCY, Unit::Seconds, &[work], outcome) });
}

/// The original's memory leg: the largest rate that a row with exact bytes demonstrates. It has no footprint rule, as
/// its sweep has no small arrays; ours has, so its rows are those that speak for main memory.
pub(super) fn seed_memory<'a>(taken: &Taken<'a>, options: &Options, fits: &mut SweepFits<'a>) {
    let memory = taken.works.iter().filter(|work| work.row.speaks_for_dram(options.footprint_factor));
    let timed: Vec<(&Work<'a>, f64)> = memory.filter_map(|work| Some((work, work.seconds(Of::Best)?))).collect();
    let row = |(work, seconds): &(&Work<'a>, f64)| EnvelopeRow {
        label: work.row.work().point.clone(),
        time: Seconds(*seconds),
        bound: None,
        kernels: work.row.counts().kernels,
        flops: work.row.counts().flops,
        bytes: work.row.counts().bytes_moved(),
        flops_exact: work.row.counts().ops_exact,
        bytes_exact: work.row.counts().bytes_exact,
        opaque: work.row.counts().opaque,
    };
    let leg = envelope::fit(&timed.iter().map(row).collect::<Vec<_>>()).memory;
    let shown = leg.and_then(|leg| Some((leg.peak, timed.get(leg.witness)?.0)));
    let Some((peak, work)) = shown else {
        fits.estimated.push(taken.nothing(MEMORY_BANDWIDTH, Unit::BytesPerSecond));
        return;
    };
    let value = Value {
        witness: work.witness(|seconds| work.row.counts().bytes_moved() as f64 / seconds),
        ..Value::new(peak, Spread::none(ConstantInterval::Witness))
    };
    let part = taken.whole();
    fits.estimated.push(part.estimated(MEMORY_BANDWIDTH, Unit::BytesPerSecond, &[work], Outcome::Measured(value)));
}
