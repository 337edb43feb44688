//! How a constant came about, in words, step by step: which rows, what each point says, what was left out and why, and what
//! the original's fit makes of the same rows.
//!
//! It is told from the document and the rows behind it, so that nothing is claimed that the document does not say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::constants::{Constant, Document, RejectedRow, Verdict};
use crate::fit::estimated::ValueSet;
use crate::id::RowId;
use crate::row::{Role, Row};

mod meaning;
mod points;

use meaning::meaning;
use points::{Line, lines};

/// Rows left out that are listed one by one; the rest is counted.
const LEFT_OUT_MAX: usize = 24;

/// No constant has that name and condition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no constant `{wanted}` is among: {known}")]
pub struct NoSuchConstant {
    /// What was asked for.
    pub wanted: String,
    /// Names that there are, separated by commas.
    pub known: String,
}

/// Explains every constant of `document` called by the first word of `wanted`, whose condition holds all of its other words,
/// `key=value`. `rows` are those that the document was fitted from; `original` is what the original's fits make of them.
///
/// # Errors
/// [`NoSuchConstant`].
pub fn explain(
    document: &Document,
    original: Option<&Document>,
    rows: &[&Row],
    wanted: &str,
) -> Result<String, NoSuchConstant> {
    let mut words = wanted.split_whitespace();
    let name = words.next().unwrap_or_default();
    let conditions: Vec<Option<(&str, &str)>> = words.map(|word| word.split_once('=')).collect();
    let holds = |constant: &&Constant| {
        let has = |(key, value): (&str, &str)| constant.condition.get(key).is_some_and(|found| found == value);
        constant.name == name && conditions.iter().all(|condition| condition.is_some_and(has))
    };
    let chosen: Vec<&Constant> = document.body.constants.iter().filter(holds).collect();
    if chosen.is_empty() {
        let known: BTreeSet<&str> = document.body.constants.iter().map(|constant| constant.name.as_str()).collect();
        let known = known.into_iter().collect::<Vec<_>>().join(", ");
        return Err(NoSuchConstant { wanted: wanted.to_owned(), known });
    }
    let own: Vec<&Row> = rows.iter().copied().filter(|row| row.device.class_id == document.body.class_id).collect();
    let pages = chosen.iter().map(|constant| page(document, original, &own, constant));
    Ok(pages.collect::<Vec<_>>().join("\n"))
}

fn page(document: &Document, original: Option<&Document>, rows: &[&Row], constant: &Constant) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# {}\n", title(constant));
    let _ = writeln!(text, "{}\n", result(constant));
    let meaning = meaning(&constant.name);
    let _ = writeln!(text, "What it is: {}", meaning.what);
    let _ = writeln!(text, "How it is found: {}\n", meaning.how);
    let rejected: BTreeMap<&RowId, &RejectedRow> =
        document.body.rejected_rows.iter().map(|rejected| (&rejected.row_id, rejected)).collect();
    let measured_for_fits = |row: &&Row| matches!(row.identity.role, Role::Fit | Role::Anchor);
    let concerned = rows.iter().copied().filter(measured_for_fits).filter(|row| meaning.concerns(constant, row));
    let mut behind: Vec<&Row> = concerned.collect();
    behind.sort_by_key(|row| {
        (meaning.amount.of(&row.counts), &row.work.point, &row.work.solution, &row.device.device_uuid)
    });
    let (left_out, used): (Vec<&Row>, Vec<&Row>) =
        behind.iter().partition(|row| rejected.contains_key(&row.identity.row_id));
    let _ = writeln!(
        text,
        "Rows of {} measured for fits under its condition: {}. Left out: {}. Devices behind the value: {} of {}; points: {} of {}.\n",
        document.body.class_slug,
        behind.len(),
        left_out.len(),
        constant.devices_used,
        constant.devices_total,
        constant.points_used,
        constant.points_total
    );
    let lines = lines(document, constant, &meaning, &used);
    if !lines.is_empty() {
        let _ = writeln!(text, "{}", table(&lines));
    }
    let _ = write!(text, "{}", left_out_words(&left_out, &rejected));
    if let Some(original) = original {
        let _ = writeln!(text, "{}", before(original, constant));
    }
    text
}

fn title(constant: &Constant) -> String {
    let condition: Vec<String> = constant.condition.iter().map(|(key, value)| format!("{key}={value}")).collect();
    if condition.is_empty() { constant.name.clone() } else { format!("{}, {}", constant.name, condition.join(" ")) }
}

fn result(constant: &Constant) -> String {
    let show = |value: f64| constant.unit.show(value);
    let mut text = match (constant.value, &constant.reason) {
        (Some(value), _) => show(value),
        (None, Some(reason)) => format!("No value ({}): {reason}", constant.verdict),
        (None, None) => format!("No value ({})", constant.verdict),
    };
    if let (Some(interval), Some(method)) = (constant.interval, constant.interval_method) {
        text += &format!(", 95% interval {} to {} ({method})", show(interval.low), show(interval.high));
    } else if let Some(method) = constant.interval_method.filter(|_| constant.verdict == Verdict::Measured) {
        text += &format!(", no interval ({method})");
    }
    // Of one that is bounded, the reason has said which side is known.
    if let Some(set) = constant.set.as_ref().filter(|_| constant.value.is_some()) {
        text += &match set {
            ValueSet::Bracket { low, high } => {
                let end = |end: Option<f64>| end.map_or("not seen".to_owned(), show);
                format!(", between {} (seen on one side) and {} (seen on the other)", end(*low), end(*high))
            }
            ValueSet::Candidates(values) => {
                format!(", not told from {}", values.iter().map(|value| show(*value)).collect::<Vec<_>>().join(", "))
            }
        };
    }
    if let Some(residual) = constant.max_residual {
        text += &format!("; the form is off by {:.1}% at most", 100.0 * residual);
    }
    if let Some(witness) = &constant.witness {
        let (point, solution, device) = (&witness.point, &witness.solution, &witness.device_uuid);
        text += &format!("; shown by {point} {solution} on {device}, {}", show(witness.value));
    }
    format!("{text}. It is a constant of: {}.", constant.scope)
}

fn table(lines: &[Line]) -> String {
    let header = ["point", "solution", "devices", "time", "rate", "the fit says", "off by"].map(str::to_owned);
    let cells: Vec<[String; 7]> = std::iter::once(header).chain(lines.iter().map(Line::cells)).collect();
    let width = |column: usize| cells.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for cells in &cells {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        let _ = writeln!(text, "  {}", padded.collect::<Vec<_>>().join("  ").trim_end());
    }
    text
}

fn left_out_words(left_out: &[&Row], rejected: &BTreeMap<&RowId, &RejectedRow>) -> String {
    let mut text = String::new();
    if left_out.is_empty() {
        return text;
    }
    let _ = writeln!(text, "Left out, by row:");
    for row in left_out.iter().take(LEFT_OUT_MAX) {
        let Some(rejected) = rejected.get(&row.identity.row_id) else { continue };
        let residual = rejected.residual.map(|residual| format!(", {:+.1}% against the fit", 100.0 * residual));
        let _ = writeln!(
            text,
            "  {} {} on {}: {}{}",
            row.work.point,
            row.work.solution,
            row.device.device_uuid,
            rejected.reason,
            residual.unwrap_or_default()
        );
    }
    if let Some(others) = left_out.len().checked_sub(LEFT_OUT_MAX).filter(|others| *others > 0) {
        let _ = writeln!(text, "  and {others} others, which the document lists");
    }
    text.push('\n');
    text
}

/// What the original's fit says of the same rows.
fn before(original: &Document, constant: &Constant) -> String {
    let same = |other: &&Constant| other.name == constant.name && other.condition == constant.condition;
    match original.body.constants.iter().find(same) {
        Some(other) => match (other.value, constant.value) {
            (Some(before), Some(after)) if before != 0.0 => format!(
                "The original's fit, over all points and shortest samples: {} ({:+.1}%).",
                constant.unit.show(before),
                100.0 * (before / after - 1.0)
            ),
            (Some(before), _) => format!("The original's fit says {}.", constant.unit.show(before)),
            (None, _) => {
                format!("The original's fit has no value: {}.", other.reason.as_deref().unwrap_or("no reason is given"))
            }
        },
        None => "The original's fits have no such constant.".to_owned(),
    }
}

#[cfg(test)]
mod tests;
