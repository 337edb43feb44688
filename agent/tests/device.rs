//! One contract for every backend: what the harness relies on, checked on each device that this machine has.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "clippy knows `#[test]` functions, not their helpers"
)]

use std::collections::BTreeSet;

use fleetcal_agent::device::discovery::{self, DeviceVisitor};
use fleetcal_agent::device::sim::SimSpec;
use fleetcal_agent::device::{Array, Device, DeviceError, PageGuard, Series, nan_bits};
use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, BufferSpec, Family, Rows, family};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Dtype, Point, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::Origin;

const ELEMENTS: u64 = 1 << 18;
/// Several periods of every pattern, and a length that divides nothing.
const PATTERN_ELEMENTS: u64 = 20_011;
/// Arrays begin inside their allocations, as the harness places them.
const OFFSET_BYTES: u64 = 4096;

/// Every clause of the contract, on the device of this UUID.
struct Contract(DeviceId);

impl DeviceVisitor for Contract {
    type Output = ();

    fn visit<D: Device>(self, mut device: D) {
        assert_eq!(device.facts().uuid, self.0, "another device was opened");
        identity_and_instrument(&mut device);
        data_is_what_the_host_computes(&mut device);
        parts_and_rows_are_told_apart(&mut device);
        memory_is_accounted_for(&mut device);
        every_solution_is_right_and_takes_time(&mut device);
        the_unknown_is_refused(&mut device);
    }
}

fn check(backend: Backend, sim: &SimSpec) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let reports = discovery::discover(folder.path(), sim);
    let report = reports.into_iter().find(|report| report.backend == backend.name()).expect("every backend reports");
    if report.devices.is_empty() {
        assert_ne!(backend, Backend::Cpu, "every machine has a processor: {:?}", report.note);
        assert_ne!(backend, Backend::Sim, "simulated devices were asked for: {:?}", report.note);
        println!("skipped: no {backend} device: {}", report.note.unwrap_or_default());
    }
    // Each of them: one that works only as the first is no device that can be named.
    for facts in &report.devices {
        discovery::with_device(facts, sim, Contract(facts.uuid.clone()))
            .unwrap_or_else(|error| panic!("{} {} cannot be opened: {error}", facts.name, facts.uuid));
    }
}

#[test]
fn the_host_processor_keeps_the_contract() {
    check(Backend::Cpu, &SimSpec::default());
}

#[test]
fn simulated_devices_keep_the_contract() {
    for model in ["1,model=S1", "2,model=S2"] {
        check(Backend::Sim, &model.parse().expect("a specification"));
    }
}

#[test]
fn cuda_devices_keep_the_contract() {
    check(Backend::Cuda, &SimSpec::default());
}

#[test]
fn hip_devices_keep_the_contract() {
    check(Backend::Hip, &SimSpec::default());
}

fn identity_and_instrument(device: &mut impl Device) {
    let facts = device.facts().clone();
    assert!(!facts.uuid.is_empty() && !facts.name.is_empty() && facts.compute_units > 0, "{facts:?}");
    let is_emulated = facts.runtime.as_ref().is_some_and(|runtime| runtime.contains("emulator"));
    let expected = match facts.backend {
        Backend::Sim => Origin::Simulated,
        Backend::Hip if is_emulated => Origin::Emulated,
        Backend::Cuda | Backend::Hip | Backend::Cpu => Origin::Measured,
    };
    assert_eq!(device.origin(), expected, "rows of {} must say where they come from", facts.name);
    let instrument = device.instrument().expect("the instrument can be measured");
    assert!(instrument.clock_resolution_ns > 0.0, "{instrument:?}");
    assert!(instrument.empty_launch_ns > 0.0, "{instrument:?}");
}

fn pattern_spec(role: BufferRole, dtype: Dtype) -> BufferSpec {
    BufferSpec { name: "a", role, dtype, elements: PATTERN_ELEMENTS, rows: None }
}

/// Random input data of a seed for an array.
fn random<Buffer>(array: &Array<'_, Buffer>, seed: u64) -> InputData {
    let BufferSpec { dtype, elements, .. } = array.spec;
    InputData { pattern: DataPattern::Random, seed, dtype, row_elements: elements, first_element: 0 }
}

fn data_is_what_the_host_computes<D: Device>(device: &mut D) {
    let bytes = OFFSET_BYTES + 8 * PATTERN_ELEMENTS;
    let buffer = device.allocate(bytes, PageGuard::None).expect("a few megabytes are free");
    for dtype in [Dtype::F32, Dtype::F64, Dtype::I32] {
        let input = Array {
            buffer: &buffer,
            offset_bytes: OFFSET_BYTES,
            spec: pattern_spec(BufferRole::Input { seed: 5 }, dtype),
        };
        for pattern in DataPattern::ALL {
            for (seed, row_elements, first_element) in [(5, PATTERN_ELEMENTS, 0), (u64::MAX, 513, 0), (5, 513, 7_001)] {
                let data = InputData { pattern: *pattern, seed, dtype, row_elements, first_element };
                device.fill(&input, &data).expect("an array can be filled");
                let expected: Vec<f64> = (0..PATTERN_ELEMENTS).map(|index| data.rounded_element(index)).collect();
                assert_same(&device.gather(&input, 1).expect("it can be read"), &expected, &format!("{data:?}"));
                let strided: Vec<f64> = expected.iter().step_by(1009).copied().collect();
                let found = device.gather(&input, 1009).expect("it can be read");
                assert_same(&found, &strided, &format!("{data:?} by 1009"));
            }
        }
        let output =
            Array { buffer: &buffer, offset_bytes: OFFSET_BYTES, spec: pattern_spec(BufferRole::Output, dtype) };
        device.set(&output, nan_bits(output.spec.dtype)).expect("an array can be poisoned");
        let poisoned = device.gather(&output, 1).expect("it can be read");
        let poison = if dtype == Dtype::I32 { f64::from(i32::MAX) } else { f64::NAN };
        let clean = poisoned.iter().position(|value| *value != poison && !(value.is_nan() && poison.is_nan()));
        assert_eq!(clean, None, "poison of {dtype} left an element alone");
    }
}

/// Parts of an array can be filled anew, and what is set or read skips the gaps between rows.
fn parts_and_rows_are_told_apart<D: Device>(device: &mut D) {
    const ROWS: Rows = Rows { elements: 100, pitch_elements: 128 };
    let buffer = device.allocate(4 * PATTERN_ELEMENTS, PageGuard::None).expect("a megabyte is free");
    let whole =
        Array { buffer: &buffer, offset_bytes: 0, spec: pattern_spec(BufferRole::Input { seed: 5 }, Dtype::F32) };
    let part = |first: u64, elements: u64| Array {
        buffer: &buffer,
        offset_bytes: 4 * first,
        spec: BufferSpec { elements, ..whole.spec.clone() },
    };
    let data = random(&whole, 5);
    device.fill(&whole, &data).expect("an array can be filled");
    device.set(&part(999, 50), nan_bits(Dtype::F32)).expect("a part can be set");
    device.fill(&part(999, 50), &InputData { first_element: 999, ..data }).expect("a part can be filled");
    let expected: Vec<f64> = (0..PATTERN_ELEMENTS).map(|index| data.rounded_element(index)).collect();
    assert_same(&device.gather(&whole, 1).expect("it can be read"), &expected, "a part filled anew");

    let rows = Array { buffer: &buffer, offset_bytes: 0, spec: BufferSpec { rows: Some(ROWS), ..whole.spec.clone() } };
    let logical = |stride: usize| -> Vec<f64> {
        let positions = (0..rows.spec.logical_elements()).step_by(stride).map(|index| rows.spec.position(index));
        positions.map(|position| data.rounded_element(position)).collect()
    };
    assert_same(&device.gather(&rows, 1).expect("it can be read"), &logical(1), "rows");
    assert_same(&device.gather(&rows, 7).expect("it can be read"), &logical(7), "rows by 7");
    let together = device.gather_all(&[(part(17, 0), 1), (part(5, 60), 3), (part(0, PATTERN_ELEMENTS), 1)]);
    let [none, few, all] = &together.expect("they can be read")[..] else { panic!("one answer a look") };
    assert_same(none, &[], "an empty look among others");
    let every_third: Vec<f64> = (5..65).step_by(3).map(|index| data.rounded_element(index)).collect();
    assert_same(few, &every_third, "a short look among others");
    assert_same(all, &expected, "a long look among others");
    device.set(&rows, nan_bits(Dtype::F32)).expect("rows can be set");
    let is_gap = |index: u64| index % ROWS.pitch_elements >= ROWS.elements;
    let expected: Vec<f64> =
        (0..PATTERN_ELEMENTS).map(|index| if is_gap(index) { data.rounded_element(index) } else { f64::NAN }).collect();
    assert_same(&device.gather(&whole, 1).expect("it can be read"), &expected, "gaps must stay as they are");
}

fn assert_same(found: &[f64], expected: &[f64], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}: elements read");
    let same = |found: f64, expected: f64| found == expected || found.is_nan() && expected.is_nan();
    let wrong = found.iter().zip(expected).position(|(found, expected)| !same(*found, *expected));
    assert_eq!(wrong.map(|index| (index, found[index], expected[index])), None, "{what}: (element, found, expected)");
}

fn memory_is_accounted_for(device: &mut impl Device) {
    let free = device.memory_available_bytes().expect("free memory can be asked for");
    let total = device.facts().memory_bytes;
    assert!(free > 0 && free <= total, "{free} of {total} bytes are free");
    for wanted in [total.saturating_mul(2), u64::MAX] {
        match device.allocate(wanted, PageGuard::None) {
            Err(DeviceError::OutOfMemory { wanted_bytes, .. }) => assert_eq!(wanted_bytes, wanted),
            Err(other) => panic!("{wanted} bytes must be out of memory, and are: {other}"),
            Ok(_) => panic!("{wanted} bytes of {total} were allocated"),
        }
    }
    for round in 0..16 {
        let held = device.allocate(free / 4, PageGuard::None).map(drop);
        assert_eq!(held, Ok(()), "allocation {round} of a quarter: dropped buffers must be freed");
    }
}

fn every_solution_is_right_and_takes_time(device: &mut impl Device) {
    for family in Sweep::ALL.iter().filter_map(|sweep| family(*sweep)) {
        for kernel in family.kernels() {
            for dtype in family.dtypes().iter().filter(|dtype| family.supports(kernel, **dtype)) {
                every_solution_of(device, family, &family.small_point(kernel, *dtype));
            }
        }
    }
}

fn every_solution_of(device: &mut impl Device, family: &dyn Family, point: &Point) {
    family.check(point).unwrap_or_else(|error| panic!("{point}: {error}"));
    let solutions = family.solutions(point, device.facts());
    if solutions.is_empty() {
        let why = family.declined(point, device.facts());
        assert!(why.contains("unsupported"), "{point} is declined without a reason: {why}");
        println!("{point}: {why}");
        return;
    }
    let names: BTreeSet<&str> = solutions.iter().map(|solution| solution.name.as_str()).collect();
    assert_eq!(names.len(), solutions.len(), "{point}: solutions need names of their own");
    let work: Vec<_> = solutions.into_iter().map(|solution| (point.clone(), solution)).collect();
    let prepared = device.prepare(&work);
    assert_eq!(prepared.len(), work.len(), "{point}: each solution has one answer");
    for (index, ((_, solution), prepared)) in work.iter().zip(prepared).enumerate() {
        let prepared = prepared.unwrap_or_else(|error| panic!("{point} {solution}: {error}"));
        let guards = [PageGuard::None, PageGuard::Front, PageGuard::Back];
        for guard in guards.into_iter().take(if index == 0 { guards.len() } else { 1 }) {
            check_solution(device, point, &solution.name, &prepared, guard);
        }
    }
}

fn check_solution<D: Device>(
    device: &mut D,
    point: &Point,
    solution: &str,
    prepared: &fleetcal_agent::device::Prepared<D::Program>,
    guard: PageGuard,
) {
    let family = family(point.sweep).expect("it had kernels before");
    let specs = family.buffers(point);
    // Between guards, arrays are flush with both ends of their allocation.
    let offset_bytes = if guard == PageGuard::None { OFFSET_BYTES } else { 0 };
    let buffers: Vec<D::Buffer> = specs
        .iter()
        .map(|spec| device.allocate(offset_bytes + spec.bytes(), guard).expect("megabytes are free"))
        .collect();
    let arrays: Vec<Array<'_, D::Buffer>> =
        specs.iter().zip(&buffers).map(|(spec, buffer)| Array { buffer, offset_bytes, spec: spec.clone() }).collect();
    // Both ways of launching must give the result: once untimed, once timed with a flush before.
    for timed in [false, true] {
        for array in &arrays {
            match array.spec.role {
                BufferRole::Input { seed } => device.fill(array, &random(array, seed)).expect("it can be filled"),
                BufferRole::Output | BufferRole::Scratch => {
                    device.set(array, nan_bits(array.spec.dtype)).expect("it can be poisoned")
                }
            }
        }
        if timed {
            let samples = device
                .time(prepared, &arrays, Series { intervals: 3, launches: 1, flush_bytes: Some(1 << 22) })
                .expect("it can be timed");
            assert_eq!(samples.len(), 3, "{point} {solution}");
            assert!(samples.iter().all(|sample| sample.ns > 0), "{point} {solution}: {samples:?}");
            let ordered = samples.windows(2).all(|pair| pair[0].start_ns + pair[0].ns <= pair[1].start_ns);
            assert!(ordered, "{point} {solution}: intervals must not overlap: {samples:?}");
        } else {
            device.run(prepared, &arrays).expect("it can be run");
        }
        for (index, array) in arrays.iter().enumerate().filter(|(_, array)| array.spec.role == BufferRole::Output) {
            let found = device.gather(array, 1).expect("it can be read");
            let reference = family.reference(point, DataPattern::Random, index);
            let wrong = found.iter().zip(0..).find_map(|(value, element)| {
                let expected = reference(element);
                let is_right = expected.error(*value) <= expected.relative_tolerance;
                (!is_right).then_some((*value, element, expected))
            });
            assert_eq!(
                wrong, None,
                "{point} {solution} (timed: {timed}, {guard:?}): (value, element, expected) differs from the reference"
            );
        }
    }
}

fn the_unknown_is_refused(device: &mut impl Device) {
    let facts: DeviceFacts = device.facts().clone();
    let point: Point = format!("stream/copy/f32/elements={ELEMENTS}").parse().expect("a point");
    let solution = family(Sweep::Stream).expect("it has kernels").solutions(&point, &facts).remove(0);
    let unknown = Point { kernel: "dot".to_owned(), ..point };
    let outcome = device.prepare(&[(unknown, solution)]).remove(0).map(|_| ());
    assert!(matches!(outcome, Err(DeviceError::Compile { .. })), "an unknown kernel must not compile: {outcome:?}");
}
