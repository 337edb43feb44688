//! What a row's seal is a digest of, written straight from columns.
//!
//! A seal is the SHA-256 of a row's JSON (`fleetcal_model::estimate::seal`). Making the row first, to write it as JSON,
//! costs ten times what the digest does; a table has the same values in the same order, under the same names. That the two
//! agree to the byte is tested for arbitrary rows.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, BooleanArray, ListArray, MapArray, PrimitiveArray, RecordBatch, StringArray, StructArray};
use arrow_schema::ArrowError;

use super::{RowsError, groups};

/// The column that a seal stands in; it is hashed as empty.
const SEAL: &str = "content_hash";

/// Writes the JSON of the rows of one batch, one after the other. Most columns of a row are as in the row before: such
/// stretches are copied.
pub(super) struct Content<'b> {
    columns: Vec<Column<'b>>,
    /// Index of the first column of each group.
    groups: Vec<usize>,
    /// Where each column of the row written last ends.
    ends: Vec<usize>,
    last: Option<usize>,
    previous: Vec<u8>,
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
        let ends = vec![0; columns.len()];
        Ok(Self { columns, groups: starts, ends, last: None, previous: Vec::new() })
    }

    /// Writes a row in place of what is in `json`, which is what was written of the row before.
    pub(super) fn write(&mut self, row: usize, json: &mut Vec<u8>) -> Result<Marks, RowsError> {
        std::mem::swap(json, &mut self.previous);
        json.clear();
        write_changed(&self.columns, (self.last, row), &mut self.ends, &self.previous, json)?;
        self.last = Some(row);
        let mut marks = [json.len(); 8];
        for (mark, start) in marks.iter_mut().zip(&self.groups) {
            *mark = start.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        }
        json.extend_from_slice(b"}}");
        Ok(marks)
    }
}

/// Writes the values of a row to `json`, those that are as in the row `last` as copies of `previous`; `ends` says where
/// they end there, and then where they end here.
fn write_changed(
    columns: &[Column<'_>],
    (last, row): (Option<usize>, usize),
    ends: &mut [usize],
    previous: &[u8],
    json: &mut Vec<u8>,
) -> Result<(), RowsError> {
    // The stretch of the previous row that is still to be copied, and where the column at hand begins in it.
    let (mut from, mut start) = (0, 0);
    for (column, end) in columns.iter().zip(ends) {
        let stop = *end;
        if last.is_some_and(|last| column.is_same(last, row)) {
            *end = json.len() + (stop - from);
        } else {
            json.extend_from_slice(&previous[from..start]);
            column.write(row, json)?;
            (*end, from) = (json.len(), stop);
        }
        start = stop;
    }
    json.extend_from_slice(&previous[from..start]);
    Ok(())
}

impl Column<'_> {
    /// Whether a value is known to be the same in two rows. Lists and maps are written anew.
    fn is_same(&self, last: usize, row: usize) -> bool {
        match &self.values {
            Values::Seal => true,
            Values::Text(texts) => {
                texts.is_valid(last) == texts.is_valid(row)
                    && texts.value(last).as_bytes() == texts.value(row).as_bytes()
            }
            Values::Whole(numbers) => {
                numbers.is_valid(last) == numbers.is_valid(row) && numbers.value(last) == numbers.value(row)
            }
            Values::Signed(numbers) => {
                numbers.is_valid(last) == numbers.is_valid(row) && numbers.value(last) == numbers.value(row)
            }
            Values::Real(numbers) => {
                let bits = |at: usize| numbers.value(at).to_bits();
                numbers.is_valid(last) == numbers.is_valid(row) && bits(last) == bits(row)
            }
            Values::Flag(flags) => flags.is_valid(last) == flags.is_valid(row) && flags.value(last) == flags.value(row),
            Values::List(..) | Values::Map(..) => false,
        }
    }

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
            Values::Text(_) | Values::Whole(_) | Values::Signed(_) | Values::Real(_) | Values::Flag(_) => {
                json.extend_from_slice(b"null");
            }
        }
        Ok(())
    }
}

fn write_list(lists: &ListArray, members: &[Column<'_>], row: usize, json: &mut Vec<u8>) -> Result<(), RowsError> {
    json.push(b'[');
    let range = range(lists.value_offsets(), row);
    // Where the element before begins, and where its members end.
    let (mut before, mut ends) = (0, vec![0; members.len()]);
    for at in range.clone() {
        let last = at.checked_sub(1).filter(|_| at > range.start);
        if last.is_some() {
            json.push(b',');
        }
        let begin = json.len();
        let (mut from, mut start) = (before, before);
        for (member, end) in members.iter().zip(&mut ends) {
            let stop = *end;
            if last.is_some_and(|last| member.is_same(last, at)) {
                *end = json.len() + (stop - from);
            } else {
                json.extend_from_within(from..start);
                member.write(at, json)?;
                (*end, from) = (json.len(), stop);
            }
            start = stop;
        }
        json.extend_from_within(from..start);
        before = begin;
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
    if let Some(lists) = column.as_list_opt::<i32>() {
        return Ok(Values::List(lists, members(lists, name)?));
    }
    let map = || {
        let maps = column.as_map_opt()?;
        Some(Values::Map(maps, maps.keys().as_string_opt()?, maps.values().as_string_opt()?))
    };
    let found = column.as_string_opt().map(Values::Text);
    let found = found.or_else(|| column.as_primitive_opt().map(Values::Whole));
    let found = found.or_else(|| column.as_primitive_opt().map(Values::Signed));
    let found = found.or_else(|| column.as_primitive_opt().map(Values::Real));
    let found = found.or_else(|| column.as_boolean_opt().map(Values::Flag)).or_else(map);
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

/// The digits of a whole number, two at a time: most of a row's JSON is these.
fn put_whole(json: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0_u8; 20];
    let mut first = digits.len();
    while number >= 10 {
        let pair = 2 * (number % 100) as usize;
        number /= 100;
        first -= 2;
        digits[first..first + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if number > 0 || first == digits.len() {
        first -= 1;
        // Below ten, so that it is a byte.
        digits[first] = b'0' + number as u8;
    }
    json.extend_from_slice(&digits[first..]);
}

/// `00` to `99`.
const PAIRS: [u8; 200] = {
    let mut pairs = [0; 200];
    let mut at = 0;
    while at < 100 {
        pairs[2 * at] = b'0' + (at / 10) as u8;
        pairs[2 * at + 1] = b'0' + (at % 10) as u8;
        at += 1;
    }
    pairs
};
