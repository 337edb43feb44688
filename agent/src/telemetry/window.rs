//! Readings and the time that they were taken in.

use std::time::Instant;

use super::Reading;

/// A reading with the time that it took, on the host's monotonic clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TimedReading {
    /// Just before the sensor was asked.
    pub began: Instant,
    /// Just after it had answered.
    pub ended: Instant,
    /// What it said.
    pub reading: Reading,
}

impl TimedReading {
    /// Whether any part of it lies between `start` and `end`, both included. One whose end lies before its beginning was
    /// stamped by a clock that jumped, and overlaps nothing.
    pub fn overlaps(&self, start: Instant, end: Instant) -> bool {
        self.began <= self.ended && start <= end && self.began <= end && self.ended >= start
    }
}

/// The readings that overlap a stretch of time, in the order in which they were taken.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Window {
    /// The readings. None means that nobody looked in time: telemetry says nothing.
    pub readings: Vec<TimedReading>,
}

impl Window {
    /// Those of `readings` that overlap the time from `start` to `end`. Each is looked at by itself, so that one which a
    /// jump of the clock put out of order changes nothing about the others.
    pub fn of<'a>(readings: impl IntoIterator<Item = &'a TimedReading>, start: Instant, end: Instant) -> Self {
        let readings = readings.into_iter().filter(|reading| reading.overlaps(start, end));
        Self { readings: readings.cloned().collect() }
    }

    /// The readings that speak for a sample: those that overlap it, else the one that is nearest in time to its middle.
    /// Empty only where the window is.
    pub fn about(&self, start: Instant, end: Instant) -> Vec<&Reading> {
        let within: Vec<&Reading> =
            self.readings.iter().filter(|timed| timed.overlaps(start, end)).map(|timed| &timed.reading).collect();
        if !within.is_empty() {
            return within;
        }
        let middle = start + end.saturating_duration_since(start) / 2;
        let distance = |timed: &&TimedReading| {
            timed.began.saturating_duration_since(middle).max(middle.saturating_duration_since(timed.ended))
        };
        self.readings.iter().min_by_key(distance).map(|timed| &timed.reading).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(zero: Instant, ms: u64) -> Instant {
        zero + Duration::from_millis(ms)
    }

    fn timed(zero: Instant, began_ms: u64, ended_ms: u64) -> TimedReading {
        let reading = Reading { core_clock_khz: Some(began_ms), ..Reading::default() };
        TimedReading { began: at(zero, began_ms), ended: at(zero, ended_ms), reading }
    }

    fn clocks(readings: &[&Reading]) -> Vec<u64> {
        readings.iter().filter_map(|reading| reading.core_clock_khz).collect()
    }

    #[test]
    fn a_short_kernel_between_two_readings_has_none() {
        let zero = Instant::now();
        let readings = [timed(zero, 0, 10), timed(zero, 20, 30)];
        assert_eq!(Window::of(&readings, at(zero, 12), at(zero, 15)), Window::default(), "neither saw it");
        let later = Window::of(&readings, at(zero, 12), at(zero, 19));
        assert!(later.readings.is_empty(), "a reading that began after the kernel's end tells of an idle device");
        assert_eq!(Window::of(&readings, at(zero, 12), at(zero, 20)).readings.len(), 1);
        assert_eq!(Window::of(&readings, at(zero, 5), at(zero, 6)).readings.len(), 1, "it ran while one was taken");
    }

    #[test]
    fn a_clock_that_jumps_makes_no_reading_overlap_what_it_does_not() {
        let zero = Instant::now();
        let readings = [timed(zero, 50, 60), timed(zero, 90, 20), timed(zero, 10, 15), timed(zero, 40, 70)];
        let window = Window::of(&readings, at(zero, 30), at(zero, 55));
        let seen: Vec<&Reading> = window.readings.iter().map(|timed| &timed.reading).collect();
        assert_eq!(clocks(&seen), [50, 40], "out of order is kept, an end before its beginning is not");
        assert!(Window::of(&readings, at(zero, 55), at(zero, 30)).readings.is_empty(), "time does not run backwards");
    }

    #[test]
    fn a_sample_has_the_readings_that_overlap_it_else_the_nearest() {
        let zero = Instant::now();
        let readings = [timed(zero, 0, 1), timed(zero, 10, 11), timed(zero, 20, 21)];
        let window = Window::of(&readings, at(zero, 0), at(zero, 30));
        assert_eq!(clocks(&window.about(at(zero, 9), at(zero, 22))), [10, 20]);
        assert_eq!(clocks(&window.about(at(zero, 12), at(zero, 14))), [10]);
        assert_eq!(clocks(&window.about(at(zero, 17), at(zero, 18))), [20]);
        assert!(Window::default().about(at(zero, 0), at(zero, 30)).is_empty());
    }
}
