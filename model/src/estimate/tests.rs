use std::collections::BTreeMap;

use super::*;
use crate::point::{Dtype, Sweep};
use crate::testing::RowSpec;

fn sample(ns: u64, accepted: bool) -> Sample {
    Sample { ns, round: 1, start_ns: 0, accepted, throttle_bits: None, clock_khz: None }
}

fn visit(enqueues_per_sample: u64) -> Visit {
    Visit { round: 1, order: 7, buffer_offset_bytes: 256, enqueues_per_sample, stop_reason: StopReason::Count }
}

fn rounds(medians_ns: &[(u64, f64)]) -> Vec<Round> {
    let template = visit(1).summarise(&[sample(1, true)]).unwrap();
    medians_ns.iter().map(|&(round, median_ns)| Round { round, median_ns, ..template.clone() }).collect()
}

#[test]
fn a_visit_is_summarised_per_launch_from_its_accepted_samples() {
    let samples = [sample(400, true), sample(100, true), sample(9_999, false), sample(200, true)];
    let round = visit(2).summarise(&samples).unwrap();
    assert_eq!((round.median_ns, round.mad_ns, round.samples), (100.0, 50.0, 3));
    assert_eq!((round.round, round.order, round.buffer_offset_bytes), (1, 7, 256));
}

#[test]
fn a_visit_that_says_nothing_makes_no_round() {
    assert_eq!(visit(1).summarise(&[]), None);
    assert_eq!(visit(1).summarise(&[sample(5, false)]), None);
    assert_eq!(visit(0).summarise(&[sample(5, true)]), None);
}

#[test]
fn the_estimate_is_the_median_of_rounds_and_lies_in_its_interval() {
    let estimate = Estimate::of_rounds(&rounds(&[(1, 100.0), (2, 101.0), (3, 130.0)]), Role::Fit, None);
    assert_eq!(estimate.estimate_ns, Some(101.0));
    assert_eq!(estimate.method, IntervalMethod::StudentTLogRounds);
    assert!(estimate.interval_ns.unwrap().contains(101.0));
}

#[test]
fn an_interval_is_widened_to_hold_a_median_outside_of_it() {
    // Twenty equal rounds and fifteen far ones: the mean of logarithms sits between, the median does not.
    let many: Vec<(u64, f64)> = (1..=35).map(|round| (round, if round <= 20 { 1.0 } else { 1000.0 })).collect();
    let estimate = Estimate::of_rounds(&rounds(&many), Role::Fit, None);
    assert_eq!(estimate.estimate_ns, Some(1.0));
    assert_eq!(estimate.interval_ns.unwrap().low, 1.0);
}

#[test]
fn one_and_two_rounds_have_an_estimate_and_no_interval() {
    let one = Estimate::of_rounds(&rounds(&[(1, 5.0)]), Role::Fit, None);
    assert_eq!((one.estimate_ns, one.interval_ns, one.method), (Some(5.0), None, IntervalMethod::SingleVisit));
    let two = Estimate::of_rounds(&rounds(&[(1, 5.0), (2, 7.0)]), Role::Fit, None);
    assert_eq!((two.estimate_ns, two.interval_ns, two.method), (Some(6.0), None, IntervalMethod::TooFewRounds));
}

#[test]
fn the_screening_round_speaks_only_for_screening_rows() {
    let with_screening = rounds(&[(0, 1.0), (1, 5.0), (2, 6.0), (3, 7.0)]);
    assert_eq!(Estimate::of_rounds(&with_screening, Role::Fit, None).estimate_ns, Some(6.0));
    assert_eq!(Estimate::of_rounds(&with_screening, Role::Screening, None).estimate_ns, Some(6.0));
    let only_screening = rounds(&[(0, 1.0)]);
    assert_eq!(Estimate::of_rounds(&only_screening, Role::Fit, None).estimate_ns, None);
    let screened = Estimate::of_rounds(&only_screening, Role::Screening, None);
    assert_eq!((screened.estimate_ns, screened.method), (Some(1.0), IntervalMethod::SingleVisit));
}

#[test]
fn rounds_without_a_positive_median_are_no_replicates() {
    let estimate =
        Estimate::of_rounds(&rounds(&[(1, 0.0), (2, f64::NAN), (3, f64::INFINITY), (4, 8.0)]), Role::Fit, None);
    assert_eq!((estimate.estimate_ns, estimate.rounds), (Some(8.0), 1));
    assert_eq!(Estimate::of_rounds(&[], Role::Fit, None).estimate_ns, None);
}

#[test]
fn finish_fills_the_timing_of_a_row() {
    let mut timing = RowSpec::new("copy", 1 << 20, &[10.0, 11.0, 12.0]).row().timing;
    timing.rounds.truncate(2);
    finish(&mut timing, Role::Fit);
    assert_eq!((timing.rounds_done, timing.rounds_planned), (2, 3));
    assert_eq!((timing.estimate_ns, timing.interval_low_ns, timing.interval_high_ns), (Some(10.5), None, None));
    assert_eq!(timing.interval_method, IntervalMethod::TooFewRounds);
}

#[test]
fn finish_says_whether_the_target_was_met_and_how_many_samples_do_not_count() {
    let finished = |rounds_ns: &[f64], target| {
        let mut timing = RowSpec::new("copy", 1 << 20, rounds_ns).row().timing;
        timing.interval_target = target;
        timing.samples = vec![sample(1, true), sample(0, false), sample(2, false)];
        finish(&mut timing, Role::Fit);
        timing
    };
    // Half-width 4.303 · 0.01 / √3 = 2.5%.
    assert_eq!(finished(&[99.0, 100.0, 101.0], Some(0.026)).converged, Some(true));
    assert_eq!(finished(&[99.0, 100.0, 101.0], Some(0.024)).converged, Some(false));
    assert_eq!(finished(&[99.0, 100.0], Some(0.026)).converged, None, "no interval, no answer");
    assert_eq!(finished(&[99.0, 100.0, 101.0], None).converged, None, "nothing was asked");
    assert_eq!(finished(&[100.0; 3], None).samples_discarded, 2);
    assert_eq!(finished(&[100.0; 5], None).bimodal, None);
    assert_eq!(finished(&[100.0; 6], None).bimodal, Some(false));
    assert_eq!(finished(&[100.0, 110.0, 100.1, 110.2, 100.2, 110.1], None).bimodal, Some(true));
}

#[test]
fn rounds_after_a_pilot_have_the_interval_of_both_stages() {
    let all = rounds(&[(1, 97.0), (2, 100.0), (3, 103.0), (4, 100.0), (5, 100.1)]);
    let plain = Estimate::of_rounds(&all, Role::Fit, None);
    let after_pilot = Estimate::of_rounds(&all, Role::Fit, Some(3));
    assert_eq!(after_pilot.method, IntervalMethod::StudentTLogTwoStage);
    assert_eq!(after_pilot.estimate_ns, plain.estimate_ns, "the estimate is the same");
    assert!(after_pilot.relative_half_width() > plain.relative_half_width(), "the pilot was noisier than all");
    let pilot_alone = Estimate::of_rounds(&all[..3], Role::Fit, Some(3));
    assert_eq!(pilot_alone.method, IntervalMethod::StudentTLogRounds, "no round followed the pilot");
    let short = Estimate::of_rounds(&all, Role::Fit, Some(2));
    assert_eq!(short.method, IntervalMethod::StudentTLogRounds, "two rounds are no pilot");
}

#[test]
fn row_ids_differ_in_every_part() {
    let point = |elements| Point {
        sweep: Sweep::Stream,
        kernel: "copy".to_owned(),
        dtype: Dtype::F32,
        sizes: BTreeMap::from([("elements".to_owned(), elements)]),
    };
    let solution = |name: &str| Solution { name: name.to_owned(), parameters: BTreeMap::new() };
    let id = |task: &str, attempt, device: &str, elements, name: &str| {
        row_id(&TaskId::new(task), attempt, &DeviceId::new(device), &point(elements), &solution(name))
    };
    let all = [
        id("t", 1, "d", 8, "s"),
        id("u", 1, "d", 8, "s"),
        id("t", 2, "d", 8, "s"),
        id("t", 1, "e", 8, "s"),
        id("t", 1, "d", 16, "s"),
        id("t", 1, "d", 8, "z"),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len(), "two different rows share an identity: {all:?}");
    assert_eq!(all[0], id("t", 1, "d", 8, "s"), "the same row has two identities");
    assert_eq!(all[0].as_str().len(), 32);
}

#[cfg(feature = "serde")]
#[test]
fn a_seal_breaks_with_any_change_and_survives_json() {
    let mut row = RowSpec::new("copy", 1 << 20, &[10.1, 11.7, 12.3]).row();
    assert!(!verify_seal(&row), "a row never sealed must not verify");
    seal(&mut row).expect("JSON holds a row");
    assert!(verify_seal(&row));
    let read: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
    assert!(verify_seal(&read), "JSON changed the row");
    let mut changed = row.clone();
    changed.timing.rounds[1].median_ns += 1e-9;
    assert!(!verify_seal(&changed), "a changed median went unseen");
    let mut renamed = row;
    renamed.identity.agent_version.push('x');
    assert!(!verify_seal(&renamed), "a changed version went unseen");
}

#[cfg(feature = "serde")]
#[test]
fn a_set_of_rows_has_one_digest_in_any_order() {
    let mut rows: Vec<Row> = [1.0, 2.0, 3.0].map(|ns| RowSpec::new("copy", 1 << 20, &[ns]).row()).into();
    let unsealed = rows_digest(&rows);
    rows.iter_mut().for_each(|row| seal(row).expect("JSON holds a row"));
    let forward = rows_digest(&rows);
    rows.reverse();
    assert_eq!(forward, rows_digest(&rows));
    assert_ne!(forward, unsealed, "unsealed rows pass for sealed ones");
    assert_eq!(forward.count(), 3);
}
