use std::collections::BTreeSet;

use super::*;
use crate::data::{InputData, random_element};
use crate::testing::device;

fn point(dtype: Dtype, elements: u64) -> Point {
    Point { sizes: [(ELEMENTS.to_owned(), elements)].into(), ..Scan.small_point(SUM, dtype) }
}

#[test]
fn every_element_is_in_one_tile_and_every_tile_has_its_words() {
    let facts = device(Backend::Cuda);
    for dtype in Scan.dtypes() {
        for elements in [ELEMENTS_MULTIPLE, 9 * ELEMENTS_MULTIPLE, 1 << 28] {
            let point = point(*dtype, elements);
            let state = Scan.buffers(&point)[STATE].elements;
            let mut names = BTreeSet::new();
            for solution in Scan.solutions(&point, &facts) {
                assert!(names.insert(solution.name.clone()), "{solution}: a name of its own");
                let vectors = solution.parameter(parameter::VECTORS_PER_THREAD).expect("it has some");
                let tile = |launch: &Launch| launch.threads * vectors * (16 / dtype.bytes());
                match &Scan.launches(&point, &solution, &facts)[..] {
                    [clear, scan] => {
                        assert_eq!(scan.blocks * tile(scan), elements, "{solution}: a block a tile");
                        let words = STATE_WORDS + scan.blocks * dtype.bytes() / 4;
                        assert_eq!(clear.arguments.last(), Some(&Argument::U64(words)), "{solution}");
                        assert!(words <= state, "{solution}: {words} words of state, there are {state}");
                    }
                    [sum, sums, part] => {
                        let Some(Argument::U64(tiles)) = part.arguments.last() else { panic!("the tiles come last") };
                        assert_eq!(tiles * tile(part), elements, "{solution}");
                        assert!(sum.arguments.contains(&Argument::U64(*tiles)), "{solution}: the same tiles");
                        assert_eq!(
                            (sum.blocks, sum.threads),
                            (part.blocks, part.threads),
                            "{solution}: the same parts"
                        );
                        assert_eq!(sums.arguments.last(), Some(&Argument::U64(sum.blocks)), "{solution}");
                        assert!(sum.blocks <= *tiles && sum.blocks <= state, "{solution}: a block without a tile");
                    }
                    launches => panic!("{solution}: {launches:?}"),
                }
            }
        }
    }
}

#[test]
fn right_sums_are_those_of_the_array_wherever_one_looks() {
    for elements in [ELEMENTS_MULTIPLE, 1 << 18] {
        for dtype in Scan.dtypes() {
            let reference = Scan.reference(&point(*dtype, elements), DataPattern::Random, OUTPUT);
            let scale = crate::data::random_scale(*dtype);
            let mut sum = 0.0;
            for index in 0..elements {
                sum += scale * random_element(INPUT_SEED, index);
                let value = if *dtype == Dtype::I32 { f64::from(sum as i64 as i32) } else { sum };
                assert_eq!(reference(index).value, value, "element {index} of {elements} of {dtype}");
            }
        }
    }
}

#[test]
fn what_leaves_out_or_doubles_something_is_wrong_and_rounding_is_right() {
    for pattern in [DataPattern::Random, DataPattern::Constant, DataPattern::Serial] {
        let (dtype, elements) = (Dtype::F32, 1 << 20);
        let reference = Scan.reference(&point(dtype, elements), pattern, OUTPUT);
        let input = InputData { pattern, seed: INPUT_SEED, dtype, row_elements: elements, first_element: 0 };
        let element = |index: u64| input.rounded_element(index) as f32;
        // Groups and tiles as small as the smallest, joined with what came before, one after the other.
        let (mut before, mut of_tile, mut of_group) = (0_f32, 0_f32, 0_f32);
        for index in 0..elements {
            of_group += element(index);
            let expected = reference(index);
            let error = expected.error(f64::from(before + (of_tile + of_group)));
            assert!(error <= expected.relative_tolerance, "{pattern:?}, element {index}: {error}, {expected:?}");
            if (index + 1) % 8 == 0 {
                of_tile += of_group;
                of_group = 0.0;
            }
            if (index + 1) % 2048 == 0 {
                before += of_tile;
                of_tile = 0.0;
            }
        }
        let last = reference(elements - 1);
        let tile: f64 = (4096..6144).map(|index| f64::from(element(index))).sum();
        for wrong in [last.value - tile, last.value + tile] {
            assert!(last.error(wrong) > last.relative_tolerance, "{pattern:?}: {wrong} passes for {last:?}");
        }
    }
    let early = Scan.reference(&point(Dtype::F32, ELEMENTS_MULTIPLE), DataPattern::Random, OUTPUT)(4095);
    let missing = early.value - random_element(INPUT_SEED, 17);
    assert!(early.error(missing) > early.relative_tolerance, "{missing} passes for {early:?}");
    let given_up = Scan.reference(&point(Dtype::F32, ELEMENTS_MULTIPLE), DataPattern::Random, GIVEN_UP)(0);
    assert!(given_up.error(1.0) > given_up.relative_tolerance && given_up.error(0.0) == 0.0, "giving up shows");
}

#[test]
fn patterns_without_finite_sums_have_references_that_right_kernels_meet() {
    let reference = |pattern| Scan.reference(&point(Dtype::F32, ELEMENTS_MULTIPLE), pattern, OUTPUT)(5);
    for (pattern, found) in [(DataPattern::NotANumber, f64::NAN), (DataPattern::Infinity, f64::INFINITY)] {
        let expected = reference(pattern);
        assert!(expected.error(found) <= expected.relative_tolerance, "{pattern:?}: {expected:?}");
        assert!(expected.error(1.0) > expected.relative_tolerance, "{pattern:?}: {expected:?}");
    }
}
