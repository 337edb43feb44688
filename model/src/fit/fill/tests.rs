use super::*;
use crate::row::LaunchContext;
use crate::seed::fill::{FillForm, default_candidates};
use crate::testing::Random;
use crate::units::Seconds;

/// Medians of seven launches of the pinned contractions over output sizes on one H200: blocks, operations, nanoseconds.
/// 64 threads a block.
const H200_T32: [(u64, u64, u64); 24] = [
    (4, 1073741824, 31382273),
    (16, 1073741824, 5706400),
    (36, 1073479680, 1957728),
    (64, 1073741824, 1105056),
    (100, 1073152000, 713184),
    (144, 1073479680, 498848),
    (196, 1072562176, 367264),
    (256, 1073741824, 283552),
    (324, 1072300032, 231744),
    (400, 1068236800, 189920),
    (484, 1070530560, 160608),
    (576, 1066401792, 140384),
    (676, 1063256064, 119968),
    (784, 1066139648, 108288),
    (1024, 1073741824, 90016),
    (1296, 1061683200, 78880),
    (1600, 1048576000, 82016),
    (1936, 1046740992, 80224),
    (2304, 1056964608, 80832),
    (3136, 1027604480, 70432),
    (4096, 1073741824, 71296),
    (6400, 1048576000, 68864),
    (9216, 1056964608, 68544),
    (16384, 1073741824, 72416),
];
/// 256 threads a block.
const H200_T64: [(u64, u64, u64); 24] = [
    (1, 1073741824, 31604927),
    (4, 1073741824, 6066368),
    (9, 1073479680, 2025888),
    (16, 1073741824, 1148864),
    (25, 1073152000, 742368),
    (36, 1073479680, 521888),
    (49, 1072562176, 385344),
    (64, 1073741824, 295200),
    (81, 1072300032, 235840),
    (100, 1068236800, 192032),
    (121, 1070530560, 160192),
    (144, 1066401792, 163168),
    (169, 1063256064, 140384),
    (196, 1066139648, 122688),
    (256, 1073741824, 96672),
    (324, 1061683200, 89504),
    (400, 1048576000, 82496),
    (484, 1046740992, 72256),
    (576, 1056964608, 92576),
    (784, 1027604480, 76768),
    (1024, 1073741824, 69312),
    (1600, 1048576000, 77600),
    (2304, 1056964608, 79872),
    (4096, 1073741824, 93504),
];

fn point(geometry: &str, blocks: u64, threads: u64, operations: u64, seconds: f64) -> LaunchPoint {
    let contexts = vec![LaunchContext { blocks, threads, operations }];
    LaunchPoint { geometry: geometry.to_owned(), contexts, tensor_ops: 0, time: Seconds(seconds) }
}

fn h200() -> Vec<LaunchPoint> {
    let tables = [("t32", 64, &H200_T32), ("t64", 256, &H200_T64)];
    let points = |(geometry, threads, table): (&'static str, u64, &'static [(u64, u64, u64); 24])| {
        table.iter().map(move |&(blocks, ops, ns)| point(geometry, blocks, threads, ops, ns as f64 * 1e-9))
    };
    tables.into_iter().flat_map(points).collect()
}

/// A made sweep of two block widths.
fn made(random: &mut Random, noise: f64, multiprocessors: u64, fill_threads: u64) -> Vec<LaunchPoint> {
    let model = FillModel { multiprocessors, fill_threads };
    let mut points = Vec::new();
    for (geometry, threads, rate) in [("narrow", 64, 2e12), ("wide", 256, 3e12)] {
        for blocks in std::iter::successors(Some(20_u64), |blocks| Some(blocks * 27 / 20)).take(24) {
            let contexts = [LaunchContext { blocks, threads, operations: 1 << 31 }];
            let seconds = model.effective_ops(FillForm::Capped, &contexts) / rate * (1.0 + noise * random.normal());
            points.push(point(geometry, blocks, threads, 1 << 31, seconds));
        }
    }
    points
}

#[test]
fn a_real_device_identifies_a_range_of_threads() {
    let found = fit(&h200(), 132, &default_candidates(), FillRule::default()).expect("the form holds");
    assert_eq!(found.best.model.fill_threads, 480, "{found:?}");
    assert_eq!((found.best.points + found.best.starved_points, found.best.starved_points), (48, 10));
    assert!((0.18..0.19).contains(&found.best.residual_max), "{}", found.best.residual_max);
    assert!(found.fill_threads.contains(&480) && found.fill_threads.len() > 1, "{:?}", found.fill_threads);
    assert_eq!(found.device_threads.0, 132 * found.fill_threads[0]);
    assert!(found.rate_range.0 <= found.best.rate && found.best.rate < found.rate_range.1, "{found:?}");
}

#[test]
fn the_set_holds_the_truth_and_noise_widens_it() {
    let candidates = default_candidates();
    let (mut held, mut members) = (0, [0, 0]);
    const SWEEPS: u64 = 200;
    for (width, noise) in [0.01, 0.03].into_iter().enumerate() {
        for seed in 0..SWEEPS {
            let truth = 96 + 32 * (seed % 20);
            let points = made(&mut Random::new(seed), noise, 132, truth);
            let found = fit(&points, 132, &candidates, FillRule::default());
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, noise {noise}, {truth} threads: {error}"));
            held += u64::from(found.fill_threads.contains(&truth));
            members[width] += found.fill_threads.len();
        }
    }
    assert!(held * 100 >= 95 * 2 * SWEEPS, "the truth is in {held} of {} sets", 2 * SWEEPS);
    assert!(members[1] > members[0], "{members:?}");
}

#[test]
fn a_device_that_does_not_follow_the_form_gets_no_threads() {
    // A published curve of a Radeon 8060S: the fullest launch is slower than an eighth of its blocks.
    let curve = [(8, 3.48), (16, 2.33), (32, 1.41), (128, 0.78), (1024, 2.06)];
    let points: Vec<LaunchPoint> =
        curve.iter().map(|&(blocks, ms)| point("128", blocks, 128, 2 * 1024 * 256 * 1024, ms / 1e3)).collect();
    let found = fit(&points, 20, &default_candidates(), FillRule::default());
    assert!(matches!(found, Err(NoFill::FormRejected { residual_max, .. }) if residual_max > 0.5), "{found:?}");
    let without_last = fit(&points[..4], 20, &default_candidates(), FillRule::default());
    assert!(matches!(without_last, Err(NoFill::FormRejected { .. })), "26% off is too much: {without_last:?}");
}

#[test]
fn one_block_width_leaves_a_tie_that_is_said() {
    // A published curve of an RTX 5070 Ti Laptop.
    let curve = [(8, 13.85), (16, 7.24), (32, 3.50), (128, 2.47), (1024, 2.36)];
    let points: Vec<LaunchPoint> =
        curve.iter().map(|&(blocks, ms)| point("128", blocks, 128, 2 * 1024 * 256 * 1024, ms / 1e3)).collect();
    let found = fit(&points, 46, &default_candidates(), FillRule::default()).expect("the form holds");
    assert!(found.fill_threads.starts_with(&[32, 64, 96, 128]), "{:?}", found.fill_threads);
}

#[test]
fn what_identifies_nothing_keeps_its_reason() {
    let found = fit(&[], 46, &default_candidates(), FillRule::default());
    assert_eq!(found, Err(NoFill::Unfittable(FillUnfittable::TooFewPoints { points: 0 })));
}
