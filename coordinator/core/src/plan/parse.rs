//! From the text of a plan to a [`Plan`], with every error that can be found in one pass.

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::fit;
use fleetcal_model::policy::MeasuringPolicy;
use toml::de::{DeTable, DeValue};

use super::error::{Errors, PlanErrors, PlanProblem};
use super::quantity::{devices_per_node, duration_ns, member, short_text, text, whole, whole_within};
use super::reader::{Section, bad_value};
use super::{Limits, Plan};

mod measure;
mod sweep;

use measure::measure;
use sweep::sweeps;

const DOCUMENT_KEYS: [&str; 9] =
    ["name", "description", "label", "seed", "devices", "measure", "limits", "sweep", "fit"];
const DEVICE_KEYS: [&str; 1] = ["select"];
const LIMIT_KEYS: [&str; 3] = ["task_time", "device_time", "devices_per_node"];
const FIT_KEYS: [&str; 3] = ["footprint_factor", "sizes_min", "mode"];

/// Longest text of a plan, bytes: it travels with every task, and every run keeps it.
pub const PLAN_BYTES_MAX: usize = 1 << 20;

/// Longest name of a plan, characters: it stands in tables.
const NAME_MAX: usize = 100;
/// Longest description, characters.
const DESCRIPTION_MAX: usize = 1000;
/// Longest label, characters: every row holds it.
const LABEL_MAX: usize = 200;

/// Most of anything that is counted: far above sense, far below overflow.
pub(super) const COUNT_MAX: u64 = 1_000_000;

/// See [`Plan::parse`].
pub(super) fn parse(text: &str) -> Result<Plan, PlanErrors> {
    let mut errors = Errors::new(text);
    if text.len() > PLAN_BYTES_MAX {
        errors.add(0, "", PlanProblem::TooLong { bytes: text.len(), most: PLAN_BYTES_MAX });
        return errors.into_result(None);
    }
    let (document, syntax_errors) = DeTable::parse_recoverable(text);
    for error in &syntax_errors {
        let message = error.message().to_owned();
        errors.add(error.span().map_or(0, |span| span.start), "", PlanProblem::Syntax { message });
    }
    if !errors.is_empty() {
        // What the parser made of a broken text would only add errors that are none.
        return errors.into_result(None);
    }
    let root = Section::new("", 0, document.get_ref(), &DOCUMENT_KEYS, &mut errors);
    let name = required(&root, "name", "a short name of the plan", short_text(NAME_MAX), &mut errors);
    let (measure, limits) = (measure(&root, &mut errors), limits(&root, &mut errors));
    let plan = Plan {
        name: name.unwrap_or_default(),
        description: root.read("description", short_text(DESCRIPTION_MAX), &mut errors).unwrap_or_default(),
        label: root.read("label", short_text(LABEL_MAX), &mut errors),
        seed: root.read("seed", whole, &mut errors).unwrap_or_default(),
        selectors: selectors(&root, &mut errors),
        measure: MeasuringPolicy { task_ns_max: limits.1.unwrap_or(measure.task_ns_max), ..measure },
        limits: limits.0,
        sweeps: sweeps(&root, &mut errors),
        fit: fit(&root, &mut errors),
        digest: Sha256Digest::of(text.as_bytes()),
    };
    errors.into_result(Some(plan))
}

/// A text that has to be there and say something.
fn required(
    section: &Section<'_>,
    key: &'static str,
    expected: &'static str,
    convert: impl Fn(&DeValue<'_>) -> Result<String, PlanProblem>,
    errors: &mut Errors<'_>,
) -> Option<String> {
    if section.value(key).is_none() {
        errors.add(section.offset(), "", PlanProblem::Missing { key, expected });
    }
    let not_empty = |value: &DeValue<'_>| match convert(value)? {
        found if found.trim().is_empty() => Err(bad_value(found, format!("it must be {expected}"))),
        found => Ok(found),
    };
    section.read(key, not_empty, errors)
}

fn selectors(root: &Section<'_>, errors: &mut Errors<'_>) -> Vec<super::Selector> {
    let devices = root.section("devices", &DEVICE_KEYS, errors);
    let selectors = devices.read_list("select", |value| text(value)?.parse(), errors).unwrap_or_default();
    selectors.into_iter().map(|(selector, _)| selector).collect()
}

/// The limits, and the time of one task, which is part of the measuring policy.
fn limits(root: &Section<'_>, errors: &mut Errors<'_>) -> (Limits, Option<u64>) {
    let section = root.section("limits", &LIMIT_KEYS, errors);
    let device_ns_max = section.read("device_time", duration_ns, errors);
    let devices_per_node = section.read("devices_per_node", devices_per_node, errors);
    let devices_per_node = devices_per_node.unwrap_or(Limits::default().devices_per_node);
    (Limits { device_ns_max, devices_per_node }, section.read("task_time", duration_ns, errors))
}

fn fit(root: &Section<'_>, errors: &mut Errors<'_>) -> fit::Options {
    let section = root.section("fit", &FIT_KEYS, errors);
    // The defaults are the least: below them a fit would claim what its rows do not show.
    let least = fit::Options::default();
    let mut count = |key: &str, least: u64| section.read(key, whole_within(least, COUNT_MAX), errors).unwrap_or(least);
    fit::Options {
        footprint_factor: count("footprint_factor", least.footprint_factor),
        sizes_min: count("sizes_min", least.sizes_min),
        mode: section.read("mode", member(fit::Mode::ALL, "mode"), errors).unwrap_or(least.mode),
    }
}
