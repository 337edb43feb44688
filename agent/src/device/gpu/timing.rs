//! Timing by device events.
//!
//! Launches of one batch are queued without waiting in between: the host is ahead of the device, so an interval holds
//! the kernel and not the host's way to it. A lead kernel keeps the device busy while the first of them is queued. Several
//! launches of one interval travel as a graph: queueing a launch costs the host two to five microseconds, which is more
//! than a short kernel takes, and an interval that waits for the host measures the host. Whether the host was ahead is
//! looked at for each interval; those that it was not ahead of are dropped, and where these are many the batch is taken
//! again behind a longer lead.

use std::cell::Cell;
use std::time::Instant;

use super::driver::Driver;
use super::launch::Ready;
use crate::device::{DeviceError, RawSample};

/// Intervals queued before the host waits. A few hundred milliseconds at most, so that a device can be given back.
const BATCH: usize = 64;

/// A lead is made at most so many times longer for a host that is slow to queue.
const LEAD_SCALE_MAX: u64 = 64;

/// After so many batches without a dropped interval a longer lead is made shorter again: one hiccup of the host is no
/// reason to spin for the rest of the task.
const CALM_BATCHES: u64 = 64;

/// Event pairs, created once and used again: creating one inside a batch would stall the host.
#[derive(Debug)]
pub(super) struct Timer<D: Driver> {
    pairs: Vec<(D::Event, D::Event)>,
    opened: Instant,
    /// How much longer than usual leads have to be on this host.
    lead_scale: Cell<u64>,
    /// Batches since the last one with a dropped interval.
    calm: Cell<u64>,
}

/// What goes into one timed series.
#[derive(Debug)]
pub(super) struct Intervals<'a, D: Driver> {
    /// Launched before each interval.
    pub(super) flush: Option<Ready<'a, D>>,
    /// What one run launches, inside each interval; nothing times the instrument.
    pub(super) body: Vec<Ready<'a, D>>,
    /// Runs in each interval.
    pub(super) launches: u64,
    /// Intervals.
    pub(super) count: u64,
}

/// What is enqueued between two events.
enum Body<'a, D: Driver> {
    Nothing,
    /// So many runs, one after the other.
    Each(&'a [Ready<'a, D>], u64),
    Graph(D::Graph),
}

impl<D: Driver> Body<'_, D> {
    fn enqueue(&self, driver: &D) -> Result<(), D::Fault> {
        match self {
            Self::Nothing => Ok(()),
            Self::Each(run, count) => enqueue_runs(driver, run, *count),
            Self::Graph(graph) => driver.launch_graph(graph),
        }
    }
}

fn enqueue_runs<D: Driver>(driver: &D, run: &[Ready<'_, D>], count: u64) -> Result<(), D::Fault> {
    (0..count).try_for_each(|_| run.iter().try_for_each(|ready| ready.enqueue(driver)))
}

impl<D: Driver> Timer<D> {
    /// Creates the events.
    pub(super) fn new(driver: &D) -> Result<Self, DeviceError> {
        let event = || driver.event().map_err(|fault| driver.fault("creating an event", fault));
        let pairs = (0..BATCH).map(|_| Ok((event()?, event()?))).collect::<Result<_, DeviceError>>()?;
        Ok(Self { pairs, opened: Instant::now(), lead_scale: Cell::new(1), calm: Cell::new(0) })
    }

    /// The moment that starts of samples count from.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Times a series; dropped intervals are taken again. `lead` makes the kernel that keeps the device busy while the host queues, for a number of intervals
    /// and a factor by which it has to last longer than usual.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] where the host cannot queue as fast as the device works, however long the lead.
    pub(super) fn time<'a>(
        &self,
        driver: &D,
        series: &Intervals<'_, D>,
        lead: impl Fn(u64, u64) -> Result<Ready<'a, D>, DeviceError>,
    ) -> Result<Vec<RawSample>, DeviceError>
    where
        D: 'a,
    {
        let body = body(driver, series)?;
        let mut samples = Vec::new();
        let count = usize::try_from(series.count).unwrap_or(usize::MAX);
        while samples.len() < count {
            let pairs = &self.pairs[..(count - samples.len()).min(BATCH)];
            let scale = self.lead_scale.get();
            let lead = lead(pairs.len() as u64, scale)?;
            let queue = || {
                driver.bind()?;
                lead.enqueue(driver)?;
                queue(driver, series, &body, pairs)
            };
            let was_ahead = queue().map_err(|fault| driver.fault("timing", fault))?;
            let behind = was_ahead.iter().filter(|ahead| !**ahead).count();
            self.note(behind);
            if behind * 2 < pairs.len() {
                self.read(driver, pairs, &was_ahead, &mut samples)?;
            } else if scale < LEAD_SCALE_MAX {
                self.lead_scale.set(scale * 2);
            } else {
                let reason = "the host queues launches slower than the device works: times would be the host's";
                return Err(DeviceError::Launch { what: "timing".to_owned(), reason: reason.to_owned() });
            }
        }
        Ok(samples)
    }

    /// Makes leads shorter again after a calm time.
    fn note(&self, behind: usize) {
        let calm = if behind > 0 { 0 } else { self.calm.get() + 1 };
        if calm >= CALM_BATCHES && self.lead_scale.get() > 1 {
            self.lead_scale.set(self.lead_scale.get() / 2);
            self.calm.set(0);
        } else {
            self.calm.set(calm);
        }
    }

    /// Reads the intervals of a complete batch that the host was ahead of.
    fn read(
        &self,
        driver: &D,
        pairs: &[(D::Event, D::Event)],
        was_ahead: &[bool],
        samples: &mut Vec<RawSample>,
    ) -> Result<(), DeviceError> {
        // The device's events are laid onto the host's clock by their distance from the last one, which has just passed.
        let end_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Some((_, last)) = pairs.last() else { return Ok(()) };
        for ((start, stop), _) in pairs.iter().zip(was_ahead).filter(|(_, ahead)| **ahead) {
            let ns = elapsed_ns(driver, start, stop)?;
            let before_end_ns = elapsed_ns(driver, start, last)?;
            samples.push(RawSample { start_ns: end_ns.saturating_sub(before_end_ns), ns });
        }
        Ok(())
    }
}

/// What goes between the events of every interval of a series.
fn body<'a, D: Driver>(driver: &D, series: &'a Intervals<'_, D>) -> Result<Body<'a, D>, DeviceError> {
    if series.body.is_empty() {
        return Ok(Body::Nothing);
    }
    if series.launches <= 1 {
        return Ok(Body::Each(&series.body, 1));
    }
    let graph = driver.capture(|| enqueue_runs(driver, &series.body, series.launches))?;
    Ok(graph.map_or(Body::Each(&series.body, series.launches), Body::Graph))
}

/// Queues intervals and waits for them. For each, whether the device had not begun it before it was all queued: else the
/// host was not ahead.
fn queue<D: Driver>(
    driver: &D,
    series: &Intervals<'_, D>,
    body: &Body<'_, D>,
    pairs: &[(D::Event, D::Event)],
) -> Result<Vec<bool>, D::Fault> {
    let mut was_ahead = Vec::with_capacity(pairs.len());
    for (start, stop) in pairs {
        if let Some(flush) = &series.flush {
            flush.enqueue(driver)?;
        }
        driver.record(start)?;
        body.enqueue(driver)?;
        driver.record(stop)?;
        was_ahead.push(!driver.is_reached(start)?);
    }
    driver.synchronize()?;
    Ok(was_ahead)
}

/// The driver gives milliseconds as `f32`: at one second its step is 60 ns, at one millisecond 0.06 ns.
fn elapsed_ns<D: Driver>(driver: &D, start: &D::Event, stop: &D::Event) -> Result<u64, DeviceError> {
    let milliseconds = driver.elapsed_ms(start, stop).map_err(|fault| driver.fault("reading an event", fault))?;
    Ok(nanoseconds(milliseconds))
}

/// Milliseconds as nanoseconds. What cannot have passed, less than nothing or no number, is no time at all: the harness
/// counts no such interval.
fn nanoseconds(milliseconds: f32) -> u64 {
    let ns = (f64::from(milliseconds) * 1e6).round();
    if ns.is_finite() && ns > 0.0 { ns as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_have_passed_is_no_time() {
        assert_eq!(nanoseconds(0.25), 250_000);
        assert_eq!(nanoseconds(1.5e-3), 1500);
        for impossible in [0.0, -0.0, -0.001, f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            assert_eq!(nanoseconds(impossible), 0, "{impossible}");
        }
    }
}
