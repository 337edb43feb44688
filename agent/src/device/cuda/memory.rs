//! Device memory. Plain allocations: a pool would hand the same addresses out again, and fresh buffers are what makes a
//! round a replicate.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError, PinnedHostSlice, result, sys};

use super::driver;
use super::guarded::{self, Guarded};
use crate::device::gpu::Memory;
use crate::device::{DeviceError, PageGuard};

/// Left for the driver, other contexts and the display.
const RESERVE_BYTES: u64 = 512 << 20;

/// An allocation, freed on drop.
#[derive(Debug)]
pub struct CudaBuffer {
    context: Arc<CudaContext>,
    address: sys::CUdeviceptr,
    bytes: u64,
    /// What the memory is part of, where pages next to it are unmapped; freed by that then.
    guarded: Option<Guarded>,
}

impl Memory for CudaBuffer {
    fn address(&self) -> u64 {
        self.address
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// Bytes free on the device, less the reserve.
pub(super) fn available_bytes(context: &CudaContext) -> Result<u64, DeviceError> {
    let (free, _) = context.mem_get_info().map_err(|error| driver::fault("asking for free memory", error))?;
    Ok((free as u64).saturating_sub(RESERVE_BYTES))
}

/// Allocates next to unmapped addresses.
pub(super) fn allocate_guarded(
    context: &Arc<CudaContext>,
    bytes: u64,
    guard: PageGuard,
) -> Result<CudaBuffer, DeviceError> {
    let (guarded, address) = guarded::allocate(context, bytes, guard, available_bytes(context)?)?;
    Ok(CudaBuffer { context: Arc::clone(context), address, bytes, guarded: Some(guarded) })
}

#[allow(unsafe_code)]
mod calls {
    use super::{
        Arc, CudaBuffer, CudaContext, CudaStream, DeviceError, DriverError, PinnedHostSlice, available_bytes, driver,
        result, sys,
    };

    /// Allocates on the context's device.
    pub(in super::super) fn allocate(context: &Arc<CudaContext>, bytes: u64) -> Result<CudaBuffer, DeviceError> {
        context.bind_to_thread().map_err(|error| driver::fault("allocating", error))?;
        let size = usize::try_from(bytes).unwrap_or(usize::MAX);
        // SAFETY: the context is current on this thread; the memory is not read before it is written.
        match unsafe { result::malloc_sync(size) } {
            Ok(address) => Ok(CudaBuffer { context: Arc::clone(context), address, bytes, guarded: None }),
            Err(DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY)) => {
                Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: available_bytes(context)? })
            }
            Err(error) => Err(driver::fault("allocating", error)),
        }
    }

    /// Host memory that is locked in place, of so many values.
    pub(in super::super) fn allocate_on_host(
        context: &Arc<CudaContext>,
        values: usize,
    ) -> Result<PinnedHostSlice<f64>, DeviceError> {
        // No flags: memory that combines writes would be slow to read.
        // SAFETY: any bytes are a valid f64, so it does not matter what it holds at first.
        unsafe { context.alloc_pinned_with_flags(values, 0) }
            .map_err(|error| driver::fault("locking host memory", error))
    }

    /// Copies the first values of a buffer to the host once everything before it on the stream is done, waits for that, and
    /// shows them.
    pub(in super::super) fn read<'a>(
        buffer: &CudaBuffer,
        host: &'a mut PinnedHostSlice<f64>,
        values: usize,
        stream: &CudaStream,
    ) -> Result<&'a [f64], DeviceError> {
        if values > host.len() || (values * size_of::<f64>()) as u64 > buffer.bytes {
            let reason = format!("{values} values do not fit into {} bytes", buffer.bytes);
            return Err(DeviceError::Launch { what: "reading back".to_owned(), reason });
        }
        buffer.context.bind_to_thread().map_err(|error| driver::fault("reading back", error))?;
        let fault = |error| driver::fault("reading back", error);
        let to = &mut host.as_mut_slice().map_err(fault)?[..values];
        // SAFETY: the buffer is live and has at least the bytes of `to`; any bytes are a valid f64; and `to` outlives the
        // copy, which is waited for below.
        unsafe { result::memcpy_dtoh_async(to, buffer.address, stream.cu_stream()) }
            .and_then(|()| stream.synchronize())
            .map_err(fault)?;
        Ok(to)
    }

    /// Copies bytes from the host to the start of a buffer, and waits for it.
    pub(in super::super) fn write(buffer: &CudaBuffer, from: &[u8]) -> Result<(), DeviceError> {
        if from.len() as u64 > buffer.bytes {
            let reason = format!("{} bytes do not fit into {}", from.len(), buffer.bytes);
            return Err(DeviceError::Launch { what: "writing to the device".to_owned(), reason });
        }
        buffer.context.bind_to_thread().map_err(|error| driver::fault("writing to the device", error))?;
        // SAFETY: the buffer is live and has at least as many bytes; the call returns once they were read.
        unsafe { result::memcpy_htod_sync(buffer.address, from) }
            .map_err(|error| driver::fault("writing to the device", error))
    }

    impl Drop for CudaBuffer {
        fn drop(&mut self) {
            // A context that is lost cannot free; the end of the process does.
            if self.guarded.is_none() && self.context.bind_to_thread().is_ok() {
                // SAFETY: the address came from the allocator, is freed once, and the driver waits for work that uses it.
                _ = unsafe { result::free_sync(self.address) };
            }
        }
    }
}

pub(super) use calls::{allocate, allocate_on_host, read, write};
