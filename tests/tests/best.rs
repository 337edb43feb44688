//! `solutions = "best"`: a plan that measures what the constants in force select, through the front door.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fleetcal_coordinator::rows::{RowFilter, read_parts};
use fleetcal_model::constants::Document;
use fleetcal_model::row::{Row, Status};
use fleetcal_tests::processes::{output, workspace_root};
use tempfile::TempDir;

/// Beside the kernels of the smoke plan's large sizes, a size that no constant speaks of.
const BEST: &str = r#"
name = "best"
[devices]
select = "backend=sim"
[measure]
rounds = 3
rounds_max = 3
samples_min = 3
samples_max = 3
validate = 64
solutions = "best"
[[sweep]]
family = "stream"
kernels = ["copy", "triad"]
dtypes = ["f32", "f64"]
elements = ["2^24", "2^26"]
"#;

/// Calibrates one simulated device, and returns the documents with the rows of the run alone.
fn calibrate(data: &Path, plan: &str) -> (Vec<Document>, Vec<Row>, (Option<i32>, String)) {
    let folder = data.display().to_string();
    let before = rows(data).len();
    let arguments =
        ["calibrate", "--plan", plan, "--backend", "sim", "--sim", "1", "--data", &folder, "--output", "json"];
    let ended = output(&arguments);
    let said = String::from_utf8_lossy(&ended.stderr);
    let texts: Vec<serde_json::Value> =
        serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {said}"));
    let documents = texts.iter().map(|text| Document::from_json(&text.to_string()).expect("a document")).collect();
    // Runs sort by the time of their begin, and so do their parts.
    (documents, rows(data).split_off(before), (ended.status.code(), said.into_owned()))
}

fn rows(data: &Path) -> Vec<Row> {
    let report = read_parts(data, &RowFilter::All);
    assert!(report.skipped.is_empty(), "{:?}", report.skipped);
    report.rows
}

#[test]
fn a_plan_of_the_best_measures_exactly_what_the_constants_select() {
    let data = TempDir::new().expect("a temporary folder");
    let best = data.path().join("best.toml");
    std::fs::write(&best, BEST).expect("a plan can be written");
    let best = best.display().to_string();
    let smoke = workspace_root().join("tests/plans/smoke.toml").display().to_string();

    // Nothing was published yet: every point is skipped, and says so. No solution is tried in its place.
    let folder = data.path().join("data");
    let (_, skipped, (code, said)) = calibrate(&folder, &best);
    assert_eq!(code, Some(8), "nothing was measured");
    assert!(said.contains("8 rows were skipped: 2 times no constants in force select a solution for copy"), "{said}");
    assert_eq!(skipped.len(), 8, "2 kernels, formats and sizes");
    for row in &skipped {
        assert_eq!((row.outcome.status, row.timing.samples.len()), (Status::Skipped, 0), "{}", row.work.point);
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(reason.starts_with("no constants in force select"), "{}: {reason}", row.work.point);
    }

    let (documents, all, (code, _)) = calibrate(&folder, &smoke);
    assert_eq!(code, Some(0));
    let tried: BTreeSet<&str> = all.iter().map(|row| row.work.solution.as_str()).collect();
    assert!(tried.len() > 1, "a choice is what is tested: {tried:?}");
    let constants = documents.iter().flat_map(|document| &document.body.constants);
    let witnesses =
        constants.filter(|constant| constant.name == "memory_bandwidth" && constant.condition.contains_key("kernel"));
    let shown: BTreeMap<(&str, &str), &str> = witnesses
        .filter_map(|constant| {
            let of = |key: &str| constant.condition.get(key).map(String::as_str);
            Some(((of("kernel")?, of("dtype")?), constant.witness.as_ref()?.solution.as_str()))
        })
        .collect();

    let (_, measured, (code, _)) = calibrate(&folder, &best);
    assert_eq!(code, Some(0));
    assert_eq!(measured.len(), 8, "one row a point");
    for row in &measured {
        let expected = shown.get(&(row.work.kernel.as_str(), row.work.dtype.name()));
        assert_eq!(Some(&row.work.solution.as_str()), expected, "{}", row.work.point);
        assert_eq!((row.outcome.status, row.timing.rounds_done), (Status::Passed, 3), "{}", row.work.point);
    }
}
