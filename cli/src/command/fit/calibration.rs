//! Calibration rows of OCANNL: configuration lines by the original's fit.

use std::path::PathBuf;
use std::process::ExitCode;

use fleetcal_model::import::calibration::{Calibration, configuration};

use crate::args::FitArguments;
use crate::failure::{Failure, Kind};
use crate::files::read_data;
use crate::render::{self, counted};

/// Largest file of calibration rows that is read.
const ROWS_BYTES_MAX: u64 = 1 << 30;

pub(super) fn run(paths: &[PathBuf], arguments: &FitArguments) -> Result<ExitCode, Failure> {
    let mut calibration = Calibration::default();
    for path in paths {
        let text = read_data(path, ROWS_BYTES_MAX)
            .map_err(|error| Failure::said(Kind::DataFolder, format!("{} cannot be read: {error}", path.display())))?;
        let found = Calibration::parse(&text);
        if let Some(first) = found.malformed.first() {
            let lines = counted(found.malformed.len() as u64, "malformed line");
            render::note(&format!("{}: {lines} skipped, the first is line {first}", path.display()));
        }
        calibration.join(found);
    }
    let wanted = arguments.calibration_backend.as_deref();
    let chosen: Vec<_> =
        calibration.backends.iter().filter(|(name, _)| wanted.is_none_or(|wanted| wanted == name)).collect();
    match (&chosen[..], wanted) {
        ([], Some(wanted)) => {
            let known: Vec<&str> = calibration.backends.iter().map(|(name, _)| name.as_str()).collect();
            let sentence = format!("no row is of the backend `{wanted}`; there are: {}", known.join(", "));
            return Err(Failure::said(Kind::NotFound, sentence));
        }
        ([], None) => return Err(Failure::said(Kind::NotFound, "these files hold no calibration rows")),
        ([_], _) => {}
        (several, _) => render::note(&format!(
            "rows of {} backends: their keys are the same, and lines of one alone belong into a file \
             (`--calibration-backend`)",
            several.len()
        )),
    }
    for (backend, rows) in chosen {
        render::text(&configuration(backend, rows, arguments.margin));
    }
    Ok(ExitCode::SUCCESS)
}
