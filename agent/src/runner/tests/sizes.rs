//! What a fresh worker is told of a large task: it always fits into a frame.

use fleetcal_model::policy::VISIT_SAMPLES_MAX;
use fleetcal_model::row::Sample;
use fleetcal_model::throttle::ThrottleReasons;

use super::*;
use crate::harness::monitor::VisitSeen;
use crate::telemetry::{ForeignProcess, Reading};
use crate::worker::frame::{FRAME_BYTES_MAX, encode};
use crate::worker::message::Visit;

/// As many readings as the monitor ever has of one visit, each as long as it can be written.
fn much_seen() -> Box<VisitSeen> {
    let somebody = |pid| ForeignProcess { pid, name: Some("a process of somebody else".to_owned()) };
    let reading = Reading {
        core_clock_khz: Some(u64::MAX),
        memory_clock_khz: Some(u64::MAX),
        power_mw: Some(u64::MAX),
        temperature_mc: Some(i64::MIN),
        hot_spot_mc: Some(i64::MIN),
        memory_temperature_mc: Some(i64::MIN),
        fan_percent: Some(u64::MAX),
        throttle: Some(ThrottleReasons::from_bits(u64::MAX)),
        ecc_corrected: Some(u64::MAX),
        ecc_uncorrected: Some(u64::MAX),
        rows_remapped: Some(u64::MAX),
        busy_percent: Some(u64::MAX),
        foreign: Some((0..64).map(somebody).collect()),
    };
    Box::new(VisitSeen::of(&vec![reading; 4096], None))
}

/// An attempt with open rows of so many visits each.
async fn attempt(stage: &Stage, rows: u64, visits: u64) -> Attempt {
    let lease = lease("task-1");
    let journal = VisitJournal::create(&stage.runner.visits, &lease, "work").expect("a journal");
    let mut attempt = Attempt::new(lease.clone(), Arc::new(journal), &stage.runner);
    let seen = much_seen();
    for row in 0..rows {
        let opened = Event::RowOpened(Box::new(template(&lease, &format!("s{row}"))));
        assert_eq!(attempt.take(opened).await, Step::Goes);
        for round in 1..=visits {
            let visit = Visit { seen: Some(seen.clone()), ..visit(row, round) };
            assert_eq!(attempt.take(Event::Visited(visit)).await, Step::Goes);
        }
    }
    attempt
}

#[test]
fn the_longest_visit_fits_into_a_frame() {
    let sample = Sample {
        ns: u64::MAX,
        round: u64::MAX,
        start_ns: u64::MAX,
        accepted: false,
        throttle_bits: Some(u64::MAX),
        clock_khz: Some(u64::MAX),
    };
    let samples = vec![sample; usize::try_from(VISIT_SAMPLES_MAX).expect("it fits")];
    let visit = Visit { samples, seen: Some(much_seen()), ..visit(u64::MAX, 1) };
    let bytes = encode(&Event::Visited(visit)).expect("it fits into a frame").len();
    assert!(bytes < FRAME_BYTES_MAX / 4, "{bytes} bytes: what is foreseen is far from the limit");
}

#[tokio::test]
async fn a_large_task_can_be_resumed_whatever_its_monitor_saw() {
    let stage = Stage::new(LIMIT_BYTES);
    let mut attempt = attempt(&stage, 4, 100).await;
    let resume = attempt.resume(&Strikes::default()).await.expect("the journal can be written");
    let visits: usize = resume.open.iter().map(|row| row.visits.len()).sum();
    assert_eq!((resume.open.len(), visits), (4, 400), "nothing is left out");
    let bytes = encode(&resume).expect("it fits into a frame").len();
    assert!(bytes < 400 * 4096, "{bytes} bytes: a visit is told in a few lines");
}

#[tokio::test]
async fn rows_that_cannot_be_told_to_a_fresh_worker_are_begun_anew_and_people_hear_of_it() {
    let mut stage = Stage::new(LIMIT_BYTES);
    let mut attempt = attempt(&stage, 3, 2).await;
    let whole = attempt.resume(&Strikes::default()).await.expect("the journal can be written");
    let room = encode(&&whole.open[..2]).expect("it fits").len();
    let resume = attempt.resume_within(room, &Strikes::default()).await.expect("the journal can be written");
    let rows: Vec<u64> = resume.open.iter().map(|row| row.row).collect();
    assert_eq!((rows, resume.rows_opened), (vec![0, 1], 3), "the third has no room");
    let gone = attempt.take(Event::Visited(visit(2, 3))).await;
    assert!(matches!(gone, Step::Ends(TaskOutcome::Failed { .. })), "it is not open any more: {gone:?}");
    let note = loop {
        let told = in_time("a note", stage.told.recv()).await.expect("the attempt lives");
        if let SessionInput::Progress { progress: Progress { note: Some(note), .. }, .. } = told {
            break note;
        }
    };
    assert!(note.starts_with("1 row ") && note.contains("begun anew"), "{note}");
}
