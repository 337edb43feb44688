use fleetcal_model::point::{Dtype, Point};

use super::*;
use crate::testing::device;

fn point(kernel: &str, elements: u64) -> Point {
    Point { sizes: [(ELEMENTS.to_owned(), elements)].into(), ..Reduce.small_point(kernel, Dtype::F32) }
}

#[test]
fn every_element_is_in_one_tile() {
    let facts = device(Backend::Cuda);
    for elements in [ELEMENTS_MULTIPLE, 9 * ELEMENTS_MULTIPLE, 1 << 28] {
        let point = point(SUM, elements);
        for solution in Reduce.solutions(&point, &facts) {
            let launches = Reduce.launches(&point, &solution, &facts);
            let [partial, total] = &launches[..] else { panic!("{solution}: two launches") };
            let vectors = solution.parameter(parameter::VECTORS_PER_THREAD).expect("it has some");
            let Some(Argument::U64(tiles)) = partial.arguments.last() else { panic!("the tiles come last") };
            assert_eq!(tiles * partial.threads * vectors * 4, elements, "{solution}");
            assert!(partial.blocks <= *tiles && partial.blocks <= PARTIALS_MAX, "{solution}: a block without a tile");
            assert!(partial.threads.is_power_of_two(), "{solution}: threads join in pairs");
            assert_eq!(total.arguments.last(), Some(&Argument::U64(partial.blocks)), "{solution}");
        }
    }
}

#[test]
fn right_values_are_those_of_the_array() {
    let elements = ELEMENTS_MULTIPLE;
    let values: Vec<f64> = (0..elements).map(|index| crate::data::random_element(INPUT_SEED, index)).collect();
    let right = |kernel| Reduce.reference(&point(kernel, elements), DataPattern::Random, 0)(0);
    assert_eq!(right(MAX).value, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    assert_eq!(right(MIN).value, values.iter().copied().fold(f64::INFINITY, f64::min));
    let sum: f64 = values.iter().sum();
    assert_eq!(right(SUM).value, sum);
    // A block of 1024 that is left out must show.
    let without: f64 = values[1024..].iter().sum();
    assert!(right(SUM).error(without) > right(SUM).relative_tolerance, "{without} passes for {sum}");
    assert_eq!((right(MAX).relative_tolerance, right(MIN).relative_tolerance), (0.0, 0.0));
}
