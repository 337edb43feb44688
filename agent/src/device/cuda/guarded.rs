//! Device memory next to addresses that are not mapped: an access beyond it faults, and the context with it.
//!
//! Plain allocations cannot do this: the driver carves them out of larger mappings, so that a stray access falls into
//! a neighbour. Here addresses are reserved with room on both sides, and only the middle is mapped.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, sys};

use super::driver;
use crate::device::{DeviceError, PageGuard};

/// Reserved addresses of which the middle is mapped; unmapped on drop.
#[derive(Debug)]
pub(super) struct Guarded {
    context: Arc<CudaContext>,
    reserved: sys::CUdeviceptr,
    reserved_bytes: usize,
    /// The physical memory, once it exists.
    memory: Option<sys::CUmemGenericAllocationHandle>,
    /// Bytes mapped from `page_bytes` after the start of the reservation; 0 while nothing is.
    mapped_bytes: usize,
    page_bytes: usize,
}

/// Maps memory of so many bytes; the address of its first byte.
///
/// # Errors
/// [`DeviceError::OutOfMemory`]; [`DeviceError::Launch`] where the device has no virtual memory management.
pub(super) fn allocate(
    context: &Arc<CudaContext>,
    bytes: u64,
    guard: PageGuard,
    free_bytes: u64,
) -> Result<(Guarded, sys::CUdeviceptr), DeviceError> {
    let refuse = |reason: &str| DeviceError::Launch { what: "guarding pages".to_owned(), reason: reason.to_owned() };
    let failed = |error| match error {
        DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
            DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes }
        }
        error => driver::fault("guarding pages", error),
    };
    let has_pages = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    if context.attribute(has_pages).map_err(failed)? == 0 {
        return Err(refuse("the device has no virtual memory management"));
    }
    context.bind_to_thread().map_err(failed)?;
    let page_bytes = page_bytes(context).map_err(failed)?;
    let wanted = usize::try_from(bytes).ok().filter(|wanted| *wanted > 0);
    let used = wanted.ok_or_else(|| refuse("there is no such allocation"))?;
    let sizes = used.checked_next_multiple_of(page_bytes);
    let sizes = sizes.and_then(|mapped| Some((mapped, mapped.checked_add(page_bytes.checked_mul(2)?)?)));
    let (mapped_bytes, reserved_bytes) = sizes.ok_or_else(|| refuse("so many bytes cannot be addressed"))?;
    let guarded = Guarded::map(context, page_bytes, mapped_bytes, reserved_bytes).map_err(failed)?;
    let first = guarded.reserved + page_bytes as u64;
    let address = match guard {
        PageGuard::None | PageGuard::Front => first,
        PageGuard::Back => first + (mapped_bytes - used) as u64,
    };
    Ok((guarded, address))
}

fn location(context: &CudaContext) -> sys::CUmemLocation {
    sys::CUmemLocation { type_: sys::CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE, id: context.cu_device() }
}

/// Ordinary device memory, to be shared with nobody.
fn properties(context: &CudaContext) -> sys::CUmemAllocationProp {
    sys::CUmemAllocationProp {
        type_: sys::CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED,
        requestedHandleTypes: sys::CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_NONE,
        location: location(context),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: sys::CUmemAllocationProp_st__bindgen_ty_1 {
            compressionType: 0,
            gpuDirectRDMACapable: 0,
            usage: 0,
            reserved: [0; 4],
        },
    }
}

/// What mappings are multiples of, bytes.
fn page_bytes(context: &CudaContext) -> Result<usize, DriverError> {
    let (mut bytes, wanted) = (0, properties(context));
    let least = sys::CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
    // SAFETY: both pointers are to live values.
    unsafe { sys::cuMemGetAllocationGranularity(&raw mut bytes, &raw const wanted, least) }.result()?;
    Ok(bytes.max(1))
}

impl Guarded {
    /// Each step is noted as it is done, so that the drop undoes what was done where a later one fails.
    fn map(
        context: &Arc<CudaContext>,
        page_bytes: usize,
        mapped_bytes: usize,
        reserved_bytes: usize,
    ) -> Result<Self, DriverError> {
        let mut reserved = 0;
        // SAFETY: the context is current on this thread, the pointer is to a live address, and the driver chooses where.
        unsafe { sys::cuMemAddressReserve(&raw mut reserved, reserved_bytes, 0, 0, 0) }.result()?;
        let context = Arc::clone(context);
        let mut guarded = Self { context, reserved, reserved_bytes, memory: None, mapped_bytes: 0, page_bytes };
        let mut memory = 0;
        let wanted = properties(&guarded.context);
        // SAFETY: both pointers are to live values, and the size is a multiple of the page.
        unsafe { sys::cuMemCreate(&raw mut memory, mapped_bytes, &raw const wanted, 0) }.result()?;
        guarded.memory = Some(memory);
        let first = guarded.first();
        // SAFETY: the range lies inside the reservation, a page from either end of it, and nothing is mapped there.
        unsafe { sys::cuMemMap(first, mapped_bytes, 0, memory, 0) }.result()?;
        guarded.mapped_bytes = mapped_bytes;
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = sys::CUmemAccessDesc { location: location(&guarded.context), flags };
        // SAFETY: the range was mapped just now, and one live description is passed.
        unsafe { sys::cuMemSetAccess(first, mapped_bytes, &raw const access, 1) }.result()?;
        Ok(guarded)
    }

    /// Address of the first mapped byte.
    fn first(&self) -> sys::CUdeviceptr {
        self.reserved + self.page_bytes as u64
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // A context that is lost cannot unmap; the end of the process does. Work that uses the memory was waited for: every
        // call of the device that launches ends with that.
        if self.context.bind_to_thread().is_err() {
            return;
        }
        if self.mapped_bytes > 0 {
            // SAFETY: exactly what was mapped, once.
            _ = unsafe { sys::cuMemUnmap(self.first(), self.mapped_bytes) };
        }
        if let Some(memory) = self.memory {
            // SAFETY: the handle came from the driver, and is released once.
            _ = unsafe { sys::cuMemRelease(memory) };
        }
        // SAFETY: exactly what was reserved, once, with nothing mapped in it any more.
        _ = unsafe { sys::cuMemAddressFree(self.reserved, self.reserved_bytes) };
    }
}
