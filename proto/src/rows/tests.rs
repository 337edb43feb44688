use std::collections::BTreeSet;

use fleetcal_model::row::{Row, Status};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::testing::arbitrary_row;

/// Rows that are the same in every run.
fn some_rows(count: usize) -> Vec<Row> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| arbitrary_row().new_tree(&mut runner).expect("a row").current()).collect()
}

fn decoder() -> Decoder {
    Decoder::new(&schema_message().expect("our own schema")).expect("our own schema")
}

/// Every row of a chunk, or the error.
fn rows_of(chunk: &[u8]) -> Result<Vec<Row>, RowsError> {
    let mut rows = Vec::new();
    for batch in decoder().decode(chunk)? {
        rows.extend(from_batch(&batch)?);
    }
    Ok(rows)
}

#[test]
fn column_names_are_unique_across_the_groups() {
    let schema = schema();
    let names: BTreeSet<_> = schema.fields().iter().map(|field| field.name()).collect();
    assert_eq!(names.len(), schema.fields().len(), "two groups share a column name");
}

#[test]
fn no_rows_are_an_empty_table_and_an_empty_chunk() {
    let batch = to_batch(&[]).expect("an empty table");
    assert_eq!((batch.num_rows(), batch.schema()), (0, schema()));
    assert_eq!(from_batch(&batch).expect("an empty table"), []);
    assert!(encode_batches(&[]).expect("an empty chunk").is_empty());
    assert_eq!(rows_of(&[]).expect("an empty chunk"), []);
}

#[test]
fn chunks_of_many_rows_keep_their_order_and_follow_one_another() {
    let rows = some_rows(300);
    let mut bytes = encode_batches(&rows[..290]).expect("a chunk");
    bytes.extend(encode_batches(&rows[290..]).expect("a chunk"));
    assert_eq!(rows_of(&bytes).expect("two chunks in a row"), rows);
}

#[test]
fn a_batch_with_its_columns_in_another_order_is_read_by_name() {
    let rows = some_rows(3);
    let batch = to_batch(&rows).expect("a batch");
    let reversed: Vec<usize> = (0..batch.num_columns()).rev().collect();
    assert_eq!(from_batch(&batch.project(&reversed).expect("all columns")).expect("the same table"), rows);
}

#[test]
fn a_status_of_a_newer_version_is_an_error_not_a_guess() {
    let mut row = some_rows(1).remove(0);
    row.outcome.status = Status::Passed;
    let batch = to_batch(&[row]).expect("a batch");
    let position = schema().index_of("status").expect("a column");
    let mut columns = batch.columns().to_vec();
    columns[position] = Arc::new(arrow_array::StringArray::from(vec!["invented_tomorrow"]));
    let newer = RecordBatch::try_new(schema(), columns).expect("the same columns");
    assert!(matches!(from_batch(&newer), Err(RowsError::Convert(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn rows_survive_batches_and_ipc(rows in proptest::collection::vec(arbitrary_row(), 0..5)) {
        prop_assert_eq!(&rows_of(&encode_batches(&rows).expect("rows fit the schema")).expect("our own chunk"), &rows);
    }
}

mod damage;
mod hostile;
