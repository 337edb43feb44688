//! Timing by device events.
//!
//! Launches of one batch are queued without waiting in between: the host is ahead of the device, so an interval holds
//! the kernel and not the host's way to it. A lead kernel keeps the device busy while the first of them is queued.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaEvent, CudaStream, sys};

use super::driver;
use super::launch::Ready;
use crate::device::{DeviceError, RawSample};

/// Intervals queued before the host waits. A few hundred milliseconds at most, so that a device can be given back.
const BATCH: usize = 64;

/// Event pairs, created once and used again: creating one inside a batch would stall the host.
#[derive(Debug)]
pub(super) struct Timer {
    pairs: Vec<(CudaEvent, CudaEvent)>,
    opened: Instant,
}

/// What goes into one timed series.
#[derive(Debug)]
pub(super) struct Intervals<'a> {
    /// Keeps the device busy while the host queues.
    pub(super) lead: Ready<'a>,
    /// Launched before each interval.
    pub(super) flush: Option<Ready<'a>>,
    /// Launched inside each interval; none times the instrument.
    pub(super) body: Option<Ready<'a>>,
    /// Launches of each interval.
    pub(super) launches: u64,
    /// Intervals.
    pub(super) count: u64,
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
        Ok(Self { pairs, opened: Instant::now() })
    }

    /// The moment that starts of samples count from.
    pub(super) fn opened(&self) -> Instant {
        self.opened
    }

    /// Times a series.
    pub(super) fn time(&self, stream: &CudaStream, series: &Intervals<'_>) -> Result<Vec<RawSample>, DeviceError> {
        let mut samples = Vec::new();
        let mut left = usize::try_from(series.count).unwrap_or(usize::MAX);
        while left > 0 {
            let pairs = &self.pairs[..left.min(BATCH)];
            self.batch(stream, series, pairs, &mut samples)?;
            left -= pairs.len();
        }
        Ok(samples)
    }

    fn batch(
        &self,
        stream: &CudaStream,
        series: &Intervals<'_>,
        pairs: &[(CudaEvent, CudaEvent)],
        samples: &mut Vec<RawSample>,
    ) -> Result<(), DeviceError> {
        let queue = || {
            stream.context().bind_to_thread()?;
            series.lead.enqueue(stream)?;
            for (start, stop) in pairs {
                if let Some(flush) = &series.flush {
                    flush.enqueue(stream)?;
                }
                start.record(stream)?;
                if let Some(body) = &series.body {
                    (0..series.launches).try_for_each(|_| body.enqueue(stream))?;
                }
                stop.record(stream)?;
            }
            stream.synchronize()
        };
        queue().map_err(|error| driver::fault("timing", error))?;
        // The device's events are laid onto the host's clock by their distance from the last one, which has just passed.
        let end_ns = u64::try_from(self.opened.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let Some((_, last)) = pairs.last() else { return Ok(()) };
        for (start, stop) in pairs {
            let ns = elapsed_ns(start, stop)?;
            let before_end_ns = elapsed_ns(start, last)?;
            samples.push(RawSample { start_ns: end_ns.saturating_sub(before_end_ns), ns });
        }
        Ok(())
    }
}

/// The driver gives milliseconds as `f32`: at one second its step is 60 ns, at one millisecond 0.06 ns.
fn elapsed_ns(start: &CudaEvent, stop: &CudaEvent) -> Result<u64, DeviceError> {
    let milliseconds = start.elapsed_ms(stop).map_err(|error| driver::fault("reading an event", error))?;
    Ok((f64::from(milliseconds) * 1e6).round().max(0.0) as u64)
}
