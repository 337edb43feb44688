use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use fleetcal_kernels::{BufferRole, BufferSpec};
use fleetcal_model::point::{Dtype, Sweep};

use super::planted::{self, Misdeed, Planted};
use super::*;
use crate::device::nan_bits;
use crate::harness::clock::SystemClock;
use crate::harness::tests::fake;
use crate::harness::{self, Setting};
pub(super) use crate::testing::tree;
use crate::worker::message::Event;
use crate::worker::resume::Resume;

/// A device of one core on a machine with 4 GiB free, whatever this machine has.
fn device() -> (tempfile::TempDir, CpuDevice) {
    let root = tree(&[("proc/meminfo", "MemTotal: 8388608 kB\nMemAvailable: 4194304 kB\n")]);
    let facts = facts::read(root.path(), DeviceId::new("CPU-test"), &[0]);
    let device = CpuDevice::open_below(root.path(), &facts).expect("one core is usable");
    (root, device)
}

fn spec(role: BufferRole, elements: u64) -> BufferSpec {
    BufferSpec { name: "a", role, dtype: Dtype::F64, elements, rows: None }
}

const RESERVED: u64 = 512 << 20;
const FREE: u64 = (4 << 30) - RESERVED;

#[test]
fn memory_that_is_promised_and_not_yet_written_counts_as_taken() {
    let (_root, mut device) = device();
    assert_eq!(device.memory_available_bytes(), Ok(FREE));
    let buffer = device.allocate(1 << 20, PageGuard::None).expect("there is room");
    assert_eq!(device.memory_available_bytes(), Ok(FREE - (1 << 20)));
    let half = Array { buffer: &buffer, offset_bytes: 0, spec: spec(BufferRole::Output, 1 << 16) };
    device.set(&half, nan_bits(half.spec.dtype)).expect("the array lies inside");
    // From here on the kernel counts the written half itself; the test's file does not change.
    assert_eq!(device.memory_available_bytes(), Ok(FREE - (1 << 19)));
    device.set(&half, nan_bits(half.spec.dtype)).expect("the array lies inside");
    assert_eq!(device.memory_available_bytes(), Ok(FREE - (1 << 19)), "writing twice must count once");
    drop(buffer);
    assert_eq!(device.memory_available_bytes(), Ok(FREE));
    let error = device.allocate(FREE + 1, PageGuard::None).map(|_| ());
    assert_eq!(error, Err(DeviceError::OutOfMemory { wanted_bytes: FREE + 1, free_bytes: FREE }));
}

#[test]
fn arrays_outside_their_buffer_or_over_each_other_are_refused() {
    let (_root, mut device) = device();
    let buffer = device.allocate(1 << 20, PageGuard::None).expect("there is room");
    let array = |offset_bytes, role, elements| Array { buffer: &buffer, offset_bytes, spec: spec(role, elements) };
    for (offset_bytes, elements) in [(8, 1 << 17), (u64::MAX, 1), (0, u64::MAX), (4, 8)] {
        let outcome = device.set(&array(offset_bytes, BufferRole::Output, elements), 0);
        assert!(matches!(outcome, Err(DeviceError::Launch { .. })), "{elements} at {offset_bytes}: {outcome:?}");
    }
    let point = Point {
        sweep: Sweep::Stream,
        kernel: "copy".to_owned(),
        dtype: Dtype::F64,
        sizes: [("elements".to_owned(), 1 << 15)].into(),
    };
    let solution = Solution { name: "plain".to_owned(), parameters: [(parameter::THREADS.to_owned(), 1)].into() };
    let prepared = device.prepare(&[(point, solution)]).remove(0).expect("copy is known");
    let input = BufferRole::Input { seed: 1 };
    let overlapping = [array(0, BufferRole::Output, 1 << 15), array(8, input, 1 << 15)];
    let outcome = device.run(&prepared, &overlapping);
    assert!(outcome.as_ref().is_err_and(|error| error.to_string().contains("overlaps")), "{outcome:?}");
    let unequal = [array(0, BufferRole::Output, 1 << 15), array(1 << 19, input, 1 << 14)];
    let outcome = device.run(&prepared, &unequal);
    assert!(outcome.as_ref().is_err_and(|error| error.to_string().contains("length")), "{outcome:?}");
}

#[test]
fn more_threads_than_cores_are_refused() {
    let (_root, mut device) = device();
    let point = "stream/copy/f32/elements=32768".parse::<Point>().expect("a point");
    let solution = Solution { name: "many".to_owned(), parameters: [(parameter::THREADS.to_owned(), 2)].into() };
    let outcome = device.prepare(&[(point, solution)]).remove(0).map(|_| ());
    assert!(matches!(outcome, Err(DeviceError::Compile { .. })), "{outcome:?}");
    let facts = DeviceFacts { compute_units: 1 << 20, ..device.facts().clone() };
    let outcome = CpuDevice::open(&facts).map(|_| ());
    assert!(matches!(outcome, Err(DeviceError::Launch { .. })), "a core that went away must be said: {outcome:?}");
}

/// Names the stray access and the guard of the process that is to die of it.
const STRAY: &str = "FLEETCAL_TEST_STRAY";

const STRAYS: [(&str, Misdeed, PageGuard); 4] = [
    ("reads_beyond", Misdeed::ReadsBeyond, PageGuard::Back),
    ("writes_beyond", Misdeed::WritesBeyond, PageGuard::Back),
    ("writes_before", Misdeed::WritesBefore, PageGuard::Front),
    // The guard is on the other side: nothing may happen, and the process lives.
    ("writes_before_an_open_front", Misdeed::WritesBefore, PageGuard::Back),
];

#[test]
fn an_access_to_a_guarded_page_ends_the_process() {
    if let Ok(name) = std::env::var(STRAY) {
        let (_, stray, guard) = STRAYS.into_iter().find(|(known, ..)| *known == name).expect("a known access");
        run_astray(stray, guard);
        return;
    }
    for (name, _, guard) in STRAYS {
        let test = "device::cpu::tests::an_access_to_a_guarded_page_ends_the_process";
        let program = std::env::current_exe().expect("this program");
        let output = Command::new(program).args(["--exact", test]).env(STRAY, name).output().expect("it starts");
        let said = String::from_utf8_lossy(&output.stdout);
        if name == "writes_before_an_open_front" {
            assert!(output.status.success(), "{name}, {guard:?}: {:?} {said}", output.status);
        } else {
            assert_eq!(output.status.signal(), Some(SEGMENTATION_FAULT), "{name}, {guard:?}: {said}");
        }
    }
}

const SEGMENTATION_FAULT: i32 = 11;

/// Copies between guarded arrays with a program that accesses one element too many. Arrays are half a page longer than
/// whole pages, so that the side that is not guarded is memory.
fn run_astray(stray: Misdeed, guard: PageGuard) {
    let (_root, mut device) = device();
    device.planted = Some(Planted { misdeed: stray, solution: None });
    let point: Point = "stream/copy/f64/elements=32768".parse().expect("a point");
    let solution = Solution { name: "plain".to_owned(), parameters: [(parameter::THREADS.to_owned(), 1)].into() };
    let prepared = device.prepare(&[(point, solution)]).remove(0).expect("copy is known");
    let elements = (1 << 15) + 256;
    let specs = [spec(BufferRole::Output, elements), spec(BufferRole::Input { seed: 1 }, elements)];
    let buffers = [0, 1].map(|_| device.allocate(8 * elements, guard).expect("there is room"));
    let arrays = [0, 1].map(|index| Array { buffer: &buffers[index], offset_bytes: 0, spec: specs[index].clone() });
    device.run(&prepared, &arrays).expect("the arrays are those of the program");
}

#[test]
fn guard_zones_show_what_a_program_does_beside_its_arrays() {
    for (stray, said) in [
        (Misdeed::ReadsBeyond, "c[32767] is NaN after a warm-up"),
        (Misdeed::WritesBeyond, "c[32768], behind its last element, is 7"),
        (Misdeed::WritesBefore, "c[-1], before its first element, is 7"),
    ] {
        let (_root, mut device) = device();
        device.planted = Some(Planted { misdeed: stray, solution: None });
        let task = fake::task(vec!["stream/copy/f64/elements=32768".parse().expect("a point")]);
        let (labels, interrupt, clock) = (fake::labels(), AtomicBool::new(false), SystemClock::start());
        let resume = Resume::default();
        let setting = Setting { task: &task, labels: &labels, resume: &resume, interrupt: &interrupt, clock: &clock };
        let mut events: Vec<Event> = Vec::new();
        harness::measure(&mut device, setting, &mut events).expect("a stray program costs its solutions alone");
        let rows = events.iter().filter_map(|event| {
            let Event::RowClosed { template, .. } = event else { return None };
            Some(&template.outcome)
        });
        let reasons: Vec<&str> = rows.map(|outcome| outcome.reason.as_deref().unwrap_or_default()).collect();
        assert!(!reasons.is_empty() && reasons.iter().all(|reason| reason.contains(said)), "{stray:?}: {reasons:?}");
    }
}

/// Defect 2 of docs/harness.md.
#[test]
fn a_launch_has_ended_when_run_returns() {
    let (_root, mut device) = device();
    let point: Point = "stream/copy/f64/elements=32768".parse().expect("a point");
    let solution = Solution { name: "plain".to_owned(), parameters: [(parameter::THREADS.to_owned(), 1)].into() };
    device.planted = Some(Planted { misdeed: Misdeed::OutlastsAnEagerCaller, solution: None });
    let prepared = device.prepare(&[(point, solution)]).remove(0).expect("copy is known");
    let specs = [spec(BufferRole::Output, 1 << 15), spec(BufferRole::Input { seed: 1 }, 1 << 15)];
    let buffers = [0, 1].map(|_| device.allocate(1 << 18, PageGuard::None).expect("there is room"));
    let arrays = [0, 1].map(|index| Array { buffer: &buffers[index], offset_bytes: 0, spec: specs[index].clone() });
    device.run(&prepared, &arrays).expect("nothing is wrong");
    let ended = planted::caller_goes_on();
    assert!(ended, "the caller went on while the launch was still running");
}
