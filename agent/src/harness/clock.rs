//! Time as the harness reads it: a parameter, so that limits can be tested without waiting.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A source of time.
pub trait Clock {
    /// Nanoseconds since some fixed moment; never goes back.
    fn monotonic_ns(&self) -> u64;

    /// Nanoseconds since 1970 UTC.
    fn utc_ns(&self) -> u64;

    /// Waits for so many nanoseconds.
    fn sleep(&self, ns: u64);
}

/// The clocks of the operating system.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    /// A clock whose monotonic time begins now.
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn monotonic_ns(&self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn utc_ns(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
    fn sleep(&self, ns: u64) {
        std::thread::sleep(Duration::from_nanos(ns));
    }
}
