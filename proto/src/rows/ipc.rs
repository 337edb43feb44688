//! Rows on their way: an Arrow IPC stream in pieces that can be kept, and sent again on another stream.
//!
//! A stream is the schema message once, then record batch messages. Each chunk holds whole messages without the
//! schema, so a chunk spooled under one stream is valid on the next. No dictionaries and no compression: both would
//! tie a chunk to what was sent before it, or need memory that its length does not tell.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use arrow_ipc::CompressionType;
use arrow_ipc::reader::RecordBatchDecoder;
use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteContext, IpcWriteOptions, write_message};
use fleetcal_model::row::Row;

use super::frame::{Frame, Frames};
use super::schema::{SchemaError, check_schema, schema};
use super::{RowsError, to_batch};

/// Rows of one record batch message: bounds what a decoder holds at once.
const ROWS_PER_BATCH: usize = 256;

/// The stream's first message: the schema.
///
/// # Errors
/// [`RowsError::Columns`], which no schema of ours gives.
pub fn schema_message() -> Result<Vec<u8>, RowsError> {
    let options = IpcWriteOptions::default();
    let mut dictionaries = DictionaryTracker::new(true);
    let encoded =
        IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(&schema(), &mut dictionaries, &options);
    let mut bytes = Vec::new();
    write_message(&mut bytes, encoded, &options)?;
    Ok(bytes)
}

/// Rows as record batch messages, without the schema. No rows are no messages.
///
/// # Errors
/// As [`to_batch`].
pub fn encode_batches(rows: &[Row]) -> Result<Vec<u8>, RowsError> {
    let options = IpcWriteOptions::default();
    let mut context = IpcWriteContext::default();
    let mut dictionaries = DictionaryTracker::new(true);
    let mut bytes = Vec::new();
    for rows in rows.chunks(ROWS_PER_BATCH) {
        let batch = to_batch(rows)?;
        let (_, encoded) = IpcDataGenerator::default().encode(&batch, &mut dictionaries, &options, &mut context)?;
        write_message(&mut bytes, encoded, &options)?;
    }
    Ok(bytes)
}

/// Reads the chunks of one stream, from anyone: nothing in them is trusted.
#[derive(Debug, Clone)]
pub struct Decoder(());

impl Decoder {
    /// Begins a stream by its schema message.
    ///
    /// # Errors
    /// [`RowsError::Schema`] for another version, other columns, or something that is no schema message.
    pub fn new(schema_message: &[u8]) -> Result<Self, RowsError> {
        let unreadable = |reason: String| SchemaError::Unreadable { reason };
        let mut frames = Frames::new(schema_message);
        let frame = frames.next().ok_or_else(|| unreadable("the message is empty".to_owned()))??;
        let header = frame.message()?.header_as_schema().ok_or_else(|| unreadable("no schema message".to_owned()))?;
        let found = arrow_ipc::convert::try_fb_to_schema(header).map_err(|error| unreadable(error.to_string()))?;
        check_schema(&found)?;
        // Messages say their columns by position.
        let names =
            |schema: &arrow_schema::Schema| schema.fields().iter().map(|f| f.name().clone()).collect::<Vec<_>>();
        if names(&found) != names(&schema()) {
            return Err(SchemaError::Columns { difference: "they stand in another order".to_owned() }.into());
        }
        Ok(Self(()))
    }

    /// The record batches of one chunk.
    ///
    /// # Errors
    /// [`RowsError::Truncated`] or [`RowsError::Damaged`]; then nothing of the chunk is to be used.
    pub fn decode(&self, record_batches: &[u8]) -> Result<Vec<RecordBatch>, RowsError> {
        Frames::new(record_batches).map(|frame| decode_batch(&frame?)).collect()
    }
}

/// One record batch. What the reader takes on trust is checked first: it would panic on a buffer outside the body.
fn decode_batch(frame: &Frame<'_>) -> Result<RecordBatch, RowsError> {
    let message = frame.message()?;
    let header = message.header_as_record_batch().ok_or_else(|| frame.damaged("a message that is no record batch"))?;
    if let Some(compression) = header.compression() {
        let codec: CompressionType = compression.codec();
        return Err(frame.damaged(format!("it is compressed ({codec:?}), which rows never are")));
    }
    frame.check_layout(&header, &schema())?;
    let body = frame.body.to_vec().into();
    RecordBatchDecoder::try_new(&body, header, schema(), &HashMap::new(), &message.version())
        .and_then(RecordBatchDecoder::read_record_batch)
        .map_err(|error| frame.damaged(error))
}
