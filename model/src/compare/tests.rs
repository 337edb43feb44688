use super::*;
use crate::row::{Role, TimingMode};
use crate::testing::{Random, RowSpec};

fn measured(estimate_ns: f64, relative_half_width: f64) -> Measured {
    let factor = libm::exp(relative_half_width);
    let interval_ns = Interval { low: estimate_ns / factor, high: estimate_ns * factor };
    Measured { estimate_ns, interval_ns, degrees_of_freedom: 4 }
}

fn verdict(second_ns: f64, relative_half_width: f64) -> Comparison {
    compare(&measured(100.0, relative_half_width), &measured(second_ns, relative_half_width), Options::default())
}

/// A row of so many rounds around a time.
fn row(random: &mut Random, ns: f64, sigma: f64, rounds: usize) -> Row {
    let medians: Vec<f64> = (0..rounds).map(|_| ns * libm::exp(sigma * random.normal())).collect();
    RowSpec::new("copy", 1 << 26, &medians).row()
}

#[test]
fn each_answer_is_given_where_it_is_due() {
    assert!(matches!(verdict(100.1, 0.003), Comparison::Same { .. }));
    assert!(matches!(verdict(98.0, 0.003), Comparison::Faster { ratio } if (ratio - 0.98).abs() < 1e-12));
    assert!(matches!(verdict(102.0, 0.003), Comparison::Slower { ratio } if (ratio - 1.02).abs() < 1e-12));
    assert_eq!(verdict(101.0, 0.003), Comparison::Ambiguous(Reason::AtTheMargin));
    assert_eq!(verdict(100.0, 0.05), Comparison::Ambiguous(Reason::TooWide), "wide and overlapping is not the same");
}

#[test]
fn what_did_not_pass_is_no_faster_and_no_slower() {
    let mut random = Random::new(1);
    let (first, fast) = (row(&mut random, 100.0, 0.001, 5), row(&mut random, 50.0, 0.001, 5));
    assert!(matches!(compare_rows(&first, &fast, Options::default()), Comparison::Faster { .. }));
    for status in [Status::Failed, Status::Invalid, Status::Skipped, Status::Throttled, Status::Contended] {
        let mut bad = fast.clone();
        bad.outcome.status = status;
        let found = compare_rows(&first, &bad, Options::default());
        assert_eq!(found, Comparison::Ambiguous(Reason::NotPassed), "{status}");
    }
}

#[test]
fn many_comparisons_are_held_to_wider_intervals() {
    let of_many = |comparisons| {
        let options = Options { comparisons, ..Options::default() };
        compare(&measured(100.0, 0.003), &measured(98.0, 0.003), options)
    };
    assert!(matches!(of_many(1), Comparison::Faster { .. }));
    assert_eq!(of_many(1_000), Comparison::Ambiguous(Reason::TooWide));
}

/// The A/A test: the same thing measured twice is never called different, and called the same where rows are narrow.
#[test]
fn identical_rows_are_called_the_same_and_never_different() {
    let mut random = Random::new(0xaa);
    let mut said = [0_u32; 3];
    for _ in 0..2_000 {
        let (first, second) = (row(&mut random, 100.0, 0.002, 5), row(&mut random, 100.0, 0.002, 5));
        said[match compare_rows(&first, &second, Options::default()) {
            Comparison::Same { .. } => 0,
            Comparison::Ambiguous(_) => 1,
            Comparison::Faster { .. } | Comparison::Slower { .. } => 2,
        }] += 1;
    }
    assert!(said[0] >= 1_950, "same, ambiguous, different: {said:?}");
    assert_eq!(said[2], 0, "same, ambiguous, different: {said:?}");
    for sigma in [0.01, 0.03] {
        let different = (0..2_000).filter(|_| {
            let (first, second) = (row(&mut random, 100.0, sigma, 5), row(&mut random, 100.0, sigma, 5));
            matches!(
                compare_rows(&first, &second, Options::default()),
                Comparison::Faster { .. } | Comparison::Slower { .. }
            )
        });
        let different = different.count();
        assert!(different <= 100, "noise of {sigma}: {different} of 2000 identical pairs are called different");
    }
}

#[test]
fn a_second_process_is_predicted_by_the_first() {
    let mut random = Random::new(0x0f);
    for rounds in [3, 5, 10] {
        let mut of = || Measured::of_row(&row(&mut random, 100.0, 0.01, rounds)).unwrap();
        let inside = (0..2_000).filter(|_| predicts(&of(), &of()).unwrap()).count();
        assert!((1_840..=1_980).contains(&inside), "{rounds} rounds: {inside} of 2000 lie in the prediction interval");
    }
}

#[test]
fn what_is_not_alike_or_has_no_interval_is_not_compared() {
    let spec = RowSpec::new("copy", 1 << 26, &[100.0, 100.1, 100.2]);
    let (first, mut second) = (spec.row(), spec.row());
    assert!(matches!(compare_rows(&first, &second, Options::default()), Comparison::Same { .. }));
    second.timing.bimodal = Some(true);
    assert_eq!(compare_rows(&first, &second, Options::default()), Comparison::Ambiguous(Reason::TwoGroups));
    second.timing.timing_mode = TimingMode::Batched;
    let expected = Comparison::Ambiguous(Reason::DifferentKind("timing_mode"));
    assert_eq!(compare_rows(&first, &second, Options::default()), expected);
    let mut single = spec.row();
    single.timing.rounds.truncate(1);
    crate::estimate::finish(&mut single.timing, Role::Fit);
    assert_eq!(compare_rows(&first, &single, Options::default()), Comparison::Ambiguous(Reason::NoInterval));
}
