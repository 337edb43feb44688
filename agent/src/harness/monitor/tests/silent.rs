//! Sensors that stop to answer, or answer in part: what rows still claim.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use fleetcal_model::row::Status;

use super::{one_solution, process, reading, with_sensor};
use crate::harness::tests::fake::{FakeDevice, Said};
use crate::telemetry::{Reading, Sensor};
use crate::worker::message::Event;

/// Nobody is there, nothing was ever counted.
fn all_is_well() -> Reading {
    Reading {
        foreign: Some(Vec::new()),
        ecc_corrected: Some(0),
        ecc_uncorrected: Some(0),
        rows_remapped: Some(0),
        ..reading(1000)
    }
}

/// Measures one solution without a wait for a quiet device, which is so looked at once.
fn measured(mut device: FakeDevice) -> Said {
    let mut task = one_solution();
    task.policy.settle_ns_max = 0;
    let (outcome, said) = device.measure(&task);
    outcome.expect("a sensor is no error");
    said
}

fn in_host_time(mut device: FakeDevice) -> FakeDevice {
    device.opened_at = Some(Instant::now());
    device
}

/// Notes about a sensor that is waited for in vain: one for each such wait.
fn waits_in_vain(said: &Said) -> usize {
    let is_one = |event: &&Event| matches!(event, Event::Note(note) if note.contains("sensor does not answer"));
    said.0.iter().filter(is_one).count()
}

fn assert_nothing_is_claimed(said: &Said) {
    let (_, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Passed, "the row's times are as good as ever");
    let conditions = &row.conditions;
    assert_eq!(conditions.monitor_samples, 0);
    assert_eq!(conditions.foreign_processes, None, "nobody looked who is there");
    let counts = (conditions.ecc_corrected, conditions.ecc_uncorrected, conditions.rows_remapped);
    assert_eq!(counts, (None, None, None), "nobody looked what was counted");
    assert_eq!(waits_in_vain(said), 1, "three visits wait once together, and that is said");
}

#[test]
fn after_a_sensor_that_panics_rows_claim_nothing() {
    let panics = || {
        with_sensor(|number| match number {
            0 => all_is_well(),
            _ => panic!("a symbol is missing"),
        })
    };
    assert_nothing_is_claimed(&measured(panics()));
    assert_nothing_is_claimed(&measured(in_host_time(panics())));
}

#[test]
fn after_a_sensor_that_hangs_rows_claim_nothing_and_it_is_waited_for_once() {
    let (until_the_end, end) = channel::<()>();
    let end = Mutex::new(end);
    let device = in_host_time(with_sensor(move |number| {
        if number > 0 {
            // Nothing is ever sent: this returns when the test is over.
            let _ = end.lock().map(|end| end.recv());
        }
        all_is_well()
    }));
    let said = measured(device);
    assert_nothing_is_claimed(&said);
    drop(until_the_end);
}

/// Says who is there and what was counted only where all is wanted, as it is then.
struct Partial {
    whole: u64,
    comes_at: u64,
}

impl Sensor for Partial {
    fn source(&self) -> &'static str {
        "partial"
    }

    fn period(&self) -> Duration {
        Duration::from_secs(3600)
    }

    fn read(&mut self) -> Reading {
        reading(1000)
    }

    fn read_whole(&mut self) -> Reading {
        self.whole += 1;
        let foreign = if self.whole >= self.comes_at { vec![process()] } else { Vec::new() };
        Reading { foreign: Some(foreign), ecc_corrected: Some(self.whole), ..reading(1000) }
    }
}

fn with_partial(comes_at: u64) -> FakeDevice {
    let device = FakeDevice::new();
    *device.sensor.borrow_mut() = Some(Box::new(Partial { whole: 0, comes_at }));
    in_host_time(device)
}

#[test]
fn the_end_of_a_visit_is_asked_for_what_is_slow_to_read() {
    let said = measured(with_partial(u64::MAX));
    let conditions = &said.row("s0").1.conditions;
    assert_eq!((conditions.foreign_processes, conditions.ecc_corrected), (Some(0), Some(3)), "one look a visit");
    // One look before all, and one after each of the three visits.
    let said = measured(with_partial(4));
    assert_eq!(said.row("s0").1.outcome.status, Status::Contended, "who came in the last visit is seen");
    assert_eq!(waits_in_vain(&said), 0, "it always answered");
}
