//! Rows: as a table for people, and by key for programs.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_model::id::RowId;
use fleetcal_model::row::{Role, Row};
use fleetcal_proto::rows::{Key, Kind, Record};
use serde::Serializer;
use serde_json::Value;

use super::{counted, note, note_output, print_json, print_table, table};
use crate::args::RowsOutput;
use crate::failure::Failure;

mod cells;

#[cfg(test)]
mod tests;

/// Rows as people read them, one table a device and run. Rows of solutions that screening left behind are shown where
/// everything is asked for.
pub(crate) fn rows(rows: &[Row], everything: bool) {
    let (shown, hidden): (Vec<&Row>, Vec<&Row>) =
        rows.iter().partition(|row| everything || row.identity.role != Role::Screening);
    let mut groups: BTreeMap<_, Vec<&Row>> = BTreeMap::new();
    for row in shown {
        groups.entry((&row.identity.run_id, &row.device.class_slug, &row.device.device_uuid)).or_default().push(row);
    }
    if groups.is_empty() {
        out_line!("{}", if hidden.is_empty() { "no rows" } else { "no rows but those of screening" });
    }
    for ((run, class, device), mut rows) in groups {
        rows.sort_by_key(|row| {
            (row.work.sweep, &row.work.kernel, row.work.dtype, row.work.elements, &row.work.solution)
        });
        let first = rows.first().map(|row| (row.identity.origin, row.device.node.as_str()));
        let (origin, node) = first.map_or((String::new(), ""), |(origin, node)| (origin.to_string(), node));
        out_line!("\n{class}, {device} on {node}, run {run} ({origin}, {})", counted(rows.len() as u64, "row"));
        let (header, lines) = cells::lines(&rows, &fastest(&rows));
        let mut shown = table(&header);
        for line in lines {
            shown.add_row(line);
        }
        print_table(&shown, "no rows");
        out_line!("* the fastest solution of its point, of those that may feed a constant");
    }
    if !hidden.is_empty() {
        note(&format!(
            "{} of solutions that screening left behind not shown; --all-columns, --output csv and --output json have \
             all",
            counted(hidden.len() as u64, "row")
        ));
    }
}

/// Of every point the row of the fastest solution, by estimate. Only rows that feed fits take part: a result that is wrong,
/// or was not checked though it should have been, is nobody's best, however fast.
fn fastest(rows: &[&Row]) -> BTreeSet<RowId> {
    let mut best: BTreeMap<&str, (f64, &RowId)> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.feeds_fits()) {
        let Some(estimate_ns) = row.timing.estimate_ns else { continue };
        let entry = best.entry(&row.work.point).or_insert((estimate_ns, &row.identity.row_id));
        if estimate_ns < entry.0 {
            *entry = (estimate_ns, &row.identity.row_id);
        }
    }
    best.into_values().map(|(_, row)| row.clone()).collect()
}

/// Chosen columns, as they are stored.
///
/// # Errors
/// A row has no such form, which is a fault of fleetcal.
pub(crate) fn rows_by_key(rows: &[Row], keys: &[Key]) -> Result<(), Failure> {
    let header: Vec<&str> = keys.iter().map(|key| key.name.as_str()).collect();
    let mut shown = table(&header);
    for row in rows {
        let record = Record::of(row).map_err(Failure::internal)?;
        shown.add_row(keys.iter().map(|key| plain(record.value(&key.name))));
    }
    print_table(&shown, "no rows");
    Ok(())
}

/// Rows as CSV (RFC 4180): one line of names, then one line a row. What is absent is an empty field; lists and maps are JSON.
///
/// # Errors
/// A row has no such form, which is a fault of fleetcal.
pub(crate) fn rows_csv(rows: &[Row], keys: &[Key]) -> Result<(), Failure> {
    let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::Any(b'\n')).from_writer(std::io::stdout());
    let mut written = writer.write_record(keys.iter().map(|key| &key.name));
    for row in rows {
        let record = Record::of(row).map_err(Failure::internal)?;
        written = written.and_then(|()| writer.write_record(keys.iter().map(|key| plain(record.value(&key.name)))));
    }
    note_output(written.map_err(cause).and_then(|()| writer.flush()));
    Ok(())
}

/// What the system said, where it was the system: a reader that has gone is told apart from a full disk by it.
fn cause(error: csv::Error) -> std::io::Error {
    if error.is_io_error() {
        if let csv::ErrorKind::Io(error) = error.into_kind() {
            return error;
        }
        return std::io::ErrorKind::Other.into();
    }
    std::io::Error::other(error)
}

/// Rows as JSON, one object a line.
///
/// # Errors
/// A row has no such form, which is a fault of fleetcal.
pub(crate) fn rows_json(rows: &[Row], keys: &[Key]) -> Result<(), Failure> {
    for row in rows {
        out_line!("{}", json_line(row, keys)?);
    }
    Ok(())
}

/// One row as a JSON object, its keys in the order asked for.
fn json_line(row: &Row, keys: &[Key]) -> Result<String, Failure> {
    let record = Record::of(row).map_err(Failure::internal)?;
    let mut line = serde_json::Serializer::new(Vec::new());
    line.collect_map(keys.iter().map(|key| (&key.name, record.value(&key.name)))).map_err(Failure::internal)?;
    String::from_utf8(line.into_inner()).map_err(Failure::internal)
}

/// A value as text: as JSON writes it, but for text itself, and nothing for what is absent.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

/// Every column, with its type.
///
/// # Errors
/// None of them has a JSON form, which is a fault of fleetcal.
pub(crate) fn row_keys(keys: &[Key], output: RowsOutput) -> Result<(), Failure> {
    if output == RowsOutput::Csv {
        out_line!("column,group,type,may_be_absent");
        keys.iter().for_each(|key| out_line!("{},{},{},{}", key.name, key.group, key.kind.name(), key.optional));
        return Ok(());
    }
    if output == RowsOutput::Json {
        let value = |key: &Key| {
            serde_json::json!({
                "name": key.name, "group": key.group, "type": key.kind.name(), "optional": key.optional,
            })
        };
        return print_json(&keys.iter().map(value).collect::<Vec<_>>());
    }
    let mut shown = table(&["COLUMN", "GROUP", "TYPE", "MAY BE ABSENT"]);
    for key in keys {
        let optional = if key.optional { "yes" } else { "" };
        let kind = if key.kind == Kind::Nested { "nested (JSON)" } else { key.kind.name() };
        shown.add_row([key.name.as_str(), key.group, kind, optional]);
    }
    print_table(&shown, "no columns");
    Ok(())
}
