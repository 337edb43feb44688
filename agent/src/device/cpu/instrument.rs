//! What the clock and the barrier cost by themselves.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::pool::Pool;
use crate::device::{DeviceError, Instrument};

/// Readings of each kind: an odd number, so that the median is one of them.
const READINGS: usize = 1001;

/// Measures clock and barrier on the threads that will time.
///
/// # Errors
/// [`DeviceError::Lost`] if a thread has ended.
pub(super) fn measure(pool: &mut Pool) -> Result<Instrument, DeviceError> {
    let intervals = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let collected = Arc::clone(&intervals);
    let team = pool.size();
    pool.execute(team, move |member| {
        let (mut empty, mut launches) = (Vec::with_capacity(READINGS), Vec::with_capacity(READINGS));
        for _ in 0..READINGS {
            let start = Instant::now();
            empty.push(start.elapsed());
        }
        for _ in 0..READINGS {
            let start = member.meet(Instant::now)?;
            let end = member.meet(Instant::now)?;
            if let (Some(start), Some(end)) = (start, end) {
                launches.push(end - start);
            }
        }
        if member.index() == 0 {
            *collected.lock().unwrap_or_else(PoisonError::into_inner) = (empty, launches);
        }
        Ok(())
    })?;
    let mut intervals = intervals.lock().unwrap_or_else(PoisonError::into_inner);
    let (empty, launches) = &mut *intervals;
    let resolution = empty.iter().copied().filter(|interval| !interval.is_zero()).min().unwrap_or_default();
    Ok(Instrument {
        clock_resolution_ns: nanoseconds(resolution),
        clock_overhead_ns: nanoseconds(median(empty)),
        empty_launch_ns: nanoseconds(median(launches)),
    })
}

fn median(intervals: &mut [Duration]) -> Duration {
    intervals.sort_unstable();
    intervals.get(intervals.len() / 2).copied().unwrap_or_default()
}

fn nanoseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e9
}
