//! Points that no instrument should give, in every fit that takes points: an answer of finite numbers, or a reason.

use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::select;

use crate::fit::devices::{Cell, OutlierRule, effects, outliers};
use crate::fit::line::fit_line;
use crate::fit::regime::{RegimeRule, find};
use crate::fit::{capacity, fill, humps, interval};
use crate::row::LaunchContext;
use crate::seed;
use crate::seed::capacity::WorkingSetPoint;
use crate::seed::envelope::EnvelopeRow;
use crate::seed::fill::{FillModel, LaunchPoint, default_candidates};
use crate::seed::issue::IssuePoint;
use crate::statistics::{log_t_interval, median_interval, t_interval};
use crate::units::{Bytes, BytesPerSecond, Seconds};

/// Times: plausible ones, equal ones, those of a range of 1e9, and what is no time.
fn seconds() -> impl Strategy<Value = f64> {
    let odd =
        [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MIN_POSITIVE, 5e-324, f64::MAX, 1e-300, 1e300];
    prop_oneof![4 => 1e-6..1e3_f64, 2 => Just(1e-3), 2 => select(vec![1e-6, 1e3]), 1 => select(odd.to_vec()), 1 => any::<f64>()]
}

/// Counts: plausible ones, none, and those at the end of the numbers.
fn count() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 1..1_u64 << 40, 1 => Just(0), 1 => Just(1), 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn context() -> impl Strategy<Value = LaunchContext> {
    (count(), count(), count()).prop_map(|(blocks, threads, operations)| LaunchContext { blocks, threads, operations })
}

fn points<T: Debug>(point: impl Strategy<Value = T>) -> impl Strategy<Value = Vec<T>> {
    prop::collection::vec(point, 0..14)
}

/// Whether every number of an answer is one: `Debug` writes all of them.
fn is_sound(answer: &impl Debug) -> bool {
    let text = format!("{answer:?}");
    !text.contains("NaN") && !text.contains("inf")
}

fn launches() -> impl Strategy<Value = Vec<LaunchPoint>> {
    let point = (select(vec!["a", "b"]), prop::collection::vec(context(), 0..3), 0..8_u64, seconds());
    points(point.prop_map(|(geometry, contexts, tensor, seconds)| LaunchPoint {
        geometry: geometry.to_owned(),
        contexts,
        tensor_ops: u64::from(tensor == 7),
        time: Seconds(seconds),
    }))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn lines_and_regimes(given in points((seconds(), seconds()))) {
        if let Ok(line) = fit_line(&given) {
            prop_assert!(is_sound(&line), "{line:?}");
        }
        if let Ok(regime) = find(&given, RegimeRule::default()) {
            prop_assert!(is_sound(&regime.line), "{regime:?}");
        }
    }

    #[test]
    fn capacities(given in points((count(), count(), seconds())), dram in prop::option::of(seconds())) {
        let point = |&(set, requested, seconds): &(u64, u64, f64)| WorkingSetPoint {
            working_set: Bytes(set), requested: Bytes(requested), time: Seconds(seconds),
        };
        let given: Vec<_> = given.iter().map(point).collect();
        let original = seed::capacity::fit(&given, dram.map(BytesPerSecond));
        prop_assert!(is_sound(&original), "{original:?}");
        if let Ok(robust) = capacity::fit(&given, dram.map(BytesPerSecond)) {
            prop_assert!(is_sound(&robust), "{robust:?}");
            let merged = capacity::merge(&[robust.bracket, robust.bracket]);
            prop_assert!(merged.consistent || !robust.monotone, "{robust:?} {merged:?}");
        }
    }

    #[test]
    fn issue_rates(
        given in points((count(), seconds(), prop::collection::vec(context(), 0..3))),
        fill in prop::option::of((count(), count())),
    ) {
        let given: Vec<_> = given.into_iter()
            .map(|(scalar_ops, seconds, contexts)| IssuePoint { scalar_ops, time: Seconds(seconds), contexts })
            .collect();
        let model = fill.map(|(multiprocessors, fill_threads)| FillModel { multiprocessors, fill_threads });
        if let Ok(fit) = seed::issue::fit(&given, model) {
            prop_assert!(is_sound(&fit), "{fit:?}");
        }
    }

    #[test]
    fn fills(given in launches(), multiprocessors in count()) {
        if let Ok(fit) = seed::fill::fit(&given, multiprocessors, &default_candidates(), seed::fill::STARVED) {
            prop_assert!(is_sound(&fit), "{fit:?}");
        }
        if let Ok(set) = fill::fit(&given, multiprocessors, &default_candidates(), fill::FillRule::default()) {
            prop_assert!(is_sound(&set), "{set:?}");
            prop_assert!(set.fill_threads.contains(&set.best.model.fill_threads), "{set:?}");
        }
    }

    #[test]
    fn envelopes(given in points((seconds(), prop::option::of(seconds()), count(), (count(), count()), any::<[bool; 3]>()))) {
        let row = |(time, bound, kernels, (flops, bytes), flags): (f64, Option<f64>, u64, (u64, u64), [bool; 3])| {
            let [flops_exact, bytes_exact, opaque] = flags;
            EnvelopeRow {
                label: String::new(), time: Seconds(time), bound: bound.map(Seconds), kernels, flops, bytes, flops_exact,
                bytes_exact, opaque,
            }
        };
        let envelope = seed::envelope::fit(&given.into_iter().map(row).collect::<Vec<_>>());
        prop_assert!(is_sound(&envelope), "{envelope:?}");
    }

    #[test]
    fn designs(given in points((0..4_usize, 0..4_usize, seconds()))) {
        let cell = |(device, point, value)| Cell { device, point, logarithm: libm::log(value) };
        if let Ok(found) = effects(&given.into_iter().map(cell).collect::<Vec<_>>()) {
            prop_assert!(is_sound(&found), "{found:?}");
        }
    }

    #[test]
    fn numbers(values in prop::collection::vec(seconds(), 0..40)) {
        let all = [log_t_interval(&values), t_interval(&values), median_interval(&values)];
        prop_assert!(is_sound(&all), "{all:?}");
        for domain in [interval::Domain::Positive, interval::Domain::Real] {
            let spread = interval::of(&values, values.first().copied().unwrap_or(1.0), interval::Replicate::Device, domain);
            prop_assert!(is_sound(&spread), "{spread:?}");
        }
        let effects: Vec<Option<f64>> =
            values.iter().map(|value| Some(libm::log(*value)).filter(|logarithm| logarithm.is_finite())).collect();
        let (apart, groups) = (outliers(&effects, OutlierRule::default()), humps::find(&effects, humps::HumpRule::default()));
        prop_assert!(is_sound(&apart) && is_sound(&groups), "{apart:?} {groups:?}");
    }
}
