use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{Int64Array, RecordBatch};
use fleetcal_model::estimate::{seal, verify_seal};
use fleetcal_model::id::{ChunkId, RunId};
use fleetcal_model::row::Row;
use fleetcal_proto::rows::{Decoder, SCHEMA_VERSION_KEY, encode_batches, schema_message, to_batch};
use fleetcal_proto::testing::arbitrary_row;
use parquet::arrow::ArrowWriter;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::*;
use crate::error::FolderError;

/// A data folder with a folder of one run.
struct Data(tempfile::TempDir);

impl Data {
    fn new() -> Self {
        let data = Self(tempfile::tempdir().expect("a temporary folder"));
        fs::create_dir_all(data.run()).expect("the run's folder");
        data
    }

    fn run(&self) -> PathBuf {
        self.0.path().join("rows/run-1")
    }

    fn read(&self) -> ReadReport {
        read_parts(self.0.path(), &RowFilter::All)
    }

    /// File names in the run's folder.
    fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.run()).expect("the run's folder");
        let mut names: Vec<_> =
            entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("a name")).collect();
        names.sort();
        names
    }
}

/// Sealed rows of `run-1` that are the same in every run.
fn sealed_rows(count: usize) -> Vec<Row> {
    let mut runner = TestRunner::deterministic();
    let row = |_| {
        let mut row = arbitrary_row().new_tree(&mut runner).expect("a row").current();
        row.identity.run_id = RunId::new("run-1");
        seal(&mut row).expect("JSON holds a row");
        row
    };
    (0..count).map(row).collect()
}

fn write(folder: &Path, name: &str, rows: &[Row]) -> Result<PartInfo, PartError> {
    write_part(folder, name, &[to_batch(rows).expect("rows fit the schema")], &[ChunkId::new("chunk-1")])
}

#[test]
fn a_part_is_named_and_says_which_chunks_it_holds() {
    let data = Data::new();
    let rows = sealed_rows(3);
    let batches = [to_batch(&rows[..1]).expect("a batch"), to_batch(&rows[1..]).expect("a batch")];
    let chunks = ["chunk-1", "chunk \"2\""].map(ChunkId::new);
    let info = write_part(&data.run(), "part-000001-9f3c2a10", &batches, &chunks).expect("a part");
    let path = data.run().join("part-000001-9f3c2a10.parquet");
    assert_eq!(info.file_name, "part-000001-9f3c2a10.parquet");
    assert_eq!((info.rows, info.bytes), (3, fs::metadata(&path).expect("the part").len()));
    assert_eq!(data.files(), [info.file_name], "nothing else is left in the folder");
    let reader = SerializedFileReader::new(fs::File::open(&path).expect("the part")).expect("a part");
    let footer = reader.metadata().file_metadata().key_value_metadata().expect("a footer");
    let said = footer.iter().find(|entry| entry.key == CHUNKS_KEY).and_then(|entry| entry.value.clone());
    assert_eq!(said, Some(serde_json::to_string(&chunks).expect("names")));
    assert_eq!(data.read().rows, rows);
}

#[test]
fn rows_of_a_run_come_from_the_parts_that_are_named_and_other_files_are_said() {
    let data = Data::new();
    let rows = sealed_rows(2);
    write(&data.run(), "part-1", &rows).expect("a part");
    fs::copy(data.run().join("part-1.parquet"), data.run().join("copied.parquet")).expect("copied");
    let parts = ["run-1/part-1.parquet", "run-1/part-2.parquet"].map(str::to_owned).into();
    let report = read_parts(data.0.path(), &RowFilter::Named { run: RunId::new("run-1"), parts });
    assert_eq!(report.rows, rows, "a copy must not be read");
    let [copied, gone] = &report.skipped[..] else { panic!("two files: {:?}", report.skipped) };
    assert!(copied.path.ends_with("copied.parquet") && matches!(copied.reason, ReadError::NotNamed), "{copied:?}");
    assert!(gone.path.ends_with("part-2.parquet") && matches!(gone.reason, ReadError::Io(_)), "{gone:?}");
    let nothing = RowFilter::Named { run: RunId::new("run-2"), parts: Default::default() };
    assert!(read_parts(data.0.path(), &nothing).rows.is_empty());
    assert_eq!(data.read().rows.len(), 4, "everything is read where nothing is named");
}

#[test]
fn a_part_is_never_overwritten() {
    let data = Data::new();
    write(&data.run(), "part-1", &sealed_rows(2)).expect("a part");
    let refused = write(&data.run(), "part-1", &sealed_rows(1)).expect_err("there is one");
    assert!(matches!(&refused, PartError::Exists { path } if path.ends_with("part-1.parquet")), "{refused}");
    assert_eq!(data.read().rows.len(), 2, "the first part was overwritten");
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let data = Data::new();
    let refused = write(&data.run().join("gone"), "part-1", &sealed_rows(1)).expect_err("no folder");
    assert!(matches!(refused, PartError::Folder(FolderError::Other { .. })), "{refused}");
    assert!(refused.to_string().contains("run-1/gone"), "the folder is not named: {refused}");
}

/// `/dev/full` gives a real ENOSPC: the temporary name leads there.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_from_other_errors_and_leaves_nothing() {
    let data = Data::new();
    std::os::unix::fs::symlink("/dev/full", data.run().join(".part-1.parquet.tmp")).expect("a link");
    let refused = write(&data.run(), "part-1", &sealed_rows(1)).expect_err("no space");
    assert!(matches!(refused, PartError::Folder(FolderError::Full { .. })), "{refused}");
    assert_eq!(data.files(), [""; 0], "something is left in the folder");
    write(&data.run(), "part-1", &sealed_rows(1)).expect("there is space again");
}

#[test]
fn batches_of_another_schema_are_refused() {
    let data = Data::new();
    let column = Arc::new(Int64Array::from(vec![1]));
    let batch = RecordBatch::try_from_iter([("x", column as _)]).expect("a batch");
    let refused = write_part(&data.run(), "part-1", &[batch], &[]).expect_err("no rows");
    assert!(matches!(refused, PartError::Encode(_)), "{refused}");
    assert_eq!(data.files(), [""; 0]);
}

/// A Parquet file of one column that no row has, which says it has this version of the row schema.
fn write_foreign(path: &Path, version: Option<&str>) {
    let batch = RecordBatch::try_from_iter([("price", Arc::new(Int64Array::from(vec![1, 2])) as _)]).expect("a batch");
    let footer = version.map(|version| vec![KeyValue::new(SCHEMA_VERSION_KEY.to_owned(), version.to_owned())]);
    let properties = WriterProperties::builder().set_key_value_metadata(footer).build();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).expect("a writer");
    writer.write(&batch).expect("written");
    writer.close().expect("closed");
    fs::write(path, bytes).expect("a file");
}

#[test]
fn files_of_others_are_named_and_skipped_and_the_rest_is_read() {
    let data = Data::new();
    let rows = sealed_rows(2);
    write(&data.run(), "part-2", &rows).expect("a part");
    let whole = fs::read(data.run().join("part-2.parquet")).expect("the part");
    let place = |name: &str| data.run().join(name);
    fs::write(place("a-truncated.parquet"), &whole[..whole.len() / 2]).expect("a file");
    fs::write(place("b-empty.parquet"), "").expect("a file");
    fs::write(place("c-text.parquet"), "run,kernel\n1,copy\n").expect("a file");
    write_foreign(&place("d-foreign.parquet"), None);
    write_foreign(&place("e-newer.parquet"), Some("1"));
    write_foreign(&place("f-columns.parquet"), Some("0"));
    fs::create_dir(place("g-folder.parquet")).expect("a folder");
    fs::write(place("notes.txt"), "mine").expect("a file");
    fs::write(place(".part-3.parquet.tmp"), "unfinished").expect("a file");

    let report = data.read();
    assert_eq!(report.rows, rows, "the good part must be read");
    let said: Vec<String> =
        report.skipped.iter().map(|file| format!("{}: {}", file.path.display(), file.reason)).collect();
    let expected = [
        ("a-truncated", "damaged"),
        ("b-empty", "no Parquet file"),
        ("c-text", "no Parquet file"),
        ("d-foreign", "no fleetcal rows"),
        ("e-newer", "row schema is version 1, this fleetcal reads version 0"),
        ("f-columns", "columns are not those of row schema 0"),
    ];
    assert_eq!(said.len(), expected.len(), "{said:#?}");
    for (said, (name, reason)) in said.iter().zip(expected) {
        assert!(said.contains(name) && said.contains(reason), "{name} should say `{reason}`: {said}");
    }
}

#[test]
fn a_row_that_was_never_sealed_is_left_out() {
    let data = Data::new();
    let mut rows = sealed_rows(2);
    rows[0].identity.content_hash.clear();
    write(&data.run(), "part-1", &rows).expect("a part");
    let report = data.read();
    assert_eq!(report.rows, rows[1..]);
    assert!(matches!(report.skipped[0].reason, ReadError::BrokenSeals { count: 1, .. }), "{:?}", report.skipped);
}

#[test]
fn a_row_that_changed_since_it_was_sealed_is_left_out_and_said() {
    let data = Data::new();
    let mut rows = sealed_rows(3);
    rows[1].timing.estimate_ns = Some(1.0);
    write(&data.run(), "part-1", &rows).expect("a part");
    let report = data.read();
    assert_eq!(report.rows, [rows[0].clone(), rows[2].clone()]);
    let reason = &report.skipped[0].reason;
    assert!(
        matches!(reason, ReadError::BrokenSeals { count: 1, first } if *first == rows[1].identity.row_id),
        "{reason}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn rows_survive_ipc_and_parquet(mut rows in proptest::collection::vec(arbitrary_row(), 1..5)) {
        rows.iter_mut().for_each(|row| seal(row).expect("JSON holds a row"));
        let data = Data::new();
        let decoder = Decoder::new(&schema_message().expect("our own schema")).expect("our own schema");
        let batches = decoder.decode(&encode_batches(&rows).expect("a chunk")).expect("our own chunk");
        write_part(&data.run(), "part-1", &batches, &[ChunkId::new("chunk-1")]).expect("a part");
        let report = data.read();
        prop_assert!(report.skipped.is_empty(), "{:?}", report.skipped);
        prop_assert_eq!(&report.rows, &rows);
        prop_assert!(report.rows.iter().all(verify_seal), "a content hash no longer holds");
    }

    #[test]
    fn a_damaged_part_is_skipped_or_gives_sealed_rows_only(
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..6),
    ) {
        let data = Data::new();
        let rows = sealed_rows(2);
        write(&data.run(), "part-1", &rows).expect("a part");
        let path = data.run().join("part-1.parquet");
        let mut bytes = fs::read(&path).expect("the part");
        for (index, bits) in flips {
            let position = index.index(bytes.len());
            bytes[position] ^= bits;
        }
        fs::write(&path, bytes).expect("the damaged part");
        let report = data.read();
        // A seal does not tell numbers apart that are not finite (all of them are null in JSON), and none of those feeds a
        // fit: so the hash says which row it is, and the seal that nothing else of it changed.
        let hashes: Vec<&str> = rows.iter().map(|row| row.identity.content_hash.as_str()).collect();
        let written = |row: &Row| verify_seal(row) && hashes.contains(&row.identity.content_hash.as_str());
        prop_assert!(report.rows.iter().all(written), "a row was read that nobody wrote");
    }
}
