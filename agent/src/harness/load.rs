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
//!   queued so that it never waits for the host, and on until its clock and its power stand still ([`steady`]), at most
//!   [`LOAD_TIMES_MAX`] times as long. Before the first sample of a later visit it works for as long as it idled since the
//!   last one, at most for the plan's time.
//!
//! A row says `sustained` where that was seen in every round, `sustained_unverified` where no sensor could tell, and
//! `unsettled` where clock or power still moved: three conditions, never pooled.
//!
//! Screening visits only rank solutions, and are taken as they come. A simulated device knows no load, and its time is not
//! the host's: its rows say the condition, and nobody waits.

use std::rc::Rc;

use fleetcal_model::policy::Load;
use fleetcal_model::row::{Origin, RowLoad};

use self::steady::{LOOKS, Steadiness};

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use crate::device::{Device, RawSample, Series};
use crate::telemetry::Monitor;
use crate::worker::message::Event;

mod steady;

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

/// A device that is to be under sustained load is loaded at most so many times as long as the plan says.
pub(crate) const LOAD_TIMES_MAX: u64 = 4;

/// Parts of the plan's time between two looks at the device under load.
const LOOK_PARTS: u64 = 16;

/// Idles or loads the device before the first sample of a visit.
#[derive(Debug, Default)]
pub(super) struct Loader {
    /// Who can tell whether clock and power stand still.
    monitor: Option<Rc<Monitor>>,
    /// What the load of the round in hand came to; none before it.
    round: Option<RowLoad>,
    /// What was said of the load.
    said: Option<RowLoad>,
    /// Whether the visit in hand has had its load or its rest.
    visit_ready: bool,
    /// End of the last timed batch, on the monotonic clock, nanoseconds.
    busy_until_ns: u64,
}

impl Loader {
    /// One that asks this monitor, if there is one.
    pub(super) fn of(monitor: Option<Rc<Monitor>>) -> Self {
        Self { monitor, ..Self::default() }
    }

    /// Loads the device before the first sample of a round, until it is steady.
    fn load_round<D: Device>(&mut self, bench: &mut Bench<'_, D>, load_ns: u64) -> Result<RowLoad, HarnessError> {
        let look_ns = load_ns / LOOK_PARTS;
        let looks_ns = look_ns.saturating_mul(LOOKS as u64);
        work(bench, load_ns.saturating_sub(looks_ns))?;
        let mut steadiness = Steadiness::default();
        let mut worked_ns = load_ns.saturating_sub(looks_ns);
        while worked_ns < load_ns.saturating_mul(LOAD_TIMES_MAX) {
            // Asked while the device works: a reading of an idle one says nothing.
            if let Some(monitor) = &self.monitor {
                monitor.request();
            }
            work(bench, look_ns.max(1))?;
            worked_ns = worked_ns.saturating_add(look_ns.max(1));
            steadiness.look(self.monitor.as_deref().and_then(steady::reading));
            if worked_ns >= load_ns && steadiness.seen() != RowLoad::Unsettled {
                break;
            }
        }
        let seen = steadiness.seen();
        if self.said.is_none_or(|said| said < seen) {
            self.said = Some(seen);
            if let Some(sentence) = steadiness.sentence(worked_ns) {
                bench.say(Event::Note(sentence))?;
            }
        }
        Ok(seen)
    }

    /// Notes in the row of the visit in hand what the load of its round came to, if that is worse than what it says.
    fn note<D: Device>(&self, bench: &mut Bench<'_, D>) {
        let Some(seen) = self.round else { return };
        let load = &mut bench.record().template.conditions.load;
        let before = load.as_deref().and_then(|load| load.parse().ok()).unwrap_or(RowLoad::Sustained);
        *load = Some(before.max(seen).name().to_owned());
    }
}

impl<D: Device> Listener<D> for Loader {
    fn name(&self) -> &'static str {
        "loader"
    }

    fn pre_round(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.round = None;
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
                match self.round {
                    Some(_) => work(bench, idled_ns.min(load_ns))?,
                    None => self.round = Some(self.load_round(bench, load_ns)?),
                }
                self.note(bench);
                Ok(())
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
        let left_ns = work_ns.saturating_sub(bench.since_ns(started_ns));
        if left_ns == 0 {
            break;
        }
        heed_interrupt(bench)?;
        let samples = bench.time(Series { intervals, launches, flush_bytes: None })?;
        let longest_ns = samples.iter().map(|sample| sample.ns).max().unwrap_or(0);
        intervals = (QUEUED_NS.min(left_ns) / longest_ns.max(1)).clamp(1, QUEUED_MAX);
    }
    Ok(())
}

/// A load or a rest that was cut short is none: no sample may follow it.
fn heed_interrupt<D: Device>(bench: &Bench<'_, D>) -> HookResult {
    if bench.interrupted() { Err(HarnessError::Interrupted) } else { Ok(()) }
}
