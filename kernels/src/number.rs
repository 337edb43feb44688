//! Number formats as arrays hold them: rounding, and bits.

use fleetcal_model::point::Dtype;

/// A value as an array of the number format holds it: whole numbers without what stands behind the point. Formats that no
/// kernel works on yet keep it as it is.
pub fn rounded(value: f64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F32 => f64::from(value as f32),
        Dtype::I32 => f64::from(value as i32),
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => value,
    }
}

/// Bits of a value, rounded to the number format; `None` for formats that no kernel works on yet.
pub fn bits(value: f64, dtype: Dtype) -> Option<u64> {
    match dtype {
        Dtype::F32 => Some(u64::from((value as f32).to_bits())),
        Dtype::F64 => Some(value.to_bits()),
        // Whole numbers are kept as they are; what lies outside of the format becomes its end.
        Dtype::I32 => Some(u64::from((value as i32).cast_unsigned())),
        Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => None,
    }
}

/// Error, see [`crate::Expected::error`], up to which results of a format count as right where nothing tighter is known
/// of the kernel. These are the Tensile client's, for sums of some thousand terms; whole numbers are exact.
pub fn tolerance(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => 1e-12,
        Dtype::F32 => 1e-4,
        // The mantissa of binary16.
        Dtype::F16 | Dtype::Tf32 => 0.01,
        Dtype::Bf16 => 0.1,
        Dtype::Fp8E4m3 => 0.125,
        Dtype::Fp8E5m2 => 0.25,
        Dtype::I8 | Dtype::I32 => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_lets_its_own_rounding_pass() {
        for (dtype, mantissa_bits) in [
            (Dtype::F64, 52),
            (Dtype::F32, 23),
            (Dtype::Tf32, 10),
            (Dtype::F16, 10),
            (Dtype::Bf16, 7),
            (Dtype::Fp8E4m3, 3),
            (Dtype::Fp8E5m2, 2),
        ] {
            let rounding =
                0.5 / f64::from(1 << mantissa_bits.min(30)) / f64::from(1 << (mantissa_bits - mantissa_bits.min(30)));
            assert!(tolerance(dtype) > rounding, "{dtype}");
            assert!(tolerance(dtype) < 0.5, "{dtype} lets anything pass");
        }
        assert_eq!((tolerance(Dtype::I8), tolerance(Dtype::I32)), (0.0, 0.0));
    }

    #[test]
    fn bits_are_those_of_the_rounded_value() {
        for value in [0.1, -0.5, 1e-40, f64::INFINITY, 1e300] {
            let f32_bits = bits(value, Dtype::F32).and_then(|bits| u32::try_from(bits).ok()).expect("32 bits");
            assert_eq!(f64::from(f32::from_bits(f32_bits)), rounded(value, Dtype::F32), "{value}");
            assert_eq!(bits(value, Dtype::F64).map(f64::from_bits), Some(value));
        }
    }
}
