//! Points that no instrument should give, in every fit that takes points: an answer of finite numbers, or a reason.

use std::cell::Cell;
use std::fmt::Debug;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestRunner;

use crate::fit::devices::{self, OutlierRule, Outliers, effects, outliers};
use crate::fit::line::fit_line;
use crate::fit::regime::{RegimeRule, find};
use crate::fit::{capacity, fill, humps, interval};
use crate::row::LaunchContext;
use crate::seed;
use crate::seed::capacity::WorkingSetPoint;
use crate::seed::envelope::EnvelopeRow;
use crate::seed::fill::{FillForm, FillModel, LaunchPoint, default_candidates};
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

/// Runs `answers` on so many inputs, which says of each fit whether it answered numbers. A fit that refused all of them was
/// not tested.
fn reach<S: Strategy, const N: usize>(strategy: S, answers: impl Fn(S::Value) -> [bool; N]) {
    let reached = Cell::new([0_u32; N]);
    let result = TestRunner::new(ProptestConfig::with_cases(512)).run(&strategy, |given| {
        let mut counts = reached.get();
        counts.iter_mut().zip(answers(given)).for_each(|(count, is_answer)| *count += u32::from(is_answer));
        reached.set(counts);
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    assert!(reached.get().iter().all(|count| *count >= 5), "of 512 inputs so many reach each fit: {:?}", reached.get());
}

/// Points of a line, within a percent; a few that are not.
fn about_a_line() -> impl Strategy<Value = Vec<(f64, f64)>> {
    let on = (1.0..1e3_f64, 0.99..1.01_f64).prop_map(|(x, noise)| (x, (5.0 + x) * noise));
    points(prop_oneof![15 => on, 1 => (seconds(), seconds())])
}

#[test]
fn lines_and_regimes() {
    reach(prop_oneof![points((seconds(), seconds())), about_a_line()], |given| {
        let (line, regime) = (fit_line(&given), find(&given, RegimeRule::default()));
        assert!(line.as_ref().is_ok_and(is_sound) || line.is_err(), "{line:?}");
        assert!(regime.as_ref().is_ok_and(|regime| is_sound(&regime.line)) || regime.is_err(), "{regime:?}");
        [line.is_ok(), regime.is_ok()]
    });
}

#[test]
fn capacities() {
    reach((points((count(), count(), seconds())), prop::option::of(seconds())), |(given, dram)| {
        let point = |(set, requested, seconds)| WorkingSetPoint {
            working_set: Bytes(set),
            requested: Bytes(requested),
            time: Seconds(seconds),
        };
        let given: Vec<_> = given.into_iter().map(point).collect();
        let original = seed::capacity::fit(&given, dram.map(BytesPerSecond));
        assert!(is_sound(&original), "{original:?}");
        let robust = capacity::fit(&given, dram.map(BytesPerSecond));
        if let Ok(robust) = &robust {
            assert!(is_sound(robust), "{robust:?}");
            let merged = capacity::merge(&[robust.bracket, robust.bracket]);
            assert!(merged.consistent || !robust.monotone, "{robust:?} {merged:?}");
        }
        let has_ends = robust.is_ok_and(|robust| robust.bracket.center().is_some());
        [matches!(original, seed::capacity::CapacityFit::Transition { .. }), has_ends]
    });
}

#[test]
fn issue_rates() {
    let point = (count(), seconds(), prop::collection::vec(context(), 0..3));
    reach((points(point), prop::option::of((count(), count()))), |(given, fill)| {
        let point = |(scalar_ops, seconds, contexts)| IssuePoint { scalar_ops, time: Seconds(seconds), contexts };
        let given: Vec<_> = given.into_iter().map(point).collect();
        let model = fill.map(|(multiprocessors, fill_threads)| FillModel { multiprocessors, fill_threads });
        let fit = seed::issue::fit(&given, model);
        assert!(fit.as_ref().is_ok_and(is_sound) || fit.is_err(), "{fit:?}");
        [fit.is_ok()]
    });
}

/// Launches of a device that follows the form, within a percent.
fn orderly_launches() -> impl Strategy<Value = (Vec<LaunchPoint>, u64)> {
    let point = (any::<bool>(), 0..12_u32, 0.99..1.01_f64);
    (prop::collection::vec(point, 4..20), 1..200_u64, 1..40_u64).prop_map(|(given, multiprocessors, filling)| {
        let model = FillModel { multiprocessors, fill_threads: 32 * filling };
        let point = |(is_wide, power, noise): (bool, u32, f64)| {
            let threads = if is_wide { 256 } else { 64 };
            let contexts = vec![LaunchContext { blocks: 1 << power, threads, operations: 1 << 31 }];
            let seconds = model.effective_ops(FillForm::Capped, &contexts) * 1e-12 * noise;
            LaunchPoint { geometry: threads.to_string(), contexts, tensor_ops: 0, time: Seconds(seconds) }
        };
        (given.into_iter().map(point).collect(), multiprocessors)
    })
}

#[test]
fn fills() {
    reach(prop_oneof![(launches(), count()), orderly_launches()], |(given, multiprocessors)| {
        let original = seed::fill::fit(&given, multiprocessors, &default_candidates(), seed::fill::STARVED);
        assert!(original.as_ref().is_ok_and(is_sound) || original.is_err(), "{original:?}");
        let robust = fill::fit(&given, multiprocessors, &default_candidates(), fill::FillRule::default());
        if let Ok(set) = &robust {
            assert!(is_sound(set) && set.fill_threads.contains(&set.best.model.fill_threads), "{set:?}");
        }
        [original.is_ok(), robust.is_ok()]
    });
}

#[test]
fn envelopes() {
    let row = (seconds(), prop::option::of(seconds()), count(), (count(), count()), any::<[bool; 3]>());
    reach(points(row), |given| {
        let row = |(time, bound, kernels, (flops, bytes), flags): (f64, Option<f64>, u64, (u64, u64), [bool; 3])| {
            let [flops_exact, bytes_exact, opaque] = flags;
            let (label, time, bound) = (String::new(), Seconds(time), bound.map(Seconds));
            EnvelopeRow { label, time, bound, kernels, flops, bytes, flops_exact, bytes_exact, opaque }
        };
        let envelope = seed::envelope::fit(&given.into_iter().map(row).collect::<Vec<_>>());
        assert!(is_sound(&envelope), "{envelope:?}");
        [envelope.compute.is_some(), envelope.memory.is_some()]
    });
}

#[test]
fn designs() {
    reach(points((0..4_usize, 0..4_usize, seconds())), |given| {
        let cell = |(device, point, value)| devices::Cell { device, point, logarithm: libm::log(value) };
        let found = effects(&given.into_iter().map(cell).collect::<Vec<_>>());
        assert!(found.as_ref().is_ok_and(is_sound) || found.is_err(), "{found:?}");
        [found.is_ok()]
    });
}

#[test]
fn numbers() {
    reach(prop::collection::vec(seconds(), 0..40), |values| {
        let all = [log_t_interval(&values), t_interval(&values), median_interval(&values)];
        assert!(is_sound(&all), "{all:?}");
        let estimate = values.first().copied().unwrap_or(1.0);
        let spreads = [interval::Domain::Positive, interval::Domain::Real]
            .map(|domain| interval::of(&values, estimate, interval::Replicate::Device, domain));
        assert!(is_sound(&spreads), "{spreads:?}");
        let logarithm = |value: &f64| Some(libm::log(*value)).filter(|logarithm| logarithm.is_finite());
        let effects: Vec<Option<f64>> = values.iter().map(logarithm).collect();
        let apart = outliers(&effects, OutlierRule::default());
        let groups = humps::find(&effects, humps::HumpRule::default());
        assert!(is_sound(&apart) && is_sound(&groups), "{apart:?} {groups:?}");
        let judged = matches!(groups, humps::Humps::One { .. } | humps::Humps::Two { .. });
        [spreads[0].interval.is_some(), all[2].is_some(), matches!(apart, Outliers::Found(_)), judged]
    });
}
