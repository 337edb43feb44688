//! A measuring policy and fit options as a plan would say it: what people are shown reads back as what it was.

use fleetcal_model::fit;
use fleetcal_model::policy::MeasuringPolicy;

/// Nanoseconds of the units that durations are written in, largest first.
const UNITS: [(&str, u64); 5] =
    [("h", 3_600_000_000_000), ("min", 60_000_000_000), ("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)];

/// Every key of `[measure]` that is in force, with its value in TOML, defaults included. The time of one task stands in
/// `[limits]`.
pub fn measure_keys(policy: &MeasuringPolicy) -> Vec<(&'static str, String)> {
    // Every field by its name, so that a new one cannot be forgotten here.
    let MeasuringPolicy {
        rounds,
        rounds_max,
        interval_target,
        warmups,
        samples_min,
        samples_max,
        stop,
        noise_target,
        visit_ns_max,
        caches,
        batching,
        solutions,
        screening_samples,
        finalists,
        data,
        validate_elements,
        bounds,
        exit_on_error,
        load,
        load_ns,
        monitor,
        settle_ns_max,
        task_ns_max: _,
    } = policy;
    let mut keys = vec![
        ("rounds", rounds.to_string()),
        ("rounds_max", rounds_max.to_string()),
        ("interval_target", percent(*interval_target)),
        ("warmups", warmups.to_string()),
        ("samples_min", samples_min.to_string()),
        ("samples_max", samples_max.to_string()),
        ("stop", quoted(stop.name())),
        ("noise_target", percent(*noise_target)),
        ("visit_limit", duration(*visit_ns_max)),
        ("caches", quoted(caches.name())),
        ("batching", quoted(batching.name())),
        ("solutions", quoted(solutions.name())),
        ("screening_samples", screening_samples.to_string()),
        ("finalists", finalists.to_string()),
        ("data", quoted(data.name())),
        ("validate", validation(*validate_elements)),
        ("bounds", quoted(bounds.name())),
        ("exit_on_error", exit_on_error.to_string()),
        ("monitor", monitor.to_string()),
        ("settle_limit", if *settle_ns_max == 0 { quoted("none") } else { duration(*settle_ns_max) }),
    ];
    if let Some(load) = load {
        keys.extend([("load", quoted(load.name())), ("load_time", duration(*load_ns))]);
    }
    keys
}

/// Every key of `[fit]` that is in force, with its value in TOML, defaults included.
pub fn fit_keys(options: &fit::Options) -> Vec<(&'static str, String)> {
    let fit::Options { footprint_factor, sizes_min, mode } = options;
    vec![
        ("footprint_factor", footprint_factor.to_string()),
        ("sizes_min", sizes_min.to_string()),
        ("mode", quoted(mode.name())),
    ]
}

fn quoted(text: &str) -> String {
    format!("\"{text}\"")
}

fn percent(fraction: f64) -> String {
    // A hundredth of a hundredth has no short binary form: digits beyond the twelfth are noise of the conversion.
    let digits = format!("{:.12}", fraction * 100.0);
    quoted(&format!("{}%", digits.trim_end_matches('0').trim_end_matches('.')))
}

fn duration(ns: u64) -> String {
    quoted(&plain_duration(ns))
}

/// A duration as plans write it, without quotes.
pub(super) fn plain_duration(ns: u64) -> String {
    let whole = UNITS.into_iter().find(|(_, unit_ns)| ns > 0 && ns.is_multiple_of(*unit_ns));
    whole.map_or_else(|| format!("{ns}ns"), |(unit, unit_ns)| format!("{}{unit}", ns / unit_ns))
}

fn validation(elements: i64) -> String {
    match elements {
        0 => quoted("none"),
        1.. => elements.to_string(),
        _ => quoted("all"),
    }
}

#[cfg(test)]
mod tests {
    use fleetcal_model::policy::{Caches, Load, MeasuringPolicy};

    use super::*;
    use crate::plan::{Plan, builtin, builtin_names};

    fn read_back(policy: &MeasuringPolicy) -> MeasuringPolicy {
        let lines: Vec<String> = measure_keys(policy).iter().map(|(key, value)| format!("{key} = {value}")).collect();
        let sweep = "[[sweep]]\nfamily = \"stream\"\nelements = \"2^20\"\n";
        let task_ns = policy.task_ns_max;
        let text =
            format!("name = \"a\"\n[measure]\n{}\n[limits]\ntask_time = \"{task_ns}ns\"\n{sweep}", lines.join("\n"));
        Plan::parse(&text).unwrap_or_else(|errors| panic!("what is shown is no plan: {errors}\n{text}")).measure
    }

    #[test]
    fn fit_options_are_shown_as_a_plan_that_says_the_same() {
        for mode in fit::Mode::ALL {
            let options = fit::Options { footprint_factor: 7, sizes_min: 4, mode: *mode };
            let lines: Vec<String> = fit_keys(&options).iter().map(|(key, value)| format!("{key} = {value}")).collect();
            let sweep = "[[sweep]]\nfamily = \"stream\"\nelements = \"2^20\"\n";
            let text = format!("name = \"a\"\n[fit]\n{}\n{sweep}", lines.join("\n"));
            let plan = Plan::parse(&text).unwrap_or_else(|errors| panic!("what is shown is no plan: {errors}\n{text}"));
            assert_eq!(plan.fit, options);
        }
    }

    #[test]
    fn a_policy_is_shown_as_a_plan_that_says_the_same() {
        let default = MeasuringPolicy::default();
        let odd = MeasuringPolicy {
            noise_target: 0.001_234,
            interval_target: 0.999,
            validate_elements: -1,
            visit_ns_max: 1_500_001,
            settle_ns_max: 0,
            caches: Caches::Cold,
            load: Some(Load::Sustained),
            load_ns: 90_000_000_000,
            monitor: false,
            ..default.clone()
        };
        let built_in = builtin_names().filter_map(builtin).map(|text| Plan::parse(text).expect("a plan").measure);
        for policy in [default, odd].into_iter().chain(built_in) {
            assert_eq!(read_back(&policy), policy);
        }
    }
}
