use proptest::prelude::*;

use super::*;
use crate::fit::pool::Pool;
use crate::id::ClassId;
use crate::machine::{Machine, Request};
use crate::row::{Origin, Role, Row, Status};
use crate::testing::{Random, RowSpec};
use crate::units::BytesPerSecond;

fn point(problem: &str, candidate: &str, predicted_s: f64, measured_s: f64) -> Point {
    Point {
        shape: "shape".to_owned(),
        problem: problem.to_owned(),
        candidate: candidate.to_owned(),
        predicted: Seconds(predicted_s),
        measured: Seconds(measured_s),
    }
}

#[test]
fn errors_are_relative_to_what_was_measured() {
    let points: Vec<Point> =
        (1..=20_u32).map(|index| point("p", &format!("{index:02}"), 1.0 + f64::from(index) / 100.0, 1.0)).collect();
    let Errors::Known { points, median, percentile_90, worst, worst_point, bias } =
        Evaluation::of(&points).overall.errors
    else {
        panic!("20 points are enough")
    };
    let rounded = [median, percentile_90, worst, bias].map(|error| (error * 1e6).round() / 1e6);
    assert_eq!((points, rounded, worst_point.as_str()), (20, [0.105, 0.18, 0.2, 0.105], "p 20"));
    let fast = [point("p", "a", 0.5, 1.0), point("p", "b", 0.9, 1.0), point("p", "c", 0.6, 1.0)];
    assert!(matches!(Evaluation::of(&fast).overall.errors, Errors::Known { bias, .. } if (bias + 0.4).abs() < 1e-12));
}

#[test]
fn fewer_than_three_points_have_no_figures() {
    for count in 0..3_u64 {
        let points: Vec<Point> = (0..count).map(|index| point("p", &index.to_string(), 1.0, 2.0)).collect();
        let Accuracy { errors, rank_correlation, .. } = Evaluation::of(&points).overall;
        assert_eq!(errors, Errors::TooFewPoints { points: count });
        assert_eq!(rank_correlation, RankCorrelation::TooFewPoints { points: count });
    }
    assert_eq!(Evaluation::of(&[]).overall.regret, Regret::NoChoice { problems: 0 });
}

#[test]
fn rank_correlations_are_those_of_the_definitions() {
    let ranked = |pairs: &[(f64, f64)]| match correlate(pairs) {
        RankCorrelation::Ranked { spearman, kendall, tied_predicted, tied_measured } => {
            let rounded = |value: f64| (value * 1e6).round() / 1e6;
            (rounded(spearman), rounded(kendall), tied_predicted, tied_measured)
        }
        other @ (RankCorrelation::TooFewPoints { .. } | RankCorrelation::AllTied { .. }) => panic!("{other:?}"),
    };
    assert_eq!(ranked(&[(1.0, 10.0), (2.0, 20.0), (3.0, 90.0)]), (1.0, 1.0, 0, 0));
    assert_eq!(ranked(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]), (-1.0, -1.0, 0, 0));
    // d² sums to 4 of 4 points: 1 − 6·4 / 60; five pairs of six agree less one.
    assert_eq!(ranked(&[(1.0, 1.0), (2.0, 4.0), (3.0, 2.0), (4.0, 3.0)]).1, 0.333333);
    // Ranks 1, 2.5, 2.5, 4 against 1, 4, 2.5, 2.5; of 6 pairs 3 agree, 1 disagrees, one is tied on each side.
    let tied = [(1.0, 1.0), (2.0, 4.0), (2.0, 2.0), (4.0, 2.0)];
    assert_eq!(ranked(&tied), (0.5, 0.4, 1, 1));
    for (side, pairs) in [(Side::Predicted, [(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), (Side::Measured, [(1.0, 5.0); 3])] {
        let pairs = if side == Side::Measured { [(1.0, 5.0), (2.0, 5.0), (3.0, 5.0)] } else { pairs };
        assert_eq!(correlate(&pairs), RankCorrelation::AllTied { side });
    }
}

#[test]
fn regret_is_what_the_predicted_best_costs_and_counts_the_worst_of_a_tie() {
    let points = [
        point("right", "a", 1.0, 1.0),
        point("right", "b", 2.0, 3.0),
        point("wrong", "a", 1.0, 1.5),
        point("wrong", "b", 1.1, 1.0),
        point("tie", "a", 1.0, 1.0),
        point("tie", "b", 1.0, 1.2),
        point("alone", "a", 1.0, 1.0),
    ];
    let Regret::Chosen { problems, tied, right, median, worst, worst_problem } = Evaluation::of(&points).overall.regret
    else {
        panic!("three problems have a choice")
    };
    assert_eq!((problems, tied, right, worst, worst_problem.as_str()), (3, 1, 1, 0.5, "wrong"));
    assert!((median - 0.2).abs() < 1e-12, "{median}");
}

#[test]
fn devices_count_as_one_and_shapes_apart() {
    let mut points = vec![point("p", "a", 1.0, 1.0), point("p", "a", 1.0, 1.2), point("p", "a", 1.0, 9.0)];
    points.push(Point { shape: "other".to_owned(), ..point("q", "a", 1.0, 1.0) });
    points.push(point("p", "b", f64::NAN, 1.0));
    points.push(point("p", "c", 1.0, 0.0));
    let evaluation = Evaluation::of(&points);
    assert_eq!(evaluation.shapes.len(), 2);
    assert_eq!(evaluation.shapes["shape"].errors, Errors::TooFewPoints { points: 1 });
    assert_eq!(evaluation.overall.errors, Errors::TooFewPoints { points: 2 });
    assert_eq!(evaluation.without_time, ["p b", "p c"]);
}

proptest! {
    #[test]
    fn coefficients_stay_within_their_range_in_any_order(
        times in proptest::collection::vec((1..6_u32, prop_oneof![1e-300..1e300_f64, Just(1.0)]), 0..30), seed in any::<u64>(),
    ) {
        let named = times.iter().zip(0..);
        let mut points: Vec<Point> = named
            .map(|((predicted, measured), index)| {
                point(&format!("p{}", index % 4), &format!("{index:02}"), f64::from(*predicted), *measured)
            })
            .collect();
        let first = Evaluation::of(&points);
        if let RankCorrelation::Ranked { spearman, kendall, .. } = first.overall.rank_correlation {
            prop_assert!((-1.0..=1.0).contains(&spearman) && (-1.0..=1.0).contains(&kendall), "{:?}", first);
        }
        if let Errors::Known { median, percentile_90, worst, .. } = first.overall.errors {
            prop_assert!(0.0 <= median && median <= percentile_90 && percentile_90 <= worst && worst.is_finite());
        }
        if let Regret::Chosen { worst, .. } = first.overall.regret {
            prop_assert!(worst >= 0.0 && worst.is_finite());
        }
        Random::new(seed).shuffle(&mut points);
        prop_assert_eq!(Evaluation::of(&points), first);
    }
}

/// A machine of the class of `row` that copies at 1e12 B/s, and needs 1 µs for a launch.
fn machine(row: &Row) -> Machine {
    Machine {
        memory_bandwidth: Ok(BytesPerSecond(1e12)),
        launch_latency: Ok(Seconds(1e-6)),
        ..Machine::unknown(Request::new(row.device.class_id.clone()))
    }
}

fn held_out(kernel: &'static str, elements: u64, us: f64) -> Row {
    let mut row = RowSpec::new(kernel, elements, &[us * 1e3; 3]).row();
    row.identity.role = Role::HeldOut;
    row.counts.bytes_requested = row.counts.bytes_read;
    row
}

#[test]
fn held_out_rows_are_predicted_from_their_own_counts() {
    // 2^20 elements of copy are 8388608 bytes: 8.389 µs and a launch.
    let mut rows = vec![held_out("copy", 1 << 20, 9.388_608), RowSpec::new("copy", 1 << 21, &[2e4; 3]).row()];
    let mut wrong = held_out("copy", 1 << 19, 9.0);
    wrong.outcome.status = Status::Failed;
    let mut busy = held_out("copy", 1 << 18, 9.0);
    busy.conditions.neighbours = Some("node_full".to_owned());
    let mut unpriced = held_out("scale", 1 << 20, 9.0);
    unpriced.counts.scalar_ops = 1 << 20;
    let mut untimed = held_out("copy", 1 << 17, 9.0);
    untimed.timing.estimate_ns = None;
    let mut nameless = held_out("copy", 1 << 16, 9.0);
    nameless.work.point = "somewhere".to_owned();
    rows.extend([wrong, busy, unpriced, untimed, nameless, held_out("copy", 1 << 21, 20.0)]);

    let pool = Pool::new(&rows).expect("one class");
    let HeldOutRows { predicted, points: found, excluded } =
        HeldOutRows::of(&pool, &machine(&rows[0])).expect("the class of the machine");
    assert_eq!(predicted, Predicted::Time);
    let [only] = found.as_slice() else { panic!("{found:?}") };
    assert!((only.predicted.0 / only.measured.0 - 1.0).abs() < 1e-9, "{only:?}");
    assert_eq!((only.shape.as_str(), only.problem.as_str()), ("stream/copy/f32/elements=1048576", only.shape.as_str()));
    let mut reasons: Vec<String> = excluded.iter().map(|excluded| excluded.reason.to_string()).collect();
    reasons.sort();
    let expected = [
        "`somewhere` is not a point",
        "it has no estimate",
        "it was measured under neighbours=node_full, and the constants hold under alone",
        "its status is failed",
        "rows of its shape, stream/copy/f32/elements=2097152, were fitted",
        "the document has no full_issue_rate for f32",
    ];
    assert_eq!(reasons.len(), expected.len(), "{reasons:?}");
    for (reason, expected) in reasons.iter().zip(expected) {
        assert!(reason.starts_with(expected), "{reason}: {expected}");
    }
}

#[test]
fn contractions_of_one_size_are_one_problem_and_other_rows_test_nothing() {
    let mut rows = vec![held_out("t32", 1, 5.0), held_out("t64", 1, 6.0)];
    for row in &mut rows {
        row.work.point = format!("issue/{}/f32/k=256/m=512/n=1024", row.work.kernel);
        row.identity.row_id = row.work.kernel.as_str().into();
    }
    let pool = Pool::new(&rows).expect("one class");
    let HeldOutRows { predicted, points: found, excluded } =
        HeldOutRows::of(&pool, &machine(&rows[0])).expect("the class of the machine");
    assert_eq!(predicted, Predicted::Time);
    assert!(excluded.is_empty(), "{excluded:?}");
    let labels: Vec<_> = found.iter().map(|point| (point.shape.as_str(), point.problem.as_str())).collect();
    assert_eq!(labels, [("issue/f32/m=512/n=1024", "issue/f32/k=256/m=512/n=1024"); 2]);
    assert_eq!(found[0].candidate, "t32/w4_v1_b256_tile");

    let mut other = machine(&rows[0]);
    other.request.class_id = ClassId::new("other");
    assert!(matches!(HeldOutRows::of(&pool, &other), Err(NotHeldOut::OtherClass { .. })));
    let simulated = machine(&rows[0]);
    let simulated = Machine { request: simulated.request.clone().origin(Origin::Simulated), ..simulated };
    assert!(HeldOutRows::of(&pool, &simulated).is_err(), "measured rows do not test simulated constants");
}

#[cfg(feature = "serde")]
#[test]
fn a_document_can_carry_an_evaluation() {
    let many: Vec<Point> =
        (1..9).map(|index| point("p", &index.to_string(), f64::from(index), 1.0 / f64::from(index))).collect();
    for points in [&many[..], &many[..1], &[]] {
        let evaluation = Evaluation::of(points);
        let text = serde_json::to_string(&evaluation).unwrap();
        assert_eq!(serde_json::from_str::<Evaluation>(&text).unwrap(), evaluation, "{text}");
    }
    assert!(serde_json::to_string(&Evaluation::of(&[])).unwrap().contains(r#""outcome":"too_few_points""#));
}
