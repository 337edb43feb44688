//! Guard zones: memory around an array that no right kernel touches, and what it holds.
//!
//! Zones hold what a kernel would hardly write there by chance, and what would show in its results if it read it: no
//! number around inputs, infinity around outputs and in the gaps between their rows. Two accesses cannot be seen this
//! way: a write of the very sentinel, and a read that leaves no trace in any result that is looked at, be it because it
//! is thrown away or because the right result is no number either. Page guards see both, as long as they are next to
//! the array.

use fleetcal_kernels::{BufferRole, BufferSpec};
use fleetcal_model::point::Dtype;

use crate::device::{Array, infinity_bits, nan_bits};

/// Elements on each side of an array.
pub const ZONE_ELEMENTS: u64 = 1024;

/// Bytes on each side of an array, whatever its number format: the widest has eight. A multiple of what arrays are
/// aligned to.
pub const ZONE_BYTES: u64 = 8 * ZONE_ELEMENTS;

/// What zones are called where arrays are named: they are no array of the kernel's.
pub const ZONE_NAME: &str = "guard zone";

/// Where a zone lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Before the first element.
    Before,
    /// Behind the last one.
    Behind,
    /// Between rows.
    Gaps,
}

/// One zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone {
    /// Index of the array that it belongs to.
    pub array: usize,
    /// Where it lies.
    pub side: Side,
    /// Its elements.
    spec: BufferSpec,
    /// Its first element, counted from the array's first.
    start: i64,
}

/// What a zone holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sentinel {
    /// Its bits.
    pub bits: u64,
    /// What they read as.
    pub value: f64,
}

impl Sentinel {
    /// Whether an element still holds it.
    pub fn is(self, found: f64) -> bool {
        found == self.value || found.is_nan() && self.value.is_nan()
    }
}

/// The zones of an array.
pub fn around(array: usize, spec: &BufferSpec) -> Vec<Zone> {
    let row = BufferSpec { name: ZONE_NAME, elements: ZONE_ELEMENTS, rows: None, ..spec.clone() };
    let signed = |elements: u64| i64::try_from(elements).unwrap_or(i64::MAX);
    let before = Zone { array, side: Side::Before, spec: row.clone(), start: -signed(ZONE_ELEMENTS) };
    let behind = Zone { array, side: Side::Behind, spec: row, start: signed(spec.elements) };
    let gaps = spec.gaps().map(|(start, gaps)| Zone {
        array,
        side: Side::Gaps,
        spec: BufferSpec { name: ZONE_NAME, ..gaps },
        start: signed(start),
    });
    [before, behind].into_iter().chain(gaps).collect()
}

/// Whether two arrays in one place have the same zones around them.
pub fn are_alike(left: &BufferSpec, right: &BufferSpec) -> bool {
    let is_written = |spec: &BufferSpec| !matches!(spec.role, BufferRole::Input { .. });
    (is_written(left), left.dtype, left.elements, left.rows)
        == (is_written(right), right.dtype, right.elements, right.rows)
}

impl Zone {
    /// What it holds.
    pub fn sentinel(&self) -> Sentinel {
        let Self { spec: BufferSpec { role, dtype, .. }, .. } = self;
        match role {
            BufferRole::Input { .. } => Sentinel { bits: nan_bits(*dtype), value: nan_value(*dtype) },
            BufferRole::Output | BufferRole::Scratch => {
                Sentinel { bits: infinity_bits(*dtype), value: infinity_value(*dtype) }
            }
        }
    }

    /// The zone in the allocation of its array, which starts at `offset_bytes`.
    pub fn view<'a, Buffer>(&self, buffer: &'a Buffer, offset_bytes: u64) -> Array<'a, Buffer> {
        let width = i64::try_from(self.spec.dtype.bytes()).unwrap_or(1);
        let offset_bytes = offset_bytes.saturating_add_signed(self.start.saturating_mul(width));
        Array { buffer, offset_bytes, spec: self.spec.clone() }
    }

    /// Index of its logical element `index`, counted from the array's first element.
    pub fn element(&self, index: u64) -> i64 {
        self.start.saturating_add_unsigned(self.spec.position(index))
    }

    /// Where that is, in words.
    pub fn place(&self) -> &'static str {
        match self.side {
            Side::Before => "before its first element",
            Side::Behind => "behind its last element",
            Side::Gaps => "in the gap between its rows",
        }
    }
}

/// What [`nan_bits`] read as.
fn nan_value(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => f64::NAN,
        Dtype::I32 => f64::from(i32::MAX),
        Dtype::I8 => f64::from(i8::MAX),
    }
}

/// What [`infinity_bits`] read as.
fn infinity_value(dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 | Dtype::F32 | Dtype::Tf32 | Dtype::F16 | Dtype::Bf16 | Dtype::Fp8E5m2 => f64::INFINITY,
        // Its largest number: it has no infinity.
        Dtype::Fp8E4m3 => 448.0,
        Dtype::I32 => f64::from(i32::MIN),
        Dtype::I8 => f64::from(i8::MIN),
    }
}

#[cfg(test)]
mod tests {
    use fleetcal_kernels::Rows;

    use super::*;

    #[test]
    fn zones_touch_their_array_and_share_no_element_with_it() {
        let rows = Some(Rows { elements: 3, pitch_elements: 5 });
        let spec = BufferSpec { name: "a", role: BufferRole::Output, dtype: Dtype::F32, elements: 20, rows };
        let mut owners = std::collections::BTreeMap::<i64, u64>::new();
        let mut own = |element: i64| *owners.entry(element).or_default() += 1;
        (0..spec.logical_elements()).for_each(|index| own(spec.position(index) as i64));
        for zone in around(0, &spec) {
            assert_eq!(zone.view(&(), 1 << 20).offset_bytes, (1_i64 << 20).wrapping_add(4 * zone.element(0)) as u64);
            (0..zone.spec.logical_elements()).for_each(|index| own(zone.element(index)));
        }
        let zone = ZONE_ELEMENTS as i64;
        assert_eq!(owners.keys().copied().collect::<Vec<_>>(), (-zone..20 + zone).collect::<Vec<_>>());
        assert!(owners.values().all(|count| *count == 1), "{owners:?}");
    }
}
