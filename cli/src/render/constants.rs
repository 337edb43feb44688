//! Constants documents.

use std::collections::BTreeMap;

use fleetcal_model::constants::{Body, Constant, Document, Scope, Verdict};
use fleetcal_model::fit::Mode;
use fleetcal_model::row::Origin;

use super::{counted, note, print_table, say, table, were};

/// Documents as tables, one a class.
pub(crate) fn constants(documents: &[Document]) {
    for document in documents {
        let body = &document.body;
        out_line!("\n{} ({}, class {})", body.class_slug, counted(body.rows_total, "row"), body.class_id);
        match body.origin {
            Origin::Measured => {}
            Origin::Imported => out_line!("These numbers are imported: fleetcal neither took nor validated them."),
            Origin::Simulated | Origin::Emulated => {
                out_line!("These numbers are {}: they say nothing about a real device.", body.origin);
            }
        }
        if body.fit_options.mode == Mode::Seed {
            out_line!("The original's fits, as the options say (mode seed): they state no intervals.");
        }
        let mut shown = table(&["CONSTANT", "CONDITION", "VALUE", "95% INTERVAL", "VERDICT", "SHOWN BY"]);
        let shared = shared_condition(&body.constants);
        if !shared.is_empty() {
            out_line!("all of them hold for: {}", words(shared.iter()));
        }
        let mut unidentified: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
        for constant in &body.constants {
            if let Some(reason) = &constant.reason {
                let ending = match constant.verdict {
                    Verdict::Bounded => "known from one side, since",
                    Verdict::FormRejected => "not published, since",
                    Verdict::Measured | Verdict::NotIdentified => "not identified, since",
                };
                unidentified.entry((ending, reason)).or_default().push(format!(
                    "{} ({})",
                    constant.name,
                    condition(constant, &shared)
                ));
                continue;
            }
            shown.add_row([
                constant.name.clone(),
                condition(constant, &shared),
                constant.value.map(|value| constant.unit.show(value)).unwrap_or_default(),
                interval(constant),
                constant.verdict.to_string(),
                basis(constant),
            ]);
        }
        print_table(&shown, "no constants: no row can feed a fit");
        for ((ending, reason), constants) in &unidentified {
            out_line!("{ending} {reason}: {}", constants.join(", "));
        }
        if let Some(Scope::Device(device)) = body.constants.first().map(|constant| &constant.scope) {
            say(&format!("one device stands behind these constants: they are those of {device}"));
        }
        notes(body);
    }
    if documents.is_empty() {
        out_line!("no constants: nothing was measured");
    }
}

/// What to know about the rows behind a document.
fn notes(body: &Body) {
    let bare = body.constants.iter().filter(|constant| has_no_interval(constant)).count() as u64;
    if bare > 0 {
        note(&format!(
            "{} measured without any interval: how far off the value may be is not known (three rounds or more give \
             a row one)",
            counted(bare, "constant")
        ));
    }
    if body.rows_cut_short > 0 {
        let (rows, were) = (counted(body.rows_cut_short, "row"), were(body.rows_cut_short));
        note(&format!("{rows} {were} cut short, feeding the fits as far as measured"));
    }
    if !body.rejected_rows.is_empty() {
        let rows = counted(body.rejected_rows.len() as u64, "row");
        note(&format!("{rows} left out of every constant; the document says why of each"));
    }
}

/// Documents as one JSON array, exactly as they were published.
pub(crate) fn documents_json(documents: &[String]) {
    out_line!("[{}]", documents.join(","));
}

/// What every constant's condition says: it is said once.
fn shared_condition(constants: &[Constant]) -> BTreeMap<String, String> {
    let mut shared = constants.first().map(|constant| constant.condition.clone()).unwrap_or_default();
    for constant in constants {
        shared.retain(|key, value| constant.condition.get(key) == Some(value));
    }
    shared
}

fn words<'a>(condition: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    condition.map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(" ")
}

/// What a constant's condition says beyond that of all.
fn condition(constant: &Constant, shared: &BTreeMap<String, String>) -> String {
    let own = words(constant.condition.iter().filter(|(key, _)| !shared.contains_key(*key)));
    if own.is_empty() { "any".to_owned() } else { own }
}

/// The constant's interval; for a demonstrated maximum, that of the row that shows it, in brackets.
fn interval(constant: &Constant) -> String {
    let unit = constant.unit;
    let written = |low: f64, high: f64| format!("{} to {}", unit.show(low), unit.show(high));
    match (&constant.interval, constant.witness.as_ref().and_then(|witness| witness.interval)) {
        (Some(interval), _) => written(interval.low, interval.high),
        // Of several devices the value is a median, and the row that shows it is one of them: its value may differ.
        (None, Some(row)) if constant.devices_used > 1 => {
            let value = constant.witness.as_ref().map(|witness| unit.show(witness.value)).unwrap_or_default();
            format!("[row {value}: {}]", written(row.low, row.high))
        }
        (None, Some(row)) => format!("[row: {}]", written(row.low, row.high)),
        (None, None) => constant.interval_method.map(|method| method.to_string()).unwrap_or_default(),
    }
}

/// Whether a constant has a value, and neither it nor the row that shows it has an interval.
fn has_no_interval(constant: &Constant) -> bool {
    let of_row = constant.witness.as_ref().and_then(|witness| witness.interval.as_ref());
    constant.value.is_some() && constant.interval.is_none() && of_row.is_none()
}

/// What the value rests on.
fn basis(constant: &Constant) -> String {
    match &constant.witness {
        Some(witness) => format!("{} {}", witness.point, witness.solution),
        None => format!(
            "{} of {}, {} of {}",
            constant.points_used,
            counted(constant.points_total, "point"),
            constant.devices_used,
            counted(constant.devices_total, "device")
        ),
    }
}
