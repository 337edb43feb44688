use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::data::random_element;
use crate::testing::device;

fn point(kernel: &str, dtype: Dtype, elements: u64) -> Point {
    Point { sweep: Sweep::Stream, kernel: kernel.to_owned(), dtype, sizes: [("elements".to_owned(), elements)].into() }
}

fn points(elements: u64) -> impl Iterator<Item = Point> {
    let dtypes = Stream.dtypes().iter();
    dtypes.flat_map(move |dtype| Stream.kernels().iter().map(move |kernel| point(kernel, *dtype, elements)))
}

#[test]
fn what_cannot_be_measured_is_named() {
    let why = |point: &Point| Stream.check(point).expect_err("this point cannot be measured").to_string();
    assert_eq!(
        why(&point("copi", Dtype::F32, 1 << 20)),
        "stream has no kernel `copi`, it has: copy, scale, add, triad"
    );
    assert_eq!(why(&point("copy", Dtype::F16, 1 << 20)), "stream does not measure f16, it measures: f32, f64");
    let advice = "it must be a positive multiple of 32768, so that every block divides it";
    assert_eq!(why(&point("copy", Dtype::F32, 0)), format!("elements = 0 cannot be used: {advice}"));
    assert_eq!(why(&point("copy", Dtype::F32, 32769)), format!("elements = 32769 cannot be used: {advice}"));
    assert!(why(&point("copy", Dtype::F32, 1 << 60)).contains("at most"), "byte counts would overflow");
    let mut without_size = point("copy", Dtype::F32, 1);
    without_size.sizes.clear();
    assert_eq!(why(&without_size), "stream/copy needs the size `elements`");
}

#[test]
fn counts_follow_the_rules_of_stream() {
    let solution = Stream.solutions(&point("copy", Dtype::F32, 1 << 20), &device(Backend::Cuda)).remove(0);
    for (kernel, arrays, operations) in [("copy", 2, 0), ("scale", 2, 1), ("add", 3, 1), ("triad", 3, 2)] {
        for (dtype, width) in [(Dtype::F32, 4), (Dtype::F64, 8)] {
            let point = point(kernel, dtype, 1 << 20);
            let counts = Stream.counts(&point, &solution, &device(Backend::Cuda));
            let array_bytes = width << 20;
            assert_eq!(counts.bytes_moved(), arrays * array_bytes, "{point}");
            assert_eq!(counts.bytes_distinct, counts.bytes_moved(), "{point}: nothing is touched twice");
            assert_eq!(counts.bytes_written, array_bytes, "{point}");
            assert_eq!(counts.flops, operations << 20, "{point}");
            assert!(counts.bytes_exact && counts.ops_exact && !counts.opaque, "{point}");
            let buffer_bytes: u64 = Stream.buffers(&point).iter().map(BufferSpec::bytes).sum();
            assert_eq!(buffer_bytes, counts.bytes_distinct, "{point}: the footprint is the arrays");
        }
    }
}

#[test]
fn variants_have_unique_names_and_a_bounded_number() {
    for point in points(1 << 30) {
        let solutions = Stream.solutions(&point, &device(Backend::Cuda));
        let names: BTreeSet<_> = solutions.iter().map(|solution| solution.name.as_str()).collect();
        assert_eq!(names.len(), solutions.len(), "{point}");
        assert!((70..=120).contains(&solutions.len()), "{point} has {} variants", solutions.len());
        let widest = 16 / point.dtype.bytes();
        assert_eq!(solutions[0].name, format!("w{widest}_v2_b256_tile"), "{point}: the likeliest comes first");
        let launch = Stream.launches(&point, &solutions[0], &device(Backend::Cuda)).remove(0);
        assert_eq!(launch.entry, format!("stream_{}_{}_w{widest}_v2_tile", point.kernel, point.dtype));
        assert_eq!(launch.blocks * launch.threads * widest * 2, 1 << 30);
    }
}

#[test]
fn the_host_and_simulated_devices_have_few_variants() {
    let point = point("triad", Dtype::F64, 1 << 20);
    let names = |backend| Stream.solutions(&point, &device(backend)).into_iter().map(|solution| solution.name);
    let host: Vec<_> = names(Backend::Cpu).collect();
    assert_eq!(host, ["t132_nontemporal", "t132_plain", "t132_nontemporal_chunked", "t132_plain_chunked"]);
    assert_eq!(names(Backend::Sim).count(), 6);
}

#[test]
fn results_are_those_of_the_number_format() {
    for index in (0..100_000_u64).step_by(7) {
        let (first, second) = (random_element(1, index), random_element(2, index));
        let narrow = f64::from(first as f32 + 0.5_f32 * second as f32);
        assert_eq!(
            Stream.reference(&point("triad", Dtype::F32, 1 << 20), DataPattern::Random, 0)(index).value,
            narrow,
            "element {index}"
        );
        let fused = f64::from(0.5_f32.mul_add(second as f32, first as f32));
        assert_eq!(narrow, fused, "element {index}: 0.5 · x is exact, so fusing changes nothing");
        let wide = first + 0.5 * second;
        assert_eq!(
            Stream.reference(&point("triad", Dtype::F64, 1 << 20), DataPattern::Random, 0)(index).value,
            wide,
            "element {index}"
        );
        assert_eq!(
            Stream.reference(&point("copy", Dtype::F32, 1 << 20), DataPattern::Random, 0)(index).value,
            first,
            "element {index}"
        );
    }
}

proptest! {
    /// The arithmetic behind "no guards": tiles divide every size that passes the check, for every variant.
    #[test]
    fn every_launch_divides_exactly(multiple in 1_u64..5_000, backend in prop_oneof![Just(Backend::Cuda), Just(Backend::Hip)]) {
        for point in points(multiple * ELEMENTS_MULTIPLE) {
            prop_assert_eq!(Stream.check(&point), Ok(()));
            let solutions = Stream.solutions(&point, &device(backend));
            prop_assert!(!solutions.is_empty(), "{} has no variant", point);
            for solution in solutions {
                let launch = Stream.launches(&point, &solution, &device(backend)).remove(0);
                let tile = variants::tile_elements(&solution);
                prop_assert_eq!(elements(&point) % tile, 0, "{} {}", point, solution);
                let tiles = elements(&point) / tile;
                prop_assert_eq!(launch.arguments[3], Argument::U64(tiles));
                let strides = solution.parameter(parameter::GRID_STRIDE) == Some(1);
                prop_assert!(if strides { launch.blocks < tiles } else { launch.blocks == tiles }, "{} {}", point, solution);
            }
        }
    }
}
