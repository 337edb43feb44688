//! Input data: seeded, and computable for any element alone, on the host and on the device alike.

use fleetcal_model::point::Dtype;
use fleetcal_model::policy::DataPattern;

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

/// Elements after which a serial array begins again: whole numbers up to 2048 are exact even in binary16.
const SERIAL_PERIOD: u64 = 2048;

/// Elements of one period of a trigonometric array.
pub const TRIGONOMETRIC_PERIOD: u64 = 1024;

/// What an input array holds: every element is a pure function of this and of its index.
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
}

impl InputData {
    /// Element `index`, before it is rounded to the number format.
    pub fn element(&self, index: u64) -> f64 {
        let row_elements = self.row_elements.max(1);
        match self.pattern {
            DataPattern::Random => random_element(self.seed, index),
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
    fn primes_are_prime() {
        assert_eq!([0, 2, 3, 4, 8, 90, 1024].map(next_prime), [2, 2, 3, 5, 11, 97, 1031]);
    }
}
