//! A chunk taken apart by run.

use arrow_array::{Array, RecordBatch, StringArray, UInt64Array};
use fleetcal_core::event::{CommittedSegment, LeaseKey};
use fleetcal_model::id::RunId;
use fleetcal_proto::convert::{ConvertError, Lease};
use fleetcal_proto::rows::{Decoder, RowsError};
use fleetcal_proto::v1;

use crate::convert::lease_key;
use crate::folder::is_plain_name;

/// Rows of one run within a chunk.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) run: RunId,
    pub(super) batches: Vec<RecordBatch>,
    pub(super) segments: Vec<CommittedSegment>,
}

/// Why a chunk is not acceptable, now or ever.
#[derive(Debug, thiserror::Error)]
pub(super) enum Rejected {
    #[error(transparent)]
    Rows(#[from] RowsError),
    #[error(transparent)]
    Segment(#[from] ConvertError),
    #[error("its segments say {said} rows, and it holds {found}")]
    RowCount { said: u64, found: u64 },
    #[error("it holds no rows")]
    Empty,
    #[error("a segment of {said} holds a row of {found}")]
    OtherRows { said: String, found: String },
    #[error("`{run}` cannot be a run's name")]
    RunName { run: String },
    #[error("column {column} cannot be read")]
    Column { column: &'static str },
}

/// Decodes a chunk, checks it against its segments, and cuts it where the run changes.
pub(super) fn slices(decoder: &Decoder, chunk: v1::Chunk) -> Result<Vec<Slice>, Rejected> {
    let batches = decoder.decode(&chunk.record_batches)?;
    let segments = segments(chunk.segments)?;
    let found: u64 = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    let said = segments.iter().fold(0_u64, |sum, segment| sum.saturating_add(segment.rows));
    if said != found {
        return Err(Rejected::RowCount { said, found });
    }
    if found == 0 {
        return Err(Rejected::Empty);
    }
    let mut rows = Rows { batches: batches.into(), offset: 0 };
    let mut slices: Vec<Slice> = Vec::new();
    for segment in segments.into_iter().filter(|segment| segment.rows > 0) {
        let taken = rows.take(segment.rows);
        let run = run_of(&segment, &taken)?;
        match slices.last_mut().filter(|slice| slice.run == run) {
            Some(slice) => {
                slice.batches.extend(taken);
                slice.segments.push(segment);
            }
            None => slices.push(Slice { run, batches: taken, segments: vec![segment] }),
        }
    }
    Ok(slices)
}

fn segments(wire: Vec<v1::Segment>) -> Result<Vec<CommittedSegment>, Rejected> {
    let segment = |wire: v1::Segment| {
        let lease = lease_key(Lease::required(wire.lease, "Segment.lease")?);
        Ok(CommittedSegment { lease, rows: wire.rows })
    };
    wire.into_iter().map(segment).collect()
}

/// The one run that a segment's rows are of; they must also be of the segment's lease, which says whether they count.
fn run_of(segment: &CommittedSegment, batches: &[RecordBatch]) -> Result<RunId, Rejected> {
    let mut run: Option<String> = None;
    let LeaseKey { task, attempt, epoch } = &segment.lease;
    for batch in batches {
        let (runs, tasks) = (column::<StringArray>(batch, "run_id")?, column::<StringArray>(batch, "task_id")?);
        let (attempts, epochs) =
            (column::<UInt64Array>(batch, "attempt")?, column::<UInt64Array>(batch, "lease_epoch")?);
        for row in 0..batch.num_rows() {
            let found = (runs.value(row), tasks.value(row), attempts.value(row), epochs.value(row));
            let expected = run.get_or_insert_with(|| found.0.to_owned());
            let said = (expected.as_str(), task.as_str(), *attempt, *epoch);
            if found != said {
                return Err(Rejected::OtherRows { said: described(said), found: described(found) });
            }
        }
    }
    let run = run.unwrap_or_default();
    // It names a folder: an agent must not choose where its rows are written.
    if is_plain_name(&run) { Ok(RunId::new(run)) } else { Err(Rejected::RunName { run }) }
}

fn described((run, task, attempt, epoch): (&str, &str, u64, u64)) -> String {
    format!("attempt {attempt}, epoch {epoch} of task {task} of run {run}")
}

/// A column of that type without gaps.
fn column<'b, A: Array + 'static>(batch: &'b RecordBatch, column: &'static str) -> Result<&'b A, Rejected> {
    let array = batch.column_by_name(column).and_then(|array| array.as_any().downcast_ref::<A>());
    array.filter(|array| array.null_count() == 0).ok_or(Rejected::Column { column })
}

/// Rows that are taken from the front.
struct Rows {
    batches: std::collections::VecDeque<RecordBatch>,
    /// Rows of the first batch that were taken.
    offset: usize,
}

impl Rows {
    /// The next `rows` rows; the caller has checked that there are as many.
    fn take(&mut self, rows: u64) -> Vec<RecordBatch> {
        let mut wanted = usize::try_from(rows).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        while wanted > 0 {
            let Some(batch) = self.batches.front() else { break };
            let length = wanted.min(batch.num_rows() - self.offset);
            taken.push(batch.slice(self.offset, length));
            wanted -= length;
            self.offset += length;
            if self.offset == batch.num_rows() {
                self.batches.pop_front();
                self.offset = 0;
            }
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use fleetcal_model::id::TaskId;
    use fleetcal_model::row::Row;
    use fleetcal_proto::rows::{encode_batches, schema_message};
    use fleetcal_proto::testing::arbitrary_row;
    use proptest::strategy::{Strategy, ValueTree};
    use proptest::test_runner::TestRunner;

    use super::*;

    /// Rows of one task, and the segment that announces them.
    fn measured(run: &str, task: &str, rows: u64) -> (Vec<Row>, v1::Segment) {
        let mut row = arbitrary_row().new_tree(&mut TestRunner::deterministic()).expect("a row").current();
        (row.identity.run_id, row.identity.task_id) = (RunId::new(run), TaskId::new(task));
        (row.identity.attempt, row.identity.lease_epoch) = (1, 1);
        let lease = v1::HeldLease { task_id: task.to_owned(), attempt: 1, epoch: 1 };
        ((0..rows).map(|_| row.clone()).collect(), v1::Segment { lease: Some(lease), rows })
    }

    fn cut(pieces: Vec<(Vec<Row>, v1::Segment)>) -> Result<Vec<Slice>, Rejected> {
        let (rows, segments): (Vec<_>, Vec<_>) = pieces.into_iter().unzip();
        let decoder = Decoder::new(&schema_message().expect("our schema")).expect("our schema");
        let record_batches = encode_batches(&rows.concat()).expect("rows");
        slices(&decoder, v1::Chunk { chunk_id: "chunk".to_owned(), segments, record_batches })
    }

    #[test]
    fn a_chunk_is_cut_where_the_run_changes_and_nowhere_else() {
        // More rows than one record batch holds, so that cuts fall inside batches.
        let pieces = vec![measured("r1", "a", 300), measured("r1", "b", 10), measured("r2", "c", 7)];
        let slices = cut(pieces).expect("a good chunk");
        let seen: Vec<_> = slices
            .iter()
            .map(|slice| {
                let rows: usize = slice.batches.iter().map(RecordBatch::num_rows).sum();
                (slice.run.as_str(), rows, slice.segments.len())
            })
            .collect();
        assert_eq!(seen, [("r1", 310, 2), ("r2", 7, 1)]);
    }

    #[test]
    fn rows_of_another_lease_than_the_segments_are_rejected() {
        let (rows, _) = measured("r1", "a", 2);
        let lease = |task: &str, attempt, epoch| v1::HeldLease { task_id: task.to_owned(), attempt, epoch };
        for other in [lease("b", 1, 1), lease("a", 2, 1), lease("a", 1, 2)] {
            let segment = v1::Segment { lease: Some(other.clone()), rows: 2 };
            let rejected = cut(vec![(rows.clone(), segment)]).expect_err("the rows are of attempt 1 of task a");
            assert!(matches!(rejected, Rejected::OtherRows { .. }), "{other:?}: {rejected}");
            let sentence = rejected.to_string();
            assert!(sentence.ends_with("holds a row of attempt 1, epoch 1 of task a of run r1"), "{sentence}");
        }
    }

    #[test]
    fn a_chunk_of_no_rows_is_rejected() {
        assert!(matches!(cut(vec![measured("r1", "a", 0)]), Err(Rejected::Empty)));
    }
}
