use fleetcal_model::point::{Dtype, Point};

use super::*;
use crate::testing::device;

fn point(footprint: u64) -> Point {
    Point { sizes: [(FOOTPRINT.to_owned(), footprint)].into(), ..Cache.small_point(READ, Dtype::F32) }
}

/// Follows the threads of the kernel, as `gpu/cache.cu` has them.
fn reads(point: &Point, solution: &Solution) -> (u64, u64) {
    let launch = Cache.launches(point, solution, &device(Backend::Cuda)).remove(1);
    let [_, _, Argument::U64(packs), Argument::U64(reads), Argument::U64(step)] = launch.arguments[..] else {
        panic!("two buffers and three numbers")
    };
    let threads = launch.blocks * launch.threads;
    let (mut count, mut highest) = (0, 0);
    // The first, one in the middle and the last thread show where all go.
    for thread in [0, threads / 2, threads - 1] {
        let mut at = thread % packs;
        for _ in 0..reads * PACKS_PER_READ {
            highest = highest.max(at);
            at += step;
            at = if at < packs { at } else { at - packs };
        }
    }
    for thread in 0..threads {
        count += packs.saturating_sub(thread).div_ceil(threads) + reads * PACKS_PER_READ;
    }
    (count * PACK_BYTES, highest)
}

#[test]
fn bytes_are_those_that_the_threads_read_and_none_lies_outside() {
    let facts = device(Backend::Cuda);
    for footprint in [FOOTPRINT_MULTIPLE, 3 * FOOTPRINT_MULTIPLE, 50 << 20] {
        let point = point(footprint);
        for solution in Cache.solutions(&point, &facts) {
            let (bytes, highest) = reads(&point, &solution);
            assert_eq!(Cache.counts(&point, &solution, &facts).bytes_read, bytes, "{point} {solution}");
            assert!(highest < footprint / PACK_BYTES, "{point} {solution} reads pack {highest}");
        }
    }
}

#[test]
fn a_sum_does_not_depend_on_order_and_shows_one_wrong_word() {
    let point = point(FOOTPRINT_MULTIPLE);
    let words: Vec<u32> = (0..FOOTPRINT_MULTIPLE / 4)
        .map(|index| (crate::data::random_element(INPUT_SEED, index) as f32).to_bits())
        .collect();
    let sum = |words: &[u32]| f64::from(words.iter().fold(0_u32, |sum, word| sum.wrapping_add(*word)).cast_signed());
    let right = Cache.reference(&point, DataPattern::Random, 0)(0);
    assert_eq!(right, Expected { value: sum(&words), relative_tolerance: 0.0 });
    assert_ne!(sum(&words[1..]), right.value);
}

#[test]
fn loads_of_a_chase_follow_the_chain_to_where_the_device_says_it_ends() {
    let facts = device(Backend::Cuda);
    for footprint in [chase::FOOTPRINT_OF_CHECKS, 128 << 10, 24 << 20] {
        let point = Point { sizes: [(FOOTPRINT.to_owned(), footprint)].into(), ..Cache.small_point(CHASE, Dtype::I32) };
        Cache.check(&point).expect("a point");
        let solution = Cache.solutions(&point, &facts).remove(0);
        let launch = Cache.launches(&point, &solution, &facts).remove(0);
        let [.., Argument::U64(loads), Argument::U64(slots), Argument::U64(bits)] = launch.arguments[..] else {
            panic!("three numbers come last")
        };
        let data = Cache.buffers(&point)[1].input(DataPattern::Serial).expect("an input");
        let chain = data.chain().expect("a chain, whatever the pattern");
        assert_eq!((chain.slots(), u64::from(chain.bits())), (slots, bits), "{point}");
        let steps = loads.min(2000);
        let end = (0..steps).fold(7 * crate::chain::SLOT_BYTES, |at, _| data.rounded_element(at / 4) as u64);
        assert_eq!(end, chain.after(7, steps) * crate::chain::SLOT_BYTES, "{point}");
        assert_eq!(loads % 16, 0, "{point}: the body is unrolled");
        let counts = Cache.counts(&point, &solution, &facts);
        assert_eq!((counts.bytes_read, counts.launch_contexts[0].operations), (4 * loads + 4, loads), "{point}");
        assert_eq!(counts.bytes_distinct, 4 * loads.min(slots) + 8, "{point}");
        assert_eq!(Cache.reference(&point, DataPattern::Random, 0)(0).value, loads as f64, "{point}");
    }
}

#[test]
fn each_kernel_has_footprints_of_its_own() {
    let values = |kernels: &[&str]| {
        let kernels: Vec<String> = kernels.iter().map(|kernel| (*kernel).to_owned()).collect();
        Cache.default_values(&kernels, &Cache.sizes()[0])
    };
    assert_eq!(values(&[CHASE])[0], 16 << 10);
    assert_eq!(values(&[READ]), values(&[READ, CHASE]));
    for (kernel, dtype) in [(READ, Dtype::F32), (CHASE, Dtype::I32)] {
        for footprint in values(&[kernel]) {
            let point =
                Point { sizes: [(FOOTPRINT.to_owned(), *footprint)].into(), ..Cache.small_point(kernel, dtype) };
            assert_eq!(Cache.check(&point), Ok(()));
        }
    }
}
