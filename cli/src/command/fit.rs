//! `fleetcal fit`: constants from files alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use fleetcal_coordinator::rows::{RecordReport, read_records};
use fleetcal_model::constants::{Document, Envelope};
use fleetcal_model::fit::intake::{IntakeError, intake_records};
use fleetcal_model::fit::record::Recorder;
use fleetcal_model::fit::{Mode, Options};
use fleetcal_model::id::RunId;
use fleetcal_model::row::{DeviceColumns, Origin};

use crate::args::{FitArguments, Output};
use crate::command::unread;
use crate::failure::{Failure, Kind};
use crate::render::{self, counted};

mod calibration;
mod explain;
mod probe;
mod threads;

use threads::Threads;

pub(super) fn run(arguments: &FitArguments) -> Result<ExitCode, Failure> {
    let paths = expand(&arguments.files)?;
    let (calibrations, others): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.into_iter().partition(|path| has_extension(path, "tsv"));
    if !calibrations.is_empty() {
        if let Some(other) = others.first() {
            let sentence = format!(
                "{} holds calibration rows, which name no device, and {} does not: fit them apart",
                calibrations[0].display(),
                other.display()
            );
            return Err(Failure::said(Kind::NotFound, sentence));
        }
        return calibration::run(&calibrations, arguments);
    }
    match &arguments.explain {
        Some(wanted) => explain::run(others, arguments, wanted),
        None => fit(others, arguments),
    }
}

/// Fits rows, of which only what fits need is kept: a fleet's may not fit into memory.
fn fit(paths: Vec<PathBuf>, arguments: &FitArguments) -> Result<ExitCode, Failure> {
    let RecordReport { mut records, skipped } = read(paths)?;
    records.retain(|record| is_wanted(arguments, record.device(), record.context().origin));
    if records.is_empty() {
        return Err(none_left());
    }
    let taken = intake_records(records, arguments.mixed_sources).map_err(refused)?;
    note_left_out(taken.duplicates, taken.superseded);
    let emulated = taken.records.iter().filter(|record| record.context().origin == Origin::Emulated).count();
    if emulated > 0 {
        render::note(&format!("emulated, whose times mean nothing, left out: {}", counted(emulated as u64, "row")));
    }
    let envelope = envelope(taken.records.iter().map(|record| &record.context().run_id));
    let documents = Document::fit_records(taken.records, &options(arguments, arguments.mode), &envelope, &Threads);
    print(&documents, arguments.output.output)?;
    Ok(unread::exit_code(&skipped))
}

/// Whether the arguments ask for rows of that device and origin.
fn is_wanted(arguments: &FitArguments, device: &DeviceColumns, origin: Origin) -> bool {
    let is_class = |class: &String| device.class_slug.starts_with(class) || device.class_id.as_str().starts_with(class);
    arguments.origin.is_none_or(|wanted| origin == wanted) && arguments.class.as_ref().is_none_or(is_class)
}

fn none_left() -> Failure {
    Failure::said(Kind::NotFound, "no row is left to fit: no file holds one of that class and origin")
}

fn note_left_out(duplicates: usize, superseded: usize) {
    if duplicates > 0 {
        render::note(&format!("further copies, left out: {}", counted(duplicates as u64, "row")));
    }
    if superseded > 0 {
        let rows = counted(superseded as u64, "row");
        render::note(&format!("of attempts that a later one replaced, left out: {rows}"));
    }
}

fn options(arguments: &FitArguments, mode: Mode) -> Options {
    let (footprint_factor, sizes_min) = (arguments.footprint_factor, arguments.sizes_min);
    Options { footprint_factor, sizes_min, mode }
}

/// What stands around the constants of rows of these runs.
fn envelope<'a>(runs: impl Iterator<Item = &'a RunId>) -> Envelope {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut runs = runs;
    let first = runs.next();
    let run_id = match first {
        Some(run) if runs.all(|other| other == run) => run.clone(),
        // The body names them all.
        _ => RunId::new("several"),
    };
    Envelope {
        created_utc_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        created_by: "fleetcal fit".to_owned(),
        run_id,
        coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn print(documents: &[Document], output: Output) -> Result<(), Failure> {
    match output {
        Output::Table => render::constants(documents),
        Output::Json => {
            let json: Result<Vec<String>, _> = documents.iter().map(Document::to_json).collect();
            render::documents_json(&json.map_err(Failure::internal)?);
        }
    }
    Ok(())
}

fn refused(error: IntakeError) -> Failure {
    let advice = match &error {
        IntakeError::MixedOrigins { .. } => Some("`--origin` chooses one"),
        IntakeError::MixedSources { .. } => Some("`--mixed-sources` takes them for one"),
        IntakeError::Contradiction { .. } => None,
    };
    let failure = Failure::new(Kind::NotFound, error);
    match advice {
        Some(advice) => failure.advise(advice),
        None => failure,
    }
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found.eq_ignore_ascii_case(extension))
}

/// The files and folders that names and patterns stand for, each once, in the order of their names.
fn expand(names: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = BTreeSet::new();
    for name in names {
        // A file may be called like a pattern.
        if Path::new(name).exists() {
            paths.insert(PathBuf::from(name));
            continue;
        }
        let pattern = glob::glob(name)
            .map_err(|error| Failure::said(Kind::NotFound, format!("`{name}` is no file and no pattern: {error}")))?;
        let before = paths.len();
        for path in pattern {
            paths.insert(path.map_err(|error| Failure::new(Kind::DataFolder, error))?);
        }
        if paths.len() == before {
            return Err(Failure::said(Kind::NotFound, format!("`{name}` is no file, and as a pattern means none")));
        }
    }
    Ok(paths.into_iter().collect())
}

/// Records of all files. What cannot be read is named; where nothing could be, that is a failure.
fn read(paths: Vec<PathBuf>) -> Result<RecordReport, Failure> {
    let (probes, ours): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| has_extension(path, "csv"));
    let mut report = read_records(&ours);
    let mut recorder = Recorder::default();
    for path in &probes {
        report.records.extend(probe::read(path)?.iter().map(|row| recorder.record(row)));
    }
    unread::name(&report.skipped, report.records.is_empty())?;
    if report.records.is_empty() {
        return Err(no_rows());
    }
    Ok(report)
}

fn no_rows() -> Failure {
    Failure::said(Kind::DataFolder, "these files hold no rows")
}
