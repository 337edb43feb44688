//! The thread that reads a sensor.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Sensor, TimedReading, Window};

/// Readings kept: 40 seconds at the usual period. A longer window has only its later part.
const KEPT: usize = 4096;

/// Time between two readings while somebody wants one that overlaps a short piece of work.
const CLOSE_PERIOD: Duration = Duration::from_micros(100);

/// Readings that are taken so close to each other, at most. The first may be over before the device begins: NVML answers
/// within a tenth of a millisecond, and a batch of launches takes as long to be queued.
const CLOSE_READINGS: u32 = 32;

/// How long the end of a monitor waits for its thread. A vendor's library that hangs is left to itself.
const STOP_WAIT: Duration = Duration::from_millis(200);

/// When a monitor reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Schedule {
    /// Again and again, this long after the last reading, and whenever somebody asks.
    Every(Duration),
    /// Only when somebody asks: for devices whose time is their own.
    OnRequest,
}

/// One long-lived thread that reads one device's sensor. It is started once a task: a thread a visit would cost more
/// than what it looks at.
#[derive(Debug)]
pub struct Monitor {
    shared: Arc<Shared>,
    source: &'static str,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Something happened: a request, a reading, the end.
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    /// Whether somebody asked for a reading that has not begun, and whether for a whole one.
    wanted: bool,
    whole_wanted: bool,
    /// Readings that are still to be taken close to each other.
    close: u32,
    /// Readings begun and readings ended, in all.
    begun: u64,
    ended: u64,
    /// Whole ones among them.
    whole_begun: u64,
    whole_ended: u64,
    /// Whether the thread is gone, for whatever reason.
    gone: bool,
    kept: VecDeque<TimedReading>,
    last_whole: Option<TimedReading>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `done`, but no longer than `at_most`; whether it was done.
    fn wait(&self, at_most: Duration, done: impl Fn(&State) -> bool) -> bool {
        let waited = self.changed.wait_timeout_while(self.lock(), at_most, |state| !done(state));
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        done(&state)
    }
}

impl Monitor {
    /// Starts reading.
    ///
    /// # Errors
    /// The system's words, where it gives no thread.
    pub fn start(sensor: Box<dyn Sensor>, schedule: Schedule) -> std::io::Result<Self> {
        Self::start_with_clock(sensor, schedule, Instant::now)
    }

    /// [`Monitor::start`] with readings stamped by `now`.
    pub(crate) fn start_with_clock(
        sensor: Box<dyn Sensor>,
        schedule: Schedule,
        now: impl Fn() -> Instant + Send + 'static,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let source = sensor.source();
        let of_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("monitor".to_owned()).spawn(move || {
            // Bindings panic where a library lacks a symbol: that ends the telemetry, not the task.
            let _ = catch_unwind(AssertUnwindSafe(|| read_until_stopped(&of_thread, sensor, schedule, &now)));
            of_thread.lock().gone = true;
            of_thread.changed.notify_all();
        })?;
        Ok(Self { shared, source, thread: Some(thread) })
    }

    /// Where its readings come from.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Asks for a quick reading now, and does not wait for it.
    pub fn request(&self) {
        self.shared.lock().wanted = true;
        self.shared.changed.notify_all();
    }

    /// [`Monitor::request`], and from then on for readings as close as they come, until [`Monitor::look_away`] or there were
    /// many: work that begins any moment, and may be over soon, is overlapped by one of them. A monitor that reads on
    /// request alone takes the one.
    pub fn look_closely(&self) {
        let mut state = self.shared.lock();
        (state.wanted, state.close) = (true, CLOSE_READINGS);
        drop(state);
        self.shared.changed.notify_all();
    }

    /// Readings come at their usual period again.
    pub fn look_away(&self) {
        self.shared.lock().close = 0;
    }

    /// Asks for a whole reading that begins after this call, and waits for its end. `false` where there was none in time.
    pub fn request_and_wait(&self, at_most: Duration) -> bool {
        let ended = {
            let mut state = self.shared.lock();
            (state.wanted, state.whole_wanted) = (true, true);
            // One that is under way began before.
            state.whole_begun + 1
        };
        self.shared.changed.notify_all();
        self.shared.wait(at_most, |state| state.whole_ended >= ended || state.gone)
            && self.shared.lock().whole_ended >= ended
    }

    /// Waits for the end of a reading that is under way or asked for, if there is one. `false` where it did not end in
    /// time, or never will.
    pub fn finish_reading(&self, at_most: Duration) -> bool {
        let finished = |state: &State| state.begun == state.ended && !state.wanted;
        self.shared.wait(at_most, |state| finished(state) || state.gone) && !self.shared.lock().gone
    }

    /// The readings that overlap the time from `start` to `end`.
    pub fn window(&self, start: Instant, end: Instant) -> Window {
        Window::of(&self.shared.lock().kept, start, end)
    }

    /// All readings that are kept, in the order in which they were taken.
    pub fn readings(&self) -> Vec<TimedReading> {
        self.shared.lock().kept.iter().cloned().collect()
    }

    /// The last whole reading that ended, if any did. It may be old: a sensor that hangs or is gone leaves it behind.
    pub fn latest(&self) -> Option<TimedReading> {
        self.shared.lock().last_whole.clone()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.shared.lock().stop = true;
        self.shared.changed.notify_all();
        if !self.shared.wait(STOP_WAIT, |state| state.gone) {
            tracing::warn!(source = self.source, "a sensor does not answer; its thread is left behind");
            return;
        }
        if let Some(thread) = self.thread.take() {
            // It caught its own panics, so there is nothing to hear.
            let _ = thread.join();
        }
    }
}

/// The life of the thread.
fn read_until_stopped(shared: &Shared, mut sensor: Box<dyn Sensor>, schedule: Schedule, now: &dyn Fn() -> Instant) {
    loop {
        let idle = |state: &mut State| !state.stop && !state.wanted;
        let waited = match schedule {
            Schedule::Every(period) => {
                let state = shared.lock();
                let pause = if state.close > 0 { CLOSE_PERIOD.min(period) } else { period };
                let waited = shared.changed.wait_timeout_while(state, pause, idle);
                waited.map(|(state, _)| state).unwrap_or_else(|poisoned| poisoned.into_inner().0)
            }
            Schedule::OnRequest => {
                shared.changed.wait_while(shared.lock(), idle).unwrap_or_else(PoisonError::into_inner)
            }
        };
        let mut state = waited;
        if state.stop {
            return;
        }
        state.wanted = false;
        state.close = state.close.saturating_sub(1);
        let whole = std::mem::take(&mut state.whole_wanted);
        state.begun += 1;
        state.whole_begun += u64::from(whole);
        drop(state);
        let began = now();
        let reading = if whole { sensor.read_whole() } else { sensor.read() };
        let timed = TimedReading { began, ended: now(), reading };
        let mut state = shared.lock();
        state.ended += 1;
        if whole {
            state.whole_ended += 1;
            state.last_whole = Some(timed.clone());
        }
        if state.kept.len() >= KEPT {
            state.kept.pop_front();
        }
        state.kept.push_back(timed);
        drop(state);
        shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests;
