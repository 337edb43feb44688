//! Input data: seeded, and computable for any element alone, on the host and on the device alike.

use fleetcal_model::point::Dtype;
use fleetcal_model::policy::DataPattern;

use crate::chain::{self, Chain};
use crate::number::rounded;

/// Element `index` of the random array with `seed`: a multiple of 2^-24 in [−0.5, 0.5), exact in `f32` and `f64`.
///
/// The mixing is the finaliser of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014), over the index offset by the seed. `gpu/support.cu` computes the same.
pub fn random_element(seed: u64, index: u64) -> f64 {
    let mut bits = index.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^= bits >> 31;
    (bits >> 40) as f64 / 16_777_216.0 - 0.5
}

/// What random elements are multiplied with in a number format: whole numbers have 24 bits of them before the point.
pub fn random_scale(dtype: Dtype) -> f64 {
    if dtype == Dtype::I32 { 16_777_216.0 } else { 1.0 }
}

/// Elements after which a serial array begins again: whole numbers up to 2048 are exact even in binary16.
const SERIAL_PERIOD: u64 = 2048;

/// Elements of one period of a trigonometric array.
pub const TRIGONOMETRIC_PERIOD: u64 = 1024;

/// What an input array holds: every element is a pure function of this and of its index. An array of the seed
/// [`chain::SEED`] holds a chain through its row, whatever the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputData {
    /// The pattern.
    pub pattern: DataPattern,
    /// Seed of the array: arrays of one point differ by it.
    pub seed: u64,
    /// Number format, which decides what is denormal.
    pub dtype: Dtype,
    /// Elements of a row, for patterns that know rows: the whole array, where it is one row.
    pub row_elements: u64,
    /// Index that the array's first element has in the pattern: not 0 where only a part is filled anew.
    pub first_element: u64,
}

/// How a device computes a pattern, without mathematics of its own: the host has done what could round differently.
/// Indices count from the start of the pattern, [`InputData::first_element`] included.
#[derive(Debug, Clone, PartialEq)]
pub enum Formula {
    /// [`random_element`] of the seed, times [`random_scale`].
    Random,
    /// 1 where `index / row_elements` is `index % row_elements`, else 0.
    Identity,
    /// `values[(index / repeat) % values.len()]`.
    Periodic {
        /// One period. Never empty.
        values: Vec<f64>,
        /// Elements in a row that are alike; at least one.
        repeat: u64,
    },
    /// [`Chain::element`].
    Chain(Chain),
}

impl InputData {
    /// Element `index`, before it is rounded to the number format.
    pub fn element(&self, index: u64) -> f64 {
        let (index, row_elements) = (self.first_element.wrapping_add(index), self.row_elements.max(1));
        if let Some(chain) = self.chain() {
            return chain.element(index) as f64;
        }
        match self.pattern {
            DataPattern::Random => random_scale(self.dtype) * random_element(self.seed, index),
            DataPattern::Constant => 0.5,
            DataPattern::Serial => (index % SERIAL_PERIOD) as f64,
            DataPattern::Identity => f64::from(index / row_elements == index % row_elements),
            DataPattern::Trigonometric => {
                let phase = index.wrapping_add(self.seed) % TRIGONOMETRIC_PERIOD;
                libm::sin(phase as f64 / TRIGONOMETRIC_PERIOD as f64 * std::f64::consts::TAU)
            }
            DataPattern::Dimension => (index / row_elements % SERIAL_PERIOD) as f64,
            DataPattern::NotANumber => f64::NAN,
            DataPattern::Infinity => f64::INFINITY,
            DataPattern::Denormal => self.dtype.smallest_normal().map_or(1.0, |normal| normal / 2.0),
        }
    }

    /// Element `index`, as an array holds it.
    pub fn rounded_element(&self, index: u64) -> f64 {
        rounded(self.element(index), self.dtype)
    }

    /// The chain that it is, if it is one.
    pub fn chain(&self) -> Option<Chain> {
        (self.seed == chain::SEED).then(|| Chain::of_elements(self.row_elements))
    }

    /// How a device computes the same elements.
    pub fn formula(&self) -> Formula {
        if let Some(chain) = self.chain() {
            return Formula::Chain(chain);
        }
        let from_start = Self { first_element: 0, ..*self };
        let period = |elements: u64, repeat: u64| {
            let values = (0..elements).map(|index| from_start.element(index.saturating_mul(repeat))).collect();
            Formula::Periodic { values, repeat }
        };
        match self.pattern {
            DataPattern::Random => Formula::Random,
            DataPattern::Identity => Formula::Identity,
            DataPattern::Serial => period(SERIAL_PERIOD, 1),
            DataPattern::Trigonometric => period(TRIGONOMETRIC_PERIOD, 1),
            DataPattern::Dimension => period(SERIAL_PERIOD, self.row_elements.max(1)),
            DataPattern::Constant | DataPattern::NotANumber | DataPattern::Infinity | DataPattern::Denormal => {
                period(1, 1)
            }
        }
    }

    /// Whether arrays of these data agree wherever both have an element, with `elements` in the longer one. Rows matter
    /// only to patterns that know them, and only where the array has more than one.
    pub fn agrees_with(&self, other: &Self, elements: u64) -> bool {
        let knows_rows = matches!(self.pattern, DataPattern::Identity | DataPattern::Dimension);
        let one_row = |data: &Self| data.row_elements >= data.first_element.saturating_add(elements);
        let rows_agree = !knows_rows || self.row_elements == other.row_elements || one_row(self) && one_row(other);
        let rows_agree = if self.chain().is_some() { self.row_elements == other.row_elements } else { rows_agree };
        let same = |data: &Self| Self { row_elements: 0, ..*data };
        same(self) == same(other) && rows_agree
    }
}

/// The next prime at or above `at_least`: the stride of sampled validation, so that no power-of-two pattern in a
/// wrong result can hide between the elements looked at.
pub fn next_prime(at_least: u64) -> u64 {
    let is_prime = |candidate: u64| {
        candidate >= 2
            && (candidate == 2
                || !candidate.is_multiple_of(2)
                    && (3..)
                        .step_by(2)
                        .take_while(|divisor| divisor * divisor <= candidate)
                        .all(|divisor| !candidate.is_multiple_of(divisor)))
    };
    (at_least.max(2)..).find(|&candidate| is_prime(candidate)).unwrap_or(at_least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_exact_in_f32_and_inside_the_range() {
        for index in (0..1_000_000_u64).step_by(997) {
            let value = random_element(7, index);
            assert!((-0.5..0.5).contains(&value), "element {index} is {value}");
            assert_eq!(f64::from(value as f32), value, "element {index} is not exact in f32");
        }
        assert_ne!(random_element(1, 0), random_element(2, 0), "seeds must give different data");
    }

    #[test]
    fn every_formula_gives_the_elements_of_its_pattern() {
        for (pattern, (row_elements, first_element)) in DataPattern::ALL
            .iter()
            .flat_map(|pattern| [(1, 0), (37, 3), (4096, 5000), (u64::MAX, 1)].map(|place| (*pattern, place)))
        {
            let data = InputData { pattern, seed: 9, dtype: Dtype::F32, row_elements, first_element };
            let formula = data.formula();
            for index in (0..10_000).step_by(7) {
                let at = first_element + index;
                let value = match &formula {
                    Formula::Random => random_element(9, at),
                    Formula::Identity => f64::from(at / row_elements == at % row_elements),
                    Formula::Periodic { values, repeat } => values[(at / repeat % values.len() as u64) as usize],
                    Formula::Chain(chain) => chain.element(at) as f64,
                };
                let expected = data.element(index);
                assert_eq!(value.to_bits(), expected.to_bits(), "{data:?}, element {index}: {value}, not {expected}");
            }
        }
    }

    #[test]
    fn data_agree_where_rows_do_not_matter() {
        let data =
            |pattern, row_elements| InputData { pattern, seed: 1, dtype: Dtype::F32, row_elements, first_element: 0 };
        assert!(data(DataPattern::Random, 10).agrees_with(&data(DataPattern::Random, 20), 100));
        assert!(!data(DataPattern::Identity, 10).agrees_with(&data(DataPattern::Identity, 20), 100));
        assert!(
            data(DataPattern::Identity, 100).agrees_with(&data(DataPattern::Identity, 200), 100),
            "both are one row"
        );
        assert!(!data(DataPattern::Random, 10).agrees_with(&data(DataPattern::Serial, 10), 100));
        let chain = |row_elements| InputData { seed: chain::SEED, ..data(DataPattern::Random, row_elements) };
        assert!(chain(320).agrees_with(&chain(320), 100));
        assert!(!chain(320).agrees_with(&chain(640), 100), "a longer chain leads elsewhere from the start");
    }

    #[test]
    fn primes_are_prime() {
        assert_eq!([0, 2, 3, 4, 8, 90, 1024].map(next_prime), [2, 2, 3, 5, 11, 97, 1031]);
    }
}
