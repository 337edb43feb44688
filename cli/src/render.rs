//! Everything that is printed. Results go to standard output, sentences about them to standard error.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use comfy_table::{ContentArrangement, Table, presets};

use crate::failure::Failure;

mod constants;
mod devices;
mod plan;
mod runs;

pub(crate) use constants::{constants, documents_json};
pub(crate) use devices::{fleet_devices, fleet_devices_json, found, local_devices, local_devices_json};
pub(crate) use plan::{plan_check, plan_estimate, plan_show};
pub(crate) use runs::{run_id_json, run_summary, status, status_json, submitted};

/// The failure that ends the process.
pub(crate) fn error(failure: &Failure) {
    eprintln!("error: {}", failure.sentence());
}

/// Something that a person should know.
pub(crate) fn note(text: &str) {
    eprintln!("note: {text}");
}

/// A line about what goes on.
pub(crate) fn say(text: &str) {
    eprintln!("{text}");
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
        println!("{if_empty}");
    } else {
        println!("{table}");
    }
}

/// Prints a value as indented JSON.
///
/// # Errors
/// The value has no JSON form, which is a fault of fleetcal.
fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    println!("{}", serde_json::to_string_pretty(value).map_err(Failure::internal)?);
    Ok(())
}
