//! What only a device can show. Where there is none, that is said.

use cudarc::driver::sys;
use fleetcal_kernels::{BufferSpec, family};
use fleetcal_model::point::{Point, Solution};

use super::memory::CudaBuffer;
use super::*;
use crate::device::{Array, Device, PageGuard, Series, nan_bits};

/// Elements of arrays of which a copy takes long on any device: half a millisecond on an H200.
const ELEMENTS: u64 = 1 << 28;

/// Every device of this machine, opened; none where there are none, which is said.
fn devices() -> Vec<CudaDevice> {
    let found = match discover() {
        Ok(found) => found,
        Err(error) => {
            println!("skipped: no cuda device: {error}");
            return Vec::new();
        }
    };
    let opened = found.iter().map(|facts| CudaDevice::open(&facts.uuid).expect("a device that was found opens"));
    opened.collect()
}

/// A copy, its solutions, and the arrays that it works on.
fn copy(device: &CudaDevice, elements: u64) -> (Vec<(Point, Solution)>, Vec<BufferSpec>) {
    let point: Point = format!("stream/copy/f32/elements={elements}").parse().expect("a point");
    let family = family(point.sweep).expect("it has kernels");
    let solutions = family.solutions(&point, device.facts());
    let specs = family.buffers(&point);
    (solutions.into_iter().map(|solution| (point.clone(), solution)).collect(), specs)
}

/// Whether everything that was put on the device's stream has ended.
#[allow(unsafe_code)]
fn is_idle(device: &CudaDevice) -> bool {
    device.driver.context.bind_to_thread().expect("the context is there");
    // SAFETY: the stream lives as long as the device.
    let answer = unsafe { sys::cuStreamQuery(device.driver.stream.cu_stream()) };
    assert!(
        matches!(answer, sys::CUresult::CUDA_SUCCESS | sys::CUresult::CUDA_ERROR_NOT_READY),
        "the stream is broken: {answer:?}"
    );
    answer == sys::CUresult::CUDA_SUCCESS
}

/// Defects 2 and 10 of docs/harness.md, on every device there is.
#[test]
fn a_launch_has_ended_when_run_returns_whichever_device_it_is() {
    for mut device in devices() {
        let (work, specs) = copy(&device, ELEMENTS);
        let prepared = device.prepare(&work[..1]).remove(0).expect("the first solution compiles");
        let buffers: Vec<CudaBuffer> =
            specs.iter().map(|spec| device.allocate(spec.bytes(), PageGuard::None).expect("there is room")).collect();
        let placed = specs.iter().zip(&buffers);
        let arrays: Vec<_> =
            placed.map(|(spec, buffer)| Array { buffer, offset_bytes: 0, spec: spec.clone() }).collect();
        for array in &arrays {
            device.set(array, nan_bits(array.spec.dtype)).expect("it can be set");
        }
        device.enqueue(&prepared, &arrays).expect("it can be queued");
        assert!(!is_idle(&device), "a launch that is only queued is seen to run");
        device.driver.stream.synchronize().expect("it ends");
        device.run(&prepared, &arrays).expect("it runs");
        assert!(is_idle(&device), "{}: the launch still runs", device.facts().uuid);
        let series = Series { intervals: 1, launches: 1, flush_bytes: Some(1 << 28) };
        assert_eq!(device.time(&prepared, &arrays, series).expect("it can be timed").len(), 1);
        assert!(is_idle(&device), "{}: timed launches still run", device.facts().uuid);
    }
}

#[test]
fn code_that_cannot_be_loaded_costs_its_solution_and_leaves_the_context_whole() {
    for mut device in devices() {
        let own = device.target.clone();
        let (work, _) = copy(&device, 1 << 20);
        // Machine code of another generation compiles well.
        device.target = if own == "sm_75" { "sm_90" } else { "sm_75" }.to_owned();
        let refused = device.prepare(&work[..1]).remove(0).map(|_| ());
        let Err(DeviceError::Load { entry, reason }) = refused else { panic!("it cannot be loaded: {refused:?}") };
        assert!(entry.contains("stream.cu"), "{entry}");
        assert!(reason.contains("NO_BINARY_FOR_GPU"), "the driver's words are kept: {reason}");
        device.target = own;
        device.forget_programs();
        let loaded = device.prepare(&work[..1]).remove(0).map(|_| ());
        assert_eq!(loaded, Ok(()), "the context is whole");
    }
}
