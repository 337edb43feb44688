//! Memory of the fake device: it knows what was written where, and works out elements when they are read.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use crate::device::{Array, DeviceError, PageGuard};

/// What a stretch of memory holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Held {
    /// One value everywhere.
    Value(f64),
    /// Input data: the element's index.
    Input,
    /// What a right copy leaves: the element's index and one.
    Right,
    /// What a wrong one leaves.
    Wrong,
}

/// A stretch that was written in one go.
#[derive(Debug, Clone)]
struct Stretch {
    bytes: Range<u64>,
    /// Where its element 0 would be.
    origin: i64,
    held: Held,
}

/// An allocation that counts itself.
#[derive(Debug)]
pub(crate) struct FakeBuffer {
    bytes: u64,
    guard: PageGuard,
    held: Rc<Cell<u64>>,
    /// The last one that covers a byte counts.
    stretches: RefCell<Vec<Stretch>>,
}

impl Drop for FakeBuffer {
    fn drop(&mut self) {
        self.held.set(self.held.get() - self.bytes);
    }
}

impl FakeBuffer {
    pub(crate) fn new(bytes: u64, guard: PageGuard, held: &Rc<Cell<u64>>) -> Self {
        held.set(held.get() + bytes);
        Self { bytes, guard, held: Rc::clone(held), stretches: RefCell::default() }
    }

    /// Writes what is outside of an array's gaps, or all of it; its element 0 is the content's element `first`.
    pub(crate) fn write(array: &Array<'_, Self>, held: Held, first: u64, gaps_too: bool) {
        let (spec, width) = (&array.spec, array.spec.dtype.bytes());
        let rows = spec.rows.filter(|_| !gaps_too);
        let (row, pitch) =
            rows.map_or((spec.elements, spec.elements.max(1)), |rows| (rows.elements, rows.pitch_elements));
        let origin = array.offset_bytes as i64 - (first * width) as i64;
        for start in (0..spec.elements).step_by(pitch as usize) {
            let at = |element: u64| array.offset_bytes + element * width;
            array.buffer.put(at(start)..at((start + row).min(spec.elements)), origin, held);
        }
    }

    /// Accesses the element so many places from an array's first; what it held. Memory beyond the allocation is nobody's,
    /// unless its page is not mapped.
    pub(crate) fn stray(array: &Array<'_, Self>, place: i64, write: Option<f64>) -> Result<f64, DeviceError> {
        let width = array.spec.dtype.bytes();
        let at = array.offset_bytes as i64 + place * width as i64;
        let side = if at < 0 { PageGuard::Front } else { PageGuard::Back };
        if at < 0 || at as u64 + width > array.buffer.bytes {
            let lost = DeviceError::Lost { reason: format!("an illegal address {place} places from an array") };
            return if array.buffer.guard == side { Err(lost) } else { Ok(0.0) };
        }
        let found = array.buffer.value(at as u64, width);
        if let Some(value) = write {
            array.buffer.put(at as u64..at as u64 + width, 0, Held::Value(value));
        }
        Ok(found)
    }

    /// Every `stride`-th element outside of gaps.
    pub(crate) fn read(array: &Array<'_, Self>, stride: u64) -> Vec<f64> {
        let width = array.spec.dtype.bytes();
        let at = |index| array.offset_bytes + array.spec.position(index) * width;
        let indices = (0..array.spec.logical_elements()).step_by(stride as usize);
        indices.map(|index| array.buffer.value(at(index), width)).collect()
    }

    /// Whether an array holds input data from its first element to its last.
    pub(crate) fn is_filled(array: &Array<'_, Self>) -> bool {
        (0..).zip(Self::read(array, 1)).all(|(index, found)| found == array.spec.position(index) as f64)
    }

    fn put(&self, bytes: Range<u64>, origin: i64, held: Held) {
        let mut stretches = self.stretches.borrow_mut();
        stretches.retain(|old| old.bytes.start < bytes.start || old.bytes.end > bytes.end);
        stretches.push(Stretch { bytes, origin, held });
    }

    fn value(&self, at: u64, width: u64) -> f64 {
        let stretches = self.stretches.borrow();
        let Some(found) = stretches.iter().rev().find(|stretch| stretch.bytes.contains(&at)) else { return 0.0 };
        let element = (at as i64 - found.origin) / width as i64;
        match found.held {
            Held::Value(value) => value,
            Held::Input => element as f64,
            Held::Right => element as f64 + 1.0,
            Held::Wrong => 0.0,
        }
    }
}
