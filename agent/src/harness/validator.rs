//! Listener: compares results with the reference, on a warm-up, before anything is timed, and again after it.

use fleetcal_kernels::{BufferRole, BufferSpec, Expected};

use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::look::{CHUNK_ELEMENTS, Look};
use super::order::RoundRandom;
use super::record::{Checked, Verdict, Worst};
use crate::device::Device;

/// Elements looked at again, in later visits and after timed launches: enough to see wrong writes, cheap enough to be
/// done always.
const RECHECK_ELEMENTS: i64 = 4096;

/// Elements of each output that are poisoned before timed launches and looked at after them, so that launches that write
/// nothing do not pass on what the warm-up wrote. So few are written in microseconds, and stir up no cache.
const WINDOW_ELEMENTS: u64 = 4096;

/// Of the first so many measuring rounds, one is chosen for each solution in which the whole output is poisoned before
/// timed launches, and looked at in full after them. No task has fewer rounds than that, unless its plan says so.
const CHOSEN_OF_ROUNDS: u64 = 3;

/// The reference of one look at one array of the point in hand.
struct Reference {
    array: usize,
    look: Look,
    expected: Vec<Expected>,
}

/// How closely a visit's results are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// As many elements as the plan wants.
    Full,
    /// Some.
    InPassing,
    /// Some, and those that were poisoned before the timed launches.
    Window,
}

/// A part of a look at an output.
struct Part<'a> {
    array: usize,
    spec: &'a BufferSpec,
    look: Look,
    part: Look,
}

/// Cuts parts into runs that are read in one go: each of as many as one part may have alone.
fn read_together<'a, 'b>(parts: &'b [Part<'a>]) -> Vec<&'b [Part<'a>]> {
    let mut runs = Vec::new();
    let (mut start, mut values) = (0, 0);
    for (index, Part { part, .. }) in parts.iter().enumerate() {
        if index > start && values + part.values() > CHUNK_ELEMENTS {
            runs.push(&parts[start..index]);
            (start, values) = (index, 0);
        }
        values += part.values();
    }
    runs.extend((start < parts.len()).then(|| &parts[start..]));
    runs
}

/// Judges every solution once in full before it is timed, and every visit's warm-up and last timed launch in passing:
/// fresh buffers and timed launches can go wrong too. In one visit of each solution, chosen by the task's seed, the timed
/// launches are judged in full.
pub(super) struct ReferenceValidator {
    elements: i64,
    /// Kept from solution to solution of one point.
    references: Vec<Reference>,
}

impl ReferenceValidator {
    /// A validator that looks at about so many elements of each output: −1 all, 0 none.
    pub(super) fn new(elements: i64) -> Self {
        Self { elements, references: Vec::new() }
    }

    /// Judges the results of the solution in hand in full, unless the plan wants no check.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn judge_all<D: Device>(&mut self, bench: &mut Bench<'_, D>, when: &str) -> HookResult {
        if self.elements == 0 { Ok(()) } else { self.judge(bench, Depth::Full, when) }
    }

    /// How many elements a check in passing looks at.
    fn recheck_elements(&self) -> i64 {
        if self.elements < 0 { RECHECK_ELEMENTS } else { self.elements.min(RECHECK_ELEMENTS) }
    }

    /// What a check of one output looks at.
    fn looks<D: Device>(&self, bench: &Bench<'_, D>, spec: &BufferSpec, depth: Depth) -> Vec<Look> {
        let most = checked_max(bench);
        match depth {
            Depth::Full => {
                let spread = Look::spread(spec, at_most(self.elements, most, spec));
                let last = (spread.stride > 1).then(|| Look::last(spec)).filter(|last| last.elements <= most);
                std::iter::once(spread).chain(last).collect()
            }
            Depth::InPassing => vec![Look::spread(spec, at_most(self.recheck_elements(), most, spec))],
            Depth::Window => {
                vec![window(bench, spec), Look::spread(spec, at_most(self.recheck_elements(), most, spec))]
            }
        }
    }

    /// Compares every output of the point in hand, and joins what it finds to the verdict of the record in hand. Stops
    /// after the first parts read together among which one is wrong.
    fn judge<D: Device>(&mut self, bench: &mut Bench<'_, D>, depth: Depth, when: &str) -> HookResult {
        let before = bench.record().verdict.clone();
        let outputs = outputs(bench);
        let mut parts = Vec::new();
        for (array, spec) in &outputs {
            for look in self.looks(bench, spec, depth) {
                parts.extend(look.parts(spec).map(|part| Part { array: *array, spec, look, part }));
            }
        }
        let mut seen = Checked::default();
        for together in read_together(&parts) {
            let values = bench.gather(together.iter().map(|part| (part.array, part.part)))?;
            for (part, found) in together.iter().zip(&values) {
                let (checked, wrong) = self.compare_part(bench, part, found);
                seen = seen.and(checked);
                if let Some(Wrong { element, found, expected }) = wrong {
                    let reason = format!("{}[{element}] is {found} {when}, expected {expected}", part.spec.name);
                    bench.record().verdict = Verdict::Failed { checked: joined(&before, seen), reason };
                    return Ok(());
                }
            }
        }
        bench.record().verdict = Verdict::Passed(joined(&before, seen));
        Ok(())
    }

    fn compare_part<D: Device>(
        &mut self,
        bench: &Bench<'_, D>,
        &Part { array, spec, look, part }: &Part<'_>,
        found: &[f64],
    ) -> (Checked, Option<Wrong>) {
        // Only what the next solution will be compared with too is worth its memory.
        if part == look && part.first == 0 {
            compare(found, self.reference(bench, array, spec, look), part, spec)
        } else {
            compare(found, &expected(bench, array, spec, part), part, spec)
        }
    }

    /// The reference of a look that fits one part, computed once a point.
    fn reference<D: Device>(
        &mut self,
        bench: &Bench<'_, D>,
        array: usize,
        spec: &BufferSpec,
        look: Look,
    ) -> &[Expected] {
        let same = |kept: &Reference| kept.array == array && kept.look == look;
        let at = self.references.iter().position(same).unwrap_or_else(|| {
            self.references.push(Reference { array, look, expected: expected(bench, array, spec, look) });
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
            Verdict::Pending => self.judge(bench, Depth::Full, "after a warm-up"),
            Verdict::Passed(_) => self.judge(bench, Depth::InPassing, "after a warm-up in fresh buffers"),
            Verdict::NoCheck
            | Verdict::Failed { .. }
            | Verdict::Invalid(_)
            | Verdict::Skipped(_)
            | Verdict::Throttled { .. }
            | Verdict::Contended { .. } => Ok(()),
        }
    }

    /// Takes away what the warm-ups wrote, before the first timed launch.
    fn pre_sync(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        if !bench.visit.samples.is_empty() || !matches!(bench.record().verdict, Verdict::Passed(_)) {
            return Ok(());
        }
        if is_chosen(bench) {
            return bench.poison_outputs();
        }
        for (array, spec) in outputs(bench) {
            let Look { first, elements, .. } = window(bench, &spec);
            bench.poison_part(array, first, elements)?;
        }
        Ok(())
    }

    fn post_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let timed = !bench.visit.samples.is_empty();
        if timed && matches!(bench.record().verdict, Verdict::Passed(_)) {
            let depth = if is_chosen(bench) { Depth::Full } else { Depth::Window };
            self.judge(bench, depth, "after timed launches")?;
        }
        Ok(())
    }
}

/// The outputs of the point in hand.
fn outputs<D: Device>(bench: &Bench<'_, D>) -> Vec<(usize, BufferSpec)> {
    let buffers = bench.point().buffers.iter().enumerate();
    buffers.filter(|(_, spec)| spec.role == BufferRole::Output).map(|(array, spec)| (array, spec.clone())).collect()
}

/// Whether the visit in hand is the one whose timed launches are looked at in full.
fn is_chosen<D: Device>(bench: &Bench<'_, D>) -> bool {
    let rounds = bench.limits.rounds.clamp(1, CHOSEN_OF_ROUNDS);
    let record = bench.position.record as u64;
    bench.position.round == 1 + RoundRandom::for_check(bench.setting.task.seed, 0, record).below(rounds)
}

/// Most elements of one output of the point in hand that a check looks at.
fn checked_max<D: Device>(bench: &Bench<'_, D>) -> u64 {
    bench.family.checked_elements_max(&bench.point().point).max(1)
}

/// So many elements, −1 for all, or the most that the family's reference is good for where these are fewer.
fn at_most(elements: i64, most: u64, spec: &BufferSpec) -> i64 {
    let wanted = u64::try_from(elements).unwrap_or(spec.logical_elements());
    if wanted <= most { elements } else { i64::try_from(most).unwrap_or(i64::MAX) }
}

/// What is poisoned of an output before the timed launches of the visit in hand: another part in each visit.
fn window<D: Device>(bench: &Bench<'_, D>, spec: &BufferSpec) -> Look {
    let length = WINDOW_ELEMENTS.min(checked_max(bench));
    let places = spec.logical_elements().saturating_sub(length).saturating_add(1);
    let record = bench.position.record as u64;
    let mut random = RoundRandom::for_check(bench.setting.task.seed, bench.position.round + 1, record);
    Look::window(spec, random.below(places), length)
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

/// Right values of what a look sees of an array of the point in hand.
fn expected<D: Device>(bench: &Bench<'_, D>, array: usize, spec: &BufferSpec, look: Look) -> Vec<Expected> {
    let point = &bench.point().point;
    let pattern = bench.setting.task.policy.data;
    let reference = bench.family.reference(point, pattern, array);
    (0..look.values()).map(|index| reference(spec.position(look.first + index * look.stride))).collect()
}

/// An element that is not right.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Wrong {
    element: u64,
    found: f64,
    expected: f64,
}

/// Compares values that a look has seen with what they should be.
fn compare(found: &[f64], expected: &[Expected], look: Look, spec: &BufferSpec) -> (Checked, Option<Wrong>) {
    // Where an element lies is asked only for those that are told of.
    let element = |index: u64| spec.position(look.first + index * look.stride);
    let mut checked = Checked { elements: expected.len() as u64, worst: None };
    let mut wrong = None;
    let mut worst_error = 0.0;
    for (index, expected) in (0..).zip(expected) {
        // A value that did not come back counts as never written.
        let found = found.get(index as usize).copied();
        let error = found.map_or(f64::INFINITY, |found| expected.error(found));
        if error > worst_error {
            worst_error = error;
            checked.worst = Some(Worst { error, element: element(index) });
        }
        if error > expected.relative_tolerance && wrong.is_none() {
            let found = found.unwrap_or(f64::NAN);
            wrong = Some(Wrong { element: element(index), found, expected: expected.value });
        }
    }
    (checked, wrong)
}

#[cfg(test)]
mod tests {
    use fleetcal_model::point::Dtype;

    use super::*;

    fn spec() -> BufferSpec {
        BufferSpec { name: "c", role: BufferRole::Output, dtype: Dtype::F32, elements: 64, rows: None }
    }

    #[test]
    fn the_worst_and_the_first_wrong_element_are_found() {
        let expected = [1.0, 2.0, 0.0, 4.0].map(|value| Expected { value, relative_tolerance: 0.01 });
        let look = Look { first: 10, elements: 10, stride: 3 };
        let (checked, wrong) = compare(&[1.001, 2.0, 0.5, 9.0], &expected, look, &spec());
        assert_eq!(checked, Checked { elements: 4, worst: Some(Worst { error: 5.0 / 14.0, element: 19 }) });
        assert_eq!(wrong, Some(Wrong { element: 16, found: 0.5, expected: 0.0 }));
    }

    #[test]
    fn poison_and_missing_values_are_wrong_by_infinity() {
        let expected = [Expected { value: 1.0, relative_tolerance: 0.5 }];
        for found in [&[f64::NAN][..], &[f64::INFINITY], &[]] {
            let look = Look { first: 0, elements: 1, stride: 1 };
            let (checked, wrong) = compare(found, &expected, look, &spec());
            assert_eq!(checked.worst, Some(Worst { error: f64::INFINITY, element: 0 }), "{found:?}");
            assert!(wrong.is_some(), "{found:?} must be wrong");
        }
    }
}
