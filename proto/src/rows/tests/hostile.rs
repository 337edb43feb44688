//! From bytes to documents: rows as no sound agent sends them, and chunks damaged on their way. Whatever the decoder lets
//! through is fitted, and ends in documents of finite numbers, or in none.

use fleetcal_model::constants::{Document, Envelope};
use fleetcal_model::estimate::{finish, seal};
use fleetcal_model::fit::Options;
use fleetcal_model::fit::intake::intake;
use fleetcal_model::id::{ClassId, DeviceId, RowId, RunId};
use fleetcal_model::point::Dtype;
use fleetcal_model::row::{Origin, Role, Row, Status};
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};
use proptest::prelude::*;
use proptest::sample::{Index, select};

use super::super::{Decoder, encode_batches, from_batch, schema_message};
use crate::testing::arbitrary_row;

/// What may be wrong with a row.
#[derive(Debug, Clone)]
enum Defect {
    Rounds(Vec<f64>),
    Estimate(Option<f64>),
    Interval(f64, f64),
    Counts(u64, u64, u64),
    Flags(bool, bool),
    Cache(Option<u64>),
    Class(&'static str),
    Origin(Origin),
    Role(Role),
    Status(Status),
    Kernel(&'static str, Dtype),
    Device(&'static str),
    Copy,
    SameIdentity,
    Hour(u64, u64),
    RoundNumbers(u64),
}

fn number() -> impl Strategy<Value = f64> {
    let odd = [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX, 1e-300, 1.0, 1e9];
    prop_oneof![2 => 1.0..1e9_f64, 2 => select(odd.to_vec()), 1 => any::<f64>()]
}

fn count() -> impl Strategy<Value = u64> {
    prop_oneof![3 => select(vec![0, 1, 1 << 30, u64::MAX]), 1 => any::<u64>()]
}

fn defect() -> impl Strategy<Value = Defect> {
    prop_oneof![
        prop::collection::vec(number(), 0..5).prop_map(Defect::Rounds),
        prop::option::of(number()).prop_map(Defect::Estimate),
        (number(), number()).prop_map(|(low, high)| Defect::Interval(low, high)),
        (count(), count(), count()).prop_map(|(read, written, distinct)| Defect::Counts(read, written, distinct)),
        any::<(bool, bool)>().prop_map(|(exact, opaque)| Defect::Flags(exact, opaque)),
        prop::option::of(count()).prop_map(Defect::Cache),
        select(vec!["", "another"]).prop_map(Defect::Class),
        select(Origin::ALL).prop_map(Defect::Origin),
        select(Role::ALL).prop_map(Defect::Role),
        select(Status::ALL).prop_map(Defect::Status),
        (select(vec!["", "copy", "scale"]), select(Dtype::ALL))
            .prop_map(|(kernel, dtype)| Defect::Kernel(kernel, dtype)),
        select(vec!["", "GPU-else"]).prop_map(Defect::Device),
        Just(Defect::Copy),
        Just(Defect::SameIdentity),
        (count(), count()).prop_map(|(started, ended)| Defect::Hour(started, ended)),
        count().prop_map(Defect::RoundNumbers),
    ]
}

/// Puts a defect into one of the rows.
fn spoil(rows: &mut Vec<Row>, at: usize, defect: Defect) {
    let (first, copy) = (rows[0].identity.row_id.clone(), rows[at].clone());
    let row = &mut rows[at];
    let timing = &mut row.timing;
    match defect {
        Defect::Rounds(medians_ns) => {
            timing.rounds.truncate(medians_ns.len());
            timing.rounds.iter_mut().zip(medians_ns).for_each(|(round, ns)| round.median_ns = ns);
            finish(timing, row.identity.role);
        }
        Defect::Estimate(estimate_ns) => timing.estimate_ns = estimate_ns,
        Defect::Interval(low, high) => (timing.interval_low_ns, timing.interval_high_ns) = (Some(low), Some(high)),
        Defect::Counts(read, written, distinct) => {
            let counts = &mut row.counts;
            (counts.bytes_read, counts.bytes_written, counts.bytes_distinct) = (read, written, distinct);
        }
        Defect::Flags(exact, opaque) => (row.counts.bytes_exact, row.counts.opaque) = (exact, opaque),
        Defect::Cache(bytes) => row.device.last_level_cache_bytes = bytes,
        Defect::Class(class) => row.device.class_id = ClassId::new(class),
        Defect::Origin(origin) => row.identity.origin = origin,
        Defect::Role(role) => row.identity.role = role,
        Defect::Status(status) => row.outcome.status = status,
        Defect::Kernel(kernel, dtype) => (row.work.kernel, row.work.dtype) = (kernel.to_owned(), dtype),
        Defect::Device(device) => row.device.device_uuid = DeviceId::new(device),
        Defect::Copy => rows.push(copy),
        Defect::SameIdentity => row.identity.row_id = RowId::new(first.as_str()),
        Defect::Hour(started, ended) => (row.outcome.started_utc_ns, row.outcome.ended_utc_ns) = (started, ended),
        Defect::RoundNumbers(number) => timing.rounds.iter_mut().for_each(|round| round.round = number),
    }
}

/// Rows of a simulated class with some defects in them.
fn spoiled_rows() -> impl Strategy<Value = Vec<Row>> {
    let defects = prop::collection::vec((any::<Index>(), defect()), 0..12);
    (select(vec![1, 2, 4, 17]), 0..5_usize, any::<u64>(), defects).prop_map(|(devices, sizes, seed, defects)| {
        let elements = (25..25 + sizes).map(|power| 1 << power).collect();
        let mut rows = Fleet::simulate(&FleetSpec { samples: 2, elements, ..FleetSpec::clean(devices) }, seed).rows;
        for (at, defect) in defects {
            if !rows.is_empty() {
                let at = at.index(rows.len());
                spoil(&mut rows, at, defect);
            }
        }
        // Readers take sealed rows alone: two that share an identity and differ have different seals.
        rows.iter_mut().for_each(|row| seal(row).expect("a row can be sealed"));
        rows
    })
}

fn documents<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Document> {
    let envelope = Envelope {
        created_utc_ns: 0,
        created_by: "test".to_owned(),
        run_id: RunId::new("run"),
        coordinator_version: String::new(),
    };
    Document::fit(rows, &Options::default(), &envelope)
}

/// Fits rows. A number that is none would not come back: JSON has no word for it.
fn fitted_soundly(rows: &[Row]) -> Result<(), TestCaseError> {
    let found = documents(rows);
    for document in &found {
        let json = document.to_json().map_err(|error| TestCaseError::fail(error.to_string()))?;
        let back = Document::from_json(&json).map_err(|error| TestCaseError::fail(format!("{error}: {json}")))?;
        prop_assert_eq!(&back, document);
    }
    // What must not be fitted together is an error with a name; what may be is fitted like the rest.
    if let Ok(intake) = intake(rows, false) {
        prop_assert!(documents(intake.rows.iter().copied()).len() <= found.len());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn spoiled_rows_give_sound_documents_in_any_order(rows in spoiled_rows()) {
        fitted_soundly(&rows)?;
        let reversed = documents(rows.iter().rev());
        prop_assert_eq!(documents(&rows), reversed);
    }

    #[test]
    fn any_rows_at_all_give_sound_documents(rows in prop::collection::vec(arbitrary_row(), 0..6)) {
        fitted_soundly(&rows)?;
    }

    #[test]
    fn what_is_left_of_a_damaged_chunk_is_fitted_soundly(
        rows in spoiled_rows(),
        flips in prop::collection::vec((any::<Index>(), 1_u8..), 0..6),
    ) {
        let mut chunk = encode_batches(&rows).expect("rows have a form");
        let length = chunk.len();
        for (at, bits) in flips.iter().filter(|_| length > 0) {
            chunk[at.index(length)] ^= bits;
        }
        let decoder = Decoder::new(&schema_message().expect("there is a schema")).expect("it is ours");
        let Ok(batches) = decoder.decode(&chunk) else { return Ok(()) };
        let decoded: Vec<Row> = batches.iter().filter_map(|batch| from_batch(batch).ok()).flatten().collect();
        fitted_soundly(&decoded)?;
    }
}
