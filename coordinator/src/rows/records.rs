//! Reading parts as records, for fits of more rows than fit into memory.
//!
//! Files are read by several threads, row group by row group, and batch by batch. What comes out does not depend on how
//! many there are: records stand in the order of files, row groups and rows.

use std::collections::BTreeMap;
use std::fs::File;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use fleetcal_model::fit::record::Record;
use fleetcal_model::id::RowId;
use fleetcal_proto::rows::{RecordReader, RowsError};

use super::read::{ReadError, SkippedFile, contained, expand, open, open_regular};

/// What files hold, as records.
#[derive(Debug, Default)]
pub struct RecordReport {
    /// Records, file by file in the order of their paths.
    pub records: Vec<Record>,
    /// Files that were skipped, and why.
    pub skipped: Vec<SkippedFile>,
}

/// One row group of one file.
struct Piece {
    file: usize,
    group: usize,
}

/// What a piece held: records, and identities of rows whose seal does not hold.
type PieceRead = Result<(Vec<Record>, Vec<RowId>), ReadError>;

/// Reads these files, and of folders every `*.parquet` below them, in that order, and keeps of their rows what fits need.
/// Seals are checked. Never fails as a whole: what cannot be read is in the report.
pub fn read_records(paths: &[PathBuf]) -> RecordReport {
    let (files, skipped) = expand(paths);
    let mut report = RecordReport { records: Vec::new(), skipped };
    let groups: Vec<Result<usize, ReadError>> = files.iter().map(|path| row_groups(path)).collect();
    let pieces: Vec<Piece> = (groups.iter().enumerate())
        .flat_map(|(file, groups)| (0..*groups.as_ref().unwrap_or(&0)).map(move |group| Piece { file, group }))
        .collect();
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(pieces.len());
    let mut files: Vec<OfFile> =
        files.into_iter().zip(groups).map(|(path, groups)| OfFile::new(path, groups)).collect();
    let paths: Vec<PathBuf> = files.iter().map(|file| file.path.clone()).collect();
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..threads {
            let sender = sender.clone();
            let (next, pieces, paths) = (&next, &pieces, &paths);
            scope.spawn(move || read_pieces(next, pieces, paths, &sender));
        }
        drop(sender);
        in_order(&receiver, |at, read| {
            if let Some(file) = pieces.get(at).and_then(|piece| files.get_mut(piece.file)) {
                file.take(read, &mut report.records);
            }
        });
    });
    report.skipped.extend(files.into_iter().filter_map(OfFile::skipped));
    report
}

/// Takes what threads read in the order of pieces: what is early waits.
fn in_order(receiver: &mpsc::Receiver<(usize, PieceRead)>, mut take: impl FnMut(usize, PieceRead)) {
    let (mut waiting, mut wanted) = (BTreeMap::new(), 0);
    for (at, read) in receiver {
        waiting.insert(at, read);
        while let Some(read) = waiting.remove(&wanted) {
            take(wanted, read);
            wanted += 1;
        }
    }
}

/// Reads pieces until none is left.
fn read_pieces(next: &AtomicUsize, pieces: &[Piece], paths: &[PathBuf], sender: &mpsc::Sender<(usize, PieceRead)>) {
    let mut reader = RecordReader::default();
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        let Some(piece) = pieces.get(at) else { return };
        let Some(path) = paths.get(piece.file) else { return };
        let read = open_regular(path).and_then(|file| contained(|| read_group(file, piece.group, &mut reader)));
        // Nobody listens once the reading was given up.
        if sender.send((at, read)).is_err() {
            return;
        }
    }
}

fn read_group(file: File, group: usize, reader: &mut RecordReader) -> PieceRead {
    let (builder, schema) = open(file)?;
    let (mut records, mut broken) = (Vec::new(), Vec::new());
    for batch in builder.with_row_groups(vec![group]).build()? {
        let batch = batch.and_then(|batch| batch.with_schema(schema.clone())).map_err(RowsError::from)?;
        broken.extend(reader.read(&batch, &mut records)?);
    }
    Ok((records, broken))
}

/// How many row groups a file has.
fn row_groups(path: &Path) -> Result<usize, ReadError> {
    let file = open_regular(path)?;
    contained(|| Ok(open(file)?.0.metadata().num_row_groups()))
}

/// One file, as far as it was read.
struct OfFile {
    path: PathBuf,
    /// Records that it gave. A file is whole, or gives none.
    records: usize,
    broken: Vec<RowId>,
    failed: Option<ReadError>,
}

impl OfFile {
    fn new(path: PathBuf, groups: Result<usize, ReadError>) -> Self {
        Self { path, records: 0, broken: Vec::new(), failed: groups.err() }
    }

    /// Adds the next of its pieces.
    fn take(&mut self, read: PieceRead, records: &mut Vec<Record>) {
        match read {
            Ok((read, broken)) if self.failed.is_none() => {
                self.records += read.len();
                self.broken.extend(broken);
                records.extend(read);
            }
            Ok(_) => {}
            Err(error) => {
                records.truncate(records.len() - self.records);
                self.records = 0;
                self.failed.get_or_insert(error);
            }
        }
    }

    fn skipped(self) -> Option<SkippedFile> {
        let Self { path, broken, failed, .. } = self;
        let reason = match (failed, broken.first()) {
            (Some(reason), _) => reason,
            (None, Some(first)) => ReadError::BrokenSeals { count: broken.len() as u64, first: first.clone() },
            (None, None) => return None,
        };
        Some(SkippedFile { path, reason })
    }
}
