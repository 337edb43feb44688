//! Device memory next to addresses that are not mapped: an access beyond it faults, and the process with it.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::rc::Rc;

use hip_runtime_sys::{
    hipDeviceAttribute_t, hipMemAccessDesc, hipMemAccessFlags, hipMemAllocationGranularity_flags,
    hipMemAllocationHandleType, hipMemAllocationProp, hipMemAllocationProp__bindgen_ty_1, hipMemAllocationType,
    hipMemLocation, hipMemLocationType,
};

use super::context::Context;
use super::runtime::{Handle, VirtualMemory};
use super::status::Fault;
use crate::device::gpu::guard::{Layout, refused};
use crate::device::{DeviceError, PageGuard};

/// Reserved addresses of which the middle is mapped; unmapped on drop.
#[derive(Debug)]
pub(super) struct Guarded {
    context: Rc<Context>,
    calls: &'static VirtualMemory,
    reserved: *mut c_void,
    layout: Layout,
    /// The physical memory, once it exists.
    memory: Option<Handle>,
    /// Whether the middle is mapped.
    is_mapped: bool,
}

impl Guarded {
    /// Maps memory of so many bytes on the context's device, which is current; the address of its first byte.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; [`DeviceError::Launch`] where the device has no virtual memory management.
    pub(super) fn allocate(
        context: &Rc<Context>,
        bytes: u64,
        guard: PageGuard,
        free_bytes: u64,
    ) -> Result<(Self, *mut c_void), DeviceError> {
        let refuse = || refused("no page guards: the device, or its driver, has no virtual memory management");
        let calls = context.runtime.virtual_memory.as_ref().ok_or_else(refuse)?;
        let has_pages = hipDeviceAttribute_t::hipDeviceAttributeVirtualMemoryManagementSupported;
        if context.runtime.attribute(context.ordinal, has_pages).unwrap_or(0) == 0 {
            return Err(refuse());
        }
        let failed = |fault: Fault| fault.of_allocating("guarding pages", bytes, free_bytes);
        let layout = Layout::of(bytes, page_bytes(context, calls).map_err(failed)?, guard)?;
        if layout.mapped_bytes as u64 > free_bytes {
            return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes });
        }
        let guarded = Self::map(context, calls, layout).map_err(failed)?;
        let address = guarded.reserved.wrapping_byte_add(layout.offset_bytes);
        Ok((guarded, address))
    }

    /// Each step is noted as it is done, so that the drop undoes what was done where a later one fails.
    fn map(context: &Rc<Context>, calls: &'static VirtualMemory, layout: Layout) -> Result<Self, Fault> {
        let runtime = context.runtime;
        let Layout { mapped_bytes, reserved_bytes, .. } = layout;
        // SAFETY: the pointer is to a live address, and the driver chooses where.
        let reserve = |to| unsafe { (calls.reserve)(to, reserved_bytes, 0, std::ptr::null_mut(), 0) };
        let reserved = runtime.written(std::ptr::null_mut(), reserve)?;
        let context = Rc::clone(context);
        let mut guarded = Self { context, calls, reserved, layout, memory: None, is_mapped: false };
        let wanted = properties(&guarded.context);
        // SAFETY: both pointers are to live values, and the size is a multiple of the page.
        let create = |to| unsafe { (calls.create)(to, mapped_bytes, &raw const wanted, 0) };
        let memory = runtime.written(std::ptr::null_mut(), create)?;
        guarded.memory = Some(memory);
        let first = guarded.first();
        // SAFETY: the range lies inside the reservation, a page from either end of it, and nothing is mapped there.
        runtime.check(unsafe { (calls.map)(first, mapped_bytes, 0, memory, 0) })?;
        guarded.is_mapped = true;
        let flags = hipMemAccessFlags::hipMemAccessFlagsProtReadWrite;
        let access = hipMemAccessDesc { location: location(&guarded.context), flags };
        // SAFETY: the range was mapped just now, and one live description is passed.
        runtime.check(unsafe { (calls.set_access)(first, mapped_bytes, &raw const access, 1) })?;
        Ok(guarded)
    }

    /// Address of the first mapped byte.
    fn first(&self) -> *mut c_void {
        self.reserved.wrapping_byte_add(self.layout.page_bytes)
    }
}

fn location(context: &Context) -> hipMemLocation {
    hipMemLocation { type_: hipMemLocationType::hipMemLocationTypeDevice, id: context.ordinal }
}

/// Ordinary device memory, to be shared with nobody.
fn properties(context: &Context) -> hipMemAllocationProp {
    hipMemAllocationProp {
        type_: hipMemAllocationType::hipMemAllocationTypePinned,
        requestedHandleType: hipMemAllocationHandleType::hipMemHandleTypeNone,
        location: location(context),
        win32HandleMetaData: std::ptr::null_mut(),
        allocFlags: hipMemAllocationProp__bindgen_ty_1 { compressionType: 0, gpuDirectRDMACapable: 0, usage: 0 },
    }
}

/// What mappings are multiples of, bytes.
fn page_bytes(context: &Context, calls: &VirtualMemory) -> Result<usize, Fault> {
    let wanted = properties(context);
    let least = hipMemAllocationGranularity_flags::hipMemAllocationGranularityMinimum as c_int;
    // SAFETY: both pointers are to live values.
    context.runtime.written(0, |to| unsafe { (calls.granularity)(to, &raw const wanted, least) })
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // A device that is lost cannot unmap; the end of the process does. Work that uses the memory was waited for: every
        // call of the device that launches ends with that.
        if self.context.bind().is_err() {
            return;
        }
        if self.is_mapped {
            // SAFETY: exactly what was mapped, once.
            _ = unsafe { (self.calls.unmap)(self.first(), self.layout.mapped_bytes) };
        }
        if let Some(memory) = self.memory {
            // SAFETY: the handle came from the driver, and is released once.
            _ = unsafe { (self.calls.release)(memory) };
        }
        // SAFETY: exactly what was reserved, once, with nothing mapped in it any more.
        _ = unsafe { (self.calls.free)(self.reserved, self.layout.reserved_bytes) };
    }
}
