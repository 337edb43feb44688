use fleetcal_model::row::Status;
use fleetcal_proto::rows::keys;
use fleetcal_proto::testing::arbitrary_row;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::*;

/// Rows of one point, each of another solution: name, status, estimate.
fn of_one_point(solutions: &[(&str, Status, f64)]) -> Vec<Row> {
    let mut runner = TestRunner::deterministic();
    let any = arbitrary_row().new_tree(&mut runner).expect("a row").current();
    let row = |(solution, status, estimate_ns): &(&str, Status, f64)| {
        let mut row = any.clone();
        row.identity.row_id = RowId::new(*solution);
        row.identity.role = Role::Fit;
        row.counts.opaque = false;
        row.work.solution = (*solution).to_owned();
        row.work.point = "stream/copy/f32/elements=1024".to_owned();
        row.timing.estimate_ns = Some(*estimate_ns);
        row.timing.interval_low_ns = Some(estimate_ns * 0.99);
        row.timing.interval_high_ns = Some(estimate_ns * 1.01);
        row.outcome.status = *status;
        row
    };
    solutions.iter().map(row).collect()
}

fn column<'l>(header: &[&str], line: &'l [String], name: &str) -> &'l str {
    header.iter().position(|found| *found == name).map_or("", |index| &line[index])
}

#[test]
fn a_solution_that_did_not_pass_is_never_shown_as_the_fastest_and_a_wrong_one_has_no_time() {
    for status in [Status::Failed, Status::Invalid, Status::Skipped, Status::Throttled, Status::Contended] {
        let rows =
            of_one_point(&[("spoilt", status, 1.0), ("right", Status::Passed, 9e6), ("slow", Status::Passed, 1e7)]);
        let rows: Vec<&Row> = rows.iter().collect();
        let (header, lines) = cells::lines(&rows, &fastest(&rows));
        let solutions: Vec<&str> = lines.iter().map(|line| column(&header, line, "SOLUTION")).collect();
        assert_eq!(solutions, ["spoilt", "right *", "slow"], "{status}");
        assert_eq!(column(&header, &lines[0], "STATUS"), status.name());
        let has_no_meaning = matches!(status, Status::Failed | Status::Invalid | Status::Skipped);
        assert_eq!(column(&header, &lines[0], "ESTIMATE").is_empty(), has_no_meaning, "{status}");
        assert_eq!(column(&header, &lines[0], "RATE").is_empty(), has_no_meaning, "{status}");
        assert_eq!(column(&header, &lines[1], "ESTIMATE"), "9.000 ms");
        assert_eq!(column(&header, &lines[1], "±"), "1.00%");
    }
}

#[test]
fn columns_that_say_nothing_are_left_out_and_numbers_have_words_and_units() {
    let mut rows = of_one_point(&[("only", Status::Passed, 2_500.0)]);
    rows[0].conditions = fleetcal_model::row::Conditions::default();
    let shown = |row: &Row| cells::lines(&[row], &BTreeSet::new());
    let (bare, _) = shown(&rows[0]);
    assert!(["CLOCK", "POWER", "THROTTLE", "CONDITIONS"].iter().all(|name| !bare.contains(name)), "{bare:?}");
    let conditions = &mut rows[0].conditions;
    (conditions.core_clock_khz, conditions.power_mw) = (Some(1_979_600), Some(699_500));
    conditions.throttle_reasons = Some(0b100);
    conditions.neighbours = Some("alone".to_owned());
    (rows[0].timing.converged, rows[0].timing.bimodal) = (Some(false), Some(true));
    let (header, lines) = shown(&rows[0]);
    let cell = |name| column(&header, &lines[0], name);
    assert_eq!([cell("CLOCK"), cell("POWER"), cell("THROTTLE")], ["1980 MHz", "700 W", "power cap"]);
    assert_eq!([cell("CONDITIONS"), cell("CONVERGED"), cell("ESTIMATE")], ["alone", "no, bimodal", "2.500 µs"]);
}

#[test]
fn json_keeps_the_order_asked_for_and_every_digit() {
    let mut rows = of_one_point(&[("only", Status::Passed, 0.1 + 0.2)]);
    rows[0].outcome.started_utc_ns = u64::MAX;
    rows[0].outcome.reason = None;
    let wanted = ["started_utc_ns", "estimate_ns", "reason", "solution"];
    let known = keys();
    let keys: Vec<Key> = wanted.iter().filter_map(|name| known.iter().find(|key| key.name == *name).cloned()).collect();
    let line = json_line(&rows[0], &keys).expect("a line");
    let expected =
        r#"{"started_utc_ns":18446744073709551615,"estimate_ns":0.30000000000000004,"reason":null,"solution":"only"}"#;
    assert_eq!(line, expected);
}
