//! Everything that is printed. Results go to standard output, sentences about them to standard error.

use std::sync::OnceLock;

use comfy_table::{ContentArrangement, Table, presets};

use crate::failure::Failure;

/// Why results could not be written, if they could not: kept until the process ends, which it must not do well.
static OUTPUT_FAILURE: OnceLock<std::io::Error> = OnceLock::new();

/// A line on standard output.
macro_rules! out_line {
    ($($argument:tt)*) => {{
        use std::io::Write;
        $crate::render::note_output(writeln!(std::io::stdout(), $($argument)*));
    }};
}

/// Notes how writing went. Who reads no further (`| head`) gets no more, and that is no failure; anything else is.
fn note_output(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        // The first failure is the one to tell of.
        let _ = OUTPUT_FAILURE.set(error);
    }
}

/// Why results could not be written to standard output, after all of them should have been.
pub(crate) fn output_failure() -> Option<&'static std::io::Error> {
    note_output(std::io::Write::flush(&mut std::io::stdout()));
    OUTPUT_FAILURE.get()
}

/// A line on standard error, likewise.
macro_rules! error_line {
    ($($argument:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), $($argument)*);
    }};
}

mod constants;
mod devices;
mod outcomes;
mod plan;
mod rows;
mod runs;

pub(crate) use constants::{constants, documents_json};
pub(crate) use devices::{fleet_devices, fleet_devices_json, found, local_devices, local_devices_json};
pub(crate) use outcomes::outcomes;
pub(crate) use plan::{plan_check, plan_estimate, plan_show};
pub(crate) use rows::{row_keys, rows, rows_by_key, rows_csv, rows_json};
pub(crate) use runs::{run_id_json, run_summary, status, status_json, submitted};

/// The failure that ends the process.
pub(crate) fn error(failure: &Failure) {
    error_line!("error: {}", failure.sentence());
}

/// Lines as they are.
pub(crate) fn text(lines: &str) {
    out_line!("{}", lines.trim_end());
}

/// Something that a person should know.
pub(crate) fn note(text: &str) {
    error_line!("note: {text}");
}

/// A line about what goes on.
pub(crate) fn say(text: &str) {
    error_line!("{text}");
}

/// A table without vertical rules, as wide as the terminal.
fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_header(header);
    table
}

/// Prints a table, or a sentence where it has no rows.
fn print_table(table: &Table, if_empty: &str) {
    if table.row_count() == 0 {
        out_line!("{if_empty}");
    } else {
        out_line!("{table}");
    }
}

/// Prints a value as indented JSON.
///
/// # Errors
/// The value has no JSON form, which is a fault of fleetcal.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    out_line!("{}", serde_json::to_string_pretty(value).map_err(Failure::internal)?);
    Ok(())
}
