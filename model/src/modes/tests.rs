use super::*;
use crate::testing::Random;

/// Part of simulated rows that are called two groups.
fn called(count: usize, mut draw: impl FnMut(&mut Random) -> f64) -> f64 {
    const TRIALS: u32 = 5_000;
    let mut random = Random::new(0xb1_0d + count as u64);
    let two = (0..TRIALS).filter(|_| {
        let values: Vec<f64> = (0..count).map(|_| 1.0 + 0.01 * draw(&mut random)).collect();
        two_groups(&values, 0.0).unwrap()
    });
    two.count() as f64 / f64::from(TRIALS)
}

#[test]
fn noise_of_one_group_is_hardly_ever_called_two() {
    for count in 6..=20 {
        let normal = called(count, Random::normal);
        assert!(normal <= 0.003, "{count} normal values: {normal}");
        let outliers = called(count, |random| {
            let factor = if random.uniform() < 0.1 { 5.0 } else { 1.0 };
            factor * random.normal()
        });
        assert!(outliers <= 0.01, "{count} values with outliers: {outliers}");
    }
}

#[test]
fn two_groups_far_apart_are_found_where_both_are_there() {
    for (count, found_min) in [(6, 0.2), (10, 0.8), (15, 0.95)] {
        let far = called(count, |random| {
            let group = if random.uniform() < 0.5 { 20.0 } else { 0.0 };
            group + random.normal()
        });
        assert!(far >= found_min, "{count} values in two groups: found in {far}");
    }
}

#[test]
fn what_is_too_few_too_close_or_no_time_is_not_called() {
    assert_eq!(two_groups(&[1.0, 1.0, 2.0, 2.0, 2.0], 0.0), None, "five values cannot make two groups of three");
    assert_eq!(two_groups(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 0.0), Some(true));
    assert_eq!(two_groups(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0], 0.5), Some(false), "two ticks of the clock");
    assert_eq!(two_groups(&[1.0, 1.0, 1.0, 1.0005, 1.0005, 1.0005], 0.0), Some(false), "0.05% is nobody's business");
    assert_eq!(two_groups(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0], 0.0), Some(false), "an outlier is no group");
    assert_eq!(two_groups(&[0.0, 0.0, 0.0, 2.0, 2.0, 2.0], 0.0), None);
    assert_eq!(two_groups(&[1.0, 1.0, 1.0, 2.0, 2.0, f64::NAN], 0.0), None);
}
