//! What is measured: sweeps, number formats, points and solutions.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

/// A text that names no member of a closed vocabulary.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{text}`, expected one of: {expected}")]
pub struct UnknownName {
    /// What was being named, for example `sweep`.
    pub what: &'static str,
    /// The text found.
    pub text: String,
    /// The names that are known, separated by commas.
    pub expected: String,
}

/// Declares a closed vocabulary whose members have one textual name each, used in plans, rows and documents alike.
#[macro_export]
macro_rules! vocabulary {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$member_doc:meta])* $member:ident => $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub enum $name {
            $($(#[$member_doc])* #[cfg_attr(feature = "serde", serde(rename = $text))] $member),+
        }

        impl $name {
            /// Every member, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$member),+];

            /// The name used in plans, rows and documents.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$member => $text),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::point::UnknownName;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|member| member.name() == text).ok_or_else(|| {
                    $crate::point::UnknownName {
                        what: $what,
                        text: text.to_owned(),
                        expected: Self::ALL.iter().map(|member| member.name()).collect::<Vec<_>>().join(", "),
                    }
                })
            }
        }
    };
}

vocabulary! {
    /// A family of kernels run over a list of points.
    Sweep, "sweep" {
        /// Copy, scale, add and triad over arrays (McCalpin's STREAM).
        Stream => "stream",
        /// Bandwidth and latency by footprint.
        Cache => "cache",
        /// The untiled contraction whose re-reads spill.
        WorkingSet => "working_set",
        /// The register-blocktiled contraction.
        Issue => "issue",
        /// Pinned geometries over launch sizes.
        Launch => "launch",
        /// Arithmetic peaks.
        Peak => "peak",
        /// Shared memory, L1, atomics, special functions, barriers.
        Onchip => "onchip",
        /// Sums and extrema over arrays.
        Reduce => "reduce",
        /// Prefix sums.
        Scan => "scan",
        /// Launches and events that do nothing.
        Latency => "latency",
        /// Host to device and device to device copies.
        Transfer => "transfer",
    }
}

vocabulary! {
    /// A number format.
    Dtype, "dtype" {
        /// IEEE binary32.
        F32 => "f32",
        /// IEEE binary64.
        F64 => "f64",
        /// IEEE binary16.
        F16 => "f16",
        /// bfloat16.
        Bf16 => "bf16",
        /// TensorFloat-32, stored as binary32.
        Tf32 => "tf32",
        /// 8-bit integer.
        I8 => "i8",
        /// 32-bit integer.
        I32 => "i32",
        /// 8-bit float, 4 exponent bits.
        Fp8E4m3 => "fp8_e4m3",
        /// 8-bit float, 5 exponent bits.
        Fp8E5m2 => "fp8_e5m2",
    }
}

impl Dtype {
    /// Bytes that one element takes in memory.
    pub const fn bytes(self) -> u64 {
        match self {
            Self::F64 => 8,
            Self::F32 | Self::Tf32 | Self::I32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::I8 | Self::Fp8E4m3 | Self::Fp8E5m2 => 1,
        }
    }

    /// The smallest number with full precision; none for integers.
    pub const fn smallest_normal(self) -> Option<f64> {
        match self {
            Self::F64 => Some(f64::MIN_POSITIVE),
            // TensorFloat-32 and bfloat16 have the exponent of binary32.
            Self::F32 | Self::Tf32 | Self::Bf16 => Some(f32::MIN_POSITIVE as f64),
            Self::F16 | Self::Fp8E5m2 => Some(1.0 / 16_384.0),
            Self::Fp8E4m3 => Some(1.0 / 64.0),
            Self::I8 | Self::I32 => None,
        }
    }
}

/// One set of parameters of a sweep: which kernel, on which number format, at which sizes.
///
/// The `Ord` is by sweep, kernel, dtype and then sizes: the order of a plan's listing, never of its measuring.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Point {
    /// The family.
    pub sweep: Sweep,
    /// The kernel within the family, for example `triad`.
    pub kernel: String,
    /// The number format.
    pub dtype: Dtype,
    /// Sizes by name, for example `elements` = 2^28.
    pub sizes: BTreeMap<String, u64>,
}

impl Point {
    /// The size called `name`, if the point has one.
    pub fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }
}

impl fmt::Display for Point {
    /// `stream/triad/f32/elements=268435456`: unique within a plan, and stable.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.sweep, self.kernel, self.dtype)?;
        for (name, value) in &self.sizes {
            write!(f, "/{name}={value}")?;
        }
        Ok(())
    }
}

/// A text that is no point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a point such as `stream/triad/f32/elements=268435456`: {reason}")]
pub struct NotAPoint {
    /// The text found.
    pub text: String,
    /// What is wrong with it.
    pub reason: String,
}

impl FromStr for Point {
    type Err = NotAPoint;

    /// Reads what [`Point`]'s `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotAPoint> {
        let wrong = |reason: String| NotAPoint { text: text.to_owned(), reason };
        let mut parts = text.split('/');
        let mut next = |what: &str| parts.next().ok_or_else(|| wrong(format!("its {what} is missing")));
        let sweep = next("sweep")?.parse::<Sweep>().map_err(|error| wrong(error.to_string()))?;
        let kernel = next("kernel")?.to_owned();
        let dtype = next("dtype")?.parse::<Dtype>().map_err(|error| wrong(error.to_string()))?;
        let mut sizes = BTreeMap::new();
        for part in parts {
            let (name, value) = part.split_once('=').ok_or_else(|| wrong(format!("`{part}` is no name=value")))?;
            let value = value.parse::<u64>().map_err(|_| wrong(format!("`{value}` is no whole number")))?;
            sizes.insert(name.to_owned(), value);
        }
        Ok(Self { sweep, kernel, dtype, sizes })
    }
}

/// One variant of a kernel that can serve a point. The word is Tensile's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Solution {
    /// A name unique among the solutions of one point, for example `w4_v2_b256_tile`.
    pub name: String,
    /// What the variant sets, for example `block` = 256.
    pub parameters: BTreeMap<String, u64>,
}

impl Solution {
    /// The parameter called `name`, if the solution sets it.
    pub fn parameter(&self, name: &str) -> Option<u64> {
        self.parameters.get(name).copied()
    }
}

impl fmt::Display for Solution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}
