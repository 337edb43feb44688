//! Listener: how many launches one timed interval holds.
//!
//! An interval costs something of its own (an event pair on an H200 takes one to two microseconds, and shows steps of half
//! a microsecond at worst), and this is inside the sample. It is measured, kept with the row and never subtracted; a
//! kernel of three microseconds is instead timed many times in one interval, until what the instrument adds is below
//! one percent of it. The launches of an interval follow each other in one stream: they do not overlap, and the device's
//! gap between two launches is inside, once a launch. So a batched time is that of a kernel in a row of its kind, which is
//! what a caller that launches many sees, and the row says `batched`.
//!
//! The number is chosen once a row, before its first sample, from a probe that no row keeps. Whether to batch at all is
//! chosen once a point: a single time and one of many are times of different things, and solutions are ranked against each
//! other. The first solution that is visited decides for all, and leaves room for faster ones. Only warm intervals are
//! batched: a cold one needs its flush before every launch, and an oversized launch is long anyway.

use fleetcal_model::policy::Batching;
use fleetcal_model::row::{FlushMode, Timing, TimingMode};

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::record::Publication;
use crate::device::{Device, Series};
use crate::worker::resume::Stage;

/// An interval is at least so many times what an empty one shows: its share is then 1% at most.
const OVERHEADS: f64 = 100.0;

/// An interval is at least so many steps of its clock: a sample is then right to 0.5%, and medians are better.
const RESOLUTIONS: f64 = 200.0;

/// An interval is at least so long, nanoseconds, whatever the clock promises.
const INTERVAL_NS_MIN: f64 = 50_000.0;

/// A point is batched where the first of its solutions is shorter than so many intervals: others may be as many times
/// faster, and are still timed well enough.
const SLOWEST_FIRST: u64 = 4;

/// Fewest launches of a batched interval.
const LAUNCHES_MIN: u64 = 2;

/// Most launches of an interval: drivers queue about a thousand before the host has to wait.
const LAUNCHES_MAX: u64 = 1_000;

/// Intervals of one probe.
const PROBE_INTERVALS: u64 = 3;

/// Probes at most: one launch, a first guess, and two corrections of it.
const PROBES_MAX: u32 = 4;

/// Chooses the number of launches of a record before its row is open.
#[derive(Debug)]
pub(super) struct Batcher;

impl<D: Device> Listener<D> for Batcher {
    fn name(&self) -> &'static str {
        "batcher"
    }

    /// Registered behind the validator: what is wrong is not probed. A row that is open has its number, and keeps it.
    fn validate_warmup(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let wanted = match (bench.family.timing_mode(&bench.point().point), bench.setting.task.policy.batching) {
            (Some(mode), _) => mode == TimingMode::Batched,
            (None, Batching::Auto) => bench.point().flush.mode == FlushMode::Warm,
            (None, Batching::Never) => false,
        };
        let record = bench.record();
        if !wanted || record.publication != Publication::Unsaid || !record.verdict.is_live() {
            return Ok(());
        }
        let (timing_mode, launches) = choose(bench)?;
        let point = bench.position.point;
        bench.points[point].timing_mode = Some(timing_mode);
        let timing = &mut bench.record().template.timing;
        (timing.timing_mode, timing.enqueues_per_sample) = (timing_mode, launches);
        Ok(())
    }
}

/// The point's mode, chosen where it has none, and how many launches of the solution in hand make an interval long
/// enough in it.
fn choose<D: Device>(bench: &mut Bench<'_, D>) -> Result<(TimingMode, u64), HarnessError> {
    let (visit_ns_max, samples_min) = (bench.visit_ns_max(), bench.limits.samples_min);
    let shortest_ns = shortest_interval_ns(&bench.record().template.timing).min(visit_ns_max / samples_min.max(1));
    if bench.point().timing_mode == Some(TimingMode::Single) {
        return Ok((TimingMode::Single, 1));
    }
    let mut interval_ns = probe(bench, 1)?;
    if bench.point().timing_mode.is_none() && interval_ns >= SLOWEST_FIRST.saturating_mul(shortest_ns) {
        return Ok((TimingMode::Single, 1));
    }
    let mut launches = 1;
    for _ in 1..PROBES_MAX {
        match more_launches(launches, interval_ns, shortest_ns) {
            Some(more) => launches = more,
            None => break,
        }
        interval_ns = probe(bench, launches)?;
    }
    Ok((TimingMode::Batched, launches.max(LAUNCHES_MIN)))
}

/// Shortest interval that the instrument of a row can be trusted with, nanoseconds.
fn shortest_interval_ns(timing: &Timing) -> u64 {
    let overheads_ns = OVERHEADS * timing.clock_overhead_ns.unwrap_or(0.0);
    let resolutions_ns = RESOLUTIONS * timing.clock_resolution_ns.unwrap_or(0.0);
    INTERVAL_NS_MIN.max(overheads_ns).max(resolutions_ns).ceil() as u64
}

/// Launches that make an interval long enough, where `launches` took `interval_ns`; `None` where they are enough, or as
/// many as there may be. A tenth is added, so that the next probe is not just too short again.
fn more_launches(launches: u64, interval_ns: u64, shortest_ns: u64) -> Option<u64> {
    if interval_ns >= shortest_ns || launches >= LAUNCHES_MAX {
        return None;
    }
    let wanted_ns = u128::from(shortest_ns) * 11 / 10;
    let wanted = (u128::from(launches) * wanted_ns).div_ceil(u128::from(interval_ns.max(1)));
    Some(u64::try_from(wanted).unwrap_or(u64::MAX).clamp(launches + 1, LAUNCHES_MAX))
}

/// Median of a few intervals that nobody keeps, nanoseconds.
fn probe<D: Device>(bench: &mut Bench<'_, D>, launches: u64) -> Result<u64, HarnessError> {
    let series = Series { intervals: PROBE_INTERVALS, launches, flush_bytes: None };
    let expected_ns = bench.visit.expected_sample_ns(launches).saturating_mul(PROBE_INTERVALS);
    bench.begin_with_solution(Stage::Timing, expected_ns)?;
    let mut samples_ns: Vec<u64> = bench.time(series)?.iter().map(|sample| sample.ns).collect();
    samples_ns.sort_unstable();
    Ok(samples_ns[samples_ns.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_long_for_its_instrument() {
        let with = |overhead_ns, resolution_ns| {
            let mut timing = crate::testing::timing();
            (timing.clock_overhead_ns, timing.clock_resolution_ns) = (overhead_ns, resolution_ns);
            shortest_interval_ns(&timing)
        };
        assert_eq!(with(Some(1_500.0), Some(32.0)), 150_000, "events");
        assert_eq!(with(Some(1_500.0), Some(1_000.0)), 200_000, "coarse events");
        assert_eq!(with(Some(30.0), Some(1.0)), 50_000, "a processor's clock");
        assert_eq!(with(None, None), 50_000);
    }

    #[test]
    fn a_short_interval_gets_as_many_launches_as_it_lacks() {
        assert_eq!(more_launches(1, 50_000, 50_000), None);
        assert_eq!(more_launches(1, 5_000, 50_000), Some(11));
        assert_eq!(more_launches(11, 40_000, 50_000), Some(16), "less than eleven times the first: corrected");
        assert_eq!(more_launches(1, 0, 50_000), Some(LAUNCHES_MAX), "a clock that did not tick");
        assert_eq!(more_launches(LAUNCHES_MAX, 1, 50_000), None, "never more than can be queued");
        assert_eq!(more_launches(1, 49_999, 50_000), Some(2));
    }
}
