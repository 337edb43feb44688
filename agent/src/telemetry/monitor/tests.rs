use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::telemetry::Reading;

/// Long enough for any thread of this process to be scheduled; only a test that fails waits so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Reads 1, 2, 3, … kHz.
struct Counter(u64);

impl Sensor for Counter {
    fn source(&self) -> &'static str {
        "counter"
    }

    fn read(&mut self) -> Reading {
        self.0 += 1;
        Reading { core_clock_khz: Some(self.0), ..Reading::default() }
    }
}

/// Says when it is asked, and answers when it is told.
struct Slow {
    asked: Sender<()>,
    answer: Receiver<()>,
}

impl Sensor for Slow {
    fn source(&self) -> &'static str {
        "slow"
    }

    fn read(&mut self) -> Reading {
        // Whoever listens may be gone, and then nobody is kept waiting.
        let _ = self.asked.send(());
        let _ = self.answer.recv();
        Reading::default()
    }
}

fn slow() -> (Box<Slow>, Receiver<()>, Sender<()>) {
    let ((asked, was_asked), (may_answer, answer)) = (channel(), channel());
    (Box::new(Slow { asked, answer }), was_asked, may_answer)
}

fn clocks(window: &Window) -> Vec<u64> {
    window.readings.iter().filter_map(|timed| timed.reading.core_clock_khz).collect()
}

#[test]
fn on_request_there_is_one_reading_for_each_asking() {
    let monitor = Monitor::start(Box::new(Counter(0)), Schedule::OnRequest).expect("a thread");
    let start = Instant::now();
    assert!(monitor.latest().is_none(), "nobody asked");
    for _ in 0..3 {
        assert!(monitor.request_and_wait(PATIENCE), "it answers");
    }
    assert_eq!(clocks(&monitor.window(start, Instant::now())), [1, 2, 3]);
    assert_eq!(monitor.source(), "counter");
    let before = start - Duration::from_secs(1);
    assert!(monitor.window(before, before).readings.is_empty(), "no reading overlaps that");
}

#[test]
fn a_monitor_reads_by_itself_and_forgets_the_oldest() {
    let monitor = Monitor::start(Box::new(Counter(0)), Schedule::Every(Duration::ZERO)).expect("a thread");
    let many = (KEPT + 10) as u64;
    assert!(monitor.shared.wait(PATIENCE, |state| state.ended >= many), "it reads again and again");
    assert!(monitor.shared.lock().kept.len() <= KEPT, "memory must be bounded");
}

#[test]
fn close_looks_are_many_readings_of_one_asking_and_then_the_usual_period() {
    let hour = Schedule::Every(Duration::from_secs(3600));
    let monitor = Monitor::start(Box::new(Counter(0)), hour).expect("a thread");
    monitor.look_closely();
    let all = |state: &State| state.ended >= u64::from(CLOSE_READINGS);
    assert!(monitor.shared.wait(PATIENCE, all), "one reading after another, without an hour between");
    assert_eq!(monitor.shared.lock().close, 0, "the next one comes in an hour");
    monitor.look_closely();
    monitor.look_away();
    assert!(monitor.finish_reading(PATIENCE), "the one that was asked for is taken all the same");
    assert!(monitor.shared.lock().ended > u64::from(CLOSE_READINGS));
}

#[test]
fn a_library_that_hangs_holds_nobody_up() {
    let (sensor, was_asked, may_answer) = slow();
    let monitor = Monitor::start(sensor, Schedule::OnRequest).expect("a thread");
    monitor.request();
    was_asked.recv_timeout(PATIENCE).expect("it is asked");
    assert!(!monitor.request_and_wait(Duration::from_millis(1)), "no reading came");
    // The sensor is told to answer only after this: waiting for the thread would never end.
    drop(monitor);
    drop(may_answer);
}

#[test]
fn a_reading_under_way_when_asked_is_not_the_one_asked_for() {
    let (sensor, was_asked, may_answer) = slow();
    let monitor = Monitor::start(sensor, Schedule::OnRequest).expect("a thread");
    monitor.request();
    was_asked.recv_timeout(PATIENCE).expect("it is asked");
    may_answer.send(()).expect("it listens");
    may_answer.send(()).expect("it listens");
    assert!(monitor.request_and_wait(PATIENCE), "a second reading follows");
    assert_eq!(monitor.shared.lock().begun, 2, "the first began before the request");
    assert!(monitor.finish_reading(PATIENCE), "none is left");
}

#[test]
fn bindings_that_panic_end_the_telemetry_only() {
    struct Broken;
    impl Sensor for Broken {
        fn source(&self) -> &'static str {
            "broken"
        }
        fn read(&mut self) -> Reading {
            panic!("symbol is missing")
        }
    }
    let monitor = Monitor::start(Box::new(Broken), Schedule::OnRequest).expect("a thread");
    assert!(!monitor.request_and_wait(PATIENCE), "there is no reading, and no waiting for one");
    assert!(!monitor.finish_reading(PATIENCE), "none will come");
    assert!(monitor.latest().is_none());
}

#[test]
fn a_clock_that_jumps_back_gives_fewer_readings_and_no_nonsense() {
    let start = Instant::now() + Duration::from_secs(100);
    let calls = Mutex::new(0_u32);
    // The second reading ends before it begins.
    let offsets_s = [10, 11, 13, 5, 20, 21];
    let now = move || {
        let mut call = calls.lock().unwrap_or_else(PoisonError::into_inner);
        *call += 1;
        start + Duration::from_secs(offsets_s[(*call as usize - 1).min(offsets_s.len() - 1)])
    };
    let monitor = Monitor::start_with_clock(Box::new(Counter(0)), Schedule::OnRequest, now).expect("a thread");
    for _ in 0..3 {
        assert!(monitor.request_and_wait(PATIENCE));
    }
    assert_eq!(clocks(&monitor.window(start, start + Duration::from_secs(100))), [1, 3]);
}
