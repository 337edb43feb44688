//! Memory that remembers what was done to it, and works out elements only when they are read.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::family;
use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::DataPattern;

use crate::device::{Array, DeviceError};

/// What a stretch of memory holds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    /// Input data, from element 0.
    Input(InputData),
    /// The same bits everywhere.
    Bits(u64),
    /// What a kernel has written: the reference of that buffer, or something else.
    Computed { point: Point, pattern: DataPattern, buffer: usize, right: bool },
}

/// A stretch and what it holds.
#[derive(Debug, Clone)]
struct Stretch {
    start_bytes: u64,
    end_bytes: u64,
    dtype: Dtype,
    content: Content,
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

    pub(super) fn allocate(&self, bytes: u64) -> Result<SimBuffer, DeviceError> {
        let free_bytes = self.free_bytes.get();
        let left = free_bytes.checked_sub(bytes);
        self.free_bytes.set(left.ok_or(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes })?);
        Ok(SimBuffer { bytes, free_bytes: Rc::clone(&self.free_bytes), stretches: RefCell::default() })
    }
}

/// An allocation of a simulated device, freed on drop.
#[derive(Debug)]
pub struct SimBuffer {
    bytes: u64,
    free_bytes: Rc<Cell<u64>>,
    /// The last one that covers a byte holds.
    stretches: RefCell<Vec<Stretch>>,
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

    /// Writes a whole array.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the array is not inside the buffer.
    pub(super) fn write(&self, array: &Array<'_, Self>, content: Content) -> Result<(), DeviceError> {
        self.check(array.offset_bytes, array.spec.bytes())?;
        let (start_bytes, end_bytes) = (array.offset_bytes, array.offset_bytes + array.spec.bytes());
        let mut stretches = self.stretches.borrow_mut();
        stretches.retain(|old| old.start_bytes < start_bytes || old.end_bytes > end_bytes);
        stretches.push(Stretch { start_bytes, end_bytes, dtype: array.spec.dtype, content });
        Ok(())
    }

    /// The input data that the array holds from its first element to its last, if any.
    pub(super) fn input(&self, array: &Array<'_, Self>) -> Option<InputData> {
        let (start, end) = (array.offset_bytes, array.offset_bytes.saturating_add(array.spec.bytes()));
        let stretches = self.stretches.borrow();
        let touched = stretches.iter().rev().find(|stretch| stretch.start_bytes < end && start < stretch.end_bytes);
        let covers = |stretch: &&Stretch| {
            stretch.start_bytes == start && end <= stretch.end_bytes && stretch.dtype == array.spec.dtype
        };
        match touched.filter(covers)?.content {
            Content::Input(data) => Some(data),
            Content::Bits(_) | Content::Computed { .. } => None,
        }
    }

    /// Reads every `stride`-th element. Bytes never written, and bytes of another number format, read as zero.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if the array is not inside the buffer.
    pub(super) fn gather(&self, array: &Array<'_, Self>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        self.check(array.offset_bytes, array.spec.bytes())?;
        let dtype = array.spec.dtype;
        let stretches = self.stretches.borrow();
        let read = |element: u64| {
            let at = array.offset_bytes + element * dtype.bytes();
            let stretch = stretches.iter().rev().find(|stretch| (stretch.start_bytes..stretch.end_bytes).contains(&at));
            stretch.filter(|stretch| stretch.dtype == dtype).map_or(0.0, |stretch| stretch.value(at))
        };
        let step = usize::try_from(stride).unwrap_or(usize::MAX).max(1);
        Ok((0..array.spec.elements).step_by(step).map(read).collect())
    }
}

impl Stretch {
    fn value(&self, at_bytes: u64) -> f64 {
        let element = (at_bytes - self.start_bytes) / self.dtype.bytes();
        match &self.content {
            Content::Input(data) => rounded(data.element(element), self.dtype),
            Content::Bits(bits) => value_of_bits(*bits, self.dtype),
            Content::Computed { point, pattern, buffer, right } => {
                let family = family(point.sweep);
                let reference = family.map(|family| family.reference(point, *pattern, *buffer, element).value);
                reference.map_or(f64::NAN, |value| if *right { value } else { value + 1.0 })
            }
        }
    }
}

fn rounded(value: f64, dtype: Dtype) -> f64 {
    if dtype == Dtype::F32 { f64::from(value as f32) } else { value }
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
