//! The `[[sweep]]` sections: what is measured.

use fleetcal_kernels::{Family, PointError};
use fleetcal_model::point::{Dtype, Point};

use super::{COUNT_MAX, required};
use crate::plan::error::{Errors, PlanProblem};
use crate::plan::quantity::{Size, fixed_size, size, text, whole_within};
use crate::plan::reader::{Section, bad_value, wrong_type};
use crate::plan::{SweepPlan, catalog};

const SWEEP_KEYS: [&str; 5] = ["family", "kernels", "dtypes", "elements", "points_per_task"];
const RANGE_KEYS: [&str; 3] = ["from", "to", "step"];

pub(super) fn sweeps(root: &Section<'_>, errors: &mut Errors<'_>) -> Vec<SweepPlan> {
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
    required(section, "family", "the kernels to run, for example \"stream\"", text, errors)?;
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
