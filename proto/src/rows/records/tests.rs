use fleetcal_model::estimate::seal;
use proptest::prelude::*;

use super::*;
use crate::rows::to_batch;
use crate::testing::arbitrary_row;

fn read(rows: &[Row]) -> (Vec<Record>, Vec<RowId>) {
    let mut records = Vec::new();
    let batch = to_batch(rows).expect("rows fit the schema");
    let broken = RecordReader::default().read(&batch, &mut records).expect("our own batch");
    (records, broken)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The JSON written from columns is that of the row, to the byte, and so is the record.
    #[test]
    fn records_from_columns_are_those_of_rows(mut rows in proptest::collection::vec(arbitrary_row(), 1..5)) {
        // Rows after each other that share much, as those of a task do.
        let mut alike = rows.clone();
        alike.iter_mut().for_each(|row| row.timing.warmups ^= 5);
        rows = rows.into_iter().zip(alike).flat_map(|(row, other)| [row.clone(), row, other]).collect();
        rows.iter_mut().for_each(|row| seal(row).expect("a row has a seal"));
        let batch = to_batch(&rows).expect("rows fit the schema");
        let (mut content, mut json) = (Content::of(&batch).expect("our own batch"), Vec::new());
        for (at, row) in rows.iter().enumerate() {
            content.write(at, &mut json).expect("a row is JSON");
            let digest = Sha256Digest::of(&json).to_hex();
            prop_assert_eq!(&digest, &row.identity.content_hash, "{}", String::from_utf8_lossy(&json));
        }
        let mut recorder = Recorder::default();
        let expected: Vec<Record> = rows.iter().map(|row| recorder.record(row)).collect();
        let (records, broken) = read(&rows);
        prop_assert_eq!(format!("{records:?}"), format!("{expected:?}"));
        prop_assert_eq!(broken, Vec::<RowId>::new());
    }

    #[test]
    fn rows_that_changed_since_are_named_and_left_out(mut rows in proptest::collection::vec(arbitrary_row(), 2..5)) {
        rows.iter_mut().for_each(|row| seal(row).expect("a row has a seal"));
        rows[1].timing.warmups ^= 1;
        let (records, broken) = read(&rows);
        prop_assert_eq!(records.len(), rows.len() - 1);
        prop_assert_eq!(&broken, &[rows[1].identity.row_id.clone()]);
    }
}
