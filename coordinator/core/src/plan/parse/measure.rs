//! The `[measure]` section: how points are measured.

use fleetcal_model::policy::{
    Batching, BoundsCheck, Caches, DataPattern, Load, MeasuringPolicy, SolutionChoice, StopCriterion, VISIT_SAMPLES_MAX,
};

use super::COUNT_MAX;
use crate::plan::error::Errors;
use crate::plan::quantity::{boolean, duration_ns, duration_or_none_ns, member, percent, validation, whole_within};
use crate::plan::reader::{Section, bad_value};
use crate::plan::write::plain_duration;

const KEYS: [&str; 22] = [
    "rounds",
    "rounds_max",
    "interval_target",
    "warmups",
    "samples_min",
    "samples_max",
    "stop",
    "noise_target",
    "visit_limit",
    "caches",
    "batching",
    "solutions",
    "screening_samples",
    "finalists",
    "data",
    "validate",
    "bounds",
    "exit_on_error",
    "load",
    "load_time",
    "monitor",
    "settle_limit",
];

/// A few finalists are enough: further down, solutions differ by more than screening errs, and each finalist costs a visit
/// in every round.
const FINALISTS_MAX: u64 = 16;

/// Reads the section; its time of one task stands among the limits, and is the default's here.
pub(super) fn measure(root: &Section<'_>, errors: &mut Errors<'_>) -> MeasuringPolicy {
    let section = root.section("measure", &KEYS, errors);
    let policy = effort(&section, MeasuringPolicy::default(), errors);
    let policy = care(&section, policy, errors);
    load(&section, policy, errors)
}

/// How much is measured, and when it is enough.
fn effort(section: &Section<'_>, default: MeasuringPolicy, errors: &mut Errors<'_>) -> MeasuringPolicy {
    let mut count =
        |key: &str, high: u64, default: u64| section.read(key, whole_within(1, high), errors).unwrap_or(default);
    let rounds = count("rounds", COUNT_MAX, default.rounds);
    let policy = MeasuringPolicy {
        rounds,
        // A plan that only asks for more rounds than the default's most has asked for enough.
        rounds_max: count("rounds_max", COUNT_MAX, default.rounds_max.max(rounds)),
        warmups: count("warmups", COUNT_MAX, default.warmups),
        samples_min: count("samples_min", VISIT_SAMPLES_MAX, default.samples_min),
        samples_max: count("samples_max", VISIT_SAMPLES_MAX, default.samples_max),
        screening_samples: count("screening_samples", VISIT_SAMPLES_MAX, default.screening_samples),
        finalists: count("finalists", FINALISTS_MAX, default.finalists),
        ..default
    };
    at_least(section, ("samples_max", policy.samples_max), ("samples_min", policy.samples_min), errors);
    at_least(section, ("rounds_max", policy.rounds_max), ("rounds", policy.rounds), errors);
    MeasuringPolicy {
        interval_target: section.read("interval_target", percent, errors).unwrap_or(policy.interval_target),
        stop: section.read("stop", member(StopCriterion::ALL, "stop criterion"), errors).unwrap_or(policy.stop),
        noise_target: section.read("noise_target", percent, errors).unwrap_or(policy.noise_target),
        visit_ns_max: section.read("visit_limit", duration_ns, errors).unwrap_or(policy.visit_ns_max),
        caches: section.read("caches", member(Caches::ALL, "cache state"), errors).unwrap_or(policy.caches),
        batching: section.read("batching", member(Batching::ALL, "batching"), errors).unwrap_or(policy.batching),
        ..policy
    }
}

/// What is measured of a point, on which data, and how it is checked.
fn care(section: &Section<'_>, policy: MeasuringPolicy, errors: &mut Errors<'_>) -> MeasuringPolicy {
    let solutions = section.read("solutions", member(SolutionChoice::ALL, "solution choice"), errors);
    MeasuringPolicy {
        solutions: solutions.unwrap_or(policy.solutions),
        data: section.read("data", member(DataPattern::ALL, "data pattern"), errors).unwrap_or(policy.data),
        validate_elements: section.read("validate", validation, errors).unwrap_or(policy.validate_elements),
        bounds: section.read("bounds", member(BoundsCheck::ALL, "bounds check"), errors).unwrap_or(policy.bounds),
        exit_on_error: section.read("exit_on_error", boolean, errors).unwrap_or(policy.exit_on_error),
        ..policy
    }
}

/// The state of the device meanwhile, and who looks at it.
fn load(section: &Section<'_>, policy: MeasuringPolicy, errors: &mut Errors<'_>) -> MeasuringPolicy {
    let load = section.read("load", member(Load::ALL, "load"), errors);
    let load_ns = section.read("load_time", duration_ns, errors);
    if let (None, Some(load_ns)) = (section.value("load"), load_ns) {
        let expected = "it belongs to a load: add load = \"burst\" or load = \"sustained\"";
        section.complain("load_time", bad_value(plain_duration(load_ns), expected), errors);
    }
    MeasuringPolicy {
        load: load.or(policy.load),
        load_ns: load_ns.unwrap_or(policy.load_ns),
        monitor: section.read("monitor", boolean, errors).unwrap_or(policy.monitor),
        settle_ns_max: section.read("settle_limit", duration_or_none_ns, errors).unwrap_or(policy.settle_ns_max),
        ..policy
    }
}

/// Complains where the first of two counts is below the second, at the one that the text holds.
fn at_least(section: &Section<'_>, most: (&str, u64), least: (&str, u64), errors: &mut Errors<'_>) {
    if most.1 < least.1 {
        let key = if section.value(most.0).is_some() { most.0 } else { least.0 };
        let expected = format!("{} must be at least {}, which is {}", most.0, least.0, least.1);
        section.complain(key, bad_value(most.1, expected), errors);
    }
}
