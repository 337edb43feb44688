//! The `[[sweep]]` sections: what is measured.

use fleetcal_kernels::{Family, PointError, SizeSpec, family as family_of_sweep};
use fleetcal_model::point::{Dtype, Point, Sweep};
use toml::de::DeTable;

use super::{COUNT_MAX, required};
use crate::plan::error::{Errors, PlanProblem};
use crate::plan::quantity::{Size, fixed_size, size, text, whole_within};
use crate::plan::reader::{Section, bad_value, wrong_type};
use crate::plan::{SweepPlan, catalog};

/// Keys of every sweep; the names of its family's sizes come in between.
const SWEEP_KEYS: [&str; 3] = ["family", "kernels", "dtypes"];
const LAST_KEY: &str = "points_per_task";
/// The size that may be as large as main memory needs it.
const ELEMENTS: &str = "elements";
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
                let section = Section::new(path, item.span().start, entries, &known_keys(entries), errors);
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
    let named = !kernels.is_empty() && !dtypes.is_empty();
    if named && kernels.iter().all(|kernel| dtypes.iter().all(|dtype| !family.supports(kernel, *dtype))) {
        let combination = format!("{} in {}", kernels.join(", "), joined_names(&dtypes));
        section.complain(
            "kernels",
            bad_value(combination, "the family has none of these kernels in these formats"),
            errors,
        );
    }
    let given: Vec<(&'static str, Vec<(Size, usize)>)> = family
        .sizes()
        .iter()
        .filter_map(|spec| Some((spec.name, sizes(section, (family, &kernels), spec, errors)?)))
        .collect();
    check_sizes(section, family, (&kernels, &dtypes), &given, errors);
    let distinct = |(name, sizes): (&'static str, Vec<(Size, usize)>)| {
        let mut sizes: Vec<Size> = sizes.into_iter().map(|(size, _)| size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        (name, sizes)
    };
    let sizes = given.into_iter().map(distinct).collect();
    let points_per_task = section.read(LAST_KEY, whole_within(1, COUNT_MAX), errors);
    Some(SweepPlan { sweep: family.sweep(), kernels, dtypes, sizes, points_per_task })
}

/// The keys that a sweep of this family may have; of an unknown family, those that any may have.
fn known_keys(entries: &DeTable<'_>) -> Vec<&'static str> {
    let name = entries.get("family").and_then(|value| value.get_ref().as_str());
    let named = name.and_then(|name| catalog::family_of(name).ok());
    let families = Sweep::ALL.iter().filter_map(|sweep| family_of_sweep(*sweep));
    let mut keys = SWEEP_KEYS.to_vec();
    for family in families.filter(|family| named.is_none_or(|named| named.sweep() == family.sweep())) {
        for size in family.sizes().iter().filter(|size| !keys.contains(&size.name)).collect::<Vec<_>>() {
            keys.push(size.name);
        }
    }
    keys.push(LAST_KEY);
    keys
}

fn joined_names(dtypes: &[Dtype]) -> String {
    dtypes.iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ")
}

/// Complains of every size that the family refuses.
fn check_sizes(
    section: &Section<'_>,
    family: &dyn Family,
    of: (&[String], &[Dtype]),
    given: &[(&'static str, Vec<(Size, usize)>)],
    errors: &mut Errors<'_>,
) {
    for (name, sizes) in given {
        // All sizes of a range stand at one offset: the first that is wrong says enough.
        let mut complained_at = None;
        for (size, offset) in sizes {
            if complained_at == Some(*offset) {
                continue;
            }
            if let Some(problem) = size_problem(family, of, given, (name, *size)) {
                errors.add(*offset, section.path_of(name), problem.into());
                complained_at = Some(*offset);
            }
        }
    }
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

/// The values of one size, each with the offset of the text that asks for it; none where the family derives them.
fn sizes(
    section: &Section<'_>,
    (family, kernels): (&dyn Family, &[String]),
    spec: &SizeSpec,
    errors: &mut Errors<'_>,
) -> Option<Vec<(Size, usize)>> {
    const EXPECTED: &str = "sizes such as \"2^20\", a range, or \"dram\"";
    let name = spec.name;
    let Some(value) = section.value(name) else {
        if !spec.defaults.is_empty() {
            let values = family.default_values(kernels, spec);
            return Some(values.iter().map(|size| (Size::Elements(*size), section.offset())).collect());
        }
        if !spec.optional {
            let problem = PlanProblem::Missing { key: name, expected: EXPECTED };
            errors.add(section.offset(), section.path_of(name), problem);
        }
        return None;
    };
    if value.get_ref().is_table() {
        return Some(range(section, name, errors));
    }
    if value.get_ref().as_array().is_some_and(|items| items.is_empty()) {
        section.complain(name, bad_value("[]", format!("it must hold {EXPECTED}")), errors);
    }
    // Only a number of elements can be as many as main memory needs.
    let convert = |value: &_| if name == ELEMENTS { size(value) } else { fixed_size(value).map(Size::Elements) };
    section.read_list(name, convert, errors)
}

/// Sizes from `from` to `to`, each `step` times the one before.
fn range(section: &Section<'_>, name: &'static str, errors: &mut Errors<'_>) -> Vec<(Size, usize)> {
    const EXPECTED: &str = "a range is { from = \"2^18\", to = \"2^30\", step = 4 }";
    let range = section.section(name, &RANGE_KEYS, errors);
    for key in ["from", "to"] {
        if range.value(key).is_none() {
            errors.add(range.offset(), section.path_of(name), PlanProblem::Missing { key, expected: EXPECTED });
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

/// What is wrong with a value of a size, for any of the kernels and number formats, with the first value of every other
/// size. A size that depends on the device is a power of two of at least 2^20 elements, which every family takes.
fn size_problem(
    family: &dyn Family,
    (kernels, dtypes): (&[String], &[Dtype]),
    given: &[(&'static str, Vec<(Size, usize)>)],
    (name, size): (&str, Size),
) -> Option<PointError> {
    let Size::Elements(value) = size else { return None };
    let first = |sizes: &[(Size, usize)]| match sizes.first() {
        Some((Size::Elements(size), _)) => *size,
        Some((Size::Dram, _)) | None => catalog::DRAM_ELEMENTS_MIN,
    };
    let all =
        given.iter().map(|(other, sizes)| ((*other).to_owned(), if *other == name { value } else { first(sizes) }));
    let sizes = family.complete(all.collect());
    let points = kernels.iter().flat_map(|kernel| dtypes.iter().map(move |dtype| (kernel, *dtype)));
    let mut problems =
        points.filter(|(kernel, dtype)| family.supports(kernel, *dtype)).filter_map(|(kernel, dtype)| {
            family.check(&Point { sweep: family.sweep(), kernel: kernel.clone(), dtype, sizes: sizes.clone() }).err()
        });
    // Another size's fault is told where that stands.
    problems.find(|problem| !matches!(problem, PointError::BadSize { size, .. } if size != name))
}
