//! Memory that remembers what was done to it, and works out elements only when they are read.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::number::rounded;
use fleetcal_kernels::{BufferSpec, Reference, family};
use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::DataPattern;

use crate::device::{Array, DeviceError, PageGuard};

/// What a stretch of memory holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Input data.
    Input(InputData),
    /// The same bits everywhere.
    Bits(u64),
    /// What a kernel has written: the reference of that buffer, or something else.
    Computed { point: Point, pattern: DataPattern, buffer: usize, right: bool },
}

/// A stretch and what it holds. Stretches do not overlap.
#[derive(Debug, Clone)]
struct Stretch {
    end_bytes: u64,
    dtype: Dtype,
    content: Content,
    /// Element of the content that its first element is.
    first_element: u64,
}

/// Memory of one device.
#[derive(Debug)]
pub(super) struct SimMemory {
    free_bytes: Rc<Cell<u64>>,
}

impl SimMemory {
    pub(super) fn new(bytes: u64) -> Self {
        Self { free_bytes: Rc::new(Cell::new(bytes)) }
    }

    pub(super) fn free_bytes(&self) -> u64 {
        self.free_bytes.get()
    }

    pub(super) fn allocate(&self, bytes: u64, guard: PageGuard) -> Result<SimBuffer, DeviceError> {
        let free_bytes = self.free_bytes.get();
        let left = free_bytes.checked_sub(bytes);
        self.free_bytes.set(left.ok_or(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes })?);
        Ok(SimBuffer { bytes, guard, free_bytes: Rc::clone(&self.free_bytes), stretches: RefCell::default() })
    }
}

/// An allocation of a simulated device, freed on drop.
#[derive(Debug)]
pub struct SimBuffer {
    bytes: u64,
    guard: PageGuard,
    free_bytes: Rc<Cell<u64>>,
    /// By start, bytes.
    stretches: RefCell<BTreeMap<u64, Stretch>>,
}

impl Drop for SimBuffer {
    fn drop(&mut self) {
        self.free_bytes.set(self.free_bytes.get() + self.bytes);
    }
}

impl SimBuffer {
    /// # Errors
    /// [`DeviceError::Launch`] if the stretch is not inside the allocation: what would be a stray access on a device.
    pub(super) fn check(&self, offset_bytes: u64, bytes: u64) -> Result<(), DeviceError> {
        match offset_bytes.checked_add(bytes) {
            Some(end) if end <= self.bytes => Ok(()),
            _ => Err(DeviceError::Launch {
                what: "touching an array".to_owned(),
                reason: format!(
                    "{bytes} bytes at offset {offset_bytes} do not fit into a buffer of {} bytes",
                    self.bytes
                ),
            }),
        }
    }

    /// Writes a whole array; where it is set to bits, only what is outside of gaps.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the array is not inside the buffer.
    pub(super) fn write(&self, array: &Array<'_, Self>, content: Content) -> Result<(), DeviceError> {
        self.check(array.offset_bytes, array.spec.bytes())?;
        let BufferSpec { dtype, elements, rows, .. } = array.spec;
        let (row, pitch) = match (&content, rows) {
            (Content::Bits(_), Some(rows)) => (rows.elements, rows.pitch_elements.max(1)),
            _ => (elements, elements.max(1)),
        };
        let mut start = 0;
        while start < elements {
            let end = start.saturating_add(row).min(elements);
            let at = |element: u64| array.offset_bytes + element * dtype.bytes();
            self.put(at(start), at(end), dtype, content.clone());
            start = start.saturating_add(pitch);
        }
        Ok(())
    }

    /// Writes one element outside of an array. Memory that is mapped and nobody's takes it without a word.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if it touches an unmapped page.
    pub(super) fn write_stray(&self, array: &Array<'_, Self>, side: PageGuard, bits: u64) -> Result<(), DeviceError> {
        if let Some(at) = self.stray(array, side)? {
            self.put(at, at + array.spec.dtype.bytes(), array.spec.dtype, Content::Bits(bits));
        }
        Ok(())
    }

    /// Reads one element outside of an array.
    ///
    /// # Errors
    /// As for [`SimBuffer::write_stray`].
    pub(super) fn read_stray(&self, array: &Array<'_, Self>, side: PageGuard) -> Result<f64, DeviceError> {
        Ok(self.stray(array, side)?.map_or(0.0, |at| self.value(at, array.spec.dtype)))
    }

    /// Where the element next to an array lies; `None` where that is not in this allocation.
    fn stray(&self, array: &Array<'_, Self>, side: PageGuard) -> Result<Option<u64>, DeviceError> {
        let width = array.spec.dtype.bytes();
        let at = match side {
            PageGuard::None => None,
            PageGuard::Front => array.offset_bytes.checked_sub(width),
            PageGuard::Back => Some(array.offset_bytes.saturating_add(array.spec.bytes())),
        };
        let at = at.filter(|at| at.saturating_add(width) <= self.bytes);
        if at.is_none() && side == self.guard {
            let reason = format!("an illegal memory access next to the array `{}`", array.spec.name);
            return Err(DeviceError::Lost { reason });
        }
        Ok(at)
    }

    /// The input data that the array holds from its first element to its last, if any.
    pub(super) fn input(&self, array: &Array<'_, Self>) -> Option<InputData> {
        let (start, end) = (array.offset_bytes, array.offset_bytes.saturating_add(array.spec.bytes()));
        let stretches = self.stretches.borrow();
        let (at, stretch) = stretches.range(..=start).next_back()?;
        let whole = stretch.dtype == array.spec.dtype && end <= stretch.end_bytes;
        match stretch.content {
            Content::Input(data) if whole && stretch.element(*at, start) == 0 => Some(data),
            Content::Input(_) | Content::Bits(_) | Content::Computed { .. } => None,
        }
    }

    /// Reads every `stride`-th element outside of gaps. Bytes never written, and bytes of another number format, read as
    /// zero.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the array is not inside the buffer.
    pub(super) fn gather(&self, array: &Array<'_, Self>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        self.check(array.offset_bytes, array.spec.bytes())?;
        let dtype = array.spec.dtype;
        let at = |index: u64| array.offset_bytes + array.spec.position(index) * dtype.bytes();
        let step = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
        let mut kept = None;
        let value = |index| self.value_of(at(index), dtype, &mut kept);
        Ok((0..array.spec.logical_elements()).step_by(step).map(value).collect())
    }

    fn value(&self, at_bytes: u64, dtype: Dtype) -> f64 {
        self.value_of(at_bytes, dtype, &mut None)
    }

    /// `kept` is the reference that was looked up last, by the start of its stretch.
    fn value_of(&self, at_bytes: u64, dtype: Dtype, kept: &mut Option<(u64, Reference)>) -> f64 {
        let stretches = self.stretches.borrow();
        let found = stretches.range(..=at_bytes).next_back();
        let found = found.filter(|(_, stretch)| at_bytes < stretch.end_bytes && stretch.dtype == dtype);
        let Some((start, stretch)) = found else { return 0.0 };
        if kept.as_ref().is_none_or(|(of, _)| of != start) {
            *kept = stretch.reference().map(|reference| (*start, reference));
        }
        stretch.value(stretch.element(*start, at_bytes), kept.as_ref().map(|(_, reference)| reference))
    }

    /// Puts a stretch over what was there.
    fn put(&self, start_bytes: u64, end_bytes: u64, dtype: Dtype, content: Content) {
        if start_bytes >= end_bytes {
            return;
        }
        let mut stretches = self.stretches.borrow_mut();
        cut(&mut stretches, start_bytes);
        cut(&mut stretches, end_bytes);
        let covered: Vec<u64> = stretches.range(start_bytes..end_bytes).map(|(start, _)| *start).collect();
        covered.iter().for_each(|start| drop(stretches.remove(start)));
        // Parts of one array's data are one stretch again once they touch, whatever was written between them before.
        let (content, first_element) = match content {
            Content::Input(data) => (Content::Input(InputData { first_element: 0, ..data }), data.first_element),
            other @ (Content::Bits(_) | Content::Computed { .. }) => (other, 0),
        };
        let mut fresh = Stretch { end_bytes, dtype, content, first_element };
        if let Some(next) = stretches.get(&end_bytes).filter(|next| fresh.continues(start_bytes, next)) {
            fresh.end_bytes = next.end_bytes;
            stretches.remove(&end_bytes);
        }
        match stretches.range_mut(..start_bytes).next_back() {
            Some((start, before)) if before.end_bytes == start_bytes && before.continues(*start, &fresh) => {
                before.end_bytes = fresh.end_bytes;
            }
            _ => drop(stretches.insert(start_bytes, fresh)),
        }
    }
}

/// Makes two stretches of one that reaches over a place.
fn cut(stretches: &mut BTreeMap<u64, Stretch>, at_bytes: u64) {
    let Some((start, stretch)) = stretches.range_mut(..at_bytes).next_back() else { return };
    if stretch.end_bytes > at_bytes {
        let rest = Stretch { first_element: stretch.element(*start, at_bytes), ..stretch.clone() };
        stretch.end_bytes = at_bytes;
        stretches.insert(at_bytes, rest);
    }
}

impl Stretch {
    /// Which element of the content lies at a place, in a stretch from `start_bytes`.
    fn element(&self, start_bytes: u64, at_bytes: u64) -> u64 {
        self.first_element + (at_bytes - start_bytes) / self.dtype.bytes()
    }

    /// Whether `next`, which begins where this one ends, holds more of the same input data.
    fn continues(&self, start_bytes: u64, next: &Self) -> bool {
        matches!(self.content, Content::Input(_))
            && (self.dtype, &self.content) == (next.dtype, &next.content)
            && self.element(start_bytes, self.end_bytes) == next.first_element
    }

    /// What is right where a kernel has written.
    fn reference(&self) -> Option<Reference> {
        match &self.content {
            Content::Input(_) | Content::Bits(_) => None,
            Content::Computed { point, pattern, buffer, .. } => {
                family(point.sweep).map(|family| family.reference(point, *pattern, *buffer))
            }
        }
    }

    /// `reference` is its own.
    fn value(&self, element: u64, reference: Option<&Reference>) -> f64 {
        match &self.content {
            Content::Input(data) => data.rounded_element(element),
            Content::Bits(bits) => value_of_bits(*bits, self.dtype),
            Content::Computed { right, .. } => {
                let value = reference.map_or(f64::NAN, |reference| reference(element).value);
                if *right { value } else { rounded(value + 1.0, self.dtype) }
            }
        }
    }
}

/// What an element with these bits reads as. Formats that no simulated kernel works on read as no number.
fn value_of_bits(bits: u64, dtype: Dtype) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_bits(bits),
        Dtype::F32 | Dtype::Tf32 => f64::from(f32::from_bits(bits as u32)),
        Dtype::I32 => f64::from(bits as u32 as i32),
        Dtype::I8 => f64::from(bits as u8 as i8),
        Dtype::F16 | Dtype::Bf16 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => f64::NAN,
    }
}
