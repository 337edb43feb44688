use std::collections::BTreeSet;

use fleetcal_model::device::Backend;
use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::DataPattern;

use super::*;
use crate::parameter;
use crate::testing::device;

const FAMILIES: [Contraction; 3] = [Contraction::WORKING_SET, Contraction::ISSUE, Contraction::LAUNCH];

fn point(family: Contraction, m: u64, n: u64, k: u64) -> Point {
    let sizes = [(ROWS, m), (COLUMNS, n), (DEPTH, k)].map(|(name, size)| (name.to_owned(), size));
    Point { sweep: family.sweep(), kernel: CONTRACTION.to_owned(), dtype: Dtype::F32, sizes: sizes.into() }
}

#[test]
fn counts_are_those_of_the_original() {
    // Seed 000: bytes a block of 256 outputs of one row reads are k (256 + 1) numbers.
    let facts = device(Backend::Cuda);
    let untiled = point(Contraction::WORKING_SET, 256, 1024, 512);
    let solution = Contraction::WORKING_SET.solutions(&untiled, &facts).remove(0);
    let counts = Contraction::WORKING_SET.counts(&untiled, &solution, &facts);
    assert_eq!(counts.bytes_requested, 512 * 257 * 4 * 1024, "4 blocks for each of 256 rows");
    assert_eq!(counts.working_set_bytes, Some(512 * 257 * 4 * 1024), "all 1024 of them are resident on 132 units");
    assert_eq!(counts.flops, 2 * 256 * 1024 * 512);
    assert_eq!(counts.bytes_distinct, (512 * (256 + 1024) + 256 * 1024) * 4);

    let tiled = point(Contraction::ISSUE, 512, 512, 1024);
    for solution in Contraction::ISSUE.solutions(&tiled, &facts) {
        let tile = solution.parameter(parameter::TILE).expect("issue kernels are tiled");
        let counts = Contraction::ISSUE.counts(&tiled, &solution, &facts);
        assert_eq!(counts.bytes_requested, (512 / tile).pow(2) * 1024 * 2 * tile * 4, "{solution}");
        assert_eq!(counts.launch_contexts[0].blocks, (512 / tile).pow(2), "{solution}");
        assert_eq!((counts.scalar_ops, counts.tensor_ops), (2 * 512 * 512 * 1024, 0), "{solution}");
    }
}

#[test]
fn tiles_divide_the_output_and_stand_under_their_own_names() {
    for (width, names) in [(64, vec!["t32", "t64"]), (128, vec!["t32", "t64", "t128"])] {
        let point = point(Contraction::LAUNCH, width, width, 8);
        let solutions = Contraction::LAUNCH.solutions(&point, &device(Backend::Cuda));
        assert_eq!(solutions.iter().map(|solution| solution.name.as_str()).collect::<Vec<_>>(), names);
    }
}

#[test]
fn launch_points_hold_the_work_and_not_the_shape() {
    let depths: Vec<u64> = LAUNCH_WIDTHS
        .iter()
        .map(|width| {
            let sizes = Contraction::LAUNCH.complete([(ROWS.to_owned(), *width)].into());
            assert_eq!(sizes.get(COLUMNS), Some(width), "the output is a square");
            let point = Point { sizes, ..point(Contraction::LAUNCH, 0, 0, 0) };
            assert_eq!(Contraction::LAUNCH.check(&point), Ok(()), "{point}");
            let (m, n, k) = extents(&point);
            let operations = 2 * m * n * k;
            let is_bounded = k == LAUNCH_DEPTH_MAX;
            assert!(is_bounded || (LAUNCH_OPERATIONS / 2..=LAUNCH_OPERATIONS).contains(&operations), "{point}");
            k
        })
        .collect();
    assert!(depths.is_sorted_by(|wide, narrow| wide >= narrow), "wider outputs have shorter sums: {depths:?}");
    let given = [(ROWS.to_owned(), 64), (DEPTH.to_owned(), 16)].into();
    assert_eq!(Contraction::LAUNCH.complete(given).get(DEPTH), Some(&16), "what a plan gives stays");
}

#[test]
fn sizes_that_no_tile_divides_are_refused() {
    for (family, m, n, k, named) in [
        (Contraction::ISSUE, 96, 64, 8, "m = 96"),
        (Contraction::ISSUE, 64, 64, 12, "k = 12"),
        (Contraction::WORKING_SET, 3, 128, 8, "n = 128"),
        (Contraction::LAUNCH, 0, 64, 8, "m = 0"),
        (Contraction::LAUNCH, 64, 1 << 21, 8, "n = 2097152"),
    ] {
        let error = family.check(&point(family, m, n, k)).expect_err("it cannot be used").to_string();
        assert!(error.contains(named), "{error}");
    }
}

#[test]
fn a_sum_is_rounded_after_each_step_and_no_product_is() {
    let point = point(Contraction::ISSUE, 64, 64, 24);
    let right = Contraction::ISSUE.reference(&point, DataPattern::Random, 0);
    let (row, column) = (5, 33);
    let mut sum = 0.0_f32;
    for step in 0..24 {
        let dy = crate::data::random_element(LEFT_SEED, step * 64 + row) as f32;
        let x = crate::data::random_element(RIGHT_SEED, step * 64 + column) as f32;
        sum = dy.mul_add(x, sum);
    }
    assert_eq!(right(row * 64 + column), Expected { value: f64::from(sum), relative_tolerance: 0.0 });
}

#[test]
fn the_host_fills_no_launch_and_says_so() {
    let facts = device(Backend::Cpu);
    for family in FAMILIES {
        let point = family.small_point(CONTRACTION, Dtype::F32);
        let names: BTreeSet<String> =
            family.solutions(&point, &facts).into_iter().map(|solution| solution.name).collect();
        assert_eq!(names.is_empty(), family == Contraction::LAUNCH, "{names:?}");
    }
    let point = Contraction::LAUNCH.small_point(CONTRACTION, Dtype::F32);
    assert_eq!(Contraction::LAUNCH.declined(&point, &facts), "launch/contraction is unsupported on cpu");
}
