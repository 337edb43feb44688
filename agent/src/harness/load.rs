//! Listener: the load that a device is under when samples are taken, where the plan names one.
//!
//! Clocks and power follow the work with a delay: a B200 was seen to run its first five milliseconds at 1965 MHz and then
//! at 1580, 15% slower (flashinfer, pull request 2899). So *burst* is what a device gives in the first [`BURST_NS`] of work
//! after it idled, and *sustained* what it gives once it has worked for long. Both are conditions of a row and never
//! pooled.
//!
//! - **burst**: before a visit's first sample the device idles for the plan's time; the visit's timed part is over after
//!   [`BURST_NS`], so that it may have few samples, or one.
//! - **sustained**: before the first sample of a round the device works for the plan's time, on the kernel that is timed,
//!   queued so that it never waits for the host. Before the first sample of a later visit it works for as long as it
//!   idled since the last one, at most for the plan's time.
//!
//! Screening visits only rank solutions, and are taken as they come. A simulated device knows no load, and its time is not
//! the host's: its rows say the condition, and nobody waits.

use fleetcal_model::policy::Load;
use fleetcal_model::row::Origin;

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use crate::device::{Device, RawSample, Series};

/// The part of a visit after idleness that counts as a burst, nanoseconds.
const BURST_NS: u64 = 5_000_000;

/// The host looks up from waiting so often, nanoseconds: a device is given back within it.
const NAP_NS: u64 = 10_000_000;

/// Work that is queued at a time, nanoseconds.
const QUEUED_NS: u64 = 20_000_000;

/// Most intervals that are queued at a time.
const QUEUED_MAX: u64 = 64;

/// Most times that work is queued, for a clock that stands still.
const QUEUES_MAX: u64 = 100_000;

/// Idles or loads the device before the first sample of a visit.
#[derive(Debug, Default)]
pub(super) struct Loader {
    /// Whether the round's load is over.
    round_loaded: bool,
    /// Whether the visit in hand has had its load or its rest.
    visit_ready: bool,
    /// End of the last timed batch, on the monotonic clock, nanoseconds.
    busy_until_ns: u64,
}

impl<D: Device> Listener<D> for Loader {
    fn name(&self) -> &'static str {
        "loader"
    }

    fn pre_round(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.round_loaded = false;
        Ok(())
    }

    fn pre_visit(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.visit_ready = false;
        Ok(())
    }

    fn pre_sync(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if std::mem::replace(&mut self.visit_ready, true) || bench.device.origin() == Origin::Simulated {
            return Ok(());
        }
        let load_ns = bench.setting.task.policy.load_ns;
        match bench.load() {
            None => Ok(()),
            Some(Load::Burst) => idle(bench, load_ns),
            Some(Load::Sustained) => {
                let idled_ns = bench.since_ns(self.busy_until_ns);
                let wanted_ns = if self.round_loaded { idled_ns.min(load_ns) } else { load_ns };
                self.round_loaded = true;
                work(bench, wanted_ns)
            }
        }
    }

    fn post_sync(&mut self, bench: &mut Bench<'_, D>, _samples: &[RawSample]) -> HookResult {
        self.busy_until_ns = bench.setting.clock.monotonic_ns();
        Ok(())
    }
}

impl<D: Device> Bench<'_, D> {
    /// The load under which the samples of the visit in hand are taken.
    pub(super) fn load(&self) -> Option<Load> {
        self.setting.task.policy.load.filter(|_| !self.is_screening())
    }

    /// Longest timed part of a measuring visit, nanoseconds.
    pub(super) fn visit_ns_max(&self) -> u64 {
        let policy = &self.setting.task.policy;
        match policy.load {
            Some(Load::Burst) => policy.visit_ns_max.min(BURST_NS),
            Some(Load::Sustained) | None => policy.visit_ns_max,
        }
    }
}

/// Lets the device rest.
fn idle<D: Device>(bench: &Bench<'_, D>, rest_ns: u64) -> HookResult {
    let mut left_ns = rest_ns;
    while left_ns > 0 {
        heed_interrupt(bench)?;
        let nap_ns = left_ns.min(NAP_NS);
        bench.setting.clock.sleep(nap_ns);
        left_ns -= nap_ns;
    }
    Ok(())
}

/// Keeps the device at work on the solution in hand.
fn work<D: Device>(bench: &mut Bench<'_, D>, work_ns: u64) -> HookResult {
    let started_ns = bench.setting.clock.monotonic_ns();
    let launches = bench.record().launches();
    let mut intervals = 1;
    for _ in 0..QUEUES_MAX {
        if bench.since_ns(started_ns) >= work_ns {
            break;
        }
        heed_interrupt(bench)?;
        let samples = bench.time(Series { intervals, launches, flush_bytes: None })?;
        let longest_ns = samples.iter().map(|sample| sample.ns).max().unwrap_or(0);
        intervals = (QUEUED_NS / longest_ns.max(1)).clamp(1, QUEUED_MAX);
    }
    Ok(())
}

/// A load or a rest that was cut short is none: no sample may follow it.
fn heed_interrupt<D: Device>(bench: &Bench<'_, D>) -> HookResult {
    if bench.interrupted() { Err(HarnessError::Interrupted) } else { Ok(()) }
}
