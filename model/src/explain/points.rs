//! The points behind a constant, and what the fit says of each.

use std::collections::{BTreeMap, BTreeSet};

use super::meaning::{Amount, Meaning};
use crate::constants::{Constant, Document};
use crate::id::DeviceId;
use crate::row::Row;
use crate::statistics::median;
use crate::units::Seconds;

/// One point of one solution.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Line {
    point: String,
    solution: String,
    devices: usize,
    seconds: f64,
    /// What it does in its time.
    amount: u64,
    unit: &'static str,
    /// What the line says it takes, seconds.
    fitted_seconds: Option<f64>,
}

impl Line {
    /// As people read it.
    pub(super) fn cells(&self) -> [String; 7] {
        let rate = if self.amount > 0 { scaled(self.amount as f64 / self.seconds, self.unit) } else { String::new() };
        let off = self.fitted_seconds.map(|fitted| format!("{:+.1}%", 100.0 * (self.seconds / fitted - 1.0)));
        [
            self.point.clone(),
            self.solution.clone(),
            self.devices.to_string(),
            Seconds(self.seconds).to_string(),
            rate,
            self.fitted_seconds.map(|seconds| Seconds(seconds).to_string()).unwrap_or_default(),
            off.unwrap_or_default(),
        ]
    }
}

/// The points of rows that feed a constant, smallest amount first; only the fastest solution of each, where the constant is
/// of the fastest.
pub(super) fn lines(document: &Document, constant: &Constant, meaning: &Meaning, rows: &[&Row]) -> Vec<Line> {
    let mut groups: BTreeMap<(&str, &str), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.feeds_fits()) {
        groups.entry((&row.work.point, &row.work.solution)).or_default().push(row);
    }
    let mut lines: Vec<Line> = groups
        .into_iter()
        .filter_map(|((point, solution), rows)| line(document, constant, meaning, (point, solution), &rows))
        .collect();
    if !constant.condition.contains_key("solution") {
        let mut fastest: BTreeMap<String, f64> = BTreeMap::new();
        for line in &lines {
            let best = fastest.entry(line.point.clone()).or_insert(f64::INFINITY);
            *best = best.min(line.seconds);
        }
        lines.retain(|line| fastest.get(&line.point) == Some(&line.seconds));
    }
    lines.sort_by(|left, right| {
        left.amount.cmp(&right.amount).then(left.point.cmp(&right.point)).then(left.solution.cmp(&right.solution))
    });
    lines
}

fn line(
    document: &Document,
    constant: &Constant,
    meaning: &Meaning,
    (point, solution): (&str, &str),
    rows: &[&Row],
) -> Option<Line> {
    let devices: BTreeSet<&DeviceId> = rows.iter().map(|row| &row.device.device_uuid).collect();
    let times: Vec<f64> = rows.iter().filter_map(|row| row.timing.estimate_ns).collect();
    let amount = meaning.amount.of(&rows.first()?.counts);
    let seconds = median(&times)? * 1e-9;
    let fitted_seconds = meaning.line.and_then(|(latency, rate)| {
        let value = |name: &str| {
            let same = |other: &&Constant| other.name == name && other.condition == constant.condition;
            document.body.constants.iter().find(same)?.value
        };
        Some(value(latency)? + amount as f64 / value(rate)?)
    });
    let unit = match meaning.amount {
        Amount::Moved | Amount::Requested => "B/s",
        Amount::Operations => "op/s",
        Amount::Flops => "flop/s",
        Amount::Nothing => "",
    };
    Some(Line {
        point: point.to_owned(),
        solution: solution.to_owned(),
        devices: devices.len(),
        seconds,
        amount,
        unit,
        fitted_seconds: fitted_seconds.filter(|seconds| *seconds > 0.0),
    })
}

/// A rate with four digits, in powers of ten: `4.379e12 B/s`.
fn scaled(rate: f64, unit: &str) -> String {
    format!("{rate:.3e} {unit}")
}
