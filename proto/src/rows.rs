//! Rows as a table: the one Arrow schema, and rows to record batches and back.
//!
//! A row is seven groups of fields ([`fleetcal_model::row::Row`]); the table is flat: each field of each group is a
//! column. serde reads and writes the groups as seven struct columns, which are then taken apart, or put together,
//! without knowing what is inside. So a field added to the model without a column here fails every test that writes a
//! row.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, StructArray};
use arrow_schema::{ArrowError, Field, FieldRef};
use fleetcal_model::row::Row;

mod content;
mod frame;
mod groups;
mod ipc;
mod record;
mod records;
mod schema;

pub use ipc::{Decoder, encode_batches, schema_message};
pub use record::{Key, Kind, Record, keys};
pub use records::RecordReader;
pub use schema::{SCHEMA_VERSION_KEY, SchemaError, check_schema, schema};

/// Rows that cannot be put into the table, or a table that holds no rows.
#[derive(Debug, thiserror::Error)]
pub enum RowsError {
    /// It is a table of something else, or of another version.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// A value of a row does not fit its column, or a column's value is none that a row may have.
    #[error("rows and columns do not match: {0}")]
    Convert(#[from] serde_arrow::Error),
    /// Columns do not go together.
    #[error("the columns do not make a table of rows: {0}")]
    Columns(#[from] ArrowError),
    /// The bytes end within a message.
    #[error("the record batches are cut short: {wanted_bytes} bytes were to follow at byte {offset}, {left_bytes} do")]
    Truncated {
        /// Where in the bytes.
        offset: usize,
        /// Bytes that a length before it promises.
        wanted_bytes: usize,
        /// Bytes that are there.
        left_bytes: usize,
    },
    /// The bytes are no record batch messages of this schema.
    #[error("the record batches are damaged at byte {offset}: {reason}")]
    Damaged {
        /// Where in the bytes the message begins.
        offset: usize,
        /// What is wrong.
        reason: String,
    },
}

/// Rows as one record batch of [`schema()`].
///
/// # Errors
/// [`RowsError::Convert`], which only a row type that differs from the schema gives.
pub fn to_batch(rows: &[Row]) -> Result<RecordBatch, RowsError> {
    let grouped = serde_arrow::to_record_batch(&group_fields(), &rows)?;
    let columns: Vec<ArrayRef> = grouped
        .columns()
        .iter()
        .filter_map(|group| group.as_any().downcast_ref::<StructArray>())
        .flat_map(|group| group.columns().iter().cloned())
        .collect();
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    Ok(RecordBatch::try_new_with_options(schema(), columns, &options)?)
}

/// The rows of a record batch. Columns are found by name: their order does not matter, their types do.
///
/// # Errors
/// [`RowsError::Schema`] for a batch of another schema or version, [`RowsError::Convert`] for a value that no row may
/// have, such as a status of a newer version.
pub fn from_batch(batch: &RecordBatch) -> Result<Vec<Row>, RowsError> {
    check_schema(&batch.schema())?;
    let mut fields = Vec::new();
    let mut columns: Vec<ArrayRef> = Vec::new();
    for (name, members) in groups::all() {
        let arrays: Vec<ArrayRef> = members.iter().filter_map(|f| batch.column_by_name(f.name()).cloned()).collect();
        let group = StructArray::try_new_with_length(members.into(), arrays, None, batch.num_rows())?;
        fields.push(Field::new_struct(name, group.fields().clone(), false));
        columns.push(Arc::new(group));
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let grouped = RecordBatch::try_new_with_options(Arc::new(arrow_schema::Schema::new(fields)), columns, &options)?;
    Ok(serde_arrow::from_record_batch(&grouped)?)
}

/// The groups as struct columns: what serde sees.
fn group_fields() -> Vec<FieldRef> {
    groups::all().into_iter().map(|(name, members)| Arc::new(Field::new_struct(name, members, false))).collect()
}

#[cfg(test)]
mod tests;
