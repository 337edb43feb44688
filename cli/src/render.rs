//! Everything that is printed. Results go to standard output, sentences about them to standard error.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{ContentArrangement, Table, presets};

use crate::failure::Failure;

/// Why results could not be written, if they could not: kept until the process ends, which it must not do well.
static OUTPUT_FAILURE: OnceLock<std::io::Error> = OnceLock::new();

/// A line on standard output.
macro_rules! out_line {
    ($($argument:tt)*) => {{
        use std::io::Write;
        let text = format!($($argument)*);
        $crate::render::note_output(writeln!(std::io::stdout(), "{}", $crate::render::harmless(&text)));
    }};
}

/// Whether anybody still reads standard output, as far as writing to it has told.
static READ: AtomicBool = AtomicBool::new(true);

/// Whether what is printed still arrives.
pub(crate) fn is_read() -> bool {
    READ.load(Ordering::Relaxed)
}

/// Notes how writing went. Who reads no further (`| head`) gets no more, and that is no failure; anything else is.
fn note_output(written: std::io::Result<()>) {
    let Err(error) = written else { return };
    READ.store(false, Ordering::Relaxed);
    if error.kind() != std::io::ErrorKind::BrokenPipe {
        // The first failure is the one to tell of.
        let _ = OUTPUT_FAILURE.set(error);
    }
}

/// A text with its control characters written out: names and reasons come from other machines and from files, and a
/// terminal would obey them. Lines and tabs stay. What stands for them is an escape of JSON too, so documents stay whole.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
    let obeyed = |character: char| character.is_control() && !matches!(character, '\n' | '\t');
    if !text.contains(obeyed) {
        return Cow::Borrowed(text);
    }
    let written =
        |character: char| if obeyed(character) { format!("\\u{:04x}", u32::from(character)) } else { character.into() };
    Cow::Owned(text.chars().map(written).collect())
}

/// Clears the terminal. The one control sequence that is written: what was printed of others goes with it.
fn clear_screen() {
    use std::io::Write;
    note_output(std::io::stdout().write_all(b"\x1b[2J\x1b[H"));
}

/// So many of something.
pub(crate) fn counted(count: u64, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
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
        let text = format!($($argument)*);
        let _ = writeln!(std::io::stderr(), "{}", $crate::render::harmless(&text));
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

/// How constants came about: the class and the page of each.
pub(crate) fn explanations_json(pages: &[(String, String)]) -> Result<(), Failure> {
    let value = |(class, page): &(String, String)| serde_json::json!({ "class": class, "explanation": page });
    print_json(&pages.iter().map(value).collect::<Vec<_>>())
}

/// The verb that goes with so many.
fn were(count: u64) -> &'static str {
    if count == 1 { "was" } else { "were" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_control_characters_and_obeys_none() {
        assert_eq!(harmless("node-1, ±0.5%\n\tµs"), "node-1, ±0.5%\n\tµs");
        let said = harmless("a\u{1b}[2Jb\rc\u{9b}d\u{7f}");
        assert_eq!(said, "a\\u001b[2Jb\\u000dc\\u009bd\\u007f");
        let json = harmless("{\"node\":\"a\u{7f}\"}").into_owned();
        let value: serde_json::Value = serde_json::from_str(&json).expect("it is still JSON");
        assert_eq!(value["node"], "a\u{7f}", "and says the same");
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([counted(0, "row"), counted(1, "row"), counted(2, "row")], ["0 rows", "1 row", "2 rows"]);
    }
}
