//! The cells of a row, as people read them: units, words, and nothing where nothing is known.

use std::collections::BTreeSet;

use fleetcal_model::id::RowId;
use fleetcal_model::row::{FlushMode, Row, Status, TimingMode};
use fleetcal_model::throttle::ThrottleReasons;
use fleetcal_model::units::{Bytes, Seconds};

/// One column: its name, and what it says of a row.
type Column = (&'static str, fn(&Row) -> Option<String>);

const COLUMNS: [Column; 15] = [
    ("POINT", |row| Some(row.work.point.clone())),
    ("SOLUTION", |row| Some(row.work.solution.clone())),
    ("STATUS", |row| Some(row.outcome.status.to_string())),
    ("ESTIMATE", |row| estimate_ns(row).map(|ns| Seconds::from_ns(ns).to_string())),
    ("±", interval),
    ("RATE", rate),
    ("ROUNDS", |row| Some(format!("{}/{}", row.timing.rounds_done, row.timing.rounds_planned))),
    ("CONVERGED", converged),
    ("SAMPLES", samples),
    ("MODE", |row| estimate_ns(row).map(|_| mode(row))),
    ("CONDITIONS", conditions),
    ("CLOCK", |row| row.conditions.core_clock_khz.map(|khz| format!("{} MHz", rounded(khz)))),
    ("POWER", |row| row.conditions.power_mw.map(|mw| format!("{} W", rounded(mw)))),
    ("THROTTLE", |row| row.conditions.throttle_reasons.map(|bits| ThrottleReasons::from_bits(bits).to_string())),
    ("REASON", |row| row.outcome.reason.clone()),
];

/// The header and the lines of a table. Columns that say nothing of any row are left out; the fastest solutions have a star.
pub(super) fn lines(rows: &[&Row], fastest: &BTreeSet<RowId>) -> (Vec<&'static str>, Vec<Vec<String>>) {
    let says_something = |(_, cell): &&Column| rows.iter().any(|row| cell(row).is_some());
    let columns: Vec<&Column> = COLUMNS.iter().filter(says_something).collect();
    let line = |row: &&Row| {
        let cell = |(name, cell): &&Column| {
            let text = cell(row).unwrap_or_default();
            let is_best = *name == "SOLUTION" && fastest.contains(&row.identity.row_id);
            if is_best { format!("{text} *") } else { text }
        };
        columns.iter().map(cell).collect()
    };
    (columns.iter().map(|(name, _)| *name).collect(), rows.iter().map(line).collect())
}

/// The estimate, where it says how long the solution takes: not of a wrong result, nor of one that could not run.
fn estimate_ns(row: &Row) -> Option<f64> {
    match row.outcome.status {
        Status::Passed | Status::NoCheck | Status::Throttled | Status::Contended => row.timing.estimate_ns,
        Status::Failed | Status::Invalid | Status::Skipped => None,
    }
}

/// Half-width of the interval, relative to the estimate; the reason where there is none.
fn interval(row: &Row) -> Option<String> {
    let estimate_ns = estimate_ns(row)?;
    match (row.timing.interval_low_ns, row.timing.interval_high_ns) {
        (Some(low_ns), Some(high_ns)) => Some(format!("{:.2}%", (high_ns - low_ns) / 2.0 / estimate_ns * 100.0)),
        (None, _) | (_, None) => Some(row.timing.interval_method.to_string()),
    }
}

/// Bytes moved a second.
fn rate(row: &Row) -> Option<String> {
    let estimate_ns = estimate_ns(row).filter(|ns| *ns > 0.0)?;
    let bytes = row.counts.bytes_moved();
    (bytes > 0).then(|| (Bytes(bytes) / Seconds::from_ns(estimate_ns)).to_string())
}

/// Whether the interval is as narrow as the plan wanted; and whether rounds fell into two groups.
fn converged(row: &Row) -> Option<String> {
    let word = row.timing.converged.map(|converged| if converged { "yes" } else { "no" });
    match (word, row.timing.bimodal) {
        (Some(word), Some(true)) => Some(format!("{word}, bimodal")),
        (None, Some(true)) => Some("bimodal".to_owned()),
        (word, Some(false) | None) => word.map(str::to_owned),
    }
}

/// Samples that count, and those that do not.
fn samples(row: &Row) -> Option<String> {
    let accepted = row.timing.samples.iter().filter(|sample| sample.accepted).count();
    match (accepted, row.timing.samples_discarded) {
        (0, 0) => None,
        (accepted, 0) => Some(accepted.to_string()),
        (accepted, discarded) => Some(format!("{accepted} ({discarded} discarded)")),
    }
}

/// How launches were timed, and what caches held.
fn mode(row: &Row) -> String {
    let timed = match row.timing.timing_mode {
        TimingMode::Single => "single".to_owned(),
        TimingMode::Batched => format!("batched ×{}", row.timing.enqueues_per_sample),
    };
    let caches = match row.timing.flush_mode {
        FlushMode::Cold => "cold",
        FlushMode::Oversized => "oversized",
        FlushMode::Warm => "warm",
    };
    format!("{timed}, {caches}")
}

/// Neighbours and load, where they are known.
fn conditions(row: &Row) -> Option<String> {
    let known: Vec<&str> =
        [&row.conditions.neighbours, &row.conditions.load].into_iter().filter_map(Option::as_deref).collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// Thousands, to the nearest.
fn rounded(thousandths: u64) -> u64 {
    thousandths.saturating_add(500) / 1000
}
