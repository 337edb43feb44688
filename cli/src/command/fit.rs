//! `fleetcal fit`: constants from files alone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use fleetcal_coordinator::rows::{ReadReport, read_paths};
use fleetcal_model::constants::{Document, Envelope};
use fleetcal_model::explain::explain;
use fleetcal_model::fit::intake::{Intake, IntakeError, intake};
use fleetcal_model::fit::{Mode, Options};
use fleetcal_model::id::RunId;
use fleetcal_model::row::Row;

use crate::args::{FitArguments, Output};
use crate::command::unread;
use crate::failure::{Failure, Kind};
use crate::render::{self, counted};

mod calibration;
mod probe;

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
    let ReadReport { mut rows, skipped } = read(others)?;
    rows.retain(|row| arguments.origin.is_none_or(|origin| row.identity.origin == origin));
    if let Some(class) = &arguments.class {
        rows.retain(|row| {
            row.device.class_slug.starts_with(class) || row.device.class_id.as_str().starts_with(class.as_str())
        });
    }
    if rows.is_empty() {
        return Err(Failure::said(Kind::NotFound, "no row is left to fit: no file holds one of that class and origin"));
    }
    let Intake { rows, duplicates, superseded } = intake(&rows, arguments.mixed_sources).map_err(refused)?;
    if duplicates > 0 {
        render::note(&format!("further copies, left out: {}", counted(duplicates as u64, "row")));
    }
    if superseded > 0 {
        let rows = counted(superseded as u64, "row");
        render::note(&format!("of attempts that a later one replaced, left out: {rows}"));
    }
    match &arguments.explain {
        Some(wanted) => explain_all(&rows, arguments, wanted)?,
        None => print(&documents(&rows, arguments, arguments.mode), arguments.output.output)?,
    }
    Ok(unread::exit_code(&skipped))
}

/// Explains a constant of every class that has it.
fn explain_all(rows: &[&Row], arguments: &FitArguments, wanted: &str) -> Result<(), Failure> {
    let originals = documents(rows, arguments, Mode::Seed);
    let mut refused = None;
    let mut said = false;
    for document in documents(rows, arguments, arguments.mode) {
        let original = originals.iter().find(|original| original.body.class_id == document.body.class_id);
        match explain(&document, original.filter(|_| arguments.mode != Mode::Seed), rows, wanted) {
            Ok(page) => {
                render::text(&page);
                said = true;
            }
            Err(error) => refused = Some(error),
        }
    }
    match refused {
        Some(error) if !said => Err(Failure::new(Kind::NotFound, error)),
        _ => Ok(()),
    }
}

fn documents(rows: &[&Row], arguments: &FitArguments, mode: Mode) -> Vec<Document> {
    let (footprint_factor, sizes_min) = (arguments.footprint_factor, arguments.sizes_min);
    let options = Options { footprint_factor, sizes_min, mode };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let runs: BTreeSet<&RunId> = rows.iter().map(|row| &row.identity.run_id).collect();
    let run_id = match (runs.first(), runs.len()) {
        (Some(run), 1) => (*run).clone(),
        // The body names them all.
        _ => RunId::new("several"),
    };
    let envelope = Envelope {
        created_utc_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
        created_by: "fleetcal fit".to_owned(),
        run_id,
        coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    Document::fit(rows.iter().copied(), &options, &envelope)
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

/// Rows of all files. What cannot be read is named; where nothing could be, that is a failure.
fn read(paths: Vec<PathBuf>) -> Result<ReadReport, Failure> {
    let (probes, ours): (Vec<PathBuf>, Vec<PathBuf>) = paths.into_iter().partition(|path| has_extension(path, "csv"));
    let mut report = read_paths(&ours);
    for path in &probes {
        report.rows.extend(probe::read(path)?);
    }
    unread::name(&report)?;
    if report.rows.is_empty() {
        return Err(Failure::said(Kind::DataFolder, "these files hold no rows"));
    }
    Ok(report)
}
