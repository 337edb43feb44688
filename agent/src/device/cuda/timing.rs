//! Timing by device events.
//!
//! Launches of one batch are queued without waiting in between: the host is ahead of the device, so an interval holds
//! the kernel and not the host's way to it. A lead kernel keeps the device busy while the first of them is queued. Several
//! launches of one interval travel as a graph: queueing a launch costs the host two to five microseconds, which is more
//! than a short kernel takes, and an interval that waits for the host measures the host. Whether the host was ahead is
//! looked at for each interval; those that it was not ahead of are dropped, and where these are many the batch is taken
//! again behind a longer lead.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, CudaStream, DriverError, sys};

use super::driver;
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
pub(super) struct Timer {
    pairs: Vec<(CudaEvent, CudaEvent)>,
    opened: Instant,
    /// How much longer than usual leads have to be on this host.
    lead_scale: Cell<u64>,
    /// Batches since the last one with a dropped interval.
    calm: Cell<u64>,
}

/// What goes into one timed series.
#[derive(Debug)]
pub(super) struct Intervals<'a> {
    /// Launched before each interval.
    pub(super) flush: Option<Ready<'a>>,
    /// What one run launches, inside each interval; nothing times the instrument.
    pub(super) body: Vec<Ready<'a>>,
    /// Runs in each interval.
    pub(super) launches: u64,
    /// Intervals.
    pub(super) count: u64,
}

/// What is enqueued between two events.
enum Body<'a> {
    Nothing,
    Once(&'a [Ready<'a>]),
    Several(CudaGraph),
}

impl Body<'_> {
    fn enqueue(&self, stream: &CudaStream) -> Result<(), DriverError> {
        match self {
            Self::Nothing => Ok(()),
            Self::Once(run) => run.iter().try_for_each(|ready| ready.enqueue(stream)),
            Self::Several(graph) => graph.launch(),
        }
    }
}

impl Timer {
    /// Creates the events.
    pub(super) fn new(context: &Arc<CudaContext>) -> Result<Self, DeviceError> {
        let event = || {
            context
                .new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
                .map_err(|error| driver::fault("creating an event", error))
        };
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
        stream: &Arc<CudaStream>,
        series: &Intervals<'_>,
        lead: impl Fn(u64, u64) -> Result<Ready<'a>, DeviceError>,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let body = body(stream, series)?;
        let mut samples = Vec::new();
        let count = usize::try_from(series.count).unwrap_or(usize::MAX);
        while samples.len() < count {
            let pairs = &self.pairs[..(count - samples.len()).min(BATCH)];
            let scale = self.lead_scale.get();
            let lead = lead(pairs.len() as u64, scale)?;
            let queue = || {
                stream.context().bind_to_thread()?;
                lead.enqueue(stream)?;
                queue(stream, series, &body, pairs)
            };
            let was_ahead = queue().map_err(|error| driver::fault("timing", error))?;
            let behind = was_ahead.iter().filter(|ahead| !**ahead).count();
            self.note(behind);
            if behind * 2 < pairs.len() {
                self.read(pairs, &was_ahead, &mut samples)?;
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
        pairs: &[(CudaEvent, CudaEvent)],
        was_ahead: &[bool],
        samples: &mut Vec<RawSample>,
    ) -> Result<(), DeviceError> {
        // The device's events are laid onto the host's clock by their distance from the last one, which has just passed.
        let end_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Some((_, last)) = pairs.last() else { return Ok(()) };
        for ((start, stop), _) in pairs.iter().zip(was_ahead).filter(|(_, ahead)| **ahead) {
            let ns = elapsed_ns(start, stop)?;
            let before_end_ns = elapsed_ns(start, last)?;
            samples.push(RawSample { start_ns: end_ns.saturating_sub(before_end_ns), ns });
        }
        Ok(())
    }
}

/// What goes between the events of every interval of a series.
fn body<'a>(stream: &Arc<CudaStream>, series: &'a Intervals<'_>) -> Result<Body<'a>, DeviceError> {
    if series.body.is_empty() {
        return Ok(Body::Nothing);
    }
    if series.launches <= 1 {
        return Ok(Body::Once(&series.body));
    }
    let capture = || {
        stream.context().bind_to_thread()?;
        stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let run = |_| series.body.iter().try_for_each(|ready| ready.enqueue(stream));
        let captured = (0..series.launches).try_for_each(run);
        // Ended even where a launch failed, or the stream would stay unusable.
        let graph = stream.end_capture(sys::CUgraphInstantiate_flags(0));
        captured?;
        let graph = graph?;
        graph.iter().try_for_each(CudaGraph::upload)?;
        Ok(graph)
    };
    let graph: Option<CudaGraph> = capture().map_err(|error| driver::fault("capturing launches", error))?;
    graph.map(Body::Several).ok_or_else(|| DeviceError::Launch {
        what: "capturing launches".to_owned(),
        reason: "the driver made no graph of them".to_owned(),
    })
}

/// Queues intervals and waits for them. For each, whether the device had not begun it before it was all queued: else the
/// host was not ahead.
fn queue(
    stream: &CudaStream,
    series: &Intervals<'_>,
    body: &Body<'_>,
    pairs: &[(CudaEvent, CudaEvent)],
) -> Result<Vec<bool>, DriverError> {
    let mut was_ahead = Vec::with_capacity(pairs.len());
    for (start, stop) in pairs {
        if let Some(flush) = &series.flush {
            flush.enqueue(stream)?;
        }
        start.record(stream)?;
        body.enqueue(stream)?;
        stop.record(stream)?;
        was_ahead.push(!start.try_is_complete()?);
    }
    stream.synchronize()?;
    Ok(was_ahead)
}

/// The driver gives milliseconds as `f32`: at one second its step is 60 ns, at one millisecond 0.06 ns.
fn elapsed_ns(start: &CudaEvent, stop: &CudaEvent) -> Result<u64, DeviceError> {
    let milliseconds = start.elapsed_ms(stop).map_err(|error| driver::fault("reading an event", error))?;
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
