use proptest::prelude::*;

use super::*;
use crate::testing::Random;

/// Published quantiles, to the digits published.
#[test]
fn t_quantiles_match_the_tables() {
    let table = [
        (1, 12.706_204_736),
        (2, 4.302_652_730),
        (3, 3.182_446_305),
        (4, 2.776_445_105),
        (9, 2.262_157_163),
        (30, 2.042_272_456),
        (100, 1.983_971_519),
        (1_000, 1.962_339_081),
    ];
    for (degrees_of_freedom, expected) in table {
        let found = student_t_975(degrees_of_freedom).unwrap();
        assert!((found - expected).abs() < 1e-6, "t(0.975, {degrees_of_freedom}) is {expected}, not {found}");
    }
    assert_eq!(student_t_975(0), None);
}

#[test]
fn factors_match_the_tables_at_other_coverages() {
    for (coverage, degrees_of_freedom, expected) in [(0.9, 4, 2.131_847), (0.99, 4, 4.604_095), (0.999, 9, 4.780_913)] {
        let found = student_t_factor(coverage, degrees_of_freedom).unwrap();
        assert!((found - expected).abs() < 1e-6, "{coverage} at {degrees_of_freedom}: {expected}, not {found}");
    }
    let (factor, quantile) = (student_t_factor(0.95, 7).unwrap(), student_t_975(7).unwrap());
    assert!((factor - quantile).abs() < 1e-12, "{factor} is not {quantile}");
    for (coverage, degrees_of_freedom) in [(0.95, 0), (0.0, 5), (1.0, 5), (f64::NAN, 5)] {
        assert_eq!(student_t_factor(coverage, degrees_of_freedom), None);
    }
}

#[test]
fn both_ways_to_a_t_quantile_agree_where_they_meet() {
    let difference = student_t_by_bisection(200) - student_t_by_expansion(200.0);
    assert!(difference.abs() < 1e-10, "bisection and expansion differ by {difference} at 200 degrees");
}

#[test]
fn medians_of_odd_even_and_bad_input() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    assert_eq!(median(&[f64::MAX, f64::MAX]), Some(f64::MAX));
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[1.0, f64::NAN]), None);
    assert_eq!(median_absolute_deviation(&[1.0, 2.0, 3.0, 4.0, 100.0]), Some(1.0));
    assert_eq!(median_absolute_deviation(&[]), None);
}

#[test]
fn ranks_match_the_binomial_tables() {
    // Conover, Practical Nonparametric Statistics, table A3: innermost ranks (from 1) of at least 95%.
    for (count, rank_from_one) in [(6, 1), (8, 1), (9, 2), (10, 2), (12, 3), (20, 6), (30, 10), (100, 40)] {
        assert_eq!(lower_rank_95(count), Some(rank_from_one - 1), "of {count} samples");
    }
    assert_eq!(lower_rank_95(5), None);
    let of_many = lower_rank_95(4_000).unwrap() as f64;
    assert!((of_many - (2_000.0 - 1.96 * 4_000.0_f64.sqrt() / 2.0)).abs() < 2.0, "rank {of_many} of 4000");
}

#[test]
fn half_width_is_relative_to_the_median() {
    let samples = [98.0, 99.0, 100.0, 100.0, 101.0, 102.0];
    assert_eq!(median_half_width(&samples), Some(0.02));
    assert_eq!(median_half_width(&samples[..5]), None);
    assert_eq!(median_half_width(&[0.0; 8]), None);
}

#[test]
fn log_t_interval_refuses_what_has_no_interval() {
    assert_eq!(log_t_interval(&[1.0, 2.0]), None);
    assert_eq!(log_t_interval(&[1.0, 2.0, 0.0]), None);
    assert_eq!(log_t_interval(&[1.0, 2.0, -3.0]), None);
    assert_eq!(log_t_interval(&[1.0, 2.0, f64::INFINITY]), None);
    assert_eq!(log_t_interval(&[1e-300, 1.0, 1e300]), None, "ends beyond f64 are no interval");
    let equal = log_t_interval(&[7.0; 3]).unwrap();
    assert!((equal.low - 7.0).abs() < 1e-12 && (equal.high - 7.0).abs() < 1e-12, "{equal:?}");
}

#[test]
fn log_t_interval_is_centred_on_the_geometric_mean() {
    let interval = log_t_interval(&[1.0, 2.0, 4.0]).unwrap();
    // Logarithms 0, ln 2, 2 ln 2: mean ln 2, standard deviation ln 2, half-width 4.302653 · ln 2 / √3.
    let factor = libm::exp(4.302_652_730 * std::f64::consts::LN_2 / 3.0_f64.sqrt());
    assert!((interval.low * factor - 2.0).abs() < 1e-8, "{interval:?}");
    assert!((interval.high / factor - 2.0).abs() < 1e-8, "{interval:?}");
}

/// The promise of an interval, tried: over many simulated rows it holds the truth about as often as it says. `between` and
/// `within` share the variance; the truth is the median of the noise.
#[test]
fn intervals_of_rounds_cover_the_truth() {
    // Rounds' medians that differ among themselves; ones that also carry the noise of a visit's 11 samples; log-normal
    // ones, so that even the logarithms' logarithms are normal.
    type Draw = fn(&mut Random) -> f64;
    let between: Draw = |random| libm::exp(0.02 * random.normal());
    let nested: Draw = |random| {
        let round = 0.02 * random.normal();
        let samples: Vec<f64> = (0..11).map(|_| libm::exp(round + 0.05 * random.normal())).collect();
        median(&samples).unwrap()
    };
    let wide: Draw = |random| libm::exp(0.3 * random.normal());
    for (what, draw) in [("between", between), ("nested", nested), ("wide", wide)] {
        for rounds in [3_usize, 5, 10] {
            let mut random = Random::new(0x5eed + rounds as u64);
            let trials = 4_000;
            let covered = (0..trials).filter(|_| {
                let medians: Vec<f64> = (0..rounds).map(|_| draw(&mut random)).collect();
                let estimate = median(&medians).unwrap();
                log_t_interval(&medians).unwrap().widened_to(estimate).contains(1.0)
            });
            let coverage = covered.count() as f64 / f64::from(trials);
            assert!(coverage >= 0.94, "{what}, {rounds} rounds: the interval holds the truth in {coverage} of trials");
            assert!(coverage <= 0.97, "{what}, {rounds} rounds: the interval is wider than it says, {coverage}");
        }
    }
}

proptest! {
    #[test]
    fn no_input_makes_a_statistic_panic_or_answer_nan(values in prop::collection::vec(any::<f64>(), 0..12)) {
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        for answer in [median(&values), median_absolute_deviation(&values), median_half_width(&sorted)] {
            prop_assert!(answer.is_none_or(|value| !value.is_nan()));
        }
        for interval in [t_interval(&values), log_t_interval(&values)].into_iter().flatten() {
            prop_assert!(interval.low <= interval.high);
        }
    }
}
