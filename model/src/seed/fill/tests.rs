use super::*;

/// Operations of the published block-count curves: 2 · 1024 · 256 · 1024.
const OPERATIONS: u64 = 2 * 1024 * 256 * 1024;

fn point(geometry: &str, blocks: u64, threads: u64, operations: u64, seconds: f64) -> LaunchPoint {
    let contexts = vec![LaunchContext { blocks, threads, operations }];
    LaunchPoint { geometry: geometry.to_owned(), contexts, tensor_ops: 0, time: Seconds(seconds) }
}

/// One kernel of 128 threads a block over block counts, milliseconds.
fn curve(milliseconds: &[(u64, f64)]) -> Vec<LaunchPoint> {
    milliseconds.iter().map(|&(blocks, ms)| point("128", blocks, 128, OPERATIONS, ms / 1e3)).collect()
}

fn near(found: f64, expected: f64, relative: f64) -> bool {
    (found / expected - 1.0).abs() <= relative
}

/// A published curve of an RTX 5070 Ti Laptop, 46 multiprocessors. One block width cannot tell candidates up to itself
/// apart.
#[test]
fn a_real_curve_fits_and_ties_up_to_its_block_width() {
    let points = curve(&[(8, 13.85), (16, 7.24), (32, 3.50), (128, 2.47), (1024, 2.36)]);
    let found = fit(&points, 46, &default_candidates(), STARVED).expect("a fit");
    assert_eq!(found.tied, [32, 64, 96, 128]);
    assert!(near(found.rate, 2.204e11, 5e-4), "{found:?}");
    assert!(near(found.residual_max, 0.033, 0.02), "{found:?}");
    assert_eq!((found.points, found.starved_points), (5, 0));
    assert_eq!(found.uncapped.map(|(threads, _)| threads), Some(128), "the uncapped form picks one");
    for (threads, residual) in [(192, 0.26), (256, 0.43)] {
        let other = fit(&points, 46, &[threads], STARVED).expect("a fit");
        assert!(near(other.residual_max, residual, 0.02), "{threads}: {}", other.residual_max);
    }
}

/// A published curve of a Radeon 8060S: 20 workgroup processors or 40 compute units give one fit, because P · t is what
/// is identified.
#[test]
fn only_the_product_of_units_and_threads_is_identified() {
    let points = curve(&[(8, 3.48), (16, 2.33), (32, 1.41), (128, 0.78)]);
    let wide = fit(&points, 20, &[64, 128, 192, 256, 320, 384, 512], STARVED).expect("a fit");
    assert_eq!(wide.model.fill_threads, 256);
    assert!(near(wide.rate, 6.48e11, 2e-3) && near(wide.residual_max, 0.265, 5e-3), "{wide:?}");
    let narrow = fit(&points, 40, &[128], STARVED).expect("a fit");
    assert!(near(narrow.rate, wide.rate, 1e-9) && near(narrow.residual_max, wide.residual_max, 1e-9), "{narrow:?}");
}

/// The last point of that curve is slower though fuller: no fill explains it, and the residual says so.
#[test]
fn a_curve_that_turns_back_has_a_large_residual() {
    let points = curve(&[(8, 3.48), (16, 2.33), (32, 1.41), (128, 0.78), (1024, 2.06)]);
    let found = fit(&points, 20, &default_candidates(), STARVED).expect("a fit");
    assert!(found.residual_max > 0.5, "{found:?}");
}

fn made(multiprocessors: u64, fill_threads: u64) -> Vec<LaunchPoint> {
    let model = FillModel { multiprocessors, fill_threads };
    let widths = [("narrow", 64, 2e12), ("wide", 256, 3e12)];
    let mut points = Vec::new();
    for (geometry, threads, rate) in widths {
        for blocks in [8, 16, 32, 64, 128, 256, 1024] {
            let contexts = [LaunchContext { blocks, threads, operations: 1 << 31 }];
            let seconds = model.effective_ops(FillForm::Capped, &contexts) / rate;
            points.push(point(geometry, blocks, threads, 1 << 31, seconds));
        }
    }
    points
}

#[test]
fn two_block_widths_find_the_truth() {
    let found = fit(&made(40, 160), 40, &default_candidates(), 0.0).expect("a fit");
    assert_eq!((found.model.fill_threads, &found.tied[..]), (160, &[160][..]));
    assert!(near(found.rate, 2e12, 1e-9) && found.residual_max < 1e-9, "{found:?}");
    assert!(found.raw_residual.is_some_and(|residual| residual > 0.5), "blind to the launch: {found:?}");
}

#[test]
fn starved_points_are_left_out_and_counted() {
    let found = fit(&made(132, 512), 132, &default_candidates(), STARVED).expect("a fit");
    assert_eq!(found.starved_points + found.points, 14);
    assert!(found.starved_points >= 2, "{found:?}");
}

#[test]
fn what_identifies_nothing_says_why() {
    let candidates = default_candidates();
    let unfit = |points: &[LaunchPoint]| fit(points, 46, &candidates, STARVED).expect_err("no fit");
    assert_eq!(unfit(&[]), FillUnfittable::TooFewPoints { points: 0 });
    let odd = [0.0, f64::NAN, f64::INFINITY, -1.0].map(|seconds| point("odd", 1, 1, 1, seconds));
    assert_eq!(unfit(&odd), FillUnfittable::TooFewPoints { points: 0 });
    let mut tensor = made(46, 128);
    tensor[3].tensor_ops = 1;
    assert_eq!(unfit(&tensor), FillUnfittable::TensorWork { index: 3 });
    let nothing_launched = [point("none", 0, 64, 100, 1.0), point("none", 0, 64, 100, 2.0)];
    assert_eq!(unfit(&nothing_launched), FillUnfittable::NoFiniteFit);
    let always_full = [4096, 8192].map(|blocks| point("full", blocks, 256, 1 << 31, 1e-3));
    assert_eq!(unfit(&always_full), FillUnfittable::NoGeometryCrosses);
    let once = [45, 46, 92].map(|blocks| point("once", blocks, 256, 1 << 31, 1e-3));
    assert_eq!(unfit(&once), FillUnfittable::NeverPartial { partial_points: 0 });
    assert_eq!(fit(&made(46, 128), 46, &[], STARVED), Err(FillUnfittable::NoFiniteFit));
    assert_eq!(fit(&made(46, 128), 46, &[0], STARVED), Err(FillUnfittable::NoFiniteFit));
}

#[test]
fn a_context_without_operations_takes_no_part_in_the_fill() {
    let model = FillModel { multiprocessors: 8, fill_threads: 128 };
    let context = |blocks, threads, operations| LaunchContext { blocks, threads, operations };
    let half = context(4, 128, 1000);
    assert_eq!(model.launch_fill(&[half]), Some(0.5));
    assert_eq!(model.launch_fill(&[half, context(0, 0, 0), context(1, 1, 0)]), Some(0.5));
    assert_eq!(model.launch_fill(&[half, context(0, 128, 5)]), None, "operations that nothing launches have no fill");
    for none in [FillModel { fill_threads: 0, ..model }, FillModel { multiprocessors: 0, ..model }] {
        assert_eq!(none.launch_fill(&[half]), None, "{none:?} is no device");
    }
}
