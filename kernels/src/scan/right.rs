//! Right prefix sums, and how near to them sums in a number format must come.

use std::sync::Arc;

use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::DataPattern;

use crate::data::InputData;
use crate::family::{Expected, Reference};
use crate::memo::Memo;

/// Sums that are kept of an array, at most.
const KEPT_MAX: u64 = 1 << 16;
/// Additions on the way to a sum within its tile, at most: the host makes 264. And elements of the smallest tile.
const ROUNDINGS_OF_TILE: f64 = 512.0;
const TILE_ELEMENTS_MIN: u64 = 2048;
/// Rounding errors of random numbers are independent of each other nearly and cancel out: their sum stays below this
/// times the root of their number, with a probability of an error so rare that no sweep meets it (Higham and Mary: A new
/// approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019).
const ROUNDINGS_FACTOR: f64 = 3.0;

/// What was worked out last: it takes a second of the host, and every check asks for it.
static RIGHT: Memo<Arc<[Kept]>> = Memo::new();

/// The sum of all elements before one.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    sum: f64,
    /// The largest size of a sum so far.
    largest: f64,
}

impl Kept {
    fn plus(self, element: f64) -> Self {
        let sum = self.sum + element;
        Self { sum, largest: self.largest.max(sum.abs()) }
    }
}

/// Elements from one sum that is kept to the next: a power of two.
pub(super) fn spacing(elements: u64) -> u64 {
    elements.div_ceil(KEPT_MAX).max(1).next_power_of_two()
}

/// The right sums of an array. Those of random elements are exact: elements are multiples of 2^-24 below 1, or whole
/// numbers below 2^24, so that sums of 2^29 of them are exact in binary64.
pub(super) fn prefix_sums(point: &Point, pattern: DataPattern, elements: u64, seed: u64) -> Reference {
    let dtype = point.dtype;
    let input = InputData { pattern, seed, dtype, row_elements: elements, first_element: 0 };
    let spacing = spacing(elements);
    let kept = RIGHT.of(&format!("{point} {pattern:?}"), || {
        let mut so_far = Kept::default();
        let blocks = (0..elements).step_by(usize::try_from(spacing).unwrap_or(usize::MAX));
        let before_block = |start: u64| {
            let before = so_far;
            let block = start..start.saturating_add(spacing).min(elements);
            so_far = block.fold(so_far, |sum, index| sum.plus(input.rounded_element(index)));
            before
        };
        blocks.map(before_block).collect()
    });
    Box::new(move |element| {
        let block = element / spacing;
        let before = usize::try_from(block).ok().and_then(|block| kept.get(block)).copied().unwrap_or_default();
        let rest = block * spacing..=element;
        let right = rest.fold(before, |sum, index| sum.plus(input.rounded_element(index)));
        expected(right, element, pattern, dtype)
    })
}

/// A sum of so many elements, rounded each time to the format.
fn expected(right: Kept, element: u64, pattern: DataPattern, dtype: Dtype) -> Expected {
    if dtype == Dtype::I32 {
        // Sums of this format begin again after 2^32. These are whole, and below 2^63.
        let value = f64::from(right.sum as i64 as i32);
        return Expected { value, relative_tolerance: 0.0 };
    }
    let unit = if dtype == Dtype::F64 { f64::EPSILON / 2.0 } else { f64::from(f32::EPSILON) / 2.0 };
    let roundings = ROUNDINGS_OF_TILE + (element / TILE_ELEMENTS_MIN) as f64;
    let growth = if pattern == DataPattern::Random { ROUNDINGS_FACTOR * roundings.sqrt() } else { roundings };
    let error = growth * unit * right.largest;
    let tolerance = error / (2.0 * right.sum.abs() + 1.0);
    Expected { value: right.sum, relative_tolerance: if tolerance.is_finite() { tolerance } else { 0.0 } }
}
