//! What a row's seal is a digest of, written straight from columns.
//!
//! A seal is the SHA-256 of a row's JSON (`fleetcal_model::estimate::seal`). Making the row first, to write it as JSON,
//! costs ten times what the digest does; a table has the same values in the same order, under the same names. That the two
//! agree to the byte is tested for arbitrary rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, BooleanArray, ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray};
use arrow_schema::{ArrowError, DataType};

use super::{RowsError, groups};

/// The column that a seal stands in; it is hashed as empty.
const SEAL: &str = "content_hash";

/// Writes the JSON of the rows of one batch.
pub(super) struct Content<'b> {
    columns: Vec<Column<'b>>,
    /// Index of the first column of each group.
    groups: Vec<usize>,
}

/// One column, with what stands before its value.
struct Column<'b> {
    lead: Vec<u8>,
    values: Values<'b>,
}

enum Values<'b> {
    Seal,
    Text(&'b StringArray),
    Whole(&'b PrimitiveArray<UInt64Type>),
    Signed(&'b PrimitiveArray<Int64Type>),
    Real(&'b PrimitiveArray<Float64Type>),
    Flag(&'b BooleanArray),
    List(&'b ListArray, Vec<Column<'b>>),
    Map(&'b MapArray, &'b StringArray, &'b StringArray),
}

/// Where the groups of a row begin in its JSON, and the first byte after the last.
pub(super) type Marks = [usize; 8];

impl<'b> Content<'b> {
    /// The columns of a batch that has the schema of rows.
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Self, RowsError> {
        let (mut columns, mut starts) = (Vec::new(), Vec::new());
        for (group, fields) in groups::all() {
            starts.push(columns.len());
            for (at, field) in fields.iter().enumerate() {
                let before = match (columns.is_empty(), at) {
                    (true, _) => format!("{{\"{group}\":{{"),
                    (false, 0) => format!("}},\"{group}\":{{"),
                    (false, _) => ",".to_owned(),
                };
                let column = batch.column_by_name(field.name()).ok_or_else(|| missing(field.name()))?;
                let values = if field.name() == SEAL { Values::Seal } else { values(column.as_ref(), field.name())? };
                columns.push(Column { lead: format!("{before}\"{}\":", field.name()).into_bytes(), values });
            }
        }
        Ok(Self { columns, groups: starts })
    }

    /// Writes a row in place of what is in `json`.
    pub(super) fn write(&self, row: usize, json: &mut Vec<u8>) -> Result<Marks, RowsError> {
        json.clear();
        let mut marks = [0; 8];
        let mut next = self.groups.iter().zip(&mut marks).peekable();
        for (at, column) in self.columns.iter().enumerate() {
            if let Some((_, mark)) = next.next_if(|(start, _)| **start == at) {
                *mark = json.len();
            }
            column.write(row, json)?;
        }
        drop(next);
        marks[7] = json.len();
        json.extend_from_slice(b"}}");
        Ok(marks)
    }
}

impl Column<'_> {
    fn write(&self, row: usize, json: &mut Vec<u8>) -> Result<(), RowsError> {
        json.extend_from_slice(&self.lead);
        match &self.values {
            Values::Seal => json.extend_from_slice(b"\"\""),
            Values::Text(texts) if texts.is_valid(row) => put_text(json, texts.value(row))?,
            Values::Whole(numbers) if numbers.is_valid(row) => put_whole(json, numbers.value(row)),
            Values::Signed(numbers) if numbers.is_valid(row) => {
                let number = numbers.value(row);
                if number < 0 {
                    json.push(b'-');
                }
                put_whole(json, number.unsigned_abs());
            }
            Values::Real(numbers) if numbers.is_valid(row) => put_real(json, numbers.value(row))?,
            Values::Flag(flags) if flags.is_valid(row) => {
                json.extend_from_slice(if flags.value(row) { b"true" } else { b"false" });
            }
            Values::List(lists, members) => write_list(lists, members, row, json)?,
            Values::Map(maps, keys, values) => write_map(maps, keys, values, row, json)?,
            _ => json.extend_from_slice(b"null"),
        }
        Ok(())
    }
}

fn write_list(lists: &ListArray, members: &[Column<'_>], row: usize, json: &mut Vec<u8>) -> Result<(), RowsError> {
    json.push(b'[');
    let range = range(lists.value_offsets(), row);
    for at in range.clone() {
        if at > range.start {
            json.push(b',');
        }
        members.iter().try_for_each(|member| member.write(at, json))?;
        json.push(b'}');
    }
    json.push(b']');
    Ok(())
}

fn write_map(
    maps: &MapArray,
    keys: &StringArray,
    values: &StringArray,
    row: usize,
    json: &mut Vec<u8>,
) -> Result<(), RowsError> {
    json.push(b'{');
    let range = range(maps.value_offsets(), row);
    for at in range.clone() {
        if at > range.start {
            json.push(b',');
        }
        put_text(json, keys.value(at))?;
        json.push(b':');
        put_text(json, values.value(at))?;
    }
    json.push(b'}');
    Ok(())
}

/// Where the members of a row's list lie.
pub(super) fn range(offsets: &[i32], row: usize) -> std::ops::Range<usize> {
    let offset = |at: usize| offsets.get(at).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0);
    offset(row)..offset(row + 1)
}

/// The values of a column, which has one of the types that stand in the table of groups.
fn values<'b>(column: &'b dyn Array, name: &str) -> Result<Values<'b>, RowsError> {
    let found = match column.data_type() {
        DataType::Utf8 => column.as_string_opt().map(Values::Text),
        DataType::UInt64 => column.as_primitive_opt().map(Values::Whole),
        DataType::Int64 => column.as_primitive_opt().map(Values::Signed),
        DataType::Float64 => column.as_primitive_opt().map(Values::Real),
        DataType::Boolean => column.as_boolean_opt().map(Values::Flag),
        DataType::List(_) => match column.as_list_opt::<i32>() {
            Some(lists) => Some(Values::List(lists, members(lists, name)?)),
            None => None,
        },
        DataType::Map(..) => column.as_map_opt().and_then(|maps| {
            let (keys, values) = (maps.keys().as_string_opt()?, maps.values().as_string_opt()?);
            Some(Values::Map(maps, keys, values))
        }),
        _ => None,
    };
    found.ok_or_else(|| missing(name))
}

fn members<'b>(lists: &'b ListArray, name: &str) -> Result<Vec<Column<'b>>, RowsError> {
    let structs: &StructArray = lists.values().as_struct_opt().ok_or_else(|| missing(name))?;
    let member = |(at, (field, column)): (usize, (&arrow_schema::FieldRef, &'b arrow_array::ArrayRef))| {
        let before = if at == 0 { "{" } else { "," };
        let lead = format!("{before}\"{}\":", field.name()).into_bytes();
        Ok(Column { lead, values: values(column.as_ref(), field.name())? })
    };
    structs.fields().iter().zip(structs.columns()).enumerate().map(member).collect()
}

/// A column that is not there, or of another type; a checked schema has it.
pub(super) fn missing(name: &str) -> RowsError {
    ArrowError::SchemaError(format!("`{name}` is not what a row has")).into()
}

/// A text as JSON. Texts and real numbers are written by what writes sealed rows, so that they come out the same.
fn put_text(json: &mut Vec<u8>, text: &str) -> Result<(), RowsError> {
    serde_json::to_writer(json, text).map_err(unwritten)
}

fn put_real(json: &mut Vec<u8>, number: f64) -> Result<(), RowsError> {
    serde_json::to_writer(json, &number).map_err(unwritten)
}

fn unwritten(error: serde_json::Error) -> RowsError {
    ArrowError::JsonError(error.to_string()).into()
}

/// The digits of a whole number: most of a row's JSON is these.
fn put_whole(json: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    loop {
        first -= 1;
        // Below ten, so that it is a byte.
        digits[first] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    json.extend_from_slice(&digits[first..]);
}
