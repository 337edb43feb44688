//! Number formats as arrays hold them: rounding, and bits.

use fleetcal_model::point::Dtype;

/// A value as an array of the number format holds it. Formats that no kernel works on yet keep it as it is.
pub fn rounded(value: f64, dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from(value as f32) } else { value }
}

/// Bits of a value, rounded to the number format; `None` for formats that no kernel works on yet.
pub fn bits(value: f64, dtype: Dtype) -> Option<u64> {
    match dtype {
        Dtype::F32 => Some(u64::from((value as f32).to_bits())),
        Dtype::F64 => Some(value.to_bits()),
        Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::I32 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_the_rounded_value() {
        for value in [0.1, -0.5, 1e-40, f64::INFINITY, 1e300] {
            let f32_bits = bits(value, Dtype::F32).and_then(|bits| u32::try_from(bits).ok()).expect("32 bits");
            assert_eq!(f64::from(f32::from_bits(f32_bits)), rounded(value, Dtype::F32), "{value}");
            assert_eq!(bits(value, Dtype::F64).map(f64::from_bits), Some(value));
        }
    }
}
