//! Records of a batch's rows, without making the rows: what fits need, from columns.
//!
//! Each row's seal is checked on the way. The JSON that it is a digest of also says which rows share a device, and what
//! ran: those parts of it are equal. A whole row is made only where such a part is new, or where a seal does not hold.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::estimate::verify_seal;
use fleetcal_model::fit::record::{Context, Record, Recorder, Subject};
use fleetcal_model::id::RowId;
use fleetcal_model::row::{DeviceColumns, Row};

use super::content::Content;
use super::{RowsError, check_schema, from_batch};
use columns::{Columns, Names};

mod columns;
#[cfg(test)]
mod tests;

/// Makes records of batches. What rows of several batches share stands once.
#[derive(Debug, Default)]
pub struct RecordReader {
    recorder: Recorder,
    devices: Shared<DeviceColumns>,
    subjects: Shared<Subject>,
    contexts: Shared<Context>,
    names: Names,
}

/// Things by the bytes that say what they are.
#[derive(Debug)]
struct Shared<T> {
    /// In the order in which they were seen first.
    known: Vec<(Arc<[u8]>, Arc<T>)>,
    places: HashMap<Arc<[u8]>, usize>,
    /// The place of the one that was asked for last.
    last: usize,
}

impl<T> Default for Shared<T> {
    fn default() -> Self {
        Self { known: Vec::new(), places: HashMap::new(), last: 0 }
    }
}

impl<T> Shared<T> {
    fn find(&mut self, bytes: &[u8]) -> Option<Arc<T>> {
        // Rows of one device follow each other, and every device has the same points in the same order.
        let is_there = |place: &usize| self.known.get(*place).is_some_and(|(known, _)| **known == *bytes);
        let guess = [self.last, self.last + 1].into_iter().find(is_there);
        self.last = guess.or_else(|| self.places.get(bytes).copied())?;
        self.known.get(self.last).map(|(_, thing)| Arc::clone(thing))
    }

    fn insert(&mut self, bytes: &[u8], thing: Arc<T>) -> Arc<T> {
        let bytes: Arc<[u8]> = bytes.into();
        self.last = self.known.len();
        self.places.insert(Arc::clone(&bytes), self.last);
        self.known.push((bytes, Arc::clone(&thing)));
        thing
    }
}

impl RecordReader {
    /// Appends the records of a batch's rows, but for those whose seal does not hold: their identities are given.
    ///
    /// # Errors
    /// As [`from_batch`].
    pub fn read(&mut self, batch: &RecordBatch, records: &mut Vec<Record>) -> Result<Vec<RowId>, RowsError> {
        check_schema(&batch.schema())?;
        let (mut content, columns) = (Content::of(batch)?, Columns::of(batch)?);
        if !self.names.know(&columns) {
            // A word that this version does not know: the reader of whole rows says which.
            from_batch(batch)?;
        }
        let (mut broken, mut json, mut context) = (Vec::new(), Vec::new(), Vec::new());
        for at in 0..batch.num_rows() {
            let marks = content.write(at, &mut json)?;
            let stored = Sha256Digest::from_hex(columns.content_hash(at));
            if stored != Some(Sha256Digest::of(&json)) {
                match self.of_row(&row_at(batch, at)?) {
                    Ok(record) => records.push(record),
                    Err(row_id) => broken.push(row_id),
                }
                continue;
            }
            let (device, subject) = (&json[marks[1]..marks[2]], &json[marks[2]..marks[4]]);
            columns.context_key(at, &mut context);
            let row = LazyRow { batch, at, row: None };
            let shared = self.shared(row, [device, subject, &context])?;
            records.push(columns.record(at, shared));
        }
        Ok(broken)
    }

    /// The record of a whole row, whose bytes are not what a writer of ours gives; or its identity, if its seal is broken.
    fn of_row(&mut self, row: &Row) -> Result<Record, RowId> {
        if verify_seal(row) { Ok(self.recorder.record(row)) } else { Err(row.identity.row_id.clone()) }
    }

    /// What the row shares, by the bytes that say so.
    fn shared(
        &mut self,
        mut row: LazyRow<'_>,
        [device, subject, context]: [&[u8]; 3],
    ) -> Result<SharedOfRow, RowsError> {
        let device = match self.devices.find(device) {
            Some(found) => found,
            None => self.devices.insert(device, self.recorder.device(&row.get()?.device)),
        };
        let subject = match self.subjects.find(subject) {
            Some(found) => found,
            None => self.subjects.insert(subject, self.recorder.subject(row.get()?)),
        };
        let context = match self.contexts.find(context) {
            Some(found) => found,
            None => self.contexts.insert(context, self.recorder.context(Context::of(row.get()?))),
        };
        Ok(SharedOfRow { device, subject, context })
    }
}

/// What a row shares with others.
struct SharedOfRow {
    device: Arc<DeviceColumns>,
    subject: Arc<Subject>,
    context: Arc<Context>,
}

/// A row that is made when it is asked for.
struct LazyRow<'b> {
    batch: &'b RecordBatch,
    at: usize,
    row: Option<Row>,
}

impl LazyRow<'_> {
    fn get(&mut self) -> Result<&Row, RowsError> {
        let row = match self.row.take() {
            Some(row) => row,
            None => row_at(self.batch, self.at)?,
        };
        Ok(self.row.insert(row))
    }
}

/// One row of a batch, whole.
fn row_at(batch: &RecordBatch, at: usize) -> Result<Row, RowsError> {
    let no_row = || super::content::missing("row_id");
    from_batch(&batch.slice(at, 1))?.pop().ok_or_else(no_row)
}
