//! Listener: what the device and its host were like while samples were taken.
//!
//! Asks the monitor before each batch and after each visit, never inside a timed interval. Samples taken under a reason
//! that discards them are marked, and so are those of a visit during which others had the host's processors; a row that
//! is left with too little becomes Throttled or Contended when it closes. The screening round discards nothing: it ranks
//! solutions, whose rows are judged by the rounds that measure them, or by it where there are none. With `monitor = false` nothing is started,
//! and rows say nothing.

use std::rc::Rc;
use std::time::{Duration, Instant};

use fleetcal_model::row::Sample;
use fleetcal_model::throttle::ThrottleReasons;

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use crate::device::{Device, RawSample};
use crate::telemetry::processors::Times;
use crate::telemetry::{Monitor, Processors, Reading, Schedule, Window};
use crate::worker::message::Event;

mod quiet;
mod seen;
mod watch;

#[cfg(test)]
mod tests;

pub use seen::{Extremes, KeptReading, READINGS_KEPT, VisitSeen};
pub use watch::{Counters, LOST_SHARE_MAX, Watch};

/// Longest wait for a reading that a device of its own time is asked for: its sensor answers at once.
const REQUESTED_WAIT: Duration = Duration::from_secs(5);
/// Longest wait for a reading of any other device. Waited in vain once a task: whoever is silent then is not waited for.
const READING_WAIT: Duration = Duration::from_secs(1);

/// A batch of samples of the visit in hand.
#[derive(Debug)]
struct Batch {
    /// Its samples, by their place in the visit.
    samples: std::ops::Range<usize>,
    /// When the host saw it.
    start: Instant,
    end: Instant,
}

/// Fills the conditions of rows, and marks samples.
#[derive(Debug, Default)]
pub(super) struct HardwareMonitor {
    /// Whether anybody is to look.
    on: bool,
    monitor: Option<Rc<Monitor>>,
    /// Whether the device's time is its own: no reading can come in time there by itself.
    own_time: bool,
    processors: Option<Processors>,
    batches: Vec<Batch>,
    batch_began: Option<Instant>,
    overlapped: bool,
    /// When the first batch of the visit in hand, or of the last one, began.
    visit_began: Option<Instant>,
    /// Whether the sensor was waited for in vain.
    silent: bool,
    times_before: Option<Times>,
    /// At the end of the last visit, so that no error is lost between two.
    counters: Option<Counters>,
}

impl HardwareMonitor {
    /// Starts the monitor of the bench's device.
    ///
    /// # Errors
    /// [`HarnessError::Sink`].
    pub(super) fn start<D: Device>(bench: &mut Bench<'_, D>) -> Result<Self, HarnessError> {
        if !bench.setting.task.policy.monitor {
            return Ok(Self::default());
        }
        let own_time = bench.device.opened_at().is_none();
        let schedule = |period| if own_time { Schedule::OnRequest } else { Schedule::Every(period) };
        let started = bench.device.sensor().and_then(|sensor| {
            let schedule = schedule(sensor.period());
            Monitor::start(sensor, schedule).map_err(|error| format!("no thread can be started: {error}"))
        });
        let on_host = bench.device.processors();
        let monitor = match started {
            Ok(monitor) => Some(Rc::new(monitor)),
            Err(reason) => {
                // Virtual machines show no sensor of their processor; a row without a source says so well enough.
                if on_host.is_none() && !own_time {
                    bench.say(Event::Note(format!("sensors are not read: {reason}")))?;
                }
                None
            }
        };
        let root = std::path::Path::new("/");
        Ok(Self {
            on: true,
            monitor,
            own_time,
            // A simulated device is not slowed down by this host's load.
            processors: on_host.or_else(|| (!own_time).then(|| Processors::all(root))),
            ..Self::default()
        })
    }

    /// The monitor, for others who want to know how the device is; none where nobody looks.
    pub(super) fn shared(&self) -> Option<Rc<Monitor>> {
        self.monitor.clone()
    }

    /// The last whole reading, where it ended no earlier than the last first batch of a visit began. An older one says
    /// nothing of that visit or of what follows it: its sensor may hang since.
    fn latest(&self) -> Option<Reading> {
        let timed = self.monitor.as_ref()?.latest()?;
        self.visit_began.is_none_or(|began| timed.ended >= began).then_some(timed.reading)
    }

    /// Waits for the sensor, until it was once waited for in vain. That is said, and from then on it is only asked.
    fn wait_for<D: Device>(
        &mut self,
        bench: &mut Bench<'_, D>,
        at_most: Duration,
        wait: fn(&Monitor, Duration) -> bool,
    ) -> HookResult {
        let Some(monitor) = &self.monitor else { return Ok(()) };
        let at_most = if self.silent { Duration::ZERO } else { at_most };
        if wait(monitor, at_most) || self.silent {
            return Ok(());
        }
        self.silent = true;
        let source = monitor.source();
        bench.say(Event::Note(format!("sensor does not answer ({source}): rows say nothing of what it does not read")))
    }

    /// Marks the samples of a batch by the readings that overlap it, which are returned.
    fn mark<D: Device>(&self, bench: &mut Bench<'_, D>, batch: &Batch) -> Window {
        let Some(monitor) = &self.monitor else { return Window::default() };
        let discards = !bench.is_screening();
        let opened = bench.device.opened_at();
        let window = monitor.window(batch.start, batch.end);
        for sample in bench.visit.samples.get_mut(batch.samples.clone()).unwrap_or_default() {
            let start = opened.map_or(batch.start, |opened| opened + Duration::from_nanos(sample.start_ns));
            let end = opened.map_or(batch.end, |_| start + Duration::from_nanos(sample.ns));
            mark_sample(sample, &window, (start, end), discards);
        }
        window
    }

    /// Marks the samples of the visit in hand once more: readings that were under way when a batch ended speak for it too.
    /// Returns the readings that overlap any batch, each once.
    fn mark_all<D: Device>(&self, bench: &mut Bench<'_, D>) -> Vec<Reading> {
        let mut seen: Vec<Instant> = Vec::new();
        let mut readings = Vec::new();
        for batch in &self.batches {
            for timed in self.mark(bench, batch).readings {
                if !seen.contains(&timed.began) {
                    seen.push(timed.began);
                    readings.push(timed.reading);
                }
            }
        }
        readings
    }

    /// What others took of the host's processors since the visit's first batch.
    fn spent(&mut self) -> Option<crate::telemetry::processors::Spent> {
        let before = self.times_before.take()?;
        self.processors.as_ref()?.times()?.since(before)
    }
}

/// Marks one sample by the readings that speak for it, and discards it where it may.
fn mark_sample(sample: &mut Sample, window: &Window, (start, end): (Instant, Instant), discards: bool) {
    let about = window.about(start, end);
    sample.clock_khz = about.iter().find_map(|reading| reading.core_clock_khz);
    let reasons = about.iter().filter_map(|reading| reading.throttle).reduce(ThrottleReasons::union);
    sample.throttle_bits = reasons.map(ThrottleReasons::bits);
    sample.accepted &= !(discards && reasons.is_some_and(ThrottleReasons::discards));
}

impl<D: Device> Listener<D> for HardwareMonitor {
    fn name(&self) -> &'static str {
        "hardware monitor"
    }

    fn pre_visit(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.batches.clear();
        self.batch_began = None;
        self.overlapped = false;
        self.times_before = None;
        if self.counters.is_none() {
            self.counters = self.latest().map(|reading| Counters::of(&reading));
        }
        Ok(())
    }

    fn pre_sync(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if !self.on {
            return Ok(());
        }
        if self.times_before.is_none() {
            self.times_before = self.processors.as_ref().and_then(Processors::times);
        }
        let now = Instant::now();
        self.batch_began = Some(now);
        if self.batches.is_empty() {
            self.visit_began = Some(now);
        }
        if self.own_time {
            return self.wait_for(bench, REQUESTED_WAIT, Monitor::request_and_wait);
        }
        if let Some(monitor) = self.monitor.as_ref().filter(|_| !self.overlapped) {
            // One reading that overlaps a visit at least, however short; the period sees to the others. Screening has many
            // visits, each of which would wait for the reading that it ends in, and what it sees discards nothing.
            if bench.is_screening() { monitor.request() } else { monitor.look_closely() }
        }
        Ok(())
    }

    fn post_sync(&mut self, bench: &mut Bench<'_, D>, samples: &[RawSample]) -> HookResult {
        let Some(began) = self.batch_began.take() else { return Ok(()) };
        let (mut start, mut end) = (began, Instant::now());
        if let (Some(opened), Some(first), Some(last)) = (bench.device.opened_at(), samples.first(), samples.last()) {
            // From the first launch to the end of the last one: queueing before and reading events after are no load.
            start = opened + Duration::from_nanos(first.start_ns);
            end = opened + Duration::from_nanos(last.start_ns.saturating_add(last.ns));
        }
        let until = bench.visit.samples.len();
        if let Some(monitor) = &self.monitor {
            monitor.look_away();
        }
        if !self.overlapped && !self.own_time {
            // The one asked for before the batch may outlast it, and the samples are about to be counted.
            self.wait_for(bench, READING_WAIT, Monitor::finish_reading)?;
        }
        let batch = Batch { samples: until.saturating_sub(samples.len())..until, start, end };
        self.overlapped |= !self.mark(bench, &batch).readings.is_empty();
        self.batches.push(batch);
        Ok(())
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if !self.on || self.batches.is_empty() {
            return Ok(());
        }
        let spent = self.spent();
        if !self.own_time && !bench.is_screening() {
            // Who is there and what was counted is slow to read, some milliseconds, and readings within the visit may lack
            // it. Screening has many short visits, and what they see decides over no row that feeds a fit.
            self.wait_for(bench, READING_WAIT, Monitor::request_and_wait)?;
        }
        let readings = self.mark_all(bench);
        let on_host = bench.device.processors().is_some();
        let crowded = on_host && spent.is_some_and(|spent| spent.lost_share() > LOST_SHARE_MAX);
        let screening = bench.is_screening();
        if crowded && !screening {
            bench.visit.samples.iter_mut().for_each(|sample| sample.accepted = false);
        }
        let latest = self.latest();
        let counters = latest.as_ref().map(Counters::of);
        let counted = counters.zip(self.counters).map(|(now, then)| now.since(then)).unwrap_or_default();
        self.counters = counters;
        let seen = VisitSeen {
            source: self.monitor.as_ref().map(|monitor| monitor.source().to_owned()),
            counted,
            spent,
            host_load: self.processors.as_ref().and_then(Processors::load_average),
            crowded,
            ..VisitSeen::of(&readings, latest.and_then(|reading| reading.foreign))
        };
        let samples = std::mem::take(&mut bench.visit.samples);
        bench.record().watch.add(seen.clone(), &samples, screening);
        (bench.visit.samples, bench.visit.seen) = (samples, Some(Box::new(seen)));
        Ok(())
    }
}

impl<D: Device> Bench<'_, D> {
    /// Turns the verdict of a row whose results are right into Throttled or Contended, where its visits were.
    pub(super) fn judge_conditions(&mut self, record: usize) {
        let on_host = self.device.processors().is_some();
        let record = &mut self.records[record];
        if record.verdict.is_sound()
            && let Some(verdict) =
                record.watch.verdict(record.verdict.checked(), on_host, record.resumed_after.is_none())
        {
            record.verdict = verdict;
        }
    }
}
