//! Listener: compares results with the reference, on a warm-up, before anything is timed.

use fleetcal_kernels::data::next_prime;
use fleetcal_kernels::{BufferRole, Expected};

use super::HarnessError;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::record::{Checked, Verdict, Worst};
use crate::device::Device;

/// Elements looked at in one go: bounds the host memory of a check.
const CHUNK_ELEMENTS: u64 = 1 << 20;

/// Elements looked at again, in later visits and after timed launches: enough to see wrong writes, cheap enough to be
/// done always. A timed launch that wrote nothing is not seen: what the warm-up wrote stands there, and is right.
const RECHECK_ELEMENTS: i64 = 4096;

/// The reference of one array of the point in hand, at one stride.
struct Reference {
    array: usize,
    stride: u64,
    expected: Vec<Expected>,
}

/// Judges every solution once in full before it is timed, and every visit's warm-up and last timed launch in passing:
/// fresh buffers and timed launches can go wrong too.
pub(super) struct ReferenceValidator {
    elements: i64,
    /// Kept from solution to solution of one point.
    references: Vec<Reference>,
}

/// Stride of a check of `wanted` of `total` elements: 1 for all (−1, or at least as many as there are), else the next
/// prime at or above `total / wanted`.
pub(super) fn stride(total: u64, wanted: i64) -> u64 {
    match u64::try_from(wanted) {
        Ok(wanted) if wanted > 0 && wanted < total => next_prime(total.div_ceil(wanted)),
        _ => 1,
    }
}

impl ReferenceValidator {
    /// A validator that looks at about so many elements of each output: −1 all, 0 none.
    pub(super) fn new(elements: i64) -> Self {
        Self { elements, references: Vec::new() }
    }

    /// How many elements a check in passing looks at.
    fn recheck_elements(&self) -> i64 {
        if self.elements < 0 { RECHECK_ELEMENTS } else { self.elements.min(RECHECK_ELEMENTS) }
    }

    /// Compares every output of the point in hand, and joins what it finds to the verdict of the record in hand.
    fn judge<D: Device>(&mut self, bench: &mut Bench<'_, D>, elements: i64, when: &str) -> HookResult {
        let before = bench.record().verdict.clone();
        let mut seen = Checked::default();
        let outputs: Vec<(usize, &'static str, u64)> = bench
            .point()
            .buffers
            .iter()
            .enumerate()
            .filter(|(_, spec)| spec.role == BufferRole::Output)
            .map(|(array, spec)| (array, spec.name, spec.elements))
            .collect();
        for (array, name, total) in outputs {
            let (found, wrong) = self.compare_array(bench, array, total, stride(total, elements))?;
            seen = seen.and(found);
            if let Some(wrong) = wrong {
                let reason =
                    format!("{name}[{}] is {} {when}, expected {}", wrong.element, wrong.found, wrong.expected);
                bench.record().verdict = Verdict::Failed { checked: joined(&before, seen), reason };
                return Ok(());
            }
        }
        bench.record().verdict = Verdict::Passed(joined(&before, seen));
        Ok(())
    }

    /// Compares one output, chunk by chunk; stops at the first wrong chunk.
    fn compare_array<D: Device>(
        &mut self,
        bench: &mut Bench<'_, D>,
        array: usize,
        total: u64,
        stride: u64,
    ) -> Result<(Checked, Option<Wrong>), HarnessError> {
        let chunk_span = CHUNK_ELEMENTS.saturating_mul(stride);
        let mut checked = Checked::default();
        let mut first = 0;
        while first < total {
            let span = chunk_span.min(total - first);
            let found = bench.gather(array, first, span, stride)?;
            let (seen, wrong) = if span == total {
                compare(&found, self.reference(bench, array, total, stride), first, stride)
            } else {
                compare(&found, &expected(bench, array, first, span, stride), first, stride)
            };
            checked = checked.and(seen);
            if wrong.is_some() {
                return Ok((checked, wrong));
            }
            first += span;
        }
        Ok((checked, None))
    }

    /// The reference of a whole array, computed once a point.
    fn reference<D: Device>(&mut self, bench: &Bench<'_, D>, array: usize, total: u64, stride: u64) -> &[Expected] {
        let same = |kept: &Reference| kept.array == array && kept.stride == stride;
        let at = self.references.iter().position(same).unwrap_or_else(|| {
            self.references.push(Reference { array, stride, expected: expected(bench, array, 0, total, stride) });
            self.references.len() - 1
        });
        &self.references[at].expected
    }
}

impl<D: Device> Listener<D> for ReferenceValidator {
    fn name(&self) -> &'static str {
        "reference validator"
    }

    /// There must be a warm-up to look at.
    fn warmups(&self, _bench: &Bench<'_, D>) -> Option<u64> {
        (self.elements != 0).then_some(1)
    }

    fn pre_problem(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        self.references.clear();
        Ok(())
    }

    fn pre_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if self.elements == 0 {
            bench.record().verdict = Verdict::NoCheck;
        }
        Ok(())
    }

    fn validate_warmup(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        match bench.record().verdict {
            Verdict::Pending => self.judge(bench, self.elements, "after a warm-up"),
            Verdict::Passed(_) => self.judge(bench, self.recheck_elements(), "after a warm-up in fresh buffers"),
            Verdict::NoCheck
            | Verdict::Failed { .. }
            | Verdict::Invalid(_)
            | Verdict::Skipped(_)
            | Verdict::Throttled { .. }
            | Verdict::Contended { .. } => Ok(()),
        }
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let timed = !bench.visit.samples.is_empty();
        if timed && matches!(bench.record().verdict, Verdict::Passed(_)) {
            self.judge(bench, self.recheck_elements(), "after timed launches")?;
        }
        Ok(())
    }
}

/// What is known after another look. Looks in passing add no elements to those of the full one; the worst of all stays.
fn joined(before: &Verdict, seen: Checked) -> Checked {
    match before {
        Verdict::Passed(checked) => Checked { elements: checked.elements, ..checked.and(seen) },
        Verdict::Pending
        | Verdict::NoCheck
        | Verdict::Failed { .. }
        | Verdict::Invalid(_)
        | Verdict::Skipped(_)
        | Verdict::Throttled { .. }
        | Verdict::Contended { .. } => seen,
    }
}

/// Right values of elements `first`, `first + stride`, … below `first + span` of an array of the point in hand.
fn expected<D: Device>(bench: &Bench<'_, D>, array: usize, first: u64, span: u64, stride: u64) -> Vec<Expected> {
    let point = &bench.point().point;
    let pattern = bench.setting.task.policy.data;
    let reference = |index| bench.family.reference(point, pattern, array, first + index * stride);
    (0..span.div_ceil(stride)).map(reference).collect()
}

/// An element that is not right.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Wrong {
    element: u64,
    found: f64,
    expected: f64,
}

/// Compares values read at a stride from element `first` with what they should be.
fn compare(found: &[f64], expected: &[Expected], first: u64, stride: u64) -> (Checked, Option<Wrong>) {
    let mut checked = Checked::default();
    let mut wrong = None;
    for (index, expected) in expected.iter().enumerate() {
        let element = first + index as u64 * stride;
        // A value that did not come back counts as never written.
        let found = found.get(index).copied().unwrap_or(f64::NAN);
        let error = relative_error(found, expected.value);
        checked.elements += 1;
        if error > checked.worst.map_or(0.0, |worst| worst.error) {
            checked.worst = Some(Worst { error, element });
        }
        if error > expected.relative_tolerance && wrong.is_none() {
            wrong = Some(Wrong { element, found, expected: expected.value });
        }
    }
    (checked, wrong)
}

/// The error of a value; absolute where the right one is zero, infinite where it is no number.
fn relative_error(found: f64, expected: f64) -> f64 {
    let difference = (found - expected).abs();
    if found == expected {
        0.0
    } else if !difference.is_finite() {
        f64::INFINITY
    } else if expected == 0.0 {
        difference
    } else {
        difference / expected.abs()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_worst_and_the_first_wrong_element_are_found() {
        let expected = [1.0, 2.0, 0.0, 4.0].map(|value| Expected { value, relative_tolerance: 0.01 });
        let (checked, wrong) = compare(&[1.001, 2.0, 0.5, 8.0], &expected, 10, 3);
        assert_eq!(checked, Checked { elements: 4, worst: Some(Worst { error: 1.0, element: 19 }) });
        assert_eq!(wrong, Some(Wrong { element: 16, found: 0.5, expected: 0.0 }));
    }

    #[test]
    fn poison_and_missing_values_are_wrong_by_infinity() {
        let expected = [Expected { value: 1.0, relative_tolerance: 0.5 }];
        for found in [&[f64::NAN][..], &[f64::INFINITY], &[]] {
            let (checked, wrong) = compare(found, &expected, 0, 1);
            assert_eq!(checked.worst, Some(Worst { error: f64::INFINITY, element: 0 }), "{found:?}");
            assert!(wrong.is_some(), "{found:?} must be wrong");
        }
    }
}
