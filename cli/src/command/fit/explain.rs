//! `fleetcal fit --explain`: how a constant came about.

use std::path::PathBuf;
use std::process::ExitCode;

use fleetcal_coordinator::rows::{ReadReport, read_paths};
use fleetcal_model::constants::Document;
use fleetcal_model::explain::explain;
use fleetcal_model::fit::Mode;
use fleetcal_model::fit::intake::{Intake, intake};
use fleetcal_model::row::Row;

use super::{envelope, has_extension, is_wanted, no_rows, none_left, note_left_out, options, probe, refused};
use crate::args::{FitArguments, Output};
use crate::command::unread;
use crate::failure::{Failure, Kind};
use crate::render;

/// Explains a constant of every class that has it. It tells of rows, so that they are read whole.
pub(super) fn run(paths: Vec<PathBuf>, arguments: &FitArguments, wanted: &str) -> Result<ExitCode, Failure> {
    let ReadReport { mut rows, skipped } = read(paths)?;
    rows.retain(|row| is_wanted(arguments, &row.device, row.identity.origin));
    if rows.is_empty() {
        return Err(none_left());
    }
    let Intake { rows, duplicates, superseded } = intake(&rows, arguments.mixed_sources).map_err(refused)?;
    note_left_out(duplicates, superseded);
    let originals = documents(&rows, arguments, Mode::Seed);
    let mut refused = None;
    let mut pages: Vec<(String, String)> = Vec::new();
    for document in documents(&rows, arguments, arguments.mode) {
        let original = originals.iter().find(|original| original.body.class_id == document.body.class_id);
        match explain(&document, original.filter(|_| arguments.mode != Mode::Seed), &rows, wanted) {
            Ok(page) => pages.push((document.body.class_slug, page)),
            Err(error) => refused = Some(error),
        }
    }
    if let Some(error) = refused.filter(|_| pages.is_empty()) {
        return Err(Failure::new(Kind::NotFound, error));
    }
    match arguments.output.output {
        Output::Table => pages.iter().for_each(|(_, page)| render::text(page)),
        Output::Json => render::explanations_json(&pages)?,
    }
    Ok(unread::exit_code(&skipped))
}

fn documents(rows: &[&Row], arguments: &FitArguments, mode: Mode) -> Vec<Document> {
    let envelope = envelope(rows.iter().map(|row| &row.identity.run_id));
    Document::fit(rows.iter().copied(), &options(arguments, mode), &envelope)
}

/// Rows of all files. What cannot be read is named; where nothing could be, that is a failure.
fn read(paths: Vec<PathBuf>) -> Result<ReadReport, Failure> {
    let (probes, ours): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| has_extension(path, "csv"));
    let mut report = read_paths(&ours);
    for path in &probes {
        report.rows.extend(probe::read(path)?);
    }
    unread::name(&report.skipped, report.rows.is_empty())?;
    if report.rows.is_empty() {
        return Err(no_rows());
    }
    Ok(report)
}
