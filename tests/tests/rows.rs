//! `fleetcal rows`: what is printed is what was measured, whatever else lies in the folder.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::path::Path;

use fleetcal_coordinator::rows::{RowFilter, read_parts, write_part};
use fleetcal_model::estimate::seal;
use fleetcal_model::id::RowId;
use fleetcal_model::row::{Role, Row};
use fleetcal_proto::rows::to_batch;
use fleetcal_tests::processes::{fleetcal, output, workspace_root};
use tempfile::TempDir;

/// What a command prints, and what it says beside; it must end well.
fn printed(arguments: &[&str]) -> (String, String) {
    let ended = output(arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success(), "{arguments:?} said:\n{said}");
    (String::from_utf8(ended.stdout).expect("output is text"), said)
}

fn calibrate(data: &str) {
    let plan = workspace_root().join("tests/plans/smoke.toml").display().to_string();
    printed(&["calibrate", "--plan", &plan, "--backend", "sim", "--sim", "1", "--data", data]);
}

fn rows(data: &Path) -> Vec<Row> {
    read_parts(data, &RowFilter::All).rows
}

/// Lines of CSV without quotes, as fields.
fn fields(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

#[test]
fn every_digit_of_every_row_is_in_csv_and_json() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    calibrate(&data);
    let rows: BTreeMap<String, Row> =
        rows(folder.path()).into_iter().map(|row| (row.identity.row_id.to_string(), row)).collect();
    assert!(!rows.is_empty());

    let columns = "row_id,estimate_ns,interval_high_ns,started_utc_ns,power_mw,status";
    let (csv, _) = printed(&["rows", "--data", &data, "--output", "csv", "--columns", columns]);
    let lines = fields(&csv);
    assert_eq!(lines[0].join(","), columns);
    assert_eq!(lines.len(), rows.len() + 1, "one line a row, and one of names");
    for line in &lines[1..] {
        let row = &rows[line[0]];
        let real = |text: &str| (!text.is_empty()).then(|| text.parse::<f64>().expect("a number"));
        assert_eq!(real(line[1]), row.timing.estimate_ns, "{line:?}");
        assert_eq!(real(line[2]), row.timing.interval_high_ns, "{line:?}: what is absent is an empty field");
        assert_eq!(line[3].parse(), Ok(row.outcome.started_utc_ns), "{line:?}");
        assert_eq!(line[4].parse().ok(), row.conditions.power_mw, "{line:?}");
        assert_eq!(line[5], row.outcome.status.name());
    }

    let (json, _) = printed(&["rows", "--data", &data, "--output", "json", "--all-columns"]);
    assert_eq!(json.lines().count(), rows.len());
    for line in json.lines() {
        let value: serde_json::Value = serde_json::from_str(line).expect("one object a line");
        let row = &rows[value["row_id"].as_str().expect("a text")];
        assert_eq!(value["samples"], serde_json::to_value(&row.timing.samples).expect("samples are JSON"));
        assert_eq!(value["estimate_ns"].as_f64(), row.timing.estimate_ns);
    }
}

#[test]
fn a_table_has_units_and_words_and_one_best_solution_a_point() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    calibrate(&data);
    let fit: Vec<Row> = rows(folder.path()).into_iter().filter(|row| row.identity.role == Role::Fit).collect();
    let (table, said) = printed(&["rows", "--data", &data]);
    let of_points: Vec<&str> = table.lines().filter(|line| line.starts_with(" stream/")).collect();
    assert_eq!(of_points.len(), fit.len(), "rows that screening left behind are not among them");
    assert!(said.contains("screening left behind not shown"), "{said}");
    let points: std::collections::BTreeSet<&str> = fit.iter().map(|row| row.work.point.as_str()).collect();
    assert_eq!(of_points.iter().filter(|line| line.contains(" * ")).count(), points.len(), "{table}");
    for word in ["ESTIMATE", "RATE", "B/s", "%", "passed", "simulated"] {
        assert!(table.contains(word), "the table lacks `{word}`:\n{table}");
    }
}

#[test]
fn foreign_and_truncated_files_are_named_and_the_rest_is_shown() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    calibrate(&data);
    let run = rows(folder.path())[0].identity.run_id.to_string();
    let parts: Vec<_> = std::fs::read_dir(folder.path().join("rows").join(&run))
        .expect("the run has a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let whole = std::fs::read(&parts[0]).expect("a part");
    let other = folder.path().join("rows/other");
    std::fs::create_dir(&other).expect("a folder can be made");
    std::fs::write(other.join("short.parquet"), &whole[..whole.len() / 2]).expect("a file can be written");
    std::fs::write(other.join("foreign.parquet"), "not ours").expect("a file can be written");

    let count = |arguments: &[&str]| {
        let ended = output(&[&["rows", "--data", &data, "--output", "csv", "--columns", "run_id"], arguments].concat());
        let lines = String::from_utf8(ended.stdout).expect("output is text").lines().count();
        (ended.status.code(), lines.saturating_sub(1), String::from_utf8_lossy(&ended.stderr).into_owned())
    };
    let named = |said: &str| said.contains("short.parquet was skipped") && said.contains("foreign.parquet was skipped");
    let all = rows(folder.path()).len();
    let (code, shown, said) = count(&[]);
    assert_eq!((code, shown), (Some(8), all), "a script must hear that this is not all: {said}");
    assert!(named(&said), "{said}");
    assert_eq!(count(&["--run", &run]), (Some(0), all, String::new()), "what lies elsewhere is not looked at");
    let (code, shown, said) = count(&["--run", "other"]);
    assert_eq!((code, shown), (Some(5), 0), "nothing could be read: {said}");
    assert!(named(&said) && said.contains("no row could be read: 2 files"), "{said}");
}

/// An attempt that goes on with another has its visits, and the files keep the rows of both.
#[test]
fn of_several_attempts_at_a_task_the_latest_is_shown() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    calibrate(&data);
    let first = rows(folder.path());
    let mut again = first.iter().find(|row| row.identity.role == Role::Fit).expect("a row that feeds fits").clone();
    again.identity.attempt += 1;
    again.identity.row_id = RowId::new("of the attempt after");
    seal(&mut again).expect("a row can be sealed");
    let batch = to_batch(std::slice::from_ref(&again)).expect("a row is a batch");
    let of_run = folder.path().join("rows").join(again.identity.run_id.as_str());
    write_part(&of_run, "later", &[batch], &[]).expect("a part can be written");

    let count = |arguments: &[&str]| {
        let (csv, said) =
            printed(&[&["rows", "--data", &data, "--output", "csv", "--columns", "row_id"], arguments].concat());
        (csv.lines().count() - 1, said)
    };
    let (shown, said) = count(&[]);
    assert_eq!(shown, first.len(), "of the two rows of one solution one is shown: {said}");
    assert!(said.contains("1 row of earlier attempts") && said.contains("--all-attempts"), "{said}");
    assert_eq!(count(&["--all-attempts"]), (first.len() + 1, String::new()));
}

#[test]
fn what_is_not_there_is_named_and_a_reader_may_leave_early() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    let refused = |arguments: &[&str], code: i32, word: &str| {
        let ended = output(arguments);
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(word), "{arguments:?} does not say `{word}`: {said}");
    };
    refused(&["rows", "--data", &data], 5, &data);
    std::fs::create_dir(folder.path().join("rows")).expect("a folder can be made");
    for run in ["nothing", "..", "../constants"] {
        refused(&["rows", "--data", &data, "--run", run], 4, run);
    }
    refused(&["rows", "--data", &data, "--columns", "pont"], 2, "did you mean `point`?");
    let said = output(&["rows", "--data", &data, "--columns", "point,qqq"]).stderr;
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("qqq") && said.contains("--list-columns"), "{said}");
    assert!(said.len() < 400, "a hundred names are no help: {said}");
    refused(&["rows", "--data", &data, "--columns", "point", "--all-columns"], 2, "--all-columns");
    let (listed, _) = printed(&["rows", "--list-columns", "--output", "json"]);
    let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).expect("JSON");
    let estimate = listed.iter().find(|key| key["name"] == "estimate_ns").expect("it is there");
    assert_eq!((estimate["type"].as_str(), estimate["optional"].as_bool()), (Some("real"), Some(true)));

    calibrate(&data);
    for format in ["csv", "json", "table"] {
        let mut child = fleetcal(&["rows", "--data", &data, "--output", format, "--all-columns"])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .expect("fleetcal starts");
        drop(child.stdout.take());
        let ended = child.wait_with_output().expect("it ends");
        assert!(ended.status.success(), "{format}: {}", String::from_utf8_lossy(&ended.stderr));
    }
}

#[test]
fn a_folder_of_damaged_parts_alone_is_no_success() {
    let folder = TempDir::new().expect("a temporary folder");
    let rows = folder.path().join("rows/run-1");
    std::fs::create_dir_all(&rows).expect("folders can be made");
    std::fs::write(rows.join("one.parquet"), "PAR1").expect("a file can be written");
    let ended = output(&["rows", "--data", &folder.path().display().to_string()]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(5), "{said}");
    assert!(
        said.contains("one.parquet was skipped") && said.contains("no row could be read: 1 file skipped"),
        "{said}"
    );
}
