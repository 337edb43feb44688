//! Device memory, and host memory that is locked in place. Plain allocations: a pool would hand the same addresses out
//! again, and fresh buffers are what makes a round a replicate.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::rc::Rc;

use hip_runtime_sys::{hipHostMallocDefault, hipMemcpyKind};

use super::context::Context;
use super::guarded::Guarded;
use crate::device::gpu::Memory;
use crate::device::{DeviceError, PageGuard};

/// Left for the driver, other processes and the display.
const RESERVE_BYTES: u64 = 512 << 20;

/// An allocation, freed on drop.
#[derive(Debug)]
pub struct HipBuffer {
    context: Rc<Context>,
    address: *mut c_void,
    bytes: u64,
    /// What the memory is part of, where pages next to it are unmapped; freed by that then.
    guarded: Option<Guarded>,
}

impl Memory for HipBuffer {
    fn address(&self) -> u64 {
        self.address as u64
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Locked host memory, freed on drop.
#[derive(Debug)]
pub struct HostBuffer {
    context: Rc<Context>,
    address: *mut f64,
    values: usize,
}

/// Bytes free on the device, less the reserve.
pub(super) fn available_bytes(context: &Context) -> Result<u64, DeviceError> {
    let (mut free, mut total) = (0, 0);
    let mut ask = || {
        context.bind()?;
        // SAFETY: both pointers are to live integers.
        context.runtime.check(unsafe { (context.runtime.calls.memory_info)(&raw mut free, &raw mut total) })
    };
    ask().map_err(|fault| fault.of_work("asking for free memory"))?;
    Ok((free as u64).saturating_sub(RESERVE_BYTES))
}

/// Allocates on the context's device.
pub(super) fn allocate(context: &Rc<Context>, bytes: u64, guard: PageGuard) -> Result<HipBuffer, DeviceError> {
    let free_bytes = available_bytes(context)?;
    if guard != PageGuard::None {
        let (guarded, address) = Guarded::allocate(context, bytes, guard, free_bytes)?;
        return Ok(HipBuffer { context: Rc::clone(context), address, bytes, guarded: Some(guarded) });
    }
    // HIP on a host whose memory the device shares hands out more than there is: what was promised is kept here.
    if bytes > free_bytes.saturating_add(RESERVE_BYTES) {
        return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes });
    }
    let size = usize::try_from(bytes).unwrap_or(usize::MAX);
    let runtime = context.runtime;
    // SAFETY: the device is current on this thread; the memory is not read before it is written.
    let address = runtime.written(std::ptr::null_mut(), |to| unsafe { (runtime.calls.allocate)(to, size) });
    let address = address.map_err(|fault| fault.of_allocating("allocating", bytes, free_bytes))?;
    Ok(HipBuffer { context: Rc::clone(context), address, bytes, guarded: None })
}

/// Locks host memory for so many values.
pub(super) fn allocate_on_host(context: &Rc<Context>, values: usize) -> Result<HostBuffer, DeviceError> {
    let runtime = context.runtime;
    let bytes = values.saturating_mul(size_of::<f64>());
    let allocate = || {
        context.bind()?;
        // SAFETY: the device is current on this thread, and the pointer is to a live address.
        let call = |to| unsafe { (runtime.calls.allocate_on_host)(to, bytes, hipHostMallocDefault) };
        runtime.written(std::ptr::null_mut::<c_void>(), call)
    };
    let address = allocate().map_err(|fault| fault.of_work("locking host memory"))?;
    // SAFETY: the library handed out so many bytes just now.
    unsafe { address.cast::<u8>().write_bytes(0, bytes) };
    Ok(HostBuffer { context: Rc::clone(context), address: address.cast(), values })
}

/// Copies the first values of a buffer to the host once everything before it in the stream is done, waits for that, and
/// shows them.
pub(super) fn read<'a>(buffer: &HipBuffer, host: &'a mut HostBuffer, values: usize) -> Result<&'a [f64], DeviceError> {
    let bytes = values.saturating_mul(size_of::<f64>());
    if values > host.values || bytes as u64 > buffer.bytes {
        let reason = format!("{values} values do not fit into {} bytes", buffer.bytes);
        return Err(DeviceError::Launch { what: "reading back".to_owned(), reason });
    }
    let kind = hipMemcpyKind::hipMemcpyDeviceToHost;
    copy(&buffer.context, host.address.cast(), buffer.address, bytes, kind, "reading back")?;
    // SAFETY: it has at least so many values, which were written just now, and any bytes are a valid f64; nothing writes
    // there while `host` is borrowed.
    Ok(unsafe { std::slice::from_raw_parts(host.address, values) })
}

/// Copies bytes from the host to the start of a buffer, and waits for it.
pub(super) fn write(buffer: &HipBuffer, from: &[u8]) -> Result<(), DeviceError> {
    if from.len() as u64 > buffer.bytes {
        let reason = format!("{} bytes do not fit into {}", from.len(), buffer.bytes);
        return Err(DeviceError::Launch { what: "writing to the device".to_owned(), reason });
    }
    let kind = hipMemcpyKind::hipMemcpyHostToDevice;
    copy(&buffer.context, buffer.address, from.as_ptr().cast(), from.len(), kind, "writing to the device")
}

/// Copies in the order of the stream, and waits. Both ends are live and have so many bytes: the callers have looked.
fn copy(
    context: &Context,
    to: *mut c_void,
    from: *const c_void,
    bytes: usize,
    kind: hipMemcpyKind,
    what: &str,
) -> Result<(), DeviceError> {
    let run = || {
        context.bind()?;
        // SAFETY: as the callers of this private function have it; the copy is waited for while both ends are borrowed.
        let code = unsafe { (context.runtime.calls.copy)(to, from, bytes, kind as i32, context.stream) };
        context.runtime.check(code)?;
        context.synchronize()
    };
    run().map_err(|fault| fault.of_work(what))
}

impl Drop for HipBuffer {
    fn drop(&mut self) {
        // A device that is lost cannot free; the end of the process does.
        if self.guarded.is_none() && self.context.bind().is_ok() {
            // SAFETY: the address came from the allocator, is freed once, and the library waits for work that uses it.
            _ = unsafe { (self.context.runtime.calls.free)(self.address) };
        }
    }
}

impl Drop for HostBuffer {
    fn drop(&mut self) {
        // SAFETY: the address came from the allocator, is freed once, and copies to it were waited for.
        _ = unsafe { (self.context.runtime.calls.free_on_host)(self.address.cast()) };
    }
}
