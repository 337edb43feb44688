//! Reading parts back. A file that holds no rows of ours, or not all of them, is named and skipped: people put files
//! into data folders, disks fill up, and neither is a reason to lose the rest.

use std::collections::{BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_schema::{Schema, SchemaRef};
use fleetcal_model::estimate::verify_seal;
use fleetcal_model::id::{RowId, RunId};
use fleetcal_model::row::Row;
use fleetcal_proto::rows::{RowsError, SCHEMA_VERSION_KEY, check_schema, from_batch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;

use crate::folder::is_plain_name;

/// A file that is no part, or no longer a whole one.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It is no file of data: a pipe, for one, would be waited for.
    #[error("it is no regular file")]
    NoFile,
    /// The system did not let us read it.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is no Parquet file, or is cut short.
    #[error("it is no Parquet file, or a damaged one: {0}")]
    Parquet(#[from] ParquetError),
    /// It is so damaged that the Parquet reader gave up on it.
    #[error("it is damaged: the Parquet reader failed on it ({reason})")]
    Damaged {
        /// What the reader said.
        reason: String,
    },
    /// It is a Parquet file of something else, or of another version of the row schema.
    #[error(transparent)]
    Rows(#[from] RowsError),
    /// Some of its rows are not what was measured. Only these are left out.
    #[error("rows that are not as they were sealed are left out: {count}, the first is {first}")]
    BrokenSeals {
        /// How many.
        count: u64,
        /// The first of them.
        first: RowId,
    },
    /// The journal does not name it.
    #[error("the journal does not name it: its rows were not acknowledged, or somebody put it there")]
    NotNamed,
}

/// A file that was skipped, or of which rows were.
#[derive(Debug)]
pub struct SkippedFile {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: ReadError,
}

/// What a data folder holds.
#[derive(Debug, Default)]
pub struct ReadReport {
    /// Rows, file by file in the order of their paths.
    pub rows: Vec<Row>,
    /// Files that were skipped, and why.
    pub skipped: Vec<SkippedFile>,
}

/// Which rows to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowFilter {
    /// All of them, whoever put them there.
    All,
    /// Those of one run, whichever parts below its folder hold them.
    OfRun(RunId),
    /// Those of one run, from its parts alone: rows that were acknowledged, each once.
    Named {
        /// The run.
        run: RunId,
        /// Its parts as the journal names them, relative to `rows/`.
        parts: BTreeSet<String>,
    },
}

/// Reads the `rows/**/*.parquet` of a data folder that the filter means. Never fails as a whole: what cannot be read is in
/// the report.
pub fn read_parts(data_folder: &Path, filter: &RowFilter) -> ReadReport {
    let mut skipped = Vec::new();
    let files = files(&data_folder.join("rows"), filter, &mut skipped);
    read_all(files, skipped)
}

/// Reads these files, and of folders every `*.parquet` below them, in that order. Never fails as a whole, as
/// [`read_parts`] does not.
pub fn read_paths(paths: &[PathBuf]) -> ReadReport {
    let (files, skipped) = expand(paths);
    read_all(files, skipped)
}

/// These files, and of folders every `*.parquet` below them; folders that cannot be read are skipped.
pub(super) fn expand(paths: &[PathBuf]) -> (Vec<PathBuf>, Vec<SkippedFile>) {
    let (mut files, mut skipped) = (Vec::new(), Vec::new());
    for path in paths {
        if path.is_dir() { find_parts(path, &mut files, &mut skipped) } else { files.push(path.clone()) }
    }
    (files, skipped)
}

fn read_all(files: Vec<PathBuf>, skipped: Vec<SkippedFile>) -> ReadReport {
    let mut report = ReadReport { rows: Vec::new(), skipped };
    for path in files {
        match read_part(&path) {
            Ok(rows) => {
                let (kept, broken) = split_by_seal(rows);
                report.rows.extend(kept);
                if let Some(first) = broken.first().map(|row| row.identity.row_id.clone()) {
                    let reason = ReadError::BrokenSeals { count: broken.len() as u64, first };
                    report.skipped.push(SkippedFile { path, reason });
                }
            }
            Err(reason) => report.skipped.push(SkippedFile { path, reason }),
        }
    }
    report
}

/// The files that a filter means. Those of others in a run's folder are skipped.
fn files(rows_folder: &Path, filter: &RowFilter, skipped: &mut Vec<SkippedFile>) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let (run, parts) = match filter {
        RowFilter::All => {
            find_parts(rows_folder, &mut found, skipped);
            return found;
        }
        RowFilter::OfRun(run) => {
            // A name that is none has no folder, and must not lead out of this one.
            if is_plain_name(run.as_str()) {
                find_parts(&rows_folder.join(run.as_str()), &mut found, skipped);
            }
            return found;
        }
        RowFilter::Named { run, parts } => (run, parts),
    };
    let named: BTreeSet<PathBuf> = parts.iter().map(|name| rows_folder.join(name)).collect();
    find_parts(&rows_folder.join(run.as_str()), &mut found, skipped);
    let foreign = found.into_iter().filter(|path| !named.contains(path));
    skipped.extend(foreign.map(|path| SkippedFile { path, reason: ReadError::NotNamed }));
    // Those that are gone are found out by reading them.
    named.into_iter().collect()
}

/// Every row of one part, whether its seal holds or not.
///
/// # Errors
/// The file is unreadable, no Parquet, damaged, or of another schema; then none of its rows are given.
pub fn read_part(path: &Path) -> Result<Vec<Row>, ReadError> {
    let file = open_regular(path)?;
    contained(|| read_rows(file))
}

/// Opens a file that nobody has to be waited for.
pub(super) fn open_regular(path: &Path) -> Result<File, ReadError> {
    if fs::metadata(path)?.is_file() { Ok(File::open(path)?) } else { Err(ReadError::NoFile) }
}

fn read_rows(file: File) -> Result<Vec<Row>, ReadError> {
    let (builder, schema) = open(file)?;
    let mut rows = Vec::new();
    for batch in builder.build()? {
        let batch = batch.and_then(|batch| batch.with_schema(Arc::clone(&schema))).map_err(RowsError::from)?;
        rows.extend(from_batch(&batch)?);
    }
    Ok(rows)
}

/// A reader of a file, and the schema of its rows, which is ours.
pub(super) fn open(file: File) -> Result<(ParquetRecordBatchReaderBuilder<File>, SchemaRef), ReadError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
    // Parquet's reader keeps the columns and leaves the metadata in the footer.
    let version = footer_value(&builder, SCHEMA_VERSION_KEY).map(|version| (SCHEMA_VERSION_KEY.to_owned(), version));
    let metadata: HashMap<_, _> = version.into_iter().collect();
    let schema = Arc::new(Schema::new_with_metadata(builder.schema().fields().clone(), metadata));
    check_schema(&schema).map_err(RowsError::from)?;
    Ok((builder, schema))
}

/// Runs the Parquet reader so that a file cannot take the coordinator down. The reader asserts what a footer claims,
/// for example that no column begins before the file does; a flipped bit on a disk is enough to break that.
pub(super) fn contained<T>(read: impl FnOnce() -> Result<T, ReadError>) -> Result<T, ReadError> {
    // Nothing outlives the closure but the answer, so nothing can be seen half changed.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let reason = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(ReadError::Damaged { reason: reason.unwrap_or_else(|| "without a reason".to_owned()) })
    })
}

/// The value of a key in the footer's metadata.
fn footer_value(builder: &ParquetRecordBatchReaderBuilder<File>, key: &str) -> Option<String> {
    let footer = builder.metadata().file_metadata().key_value_metadata()?;
    footer.iter().find(|entry| entry.key == key)?.value.clone()
}

/// Rows as they were sealed, and rows that changed since, or never were: no agent sends those.
fn split_by_seal(rows: Vec<Row>) -> (Vec<Row>, Vec<Row>) {
    rows.into_iter().partition(verify_seal)
}

/// Parquet files below a folder, in the order of their paths. Links to folders are not followed, hidden files are
/// somebody's unfinished ones.
fn find_parts(folder: &Path, found: &mut Vec<PathBuf>, skipped: &mut Vec<SkippedFile>) {
    let entries = match fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>) {
        Ok(entries) => entries,
        // No rows yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => {
            skipped.push(SkippedFile { path: folder.to_owned(), reason: error.into() });
            return;
        }
    };
    let mut paths: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    paths.sort();
    for path in paths {
        let hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_folder = path.is_dir() && !path.is_symlink();
        if is_folder {
            find_parts(&path, found, skipped);
        } else if !hidden && path.extension().is_some_and(|extension| extension == "parquet") {
            found.push(path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_panics_is_an_error_of_its_file() {
        let place = -1_i64;
        let result: Result<(), _> = contained(|| panic!("column begins at {place}"));
        let error = result.expect_err("the reader failed");
        assert!(error.to_string().contains("failed on it (column begins at -1)"), "{error}");
    }
}
