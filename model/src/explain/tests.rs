use super::*;
use crate::constants::Envelope;
use crate::fit::{Mode, Options};
use crate::id::RunId;
use crate::import::{Source, probe};
use crate::testing::h200_facts;

/// Documents, robust and the original's, of real rows of one H200, and the rows.
fn real() -> (Document, Document, Vec<Row>) {
    let path = format!("{}/../tests/fixtures/h200-probe/a.csv", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("a committed fixture");
    let source = Source {
        device: h200_facts("GPU-a"),
        host: "host-a".to_owned(),
        name: "a".to_owned(),
        clock: "cuda_event".to_owned(),
        data_pattern: "random".to_owned(),
    };
    let rows = probe::rows(&text, &source).expect("rows of the probe");
    let envelope = Envelope {
        created_utc_ns: 1,
        created_by: "test".to_owned(),
        run_id: RunId::new("run"),
        coordinator_version: "0".to_owned(),
    };
    let fit = |mode| {
        let options = Options { mode, ..Options::default() };
        Document::fit(&rows, &options, &envelope).pop().expect("one class")
    };
    (fit(Mode::Robust), fit(Mode::Seed), rows)
}

#[test]
fn an_issue_rate_tells_its_points_the_knee_and_what_the_original_made_of_them() {
    let (document, original, rows) = real();
    let rows: Vec<&Row> = rows.iter().collect();
    let text =
        explain(&document, Some(&original), &rows, "issue_rate solution=t32_b64 m=512 n=512").expect("it is there");
    let points = text.lines().filter(|line| line.trim_start().starts_with("issue/contraction/f32/k=")).count();
    assert_eq!(points, 8, "five points of the regime, and three past the knee:\n{text}");
    assert_eq!(text.matches("beyond_knee").count(), 3, "{text}");
    assert!(text.contains("points: 5 of 8"), "{text}");
    assert!(text.contains("2.242 Top/s (-39.3%)"), "least squares over all points says 2.24e12:\n{text}");
}

#[test]
fn every_constant_of_real_rows_can_be_explained_and_no_page_says_nan() {
    let (document, original, rows) = real();
    let rows: Vec<&Row> = rows.iter().collect();
    for constant in &document.body.constants {
        let condition = constant.condition.iter().map(|(key, value)| format!(" {key}={value}"));
        let wanted = format!("{}{}", constant.name, condition.collect::<String>());
        let text = explain(&document, Some(&original), &rows, &wanted).expect("it is there");
        assert!(!text.contains("NaN") && !text.contains("no words for"), "{wanted}:\n{text}");
        assert!(!text.contains("under its condition: 0."), "{wanted} has rows behind it:\n{text}");
    }
}

#[test]
fn what_is_not_there_is_answered_with_what_is() {
    let (document, _, _) = real();
    for wanted in ["speed", "issue_rate kernel=copy", "issue_rate nonsense", ""] {
        let error = explain(&document, None, &[], wanted).expect_err("there is none").to_string();
        assert!(error.contains("memory_bandwidth") && error.contains("issue_rate"), "{error}");
        assert_eq!(error.matches("stream_latency").count(), 1, "each name once: {error}");
    }
}
