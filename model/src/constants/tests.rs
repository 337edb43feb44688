use crate::estimate::rows_digest;
use crate::row::Role;
use proptest::prelude::*;

use super::*;
use crate::fit::ConstantInterval;
use crate::fit::estimated::ValueSet;
use crate::held_out::{Errors, Predicted};
use crate::id::DeviceId;
use crate::testing::{Random, RowSpec};
use crate::units::Unit;

fn envelope() -> Envelope {
    Envelope {
        created_utc_ns: 1_796_000_000_000_000_000,
        created_by: "fleetcal calibrate".to_owned(),
        run_id: RunId::new("run-1"),
        coordinator_version: "0.1.0".to_owned(),
    }
}

/// A small run: three devices, two kernels, four sizes of which one is cached; noise from `seed`.
fn run(seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    let mut rows = Vec::new();
    for device in ["GPU-a", "GPU-b", "GPU-c"] {
        for kernel in ["copy", "triad"] {
            for elements in [1_u64 << 20, 1 << 26, 1 << 27, 1 << 28] {
                let ns = 60_000.0 + crate::testing::bytes_moved(kernel, elements) as f64 / 4.4e12 * 1e9;
                let rounds: Vec<f64> = (0..4).map(|_| ns * libm::exp(0.001 * random.normal())).collect();
                rows.push(RowSpec::new(kernel, elements, &rounds).device(device).row());
            }
        }
    }
    rows
}

fn only_document(rows: &[Row]) -> Document {
    let mut documents = Document::fit(rows, &Options::default(), &envelope());
    assert_eq!(documents.len(), 1, "rows of one class and origin make one document");
    documents.remove(0)
}

#[test]
fn a_run_gives_every_constant_with_its_provenance() {
    let mut rows = run(1);
    rows[0].timing.rounds_planned += 1;
    let mut screened = RowSpec::new("copy", 1 << 26, &[1.0]).device("GPU-a").solution("w1_v1_b128_tile").row();
    (screened.identity.role, screened.timing.rounds_planned) = (Role::Screening, 5);
    rows.push(screened);
    let body = only_document(&rows).body;
    assert_eq!((body.rows_total, body.rows_cut_short), (25, 1), "a screening row has one round by design");
    assert_eq!(body.rejected_rows.len(), 6, "the cached rows: {:?}", body.rejected_rows);
    assert_eq!(body.class_key.id(), body.class_id, "the key must be the one that the id digests");
    assert_eq!(body.rows_digest, rows_digest(&rows).to_string());

    let floor = body.constant(MEMORY_BANDWIDTH, &[]).unwrap();
    assert_eq!((floor.verdict, floor.unit, &floor.scope), (Verdict::Measured, Unit::BytesPerSecond, &Scope::Class));
    assert_eq!((floor.interval, floor.interval_method), (None, Some(ConstantInterval::Witness)));
    assert!(floor.witness.as_ref().unwrap().interval.is_some());

    let condition = [("kernel", "triad"), ("dtype", "f32")];
    let asymptote = body.constant(MEMORY_BANDWIDTH_ASYMPTOTE, &condition).unwrap();
    assert!((asymptote.value.unwrap() / 4.4e12 - 1.0).abs() < 0.005, "{asymptote:?}");
    assert_eq!((asymptote.points_used, asymptote.points_total), (3, 4));
    assert_eq!((asymptote.devices_used, asymptote.devices_total), (3, 3));
    let latency = body.constant(STREAM_LATENCY, &condition).unwrap();
    assert!((latency.value.unwrap() / 60e-6 - 1.0).abs() < 0.05, "{latency:?}");
    assert_eq!(latency.interval_method, Some(ConstantInterval::StudentTDevices));
}

#[test]
fn a_positive_constant_that_rows_do_not_tell_from_zero_is_bounded_and_has_no_value() {
    let mut bounded = [0, 0];
    for seed in 0..40 {
        let mut random = Random::new(seed);
        // A latency of 2 µs under 10 µs of noise, over one device's rounds: its estimate comes out on either side of zero.
        let row = |elements: u64| {
            let ns = 2_000.0 + crate::testing::bytes_moved("triad", elements) as f64 / 4.4e12 * 1e9;
            let rounds: Vec<f64> = (0..5).map(|_| ns + 10_000.0 * random.normal()).collect();
            RowSpec::new("triad", elements, &rounds).row()
        };
        let body = only_document(&[1 << 26, 1 << 27, 1 << 28].map(row)).body;
        for constant in &body.constants {
            let interval = constant.interval.filter(|_| !may_be_negative(&constant.name));
            assert!(interval.is_none_or(|interval| interval.low > 0.0), "{constant:?}");
        }
        let latency = body.constants.iter().find(|constant| constant.name == STREAM_LATENCY).unwrap();
        let Some(ValueSet::Bracket { low: None, high: Some(high) }) = latency.set else { continue };
        assert_eq!((latency.verdict, latency.value, latency.interval_method), (Verdict::Bounded, None, None));
        assert!(high > 0.0 && latency.reason.as_ref().unwrap().contains("holds zero: it is at most"), "{latency:?}");
        bounded[usize::from(high > 2e-6)] += 1;
    }
    assert!(bounded[1] > 30 && bounded[0] <= 2, "upper ends above and below the truth: {bounded:?}");
}

#[test]
fn what_is_not_identified_has_a_reason_and_no_number() {
    let rows = [RowSpec::modelled("copy", 1 << 20, 0.0, 9e12).row()];
    let body = only_document(&rows).body;
    assert_eq!(body.constants.len(), 4, "floor, floor of copy, asymptote and latency: {:?}", body.constants);
    for constant in &body.constants {
        assert_eq!(constant.verdict, Verdict::NotIdentified);
        assert_eq!((constant.value, constant.interval, constant.interval_method), (None, None, None));
        assert!(constant.reason.as_ref().unwrap().contains("footprint rule"), "{constant:?}");
    }
    assert!(Document::fit(&[], &Options::default(), &envelope()).is_empty());
}

#[test]
fn options_change_the_fit_and_stand_in_the_body() {
    let rows = run(1);
    // 2^26 elements of triad are 768 MiB: below 16 caches of 60 MiB, above 4.
    let options = Options { footprint_factor: 16, ..Options::default() };
    let body = Document::fit(&rows, &options, &envelope()).remove(0).body;
    assert_eq!(body.fit_options, options);
    let condition = [("kernel", "triad"), ("dtype", "f32")];
    let asymptote = body.constant(MEMORY_BANDWIDTH_ASYMPTOTE, &condition).unwrap();
    assert_eq!((asymptote.points_used, asymptote.verdict), (2, Verdict::NotIdentified));
    let detail = &body.rejected_rows[0].detail;
    assert!(body.rejected_rows.len() > 6 && detail.contains("960.0 MiB are needed"), "{detail}");

    let options = Options { sizes_min: 4, ..Options::default() };
    let body = Document::fit(&rows, &options, &envelope()).remove(0).body;
    let reason = body.constant(MEMORY_BANDWIDTH_ASYMPTOTE, &condition).unwrap().reason.clone();
    assert!(reason.is_some_and(|reason| reason.starts_with("4 sizes") && reason.ends_with("there are 3")));
}

#[test]
fn held_out_rows_are_predicted_and_change_no_constant() {
    let fitted = run(1);
    let mut rows = fitted.clone();
    // 2^29 elements of triad are no shape of the run; 2^28 are.
    for elements in [1 << 29, 1 << 30, 1 << 31, 1 << 28] {
        let mut row = RowSpec::modelled("triad", elements, 60_000.0, 4.4e12).task("held-out").row();
        (row.identity.role, row.counts.bytes_requested) = (Role::HeldOut, row.counts.bytes_read);
        rows.push(row);
    }
    let (alone, body) = (only_document(&fitted).body, only_document(&rows).body);
    assert_eq!((alone.held_out.len(), &body.constants), (0, &alone.constants));
    let [held_out] = body.held_out.as_slice() else { panic!("{:?}", body.held_out) };
    assert_eq!((held_out.predicted, held_out.condition.len()), (Predicted::ScoreWithoutLaunch, 0));
    let Errors::Known { points: 3, worst, .. } = held_out.evaluation.overall.errors else { panic!("{held_out:?}") };
    // The floor is the rate at 2^28, whose launch is 8% of its time; where it weighs nothing, that is the error.
    assert!(worst > 0.03 && worst < 0.1, "{held_out:?}");
    let details: Vec<&str> = held_out.excluded.iter().map(|row| row.detail.as_str()).collect();
    assert_eq!(details, ["rows of its shape, stream/triad/f32/elements=268435456, were fitted"]);
}

#[test]
fn origins_and_classes_have_documents_of_their_own_that_say_so() {
    let mut rows = run(2);
    for row in &mut rows[..8] {
        row.identity.origin = Origin::Simulated;
    }
    rows[8].device.class_id = "ffff".into();
    let documents = Document::fit(&rows, &Options::default(), &envelope());
    let mut found: Vec<_> = documents.iter().map(|document| (document.body.origin, document.body.rows_total)).collect();
    found.sort_unstable();
    assert_eq!(found, [(Origin::Measured, 1), (Origin::Measured, 15), (Origin::Simulated, 8)]);
    for document in documents.iter().filter(|document| document.body.rows_total != 15) {
        let measured = document.body.constants.iter().filter(|constant| constant.verdict == Verdict::Measured);
        assert!(measured.clone().all(|constant| matches!(constant.scope, Scope::Device(_))), "{document:?}");
    }
}

#[test]
fn emulated_rows_are_never_fitted() {
    let mut rows = run(2);
    rows[..8].iter_mut().for_each(|row| row.identity.origin = Origin::Emulated);
    let documents = Document::fit(&rows, &Options::default(), &envelope());
    let found: Vec<_> = documents.iter().map(|document| (document.body.origin, document.body.rows_total)).collect();
    assert_eq!(found, [(Origin::Measured, rows.len() as u64 - 8)], "the others are, and know nothing of them");
}

#[test]
fn scopes_round_trip_and_foreign_text_is_refused() {
    for scope in [Scope::Class, Scope::Device(DeviceId::new("GPU-1"))] {
        assert_eq!(scope.to_string().parse(), Ok(scope));
    }
    for text in ["", "klass", "device", "device "] {
        assert!(text.parse::<Scope>().is_err(), "`{text}` is no scope");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn any_order_of_rows_gives_the_same_document_to_the_last_bit(seed in any::<u64>()) {
        let mut rows = run(5);
        let sorted = format!("{:?}", only_document(&rows));
        Random::new(seed).shuffle(&mut rows);
        prop_assert_eq!(format!("{:?}", only_document(&rows)), sorted);
    }
}

#[cfg(feature = "serde")]
mod json {
    use super::*;

    #[test]
    fn a_document_survives_json_byte_for_byte() {
        let document = only_document(&run(3));
        let text = document.to_json().unwrap();
        let read = Document::from_json(&text).unwrap();
        assert_eq!(read, document);
        assert_eq!(read.to_json().unwrap(), text);
        assert_eq!(read.body_digest().unwrap(), document.body_digest().unwrap());
        assert!(text.contains("\"unit\": \"B/s\"") && text.contains("\"origin\": \"measured\""), "{text}");
    }

    #[test]
    fn a_constant_older_than_the_score_says_no_version_of_it() {
        let text = only_document(&run(3)).to_json().unwrap();
        let version = format!(",\n        \"score_version\": {SCORE_VERSION}\n");
        let older = text.replace(&version, "\n");
        assert_ne!(older, text, "each constant says the version: {text}");
        let read = Document::from_json(&older).unwrap();
        assert!(read.body.constants.iter().all(|constant| constant.score_version.is_none()));
    }

    #[test]
    fn the_envelope_does_not_enter_the_digest_and_the_rows_do() {
        let document = only_document(&run(3));
        let mut later = document.clone();
        later.envelope.created_utc_ns += 1;
        assert_eq!(later.body_digest().unwrap(), document.body_digest().unwrap());
        assert_ne!(only_document(&run(4)).body_digest().unwrap(), document.body_digest().unwrap());
    }

    #[test]
    fn foreign_texts_are_refused_by_kind() {
        let text = only_document(&run(3)).to_json().unwrap();
        let newer = text.replacen("\"schema_version\": 0", "\"schema_version\": 9", 1);
        let error = Document::from_json(&newer).unwrap_err();
        assert!(matches!(error, DocumentError::UnknownVersion { found: 9 }), "{error}");
        let error = Document::from_json("{}").unwrap_err();
        assert!(matches!(error, DocumentError::NoVersion), "{error}");
        let error = Document::from_json(&text[..text.len() / 2]).unwrap_err();
        assert!(matches!(error, DocumentError::NotJson { .. }), "{error}");
        let error = Document::from_json(&text.replacen("\"constants\"", "\"constance\"", 1)).unwrap_err();
        assert!(
            matches!(&error, DocumentError::WrongForm { .. }) && error.to_string().contains("constants"),
            "{error}"
        );
    }
}
