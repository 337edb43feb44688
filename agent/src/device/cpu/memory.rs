//! Memory for arrays: anonymous mappings whose pages stay untouched until a thread of the pool writes them, so that
//! each page comes to lie near the core that will use it.

#![allow(unsafe_code)]

use std::ops::Range;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap_anonymous, mprotect, munmap};
use rustix::param::page_size;

use crate::device::{Array, DeviceError, PageGuard};

/// Mappings start at multiples of this, the huge page of x86-64 and of aarch64 with 4 KiB pages: small pages cost
/// bandwidth in misses of the TLB.
const HUGE_PAGE_BYTES: usize = 2 << 20;

mod sealed {
    /// Keeps [`super::Element`] to types for which every bit pattern is a value and none owns anything.
    pub(crate) trait Plain: Copy + Send + Sync + 'static {}
    impl Plain for u8 {}
    impl Plain for u16 {}
    impl Plain for u32 {}
    impl Plain for u64 {}
    impl Plain for f32 {}
    impl Plain for f64 {}
}

/// What an array can be made of: plain numbers.
pub(super) trait Element: sealed::Plain {}

impl<T: sealed::Plain> Element for T {}

/// Bytes that are mapped and were never written. The kernel does not count them as used yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Promised(Arc<AtomicU64>);

impl Promised {
    /// How many.
    pub(super) fn bytes(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// An anonymous mapping, unmapped on drop.
#[derive(Debug)]
pub(super) struct Mapping {
    map_start: NonNull<u8>,
    map_bytes: usize,
    start: NonNull<u8>,
    bytes: u64,
    /// Bytes from the start that were written at least once, as far as arrays reach.
    touched_bytes: AtomicU64,
    promised: Promised,
}

// SAFETY: the mapping is owned memory, valid on every thread until the drop; access to it goes through the unsafe
// methods of `View`, whose callers keep to disjoint ranges.
unsafe impl Send for Mapping {}
// SAFETY: as above; the bookkeeping is atomic.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory of at least `bytes` bytes.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the kernel refuses.
    pub(super) fn new(bytes: u64, promised: &Promised) -> Result<Self, DeviceError> {
        let refused = || DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: 0 };
        let map_bytes = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| bytes.max(1).checked_next_multiple_of(HUGE_PAGE_BYTES))
            .and_then(|bytes| bytes.checked_add(HUGE_PAGE_BYTES))
            .ok_or_else(refused)?;
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches no memory of anybody.
        let map = unsafe {
            mmap_anonymous(ptr::null_mut(), map_bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)
        };
        let map_start = map.ok().and_then(|map| NonNull::new(map.cast::<u8>())).ok_or_else(refused)?;
        // SAFETY: the range was mapped just now. Advice changes no contents; a kernel without huge pages refuses it, and
        // then small pages serve.
        let _ = unsafe { madvise(map_start.as_ptr().cast(), map_bytes, Advice::LinuxHugepage) };
        let skipped = map_start.as_ptr().align_offset(HUGE_PAGE_BYTES).min(HUGE_PAGE_BYTES);
        // SAFETY: the mapping is one huge page longer than what is used of it, so the skipped part lies inside.
        let start = unsafe { map_start.add(skipped) };
        Ok(Self::held(map_start, map_bytes, start, bytes, promised))
    }

    /// Maps memory between two pages that nobody may touch, its first byte (front) or its end (back) at the border.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the kernel refuses.
    pub(super) fn guarded(bytes: u64, guard: PageGuard, promised: &Promised) -> Result<Self, DeviceError> {
        let refused = || DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes: 0 };
        let page = page_size();
        let used = usize::try_from(bytes).ok().filter(|used| *used > 0).ok_or_else(refused)?;
        let inner = used.checked_next_multiple_of(page).ok_or_else(refused)?;
        let map_bytes = inner.checked_add(2 * page).ok_or_else(refused)?;
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches no memory of anybody.
        let map = unsafe { mmap_anonymous(ptr::null_mut(), map_bytes, ProtFlags::empty(), MapFlags::PRIVATE) };
        let map_start = map.ok().and_then(|map| NonNull::new(map.cast::<u8>())).ok_or_else(refused)?;
        let skipped = match guard {
            PageGuard::None | PageGuard::Front => page,
            PageGuard::Back => page + inner - used,
        };
        // SAFETY: the part skipped lies inside the mapping, which is two pages longer than what is used of it.
        let start = unsafe { map_start.add(skipped) };
        // Whole from here on, so that an error below unmaps it.
        let mapping = Self::held(map_start, map_bytes, start, bytes, promised);
        // SAFETY: the pages between the first and the last were mapped just now, and nobody uses them yet.
        unsafe { mprotect(map_start.as_ptr().add(page).cast(), inner, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| refused())?;
        Ok(mapping)
    }

    fn held(map_start: NonNull<u8>, map_bytes: usize, start: NonNull<u8>, bytes: u64, promised: &Promised) -> Self {
        promised.0.fetch_add(bytes, Ordering::Relaxed);
        Self { map_start, map_bytes, start, bytes, touched_bytes: AtomicU64::new(0), promised: promised.clone() }
    }

    /// Its size, bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Notes that all bytes before `end` were written.
    fn touch(&self, end: u64) {
        let before = self.touched_bytes.fetch_max(end, Ordering::Relaxed);
        self.promised.0.fetch_sub(end.saturating_sub(before), Ordering::Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let untouched = self.bytes.saturating_sub(*self.touched_bytes.get_mut());
        self.promised.0.fetch_sub(untouched, Ordering::Relaxed);
        // SAFETY: the range is exactly what was mapped, and no view outlives the mapping that it holds. Unmapping a
        // whole mapping does not fail.
        let _ = unsafe { munmap(self.map_start.as_ptr().cast(), self.map_bytes) };
    }
}

/// One array inside a mapping, checked once: inside it, and aligned for its elements.
#[derive(Debug, Clone)]
pub(super) struct View {
    mapping: Arc<Mapping>,
    offset_bytes: u64,
    element_bytes: usize,
    elements: usize,
}

impl View {
    /// The array that the harness means.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if it does not lie inside its buffer, or is not aligned for its number format.
    pub(super) fn of(array: &Array<'_, super::CpuBuffer>) -> Result<Self, DeviceError> {
        let Array { buffer, offset_bytes, spec } = array;
        let wrong = |reason: String| DeviceError::Launch { what: format!("placing array `{}`", spec.name), reason };
        let mapping = buffer.mapping();
        let end = offset_bytes.checked_add(spec.bytes()).filter(|end| *end <= mapping.bytes());
        if end.is_none() {
            let (bytes, held) = (spec.bytes(), mapping.bytes());
            return Err(wrong(format!(
                "{bytes} bytes at offset {offset_bytes} do not fit into a buffer of {held} bytes"
            )));
        }
        // An allocation that ends at an unmapped page may begin anywhere.
        if !(mapping.start.addr().get() as u64).wrapping_add(*offset_bytes).is_multiple_of(spec.dtype.bytes()) {
            return Err(wrong(format!("at offset {offset_bytes} it is not aligned for {}", spec.dtype)));
        }
        let too_long = |_| wrong(format!("{} elements cannot be addressed on this machine", spec.elements));
        Ok(Self {
            mapping: Arc::clone(mapping),
            offset_bytes: *offset_bytes,
            element_bytes: usize::try_from(spec.dtype.bytes()).map_err(too_long)?,
            elements: usize::try_from(spec.elements).map_err(too_long)?,
        })
    }

    /// The whole of a mapping, as 64-bit words.
    pub(super) fn words(mapping: &Arc<Mapping>) -> Self {
        let element_bytes = size_of::<u64>();
        let elements = usize::try_from(mapping.bytes()).unwrap_or(0) / element_bytes;
        Self { mapping: Arc::clone(mapping), offset_bytes: 0, element_bytes, elements }
    }

    /// Its length, elements.
    pub(super) fn elements(&self) -> usize {
        self.elements
    }

    /// Size of one element, bytes.
    pub(super) fn element_bytes(&self) -> usize {
        self.element_bytes
    }

    /// Whether two arrays share a byte.
    pub(super) fn overlaps(&self, other: &Self) -> bool {
        let range = |view: &Self| {
            let bytes = u64::try_from(view.elements.saturating_mul(view.element_bytes)).unwrap_or(u64::MAX);
            view.offset_bytes..view.offset_bytes.saturating_add(bytes)
        };
        let (left, right) = (range(self), range(other));
        Arc::ptr_eq(&self.mapping, &other.mapping) && left.start < right.end && right.start < left.end
    }

    /// Notes that the array was written as a whole: its pages now count as used.
    pub(super) fn touch(&self) {
        let bytes = u64::try_from(self.elements.saturating_mul(self.element_bytes)).unwrap_or(u64::MAX);
        self.mapping.touch(self.offset_bytes.saturating_add(bytes).min(self.mapping.bytes()));
    }

    /// A part to read. A range beyond the end, or a type of another size than the array's, gives an empty part.
    ///
    /// # Safety
    /// Nobody writes to the part while the slice lives.
    pub(super) unsafe fn read<T: Element>(&self, part: Range<usize>) -> &[T] {
        match self.start_of::<T>(&part) {
            // SAFETY: `start_of` has checked that the part is inside the mapping and aligned; fresh pages read as zeros,
            // so all of it is initialised; the caller keeps writers away.
            Some(start) => unsafe { slice::from_raw_parts(start.as_ptr(), part.len()) },
            None => &[],
        }
    }

    /// A part to write. A range beyond the end, or a type of another size than the array's, gives an empty part.
    ///
    /// # Safety
    /// Nobody else reads or writes the part while the slice lives.
    #[allow(clippy::mut_from_ref, reason = "the members of a team write disjoint parts of one array")]
    pub(super) unsafe fn write<T: Element>(&self, part: Range<usize>) -> &mut [T] {
        match self.start_of::<T>(&part) {
            // SAFETY: as in `read`; the caller keeps everybody else away.
            Some(start) => unsafe { slice::from_raw_parts_mut(start.as_ptr(), part.len()) },
            None => &mut [],
        }
    }

    /// A 32-bit element to add to; none beyond the end, or where elements are of another width.
    ///
    /// # Safety
    /// While it lives, nobody reads or writes the element but through what this gives.
    pub(super) unsafe fn counter(&self, index: usize) -> Option<&AtomicU32> {
        let start = self.start_of::<u32>(&(index..index.checked_add(1)?))?;
        // SAFETY: `start_of` has checked that it is inside the mapping and aligned; the caller keeps other accesses away.
        Some(unsafe { AtomicU32::from_ptr(start.as_ptr()) })
    }

    /// Reads the element so many places from the first, wherever that is.
    #[cfg(test)]
    pub(super) fn read_stray<T: Element>(&self, place: isize) -> T {
        // SAFETY: none: an access that may end the process is what tests want. Inside the mapping it is a plain read.
        unsafe { self.first::<T>().offset(place).read_volatile() }
    }

    /// Writes the element so many places from the first, wherever that is.
    #[cfg(test)]
    pub(super) fn write_stray<T: Element>(&self, place: isize, value: T) {
        // SAFETY: as in `read_stray`.
        unsafe { self.first::<T>().offset(place).write_volatile(value) };
    }

    #[cfg(test)]
    fn first<T: Element>(&self) -> *mut T {
        self.mapping.start.as_ptr().wrapping_add(usize::try_from(self.offset_bytes).unwrap_or(0)).cast()
    }

    fn start_of<T: Element>(&self, part: &Range<usize>) -> Option<NonNull<T>> {
        if size_of::<T>() != self.element_bytes || part.start > part.end || part.end > self.elements {
            return None;
        }
        let offset = usize::try_from(self.offset_bytes).ok()? + part.start * self.element_bytes;
        // SAFETY: the part ends inside the array, and the array was checked to end inside the mapping.
        Some(unsafe { self.mapping.start.add(offset) }.cast())
    }
}
