//! The real HIP backend, driving the emulated device.
//!
//! It finds its library by a variable of the environment, so its part is a process of its own: this test binary again.

use std::process::Command;

use fleetcal_agent::device::discovery::{self, DeviceVisitor};
use fleetcal_agent::device::sim::SimSpec;
use fleetcal_agent::device::{Array, Device, PageGuard, Prepared, Series, nan_bits};
use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, Family, family};
use fleetcal_model::device::Backend;
use fleetcal_model::point::{Point, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::Origin;
use fleetcal_tests::emulator::Emulator;

use crate::setting;

/// The test that is run in the process with the variables set.
const INSIDE: &str = "backend::inside";
/// Says that this process is it.
const IS_INSIDE: &str = "FLEETCAL_TEST_INSIDE_EMULATOR";

#[test]
fn the_real_backend_runs_every_solution_right_on_devices_told_apart() {
    let Some(emulator) = Emulator::build() else { return };
    let mut command = Command::new(std::env::current_exe().expect("a test knows its own path"));
    command.args(["--exact", INSIDE, "--nocapture", "--test-threads=1"]);
    command.env(IS_INSIDE, "1").env("FLEETCAL_HIP", &emulator.library).env("FLEETCAL_HIPRTC", &emulator.library);
    command.env("FLEETCAL_EMULATOR_DEVICES", "2").envs(setting(5, 64));
    let output = command.output().expect("the test binary starts");
    let (said, faults) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{faults}");
    assert!(said.contains("the backend was tried"), "nothing ran: {said}\n{faults}");
    assert!(!faults.contains("fleetcal emulator: "), "a kernel is not clean: {faults}");
}

/// Does nothing in the first process.
#[test]
fn inside() {
    if std::env::var_os(IS_INSIDE).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let spec = SimSpec::default();
    let reports = discovery::discover(folder.path(), &spec);
    let report = reports.into_iter().find(|report| report.backend == Backend::Hip.name()).expect("it reports");
    assert_eq!(report.devices.len(), 2, "{:?}", report.note);
    assert_ne!(report.devices[0].uuid, report.devices[1].uuid);
    // The second: one that works only as the first is no device that can be named.
    let facts = &report.devices[1];
    discovery::with_device(facts, &spec, EverySolution).unwrap_or_else(|error| panic!("{}: {error}", facts.uuid));
    println!("the backend was tried");
}

struct EverySolution;

impl DeviceVisitor for EverySolution {
    type Output = ();

    fn visit<D: Device>(self, mut device: D) {
        assert_eq!(device.origin(), Origin::Emulated, "rows must say where they come from");
        for family in Sweep::ALL.iter().filter_map(|sweep| family(*sweep)) {
            for kernel in family.kernels() {
                for dtype in family.dtypes().iter().filter(|dtype| family.supports(kernel, **dtype)) {
                    every_solution(&mut device, family, &family.small_point(kernel, *dtype));
                }
            }
        }
    }
}

fn every_solution<D: Device>(device: &mut D, family: &dyn Family, point: &Point) {
    let solutions = family.solutions(point, device.facts());
    let work: Vec<_> = solutions.into_iter().map(|solution| (point.clone(), solution)).collect();
    if work.is_empty() {
        println!("{point}: {}", family.declined(point, device.facts()));
    }
    for (index, ((_, solution), prepared)) in work.iter().zip(device.prepare(&work)).enumerate() {
        let prepared = prepared.unwrap_or_else(|error| panic!("{point} {solution}: {error}"));
        let case = format!("{point} {solution}");
        check(device, family, point, &prepared, (PageGuard::None, false), &case);
        // What the solutions of a point share is looked at once.
        if index == 0 {
            check(device, family, point, &prepared, (PageGuard::Front, false), &case);
            check(device, family, point, &prepared, (PageGuard::Back, true), &case);
        }
    }
}

/// Runs or times a solution on fresh arrays, and looks at every element that it has written.
fn check<D: Device>(
    device: &mut D,
    family: &dyn Family,
    point: &Point,
    prepared: &Prepared<D::Program>,
    (guard, timed): (PageGuard, bool),
    case: &str,
) {
    let specs = family.buffers(point);
    let allocate = |spec: &fleetcal_kernels::BufferSpec| device.allocate(spec.bytes(), guard).expect("memory is free");
    let buffers: Vec<D::Buffer> = specs.iter().map(allocate).collect();
    let arrays: Vec<Array<'_, D::Buffer>> = specs
        .iter()
        .zip(&buffers)
        .map(|(spec, buffer)| Array { buffer, offset_bytes: 0, spec: spec.clone() })
        .collect();
    for array in &arrays {
        let data: Option<InputData> = array.spec.input(DataPattern::Random);
        match data {
            Some(data) => device.fill(array, &data).expect("it can be filled"),
            None => device.set(array, nan_bits(array.spec.dtype)).expect("it can be poisoned"),
        }
    }
    if timed {
        let samples = device.time(prepared, &arrays, Series { intervals: 3, launches: 2, flush_bytes: Some(1 << 16) });
        let samples = samples.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert!(samples.len() == 3 && samples.iter().all(|sample| sample.ns > 0), "{case}: {samples:?}");
    } else {
        device.run(prepared, &arrays).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
    for (index, array) in arrays.iter().enumerate().filter(|(_, array)| array.spec.role == BufferRole::Output) {
        let expected = family.reference(point, DataPattern::Random, index);
        let checked = family.checked_elements_max(point).max(1);
        let stride = array.spec.logical_elements().div_ceil(checked).max(1);
        let found = device.gather(array, stride).expect("it can be read");
        let elements = (0..).step_by(usize::try_from(stride).expect("strides fit"));
        let wrong = found.iter().zip(elements).find(|(value, element)| {
            let right = expected(array.spec.position(*element));
            right.error(**value) > right.relative_tolerance
        });
        assert_eq!(wrong, None, "{case} (timed: {timed}, {guard:?}): (value, element) differs from the reference");
    }
}
