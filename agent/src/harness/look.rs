//! Which elements of an array a check looks at.

use fleetcal_kernels::BufferSpec;
use fleetcal_kernels::data::next_prime;

/// Elements looked at in one go: bounds the host memory of a check.
pub(super) const CHUNK_ELEMENTS: u64 = 1 << 20;

/// Last elements of each output that are looked at one by one, however far the stride: what reads beyond its inputs
/// goes wrong there.
const LAST_ELEMENTS: u64 = 1024;

/// A stretch of logical elements that a check looks at, every `stride`-th of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// The first.
    pub first: u64,
    /// Elements from the first to the end of the stretch.
    pub elements: u64,
    /// Distance from one that is looked at to the next.
    pub stride: u64,
}

impl Look {
    /// About so many elements of a whole array: −1 for all.
    pub(super) fn spread(spec: &BufferSpec, wanted: i64) -> Self {
        let elements = spec.logical_elements();
        Self { first: 0, elements, stride: stride(elements, wanted) }
    }

    /// How many elements it looks at.
    pub(super) fn values(self) -> u64 {
        self.elements.div_ceil(self.stride)
    }

    /// Each of at least so many neighbours, from the row that element `first` is in.
    pub(super) fn window(spec: &BufferSpec, first: u64, elements: u64) -> Self {
        let row = spec.rows.map_or(1, |rows| rows.elements.max(1));
        let (total, start) = (spec.logical_elements(), first - first % row);
        Self { first: start, elements: first.saturating_add(elements).min(total).saturating_sub(start), stride: 1 }
    }

    /// Each of the last elements.
    pub(super) fn last(spec: &BufferSpec) -> Self {
        Self::window(spec, spec.logical_elements().saturating_sub(LAST_ELEMENTS), LAST_ELEMENTS)
    }

    /// Parts that are looked at in one go. Where there are rows, each part begins with one, as a look does.
    pub(super) fn parts(self, spec: &BufferSpec) -> impl Iterator<Item = Self> {
        let row = spec.rows.map_or(1, |rows| rows.elements.max(1));
        let rows = (CHUNK_ELEMENTS / row).max(1);
        let span = rows.saturating_mul(row).saturating_mul(self.stride);
        let end = self.first.saturating_add(self.elements);
        let starts = std::iter::successors(Some(self.first), move |first| first.checked_add(span));
        starts.take_while(move |first| *first < end).map(move |first| Self {
            first,
            elements: span.min(end - first),
            ..self
        })
    }
}

/// Stride of a check of `wanted` of `total` elements: 1 for all (−1, or at least as many as there are), else the next
/// prime at or above `total / wanted`.
fn stride(total: u64, wanted: i64) -> u64 {
    match u64::try_from(wanted) {
        Ok(wanted) if wanted > 0 && wanted < total => next_prime(total.div_ceil(wanted)),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use fleetcal_kernels::{BufferRole, Rows};
    use fleetcal_model::point::Dtype;

    use super::*;

    fn spec(elements: u64, rows: Option<Rows>) -> BufferSpec {
        BufferSpec { name: "c", role: BufferRole::Output, dtype: Dtype::F32, elements, rows }
    }

    #[test]
    fn the_stride_is_one_for_all_and_the_next_prime_otherwise() {
        assert_eq!(stride(1000, -1), 1);
        assert_eq!(stride(1000, 1000), 1);
        assert_eq!(stride(1000, 5000), 1);
        assert_eq!(stride(1024, 128), 11, "8 is no prime, the next one is 11");
        assert_eq!(stride(1000, 128), 11, "1000/128 is 7.8, 7 would look at more than was asked");
        assert_eq!(stride(1 << 28, 1 << 20), 257);
    }

    #[test]
    fn parts_of_a_look_see_the_same_elements_and_begin_with_rows() {
        let rows = Some(Rows { elements: 300_000, pitch_elements: 300_001 });
        for (spec, wanted) in [(spec(5 << 20, None), -1), (spec(5 << 20, rows), 1000), (spec(5 << 20, rows), -1)] {
            let look = Look::spread(&spec, wanted);
            let seen = |look: Look| (look.first..look.first + look.elements).step_by(look.stride as usize);
            let parts: Vec<Look> = look.parts(&spec).collect();
            assert!(parts.iter().flat_map(|part| seen(*part)).eq(seen(look)), "{look:?}: {parts:?}");
            let row = spec.rows.map_or(1, |rows| rows.elements);
            assert!(parts.iter().all(|part| part.first.is_multiple_of(row)), "{parts:?}");
            assert!(parts.iter().all(|part| part.elements / part.stride <= CHUNK_ELEMENTS.next_multiple_of(row)));
        }
        let last = Look::last(&spec(5 << 20, None));
        assert_eq!((last.first + last.elements, last.elements), (5 << 20, LAST_ELEMENTS));
        assert_eq!(Look::last(&spec(7, None)), Look { first: 0, elements: 7, stride: 1 });
    }
}
