//! Real rows of an H200 (`tests/fixtures/h200`): what they say now is what they said where they were measured.

#![allow(clippy::expect_used, clippy::panic)]

use fleetcal_coordinator::rows::read_part;
use fleetcal_model::constants::{Document, MEMORY_BANDWIDTH, MEMORY_BANDWIDTH_ASYMPTOTE};
use fleetcal_model::fit::Options;
use fleetcal_model::row::{Origin, Role, Row};
use fleetcal_tests::processes::workspace_root;

fn rows() -> Vec<Row> {
    let path = workspace_root().join("tests/fixtures/h200/stream-standard.parquet");
    read_part(&path).expect("the fixture is readable")
}

/// The document that the coordinator on the H200's machine made.
fn published() -> Document {
    let path = workspace_root().join("tests/fixtures/h200/constants.json");
    Document::from_json(&std::fs::read_to_string(path).expect("the document is there")).expect("it is a document")
}

#[test]
fn the_same_rows_give_the_same_document_as_on_the_machine_they_were_measured_on() {
    let published = published();
    let mut rows = rows();
    rows.reverse();
    let fitted = Document::fit(&rows, &Options::default(), &published.envelope);
    assert_eq!(fitted.len(), 1, "one class and one origin");
    let json = |document: &Document| document.to_json().expect("a document has a JSON form");
    assert_eq!(json(&fitted[0]), json(&published), "the fit of these rows changed: say so, and why, in the changelog");
}

#[test]
fn every_row_was_measured_validated_and_sealed() {
    let rows = rows();
    assert_eq!(rows.len(), 4500);
    for row in &rows {
        assert_eq!(row.identity.origin, Origin::Measured);
        assert!(fleetcal_model::estimate::verify_seal(row), "the seal of {} is broken", row.identity.row_id);
        assert!(row.outcome.validated_elements > 50_000, "{} was hardly looked at", row.identity.row_id);
        assert_eq!(row.outcome.max_error, Some(0.0), "{}", row.identity.row_id);
    }
    let fits = rows.iter().filter(|row| row.identity.role == Role::Fit).count();
    assert_eq!(fits, 56 * 4, "four finalists for each of 56 points");
}

#[test]
fn what_is_published_as_memory_was_shown_by_arrays_beyond_the_cache() {
    let (rows, published) = (rows(), published());
    let floor = published.body.constant(MEMORY_BANDWIDTH, &[("neighbours", "alone")]).expect("there is a floor");
    let value = floor.value.expect("memory_bandwidth is measured");
    assert!((4.3e12..4.8e12).contains(&value), "{value} B/s is no H200's memory");
    let witness = floor.witness.as_ref().expect("a demonstrated maximum has a witness");
    let row = rows.iter().find(|row| row.identity.row_id == witness.row_id).expect("the witness is among the rows");
    let cache_bytes = row.device.last_level_cache_bytes.expect("the cache of an H200 is known");
    assert!(row.counts.bytes_exact && row.counts.bytes_distinct >= 4 * cache_bytes, "the witness lives in the cache");
    let kernel = [("dtype", "f32"), ("kernel", "triad"), ("neighbours", "alone")];
    let asymptote = published.body.constant(MEMORY_BANDWIDTH_ASYMPTOTE, &kernel).expect("triad has an asymptote");
    let interval = asymptote.interval.expect("five rounds give an interval");
    assert!(asymptote.value.is_some_and(|value| interval.contains(value)), "{asymptote:?}");
}
