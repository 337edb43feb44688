//! Messages of an Arrow IPC stream, cut out of bytes that nobody vouches for.
//!
//! The layout is that of the Arrow columnar format, "Encapsulated message format": a continuation marker, the length
//! of the metadata, the metadata (a flatbuffer), the body.

use std::fmt::Display;

use arrow_ipc::{FieldNode, Message, RecordBatch};
use arrow_schema::{DataType, Field, Schema};

use super::RowsError;

const CONTINUATION: [u8; 4] = [0xff; 4];
const LENGTH_BYTES: usize = 4;

/// One message.
pub(super) struct Frame<'a> {
    /// Where it begins, for errors.
    offset: usize,
    /// The flatbuffer.
    metadata: &'a [u8],
    /// What the flatbuffer describes.
    pub(super) body: &'a [u8],
}

/// The messages of a piece of a stream. Ends after the first error.
pub(super) struct Frames<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Frames<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, offset: 0 }
    }

    /// The next so many bytes.
    fn take(&mut self, count: usize) -> Result<&'a [u8], RowsError> {
        let left = self.bytes.get(self.offset..).unwrap_or_default();
        let taken = left.get(..count).ok_or(RowsError::Truncated {
            offset: self.offset,
            wanted_bytes: count,
            left_bytes: left.len(),
        })?;
        self.offset += count;
        Ok(taken)
    }

    fn read(&mut self) -> Result<Frame<'a>, RowsError> {
        let offset = self.offset;
        let damaged = |reason: &str| RowsError::Damaged { offset, reason: reason.to_owned() };
        if self.take(CONTINUATION.len())? != CONTINUATION {
            return Err(damaged("no message begins here"));
        }
        let mut length = [0; LENGTH_BYTES];
        length.copy_from_slice(self.take(LENGTH_BYTES)?);
        let length = usize::try_from(i32::from_le_bytes(length)).map_err(|_| damaged("a negative length"))?;
        if length == 0 {
            return Err(damaged("the mark of a stream's end, within the stream"));
        }
        let mut frame = Frame { offset, metadata: self.take(length)?, body: &[] };
        let body_bytes = frame.message()?.bodyLength();
        frame.body = self.take(usize::try_from(body_bytes).map_err(|_| damaged("a negative length"))?)?;
        Ok(frame)
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, RowsError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.offset >= self.bytes.len() {
            return None;
        }
        let frame = self.read();
        if frame.is_err() {
            self.offset = self.bytes.len();
        }
        Some(frame)
    }
}

impl<'a> Frame<'a> {
    /// The metadata, verified as a flatbuffer.
    pub(super) fn message(&self) -> Result<Message<'a>, RowsError> {
        arrow_ipc::root_as_message(self.metadata).map_err(|error| self.damaged(error))
    }

    /// An error at this message.
    pub(super) fn damaged(&self, reason: impl Display) -> RowsError {
        RowsError::Damaged { offset: self.offset, reason: reason.to_string() }
    }

    /// Checks that a record batch has the nodes and buffers of the schema, all of them inside the body, and no nulls
    /// where the schema has none.
    pub(super) fn check_layout(&self, batch: &RecordBatch<'_>, schema: &Schema) -> Result<(), RowsError> {
        let nodes = batch.nodes().ok_or_else(|| self.damaged("no columns"))?;
        let buffers = batch.buffers().ok_or_else(|| self.damaged("no buffers"))?;
        if batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
            return Err(self.damaged("buffers of a kind that rows do not have"));
        }
        let mut expected = Expected::default();
        schema.fields().iter().for_each(|field| expected.add(field));
        if nodes.len() != expected.nullable.len() || buffers.len() != expected.widths.len() {
            return Err(self.damaged(format!(
                "{} nodes and {} buffers, not {} and {}",
                nodes.len(),
                buffers.len(),
                expected.nullable.len(),
                expected.widths.len()
            )));
        }
        for (node, nullable) in nodes.iter().zip(expected.nullable) {
            self.check_node(node, nullable)?;
        }
        for (buffer, width) in buffers.iter().zip(expected.widths) {
            let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
            let (Ok(offset), Ok(length)) = (offset, length) else {
                return Err(self.damaged("a buffer of negative length or place"));
            };
            if offset.checked_add(length).is_none_or(|end| end > self.body.len()) {
                return Err(self.damaged("a buffer outside the message's body"));
            }
            if !length.is_multiple_of(width) {
                return Err(self.damaged(format!("{length} bytes of values that take {width} bytes each")));
            }
        }
        match usize::try_from(batch.length()) {
            Ok(rows) if rows <= self.body.len() => Ok(()),
            Ok(_) | Err(_) => Err(self.damaged(format!("{} rows in {} bytes", batch.length(), self.body.len()))),
        }
    }

    /// No array is longer than the bits of the body: that bounds every size computed from its length.
    fn check_node(&self, node: &FieldNode, nullable: bool) -> Result<(), RowsError> {
        let (length, nulls) = (node.length(), node.null_count());
        let longest = self.body.len().saturating_mul(8);
        if usize::try_from(length).map_or(true, |length| length > longest) || !(0..=length).contains(&nulls) {
            return Err(self.damaged(format!("a column of {length} values, {nulls} of them null")));
        }
        if nulls > 0 && !nullable {
            return Err(self.damaged("nulls in a column that has none"));
        }
        Ok(())
    }
}

/// What the schema needs in a message.
#[derive(Default)]
struct Expected {
    /// For each array, whether it may hold nulls.
    nullable: Vec<bool>,
    /// For each buffer, bytes of one value in it.
    widths: Vec<usize>,
}

const BITS_OR_BYTES: usize = 1;
const OFFSETS: usize = 4;

impl Expected {
    fn add(&mut self, field: &Field) {
        self.nullable.push(field.is_nullable());
        self.widths.push(BITS_OR_BYTES);
        let data_type = field.data_type();
        if let DataType::List(inner) | DataType::Map(inner, _) = data_type {
            self.widths.push(OFFSETS);
            self.add(inner);
        } else if let DataType::Struct(members) = data_type {
            members.iter().for_each(|member| self.add(member));
        } else if *data_type == DataType::Utf8 {
            self.widths.extend([OFFSETS, BITS_OR_BYTES]);
        } else {
            self.widths.push(data_type.primitive_width().unwrap_or(BITS_OR_BYTES));
        }
    }
}
