//! `fleetcal fit`.

use clap::Args;
use fleetcal_model::device::DRAM_FOOTPRINT_FACTOR;
use fleetcal_model::fit::{Mode, SIZES_MIN};
use fleetcal_model::row::Origin;

use super::OutputArguments;

/// What stands below the help.
pub(super) const HELP: &str = "Files:\n  *.parquet  rows of fleetcal; a folder stands for every such file below it\n  \
    *.csv      samples of a plain probe; NAME.toml beside NAME.csv says of which device. Rows say `imported`\n  \
    *.tsv      calibration rows of OCANNL, 11 or 12 columns: its configuration lines are printed\n\n\
    Examples:\n  fleetcal fit fleetcal-data/rows\n  fleetcal fit 'night-*/rows/**/*.parquet' --class nvidia-h200 --output json\n  \
    fleetcal fit probe.csv --explain 'issue_rate m=512 n=512'\n  fleetcal fit calibration.tsv --calibration-backend cuda --margin 1.1";

/// `fleetcal fit`.
#[derive(Debug, Args)]
pub(crate) struct FitArguments {
    /// Files, folders, or patterns of both in quotes: `*` is any name, `**` any number of folders.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<String>,
    /// Fit only classes whose name or identity begins with this.
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
    /// Fit only rows of this origin: `measured`, `simulated`, `emulated`, `imported`. Rows of several are never fitted
    /// together.
    #[arg(long, value_name = "ORIGIN")]
    pub(crate) origin: Option<Origin>,
    /// A row speaks for main memory from so many last-level caches of distinct bytes on.
    #[arg(long, allow_negative_numbers = true, value_name = "FACTOR", default_value_t = DRAM_FOOTPRINT_FACTOR, value_parser = clap::value_parser!(u64).range(DRAM_FOOTPRINT_FACTOR..))]
    pub(crate) footprint_factor: u64,
    /// Sizes that a line needs.
    #[arg(long, allow_negative_numbers = true, value_name = "SIZES", default_value_t = SIZES_MIN, value_parser = clap::value_parser!(u64).range(SIZES_MIN..))]
    pub(crate) sizes_min: u64,
    /// How to fit: `robust`, or `seed` for the original's fits as they are, over all points.
    #[arg(long, value_name = "MODE", default_value_t)]
    pub(crate) mode: Mode,
    /// Say in words how a constant came about: its points, what was left out and why, and what the original's fit makes of the
    /// same rows. A name, and `key=value` of its condition where it has several: `issue_rate solution=t32_b64 m=512`.
    #[arg(long, value_name = "CONSTANT")]
    pub(crate) explain: Option<String>,
    /// Take kernels of one name for one kernel although they were compiled from different sources.
    #[arg(long)]
    pub(crate) mixed_sources: bool,
    /// Of calibration rows, only those of this backend: configuration keys are those of one.
    #[arg(long, value_name = "NAME")]
    pub(crate) calibration_backend: Option<String>,
    /// Multiply the peaks of calibration rows by this.
    #[arg(long, allow_negative_numbers = true, value_name = "FACTOR", default_value_t = 1.0, value_parser = parse_margin)]
    pub(crate) margin: f64,
    #[command(flatten)]
    pub(crate) output: OutputArguments,
}

fn parse_margin(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(margin) if margin.is_finite() && margin >= 1.0 => Ok(margin),
        _ => Err("a margin is a number of at least 1: a peak is a floor, and lowering it would prune what is possible"
            .to_owned()),
    }
}
