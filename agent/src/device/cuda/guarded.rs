//! Device memory next to addresses that are not mapped: an access beyond it faults, and the context with it.

#![allow(unsafe_code)]

use std::sync::Arc;

use cudarc::driver::{CudaContext, DriverError, sys};

use super::driver;
use crate::device::gpu::guard::{Layout, refused};
use crate::device::{DeviceError, PageGuard};

/// Reserved addresses of which the middle is mapped; unmapped on drop.
#[derive(Debug)]
pub(super) struct Guarded {
    context: Arc<CudaContext>,
    reserved: sys::CUdeviceptr,
    layout: Layout,
    /// The physical memory, once it exists.
    memory: Option<sys::CUmemGenericAllocationHandle>,
    /// Whether the middle is mapped.
    is_mapped: bool,
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
    let failed = |error| match error {
        DriverError(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY) => {
            DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes }
        }
        error => driver::fault("guarding pages", error),
    };
    let has_pages = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    if context.attribute(has_pages).map_err(failed)? == 0 {
        return Err(refused("the device has no virtual memory management"));
    }
    context.bind_to_thread().map_err(failed)?;
    let page_bytes = page_bytes(context).map_err(failed)?;
    let layout = Layout::of(bytes, page_bytes, guard)?;
    let guarded = Guarded::map(context, layout).map_err(failed)?;
    let address = guarded.reserved + layout.offset_bytes as u64;
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
    fn map(context: &Arc<CudaContext>, layout: Layout) -> Result<Self, DriverError> {
        let Layout { mapped_bytes, reserved_bytes, .. } = layout;
        let mut reserved = 0;
        // SAFETY: the context is current on this thread, the pointer is to a live address, and the driver chooses where.
        unsafe { sys::cuMemAddressReserve(&raw mut reserved, reserved_bytes, 0, 0, 0) }.result()?;
        let context = Arc::clone(context);
        let mut guarded = Self { context, reserved, layout, memory: None, is_mapped: false };
        let mut memory = 0;
        let wanted = properties(&guarded.context);
        // SAFETY: both pointers are to live values, and the size is a multiple of the page.
        unsafe { sys::cuMemCreate(&raw mut memory, mapped_bytes, &raw const wanted, 0) }.result()?;
        guarded.memory = Some(memory);
        let first = guarded.first();
        // SAFETY: the range lies inside the reservation, a page from either end of it, and nothing is mapped there.
        unsafe { sys::cuMemMap(first, mapped_bytes, 0, memory, 0) }.result()?;
        guarded.is_mapped = true;
        let flags = sys::CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        let access = sys::CUmemAccessDesc { location: location(&guarded.context), flags };
        // SAFETY: the range was mapped just now, and one live description is passed.
        unsafe { sys::cuMemSetAccess(first, mapped_bytes, &raw const access, 1) }.result()?;
        Ok(guarded)
    }

    /// Address of the first mapped byte.
    fn first(&self) -> sys::CUdeviceptr {
        self.reserved + self.layout.page_bytes as u64
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // A context that is lost cannot unmap; the end of the process does. Work that uses the memory was waited for: every
        // call of the device that launches ends with that.
        if self.context.bind_to_thread().is_err() {
            return;
        }
        if self.is_mapped {
            // SAFETY: exactly what was mapped, once.
            _ = unsafe { sys::cuMemUnmap(self.first(), self.layout.mapped_bytes) };
        }
        if let Some(memory) = self.memory {
            // SAFETY: the handle came from the driver, and is released once.
            _ = unsafe { sys::cuMemRelease(memory) };
        }
        // SAFETY: exactly what was reserved, once, with nothing mapped in it any more.
        _ = unsafe { sys::cuMemAddressFree(self.reserved, self.layout.reserved_bytes) };
    }
}
