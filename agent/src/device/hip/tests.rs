//! The whole backend on a stand-in library. It shows that calls are made as docs/hip-abi.md has them, and nothing of a
//! real device.

use std::ffi::c_int;
use std::path::{Path, PathBuf};

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferRole, family};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::Origin;

use super::open::{HipDevice, find};
use super::runtime::{Runtime, candidates};
use crate::device::gpu::Memory;
use crate::device::{Array, Device, DeviceError, PageGuard, Prepared, Series};
use crate::testing::c_library;

const LIBRARY: &str = include_str!("tests/library.c");
/// What the stand-in's copy copies.
const ELEMENTS: u64 = 1 << 12;

/// A stand-in with these parts left out or put in, and where it lies.
struct StandIn {
    runtime: &'static Runtime,
    path: PathBuf,
    _folder: tempfile::TempDir,
}

impl StandIn {
    /// `None` where there is no C compiler, which is then said.
    fn with(name: &str, macros: &[&str]) -> Option<Self> {
        let defines: String = macros.iter().map(|name| format!("#define {name}\n")).collect();
        let (folder, path) = c_library(name, &format!("{defines}{LIBRARY}"))?;
        let runtime = Runtime::load_of(std::slice::from_ref(&path)).expect("the stand-in has every function");
        Some(Self { runtime: Box::leak(Box::new(runtime)), path, _folder: folder })
    }

    fn facts(&self) -> Vec<DeviceFacts> {
        let (found, _) = find(self.runtime).expect("it has devices");
        found.into_iter().map(|found| found.facts).collect()
    }

    fn open(&self, device: usize) -> HipDevice {
        HipDevice::open_of(self.runtime, &self.facts()[device].uuid).expect("a device that was found opens")
    }

    /// One of its own counters.
    #[allow(unsafe_code)]
    fn counter(&self, name: &str) -> c_int {
        let library = crate::device::library::open(&self.path).expect("it is loaded already");
        // SAFETY: the stand-in's counters take nothing and give an int.
        unsafe { library.get::<unsafe extern "C" fn() -> c_int>(name.as_bytes()).expect("it is there")() }
    }
}

fn solutions(device: &HipDevice, kernel: &str) -> Vec<(Point, Solution)> {
    let point: Point = format!("stream/{kernel}/f32/elements={ELEMENTS}").parse().expect("a point");
    let solutions = family(Sweep::Stream).expect("it has kernels").solutions(&point, device.facts());
    solutions.into_iter().map(|solution| (point.clone(), solution)).collect()
}

type Program = <HipDevice as Device>::Program;
type Buffer = <HipDevice as Device>::Buffer;

/// A copy that is ready to run, and its buffers: what it writes and what it reads.
fn copy(device: &mut HipDevice, guard: PageGuard) -> (Prepared<Program>, [Buffer; 2]) {
    let work = solutions(device, "copy");
    let prepared = device.prepare(&work[..1]).remove(0).expect("the stand-in compiles it");
    let mut buffer = || device.allocate(4 * ELEMENTS, guard).expect("there is room");
    (prepared, [buffer(), buffer()])
}

fn arrays<'a>(device: &HipDevice, buffers: &'a [Buffer; 2]) -> Vec<Array<'a, Buffer>> {
    let (point, _) = solutions(device, "copy").remove(0);
    let specs = family(Sweep::Stream).expect("it has kernels").buffers(&point);
    specs.into_iter().zip(buffers).map(|(spec, buffer)| Array { buffer, offset_bytes: 0, spec }).collect()
}

#[test]
fn devices_are_what_the_runtime_says_in_either_layout_of_its_properties() {
    for (name, macros) in [("new", &[][..]), ("old", &["OLD_PROPERTIES"][..])] {
        let Some(stand_in) = StandIn::with(name, macros) else { return };
        let facts = stand_in.facts();
        let said: Vec<_> =
            facts.iter().map(|facts| (&*facts.architecture, facts.compute_units, facts.warp_size)).collect();
        assert_eq!(said, [("gfx90a", 4, 64), ("gfx1030", 5, 32)], "{name}");
        assert_eq!((facts[0].ecc, facts[1].ecc), (Some(true), None), "{name}");
        assert_eq!(facts[1].pci_bdf.as_deref(), Some("0000:c1:01.0"), "{name}");
        assert_eq!((&*facts[0].vendor, &*facts[0].name), ("amd", "Stand-in 0"));
        assert_eq!(facts[0].runtime.as_deref(), Some("hip 6.3, hiprtc 6.3"));
        assert_eq!((facts[0].last_level_cache_bytes, facts[1].last_level_cache_bytes), (Some(4 << 20), None));
        assert_ne!(facts[0].uuid, facts[1].uuid, "{name}");
        if name == "new" {
            assert_eq!(facts[0].uuid.as_str(), "GPU-9391bc8c3c4dbf45");
        }
    }
}

#[test]
fn work_runs_on_the_device_that_was_opened_and_all_is_given_back() {
    let Some(stand_in) = StandIn::with("whole", &[]) else { return };
    {
        // Both at once, each call of either meaning its own.
        let mut devices = [stand_in.open(0), stand_in.open(1)];
        for device in &mut devices {
            assert_eq!(device.origin(), Origin::Measured);
            let (prepared, buffers) = copy(device, PageGuard::None);
            assert!(prepared.compile_options.as_deref().is_some_and(|options| options.contains("--offload-arch=gfx")));
            let arrays = arrays(device, &buffers);
            let (input, output) = match arrays[0].spec.role {
                BufferRole::Input { .. } => (&arrays[0], &arrays[1]),
                BufferRole::Output | BufferRole::Scratch => (&arrays[1], &arrays[0]),
            };
            let data = InputData {
                pattern: DataPattern::Serial,
                seed: 1,
                dtype: Dtype::F32,
                row_elements: ELEMENTS,
                first_element: 0,
            };
            device.fill(input, &data).expect("it can be filled");
            device.set(output, 0).expect("it can be set");
            assert_eq!(device.gather(output, 64).expect("it can be read"), vec![0.0; 64]);
            device.run(&prepared, &arrays).expect("it runs");
            let expected: Vec<f64> = (0..ELEMENTS).map(|index| data.rounded_element(index)).collect();
            assert_eq!(device.gather(output, 1).expect("it can be read"), expected);
        }
    }
    assert_eq!(stand_in.counter("fake_live"), 0, "buffers, events, modules, streams and programs are given back");
}

#[test]
fn intervals_hold_what_they_say_with_graphs_and_without() {
    for (name, macros, graph_launches) in [("graphs", &[][..], 15), ("plain", &["NO_GRAPHS"][..], 0)] {
        let Some(stand_in) = StandIn::with(name, macros) else { return };
        let mut device = stand_in.open(0);
        let (prepared, buffers) = copy(&mut device, PageGuard::None);
        let arrays = arrays(&device, &buffers);
        let once = Series { intervals: 3, launches: 1, flush_bytes: Some(1 << 16) };
        let samples = device.time(&prepared, &arrays, once).expect("it can be timed");
        // The stand-in's clock: 10 µs a launch, 1 µs an event.
        assert!(samples.len() == 3 && samples.iter().all(|sample| sample.ns.abs_diff(11_000) < 50), "{samples:?}");
        let samples = device.time(&prepared, &arrays, Series { launches: 5, ..once }).expect("it can be timed");
        assert!(samples.iter().all(|sample| sample.ns.abs_diff(51_000) < 50), "{name}: {samples:?}");
        if name == "graphs" {
            assert_eq!(stand_in.counter("fake_graph_launches"), graph_launches, "5 launches of 3 intervals");
        }
        let instrument = device.instrument().expect("it can be measured");
        assert!((instrument.empty_launch_ns - 11_000.0).abs() < 50.0, "{instrument:?}");
        assert!((instrument.clock_overhead_ns - 1_000.0).abs() < 50.0, "{instrument:?}");
    }
}

#[test]
fn pages_are_guarded_where_they_can_be_and_refused_elsewhere() {
    let Some(stand_in) = StandIn::with("pages", &[]) else { return };
    let mut device = stand_in.open(0);
    let before = stand_in.counter("fake_live");
    for guard in [PageGuard::Front, PageGuard::Back] {
        let buffer = device.allocate(5000, guard).expect("it can be guarded");
        let border = buffer.address() + if guard == PageGuard::Back { 5000 } else { 0 };
        assert_eq!(border % 4096, 0, "{guard:?}: the border is that of a page");
    }
    assert_eq!(stand_in.counter("fake_live"), before, "reservation, memory and mapping are given back");
    let refused = |device: &mut HipDevice| match device.allocate(5000, PageGuard::Back) {
        Err(DeviceError::Launch { reason, .. }) => reason,
        other => panic!("it cannot be guarded: {:?}", other.map(drop)),
    };
    let other = refused(&mut stand_in.open(1));
    assert!(other.contains("no page guards"), "the attribute says no: {other}");
    let Some(stand_in) = StandIn::with("no_pages", &["NO_PAGES"]) else { return };
    let reason = refused(&mut stand_in.open(0));
    assert!(reason.contains("no page guards"), "the calls are not there: {reason}");
}

#[test]
fn what_goes_wrong_costs_what_it_must_and_no_more() {
    let Some(stand_in) = StandIn::with("faults", &[]) else { return };
    let mut device = stand_in.open(0);
    let total = device.facts().memory_bytes;
    for wanted in [2 * total, u64::MAX] {
        let error = device.allocate(wanted, PageGuard::None).map(drop).expect_err("there is not so much");
        assert!(matches!(error, DeviceError::OutOfMemory { wanted_bytes, .. } if wanted_bytes == wanted), "{error}");
    }
    for (kernel, said) in [
        ("scale", "does not compile: HIPRTC_ERROR_COMPILATION: error: scale is not known"),
        ("add", "cannot be loaded"),
    ] {
        let work = solutions(&device, kernel);
        let error = device.prepare(&work[..1]).remove(0).map(drop).expect_err(kernel).to_string();
        assert!(error.contains(said), "{error}");
    }
    let (mut prepared, buffers) = copy(&mut device, PageGuard::None);
    device.run(&prepared, &arrays(&device, &buffers)).expect("the process is whole");
    prepared.launches[0].blocks = 666;
    let lost = device.run(&prepared, &arrays(&device, &buffers)).expect_err("it accesses what is not there");
    assert!(matches!(&lost, DeviceError::Lost { reason } if reason.contains("an illegal memory access")), "{lost}");
    let later = device.memory_available_bytes().expect_err("the fault sticks");
    assert!(matches!(later, DeviceError::Lost { .. }), "{later}");
}

#[test]
fn an_emulator_says_that_it_is_one_and_is_never_behind() {
    let Some(stand_in) = StandIn::with("emulated", &["EMULATED"]) else { return };
    let mut device = stand_in.open(0);
    assert_eq!(device.origin(), Origin::Emulated);
    assert_eq!(device.facts().runtime.as_deref(), Some("hip 6.3, hiprtc 6.3, emulator 3"));
    assert_eq!(device.sensor().err().as_deref(), Some("the device is emulated"));
    let (prepared, buffers) = copy(&mut device, PageGuard::None);
    let arrays = arrays(&device, &buffers);
    let series = Series { intervals: 3, launches: 1, flush_bytes: None };
    assert_eq!(device.time(&prepared, &arrays, series).expect("it can be timed").len(), 3);
}

#[test]
fn a_node_without_the_library_or_a_device_is_told_so_in_a_sentence() {
    let missing = candidates(Some("/nowhere/libamdhip64.so.6".into()), &["libamdhip64.so"]);
    assert_eq!(missing, [Path::new("/nowhere/libamdhip64.so.6")], "a file that was named is the only one");
    let reason = Runtime::load_of(&missing).map(drop).expect_err("there is none");
    for said in ["/nowhere/libamdhip64.so.6", "is ROCm installed?", "FLEETCAL_HIP"] {
        assert!(reason.contains(said), "{reason}");
    }
    let named = candidates(None, &["libamdhip64.so.6"]);
    assert_eq!(named, [Path::new("libamdhip64.so.6"), Path::new("/opt/rocm/lib/libamdhip64.so.6")]);
    let Some((_folder, path)) = c_library("lacking", "int hipInit(unsigned flags) { return 0; }") else { return };
    let reason = Runtime::load_of(&[path]).map(drop).expect_err("it has one function");
    assert!(reason.contains("hipRuntimeGetVersion"), "what is missing is said: {reason}");
    let Some(stand_in) = StandIn::with("empty", &["NO_DEVICES"]) else { return };
    let error = find(stand_in.runtime).map(drop).expect_err("it has no device").to_string();
    assert!(error.contains("the runtime shows no device (look at `rocminfo`"), "{error}");
}

#[test]
fn this_machine_has_devices_or_says_why_not() {
    match super::discover() {
        Ok(found) => assert!(!found.is_empty(), "no devices are a reason, not a list"),
        Err(error) => {
            let text = error.to_string();
            assert!(text.starts_with("libamdhip64 cannot be used: ") || text.starts_with("libhiprtc cannot"), "{text}");
        }
    }
}
