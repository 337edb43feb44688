//! `fleetcal rows`: what was measured, row by row, from the data folder alone.

use std::process::ExitCode;

use fleetcal_coordinator::rows::{ReadReport, RowFilter, read_parts};
use fleetcal_model::fit::intake::latest_of_each;
use fleetcal_model::id::RunId;
use fleetcal_proto::rows::{Key, Kind, keys};

use crate::args::{RowsArguments, RowsOutput};
use crate::command::unread;
use crate::failure::{Failure, Kind as FailureKind};
use crate::render::{self, counted};

pub(super) fn run(arguments: &RowsArguments) -> Result<ExitCode, Failure> {
    if arguments.list_columns {
        render::row_keys(&keys(), arguments.output)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut report = read(arguments)?;
    if !arguments.all_attempts {
        let (rows, left_out) = latest_of_each(std::mem::take(&mut report.rows));
        report.rows = rows;
        if left_out > 0 {
            let rows = counted(left_out as u64, "row");
            render::note(&format!("{rows} of earlier attempts are not shown; --all-attempts has them"));
        }
    }
    let keys = chosen(arguments);
    match arguments.output {
        RowsOutput::Table if keys.is_empty() => render::rows(&report.rows, arguments.all_columns),
        RowsOutput::Table => render::rows_by_key(&report.rows, &keys)?,
        RowsOutput::Csv => render::rows_csv(&report.rows, &keys)?,
        RowsOutput::Json => render::rows_json(&report.rows, &keys)?,
    }
    Ok(unread::exit_code(&report.skipped))
}

fn read(arguments: &RowsArguments) -> Result<ReadReport, Failure> {
    let folder = arguments.data.join("rows");
    if !folder.is_dir() {
        let sentence = format!(
            "there are no rows in {}: it is no data folder, or nothing was measured into it",
            arguments.data.display()
        );
        return Err(Failure::said(FailureKind::DataFolder, sentence));
    }
    let filter = match &arguments.run {
        Some(run) => RowFilter::OfRun(RunId::new(run.clone())),
        None => RowFilter::All,
    };
    let report = read_parts(&arguments.data, &filter);
    unread::name(&report.skipped, report.rows.is_empty())?;
    match &arguments.run {
        Some(run) if report.rows.is_empty() && report.skipped.is_empty() => {
            let sentence = format!("there are no rows of run `{run}` in {}", folder.display());
            Err(Failure::said(FailureKind::NotFound, sentence))
        }
        _ => Ok(report),
    }
}

/// The columns to print, in the order in which they were asked for. None stands for the table that people read.
fn chosen(arguments: &RowsArguments) -> Vec<Key> {
    let mut known = keys();
    if !arguments.columns.is_empty() {
        let position = |name: &String| known.iter().position(|key| key.name == *name);
        let mut indices: Vec<usize> = Vec::new();
        for index in arguments.columns.iter().filter_map(position) {
            // A column that is named twice is one column: an object has no key twice.
            if !indices.contains(&index) {
                indices.push(index);
            }
        }
        return indices.into_iter().map(|index| known[index].clone()).collect();
    }
    match arguments.output {
        RowsOutput::Table => return Vec::new(),
        RowsOutput::Csv | RowsOutput::Json if arguments.all_columns => {}
        RowsOutput::Csv | RowsOutput::Json => known.retain(|key| key.kind != Kind::Nested),
    }
    known
}
