//! The only reader of time in this crate. Everything else is handed a [`Timestamp`].

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fleetcal_core::event::Timestamp;
use tokio::sync::watch;

/// What a coordinator knows of time.
pub trait Clock: Send + Sync {
    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ends once `until` has come.
    fn wait_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// The machine's clock: UTC when it was made, and monotonic time from there, so that a clock that is set back while
/// the coordinator runs shortens no lease and lengthens none.
#[derive(Debug)]
pub struct SystemClock {
    started_utc_ns: u64,
    started: Instant,
}

impl SystemClock {
    /// Reads UTC once.
    pub fn start() -> Self {
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { started_utc_ns: nanoseconds(since_1970), started: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.started_utc_ns.saturating_add(nanoseconds(self.started.elapsed())))
    }

    fn wait_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let remaining = Duration::from_nanos(until.0.saturating_sub(self.now().0));
        Box::pin(tokio::time::sleep(remaining))
    }
}

/// A clock that stands still until it is told to go on: for tests of leases and deadlines.
#[derive(Debug)]
pub struct ManualClock {
    now: watch::Sender<Timestamp>,
}

impl ManualClock {
    /// Stands at `now`.
    pub fn at(now: Timestamp) -> Self {
        Self { now: watch::Sender::new(now) }
    }

    /// Goes on by `by`; who waits for a time that has come is woken.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now = now.after_ns(nanoseconds(by)));
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        *self.now.borrow()
    }

    fn wait_until(&self, until: Timestamp) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let mut changes = self.now.subscribe();
        Box::pin(async move {
            // An error would mean that the clock is gone, and then nobody waits any more.
            let _ = changes.wait_for(|now| *now >= until).await;
        })
    }
}

/// Whole nanoseconds of a duration, as far as 64 bits go (584 years).
pub fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_wakes_who_waits_once_the_time_has_come() {
        let clock = ManualClock::at(Timestamp(1_000));
        let (waited, ()) = tokio::join!(
            async {
                clock.wait_until(Timestamp(1_500)).await;
                clock.now()
            },
            async {
                clock.advance(Duration::from_nanos(400));
                tokio::task::yield_now().await;
                clock.advance(Duration::from_nanos(200));
            }
        );
        assert_eq!(waited, Timestamp(1_600), "woken before or after the second step of the clock");
    }

    #[test]
    fn the_system_clock_never_goes_back() {
        let clock = SystemClock::start();
        let (first, second) = (clock.now(), clock.now());
        assert!(second >= first, "{second:?} is before {first:?}");
        assert!(first.0 > 1_700_000_000_000_000_000, "{first:?} is no time since 1970 in nanoseconds");
    }
}
