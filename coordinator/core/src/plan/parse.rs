//! From the text of a plan to a [`Plan`], with every error that can be found in one pass.

use fleetcal_kernels::{Family, PointError};
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::fit;
use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::MeasuringPolicy;
use toml::de::{DeTable, DeValue};

use super::error::{Errors, PlanErrors, PlanProblem};
use super::quantity::{Size, boolean, duration_ns, fixed_size, percent, size, text, validation, whole, whole_within};
use super::reader::{Section, bad_value, wrong_type};
use super::{Limits, Plan, SweepPlan, catalog};

const DOCUMENT_KEYS: [&str; 9] =
    ["name", "description", "label", "seed", "devices", "measure", "limits", "sweep", "fit"];
const DEVICE_KEYS: [&str; 1] = ["select"];
const MEASURE_KEYS: [&str; 10] = [
    "rounds",
    "warmups",
    "samples_min",
    "samples_max",
    "noise_target",
    "visit_limit",
    "screening_samples",
    "finalists",
    "validate",
    "exit_on_error",
];
const LIMIT_KEYS: [&str; 3] = ["task_time", "device_time", "devices_per_node"];
const FIT_KEYS: [&str; 2] = ["footprint_factor", "sizes_min"];
const SWEEP_KEYS: [&str; 5] = ["family", "kernels", "dtypes", "elements", "points_per_task"];
const RANGE_KEYS: [&str; 3] = ["from", "to", "step"];

/// Most of anything that is counted: far above sense, far below overflow.
const COUNT_MAX: u64 = 1_000_000;
/// A few finalists are enough: further down, solutions differ by more than screening errs, and each finalist costs a visit
/// in every round.
const FINALISTS_MAX: u64 = 16;

/// See [`Plan::parse`].
pub(super) fn parse(text: &str) -> Result<Plan, PlanErrors> {
    let mut errors = Errors::new(text);
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
    let name = required(&root, "name", "a short name of the plan", &mut errors);
    let (measure, limits) = (measure(&root, &mut errors), limits(&root, &mut errors));
    let plan = Plan {
        name: name.unwrap_or_default(),
        description: root.read("description", self::text, &mut errors).unwrap_or_default(),
        label: root.read("label", self::text, &mut errors),
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
    errors: &mut Errors<'_>,
) -> Option<String> {
    if section.value(key).is_none() {
        errors.add(section.offset(), "", PlanProblem::Missing { key, expected });
    }
    let not_empty = |value: &DeValue<'_>| match text(value)? {
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

fn measure(root: &Section<'_>, errors: &mut Errors<'_>) -> MeasuringPolicy {
    let section = root.section("measure", &MEASURE_KEYS, errors);
    let default = MeasuringPolicy::default();
    let mut count = |key: &str, low: u64, high: u64, default: u64| {
        section.read(key, whole_within(low, high), errors).unwrap_or(default)
    };
    let policy = MeasuringPolicy {
        rounds: count("rounds", 1, COUNT_MAX, default.rounds),
        warmups: count("warmups", 1, COUNT_MAX, default.warmups),
        samples_min: count("samples_min", 1, COUNT_MAX, default.samples_min),
        samples_max: count("samples_max", 1, COUNT_MAX, default.samples_max),
        screening_samples: count("screening_samples", 1, COUNT_MAX, default.screening_samples),
        finalists: count("finalists", 1, FINALISTS_MAX, default.finalists),
        ..default
    };
    if policy.samples_max < policy.samples_min {
        let key = if section.value("samples_max").is_some() { "samples_max" } else { "samples_min" };
        let (found, bound) = (policy.samples_max, policy.samples_min);
        let problem = bad_value(found, format!("samples_max must be at least samples_min, which is {bound}"));
        section.complain(key, problem, errors);
    }
    MeasuringPolicy {
        noise_target: section.read("noise_target", percent, errors).unwrap_or(policy.noise_target),
        visit_ns_max: section.read("visit_limit", duration_ns, errors).unwrap_or(policy.visit_ns_max),
        validate_elements: section.read("validate", validation, errors).unwrap_or(policy.validate_elements),
        exit_on_error: section.read("exit_on_error", boolean, errors).unwrap_or(policy.exit_on_error),
        ..policy
    }
}

/// The limits, and the time of one task, which is part of the measuring policy.
fn limits(root: &Section<'_>, errors: &mut Errors<'_>) -> (Limits, Option<u64>) {
    let section = root.section("limits", &LIMIT_KEYS, errors);
    let device_ns_max = section.read("device_time", duration_ns, errors);
    let devices_per_node = section.read("devices_per_node", whole_within(1, COUNT_MAX), errors);
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
    }
}

fn sweeps(root: &Section<'_>, errors: &mut Errors<'_>) -> Vec<SweepPlan> {
    const EXPECTED: &str = "at least one [[sweep]] section says what to measure";
    let Some(value) = root.value("sweep") else {
        errors.add(root.offset(), "", PlanProblem::Missing { key: "sweep", expected: EXPECTED });
        return Vec::new();
    };
    let Some(items) = value.get_ref().as_array() else {
        root.complain("sweep", wrong_type("[[sweep]] sections, in double brackets", value.get_ref()), errors);
        return Vec::new();
    };
    if items.is_empty() {
        root.complain("sweep", bad_value("[]", EXPECTED), errors);
    }
    let mut sweeps = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let path = format!("sweep[{index}]");
        match item.get_ref().as_table() {
            Some(entries) => {
                let section = Section::new(path, item.span().start, entries, &SWEEP_KEYS, errors);
                sweeps.extend(sweep(&section, errors));
            }
            None => errors.add(item.span().start, path, wrong_type("a table", item.get_ref())),
        }
    }
    sweeps
}

fn sweep(section: &Section<'_>, errors: &mut Errors<'_>) -> Option<SweepPlan> {
    required(section, "family", "the kernels to run, for example \"stream\"", errors)?;
    let family = section.read("family", |value| catalog::family_of(&text(value)?), errors)?;
    let kernels = names(section, "kernels", |name| catalog::kernel_of(family, name), errors)
        .unwrap_or_else(|| family.kernels().iter().map(|kernel| (*kernel).to_owned()).collect());
    let dtypes = names(section, "dtypes", |name| catalog::dtype_of(family, name), errors)
        .unwrap_or_else(|| family.dtypes().to_vec());
    let sizes = sizes(section, errors);
    // All sizes of a range stand at one offset: the first that is wrong says enough.
    let mut complained_at = None;
    for (size, offset) in &sizes {
        if complained_at == Some(*offset) {
            continue;
        }
        if let Some(problem) = size_problem(family, &kernels, &dtypes, *size) {
            errors.add(*offset, section.path_of("elements"), problem.into());
            complained_at = Some(*offset);
        }
    }
    let mut elements: Vec<Size> = sizes.into_iter().map(|(size, _)| size).collect();
    elements.sort_unstable();
    elements.dedup();
    let points_per_task = section.read("points_per_task", whole_within(1, COUNT_MAX), errors);
    Some(SweepPlan { sweep: family.sweep(), kernels, dtypes, elements, points_per_task })
}

/// A list of names without repeats, `None` where the key is absent.
fn names<T: PartialEq>(
    section: &Section<'_>,
    key: &str,
    convert: impl Fn(&str) -> Result<T, PlanProblem>,
    errors: &mut Errors<'_>,
) -> Option<Vec<T>> {
    let list = section.read_list(key, |value| convert(&text(value)?), errors)?;
    if section.value(key).is_some_and(|value| value.get_ref().as_array().is_some_and(|items| items.is_empty())) {
        section.complain(key, bad_value("[]", "leave the key out to mean all of them"), errors);
    }
    let mut names: Vec<T> = Vec::with_capacity(list.len());
    for (name, _) in list {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Some(names)
}

/// The sizes, each with the offset of the text that asks for it.
fn sizes(section: &Section<'_>, errors: &mut Errors<'_>) -> Vec<(Size, usize)> {
    const EXPECTED: &str = "sizes such as \"2^20\", a range, or \"dram\"";
    let sizes = match section.value("elements") {
        None => {
            let problem = PlanProblem::Missing { key: "elements", expected: EXPECTED };
            errors.add(section.offset(), section.path_of("elements"), problem);
            return Vec::new();
        }
        Some(value) if value.get_ref().is_table() => return range(section, errors),
        Some(_) => section.read_list("elements", size, errors).unwrap_or_default(),
    };
    if section.value("elements").is_some_and(|value| value.get_ref().as_array().is_some_and(|items| items.is_empty())) {
        section.complain("elements", bad_value("[]", format!("it must hold {EXPECTED}")), errors);
    }
    sizes
}

/// Sizes from `from` to `to`, each `step` times the one before.
fn range(section: &Section<'_>, errors: &mut Errors<'_>) -> Vec<(Size, usize)> {
    const EXPECTED: &str = "a range is { from = \"2^18\", to = \"2^30\", step = 4 }";
    let range = section.section("elements", &RANGE_KEYS, errors);
    for key in ["from", "to"] {
        if range.value(key).is_none() {
            errors.add(range.offset(), section.path_of("elements"), PlanProblem::Missing { key, expected: EXPECTED });
        }
    }
    let from = range.read("from", fixed_size, errors);
    let to = range.read("to", fixed_size, errors);
    let step = match range.value("step") {
        None => Some(2),
        Some(_) => range.read("step", whole_within(2, COUNT_MAX), errors),
    };
    let (Some(from), Some(to), Some(step)) = (from, to, step) else { return Vec::new() };
    if to < from {
        range.complain("to", bad_value(to, format!("it must be at least `from`, which is {from}")), errors);
        return Vec::new();
    }
    let offset = range.offset_of("from");
    // A size of 0 never grows: it is kept once, for the family to refuse.
    let grow = |size: &u64| size.checked_mul(step).filter(|next| next > size && *next <= to);
    std::iter::successors(Some(from), grow).map(|size| (Size::Elements(size), offset)).collect()
}

/// What is wrong with a size, for any of the kernels and number formats. A size that depends on the device is a power
/// of two of at least 2^20 elements, which every family takes.
fn size_problem(family: &dyn Family, kernels: &[String], dtypes: &[Dtype], size: Size) -> Option<PointError> {
    let Size::Elements(elements) = size else { return None };
    let points = kernels.iter().flat_map(|kernel| dtypes.iter().map(move |dtype| (kernel, *dtype)));
    let mut problems = points.filter_map(|(kernel, dtype)| {
        let sizes = [("elements".to_owned(), elements)].into();
        family.check(&Point { sweep: family.sweep(), kernel: kernel.clone(), dtype, sizes }).err()
    });
    problems.next()
}
