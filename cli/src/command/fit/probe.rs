//! Rows of the plain probe, with what a file beside them says of their device.

use std::path::Path;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::estimate::seal;
use fleetcal_model::import::{Source, probe};
use fleetcal_model::row::Row;
use serde::Deserialize;

use crate::failure::{Failure, Kind};
use crate::files::read_data;

/// Largest file of samples that is read.
const SAMPLES_BYTES_MAX: u64 = 1 << 30;

/// Largest description of a device that is read.
const BESIDE_BYTES_MAX: u64 = 1 << 20;

/// `NAME.toml` beside `NAME.csv`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Beside {
    /// Host of the device.
    host: String,
    /// Clock of the times.
    clock: String,
    /// Data that inputs were filled with.
    data_pattern: String,
    /// The device.
    device: DeviceFacts,
}

/// The rows of one file.
pub(super) fn read(path: &Path) -> Result<Vec<Row>, Failure> {
    let beside = path.with_extension("toml");
    let unreadable = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::said(Kind::DataFolder, format!("{} cannot be read: {error}", path.display()))
    };
    let text = read_data(path, SAMPLES_BYTES_MAX).map_err(|error| unreadable(path, &error))?;
    let facts = read_data(&beside, BESIDE_BYTES_MAX).map_err(|error| {
        unreadable(&beside, &error).advise("It says on which device the rows beside it were measured")
    })?;
    let Beside { host, clock, data_pattern, device } =
        toml::from_str(&facts).map_err(|error| unreadable(&beside, &error))?;
    let name = path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let source = Source { device, host, name, clock, data_pattern };
    let mut rows = probe::rows(&text, &source).map_err(|error| unreadable(path, &error))?;
    // Two files of one name would else pass for copies of each other.
    rows.iter_mut().try_for_each(seal).map_err(Failure::internal)?;
    Ok(rows)
}
