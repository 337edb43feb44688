//! Buffers of a round, shared by all its points.

use fleetcal_kernels::{BufferRole, BufferSpec};
use fleetcal_model::point::Dtype;
use fleetcal_model::policy::DataPattern;

use super::order::OFFSET_RANGE_BYTES;
use crate::device::{Array, Device, DeviceError, PageGuard};

/// Random data that a slot holds from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Content {
    seed: u64,
    dtype: Dtype,
    elements: u64,
}

impl Content {
    /// Whether an input that wants `seed` finds its data here.
    fn serves(&self, seed: u64, spec: &BufferSpec) -> bool {
        self.seed == seed && self.dtype == spec.dtype && self.elements >= spec.elements
    }
}

#[derive(Debug)]
struct Slot<Buffer> {
    buffer: Buffer,
    bytes: u64,
    content: Option<Content>,
}

/// The allocations of a round: slot `i` is home to the `i`-th array of every point, and as large as the largest of them.
/// Inputs keep their data from point to point, and are filled once a round where the points agree on seed and number
/// format.
#[derive(Debug)]
pub struct Arena<Buffer> {
    slots: Vec<Slot<Buffer>>,
    offset_bytes: u64,
}

/// Usable bytes of each slot that a set of points needs.
pub fn slot_bytes<'a>(points: impl Iterator<Item = &'a [BufferSpec]>) -> Vec<u64> {
    let mut slots: Vec<u64> = Vec::new();
    for specs in points {
        slots.resize(slots.len().max(specs.len()), 0);
        for (slot, spec) in slots.iter_mut().zip(specs) {
            *slot = (*slot).max(spec.bytes());
        }
    }
    slots
}

/// Bytes that slots of these sizes take with the room for their offset.
pub fn allocated_bytes(slots: &[u64]) -> u64 {
    slots.iter().fold(0, |total: u64, bytes| total.saturating_add(bytes.saturating_add(OFFSET_RANGE_BYTES)))
}

impl<Buffer> Default for Arena<Buffer> {
    fn default() -> Self {
        Self { slots: Vec::new(), offset_bytes: 0 }
    }
}

impl<Buffer> Arena<Buffer> {
    /// Where arrays start within their allocations, bytes.
    pub fn offset_bytes(&self) -> u64 {
        self.offset_bytes
    }

    /// Frees the old buffers, then allocates new ones, so that both are never held at once.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; nothing is held then.
    pub fn renew<D: Device<Buffer = Buffer>>(
        &mut self,
        device: &mut D,
        slots: &[u64],
        offset_bytes: u64,
    ) -> Result<(), DeviceError> {
        self.slots.clear();
        self.offset_bytes = offset_bytes;
        let mut fresh = Vec::with_capacity(slots.len());
        for &bytes in slots {
            let buffer = device.allocate(bytes.saturating_add(OFFSET_RANGE_BYTES), PageGuard::None)?;
            fresh.push(Slot { buffer, bytes, content: None });
        }
        self.slots = fresh;
        Ok(())
    }

    /// The arrays of a point.
    pub fn arrays(&self, specs: &[BufferSpec]) -> Vec<Array<'_, Buffer>> {
        self.slots.iter().zip(specs).map(|(slot, spec)| at(slot, spec, self.offset_bytes)).collect()
    }

    /// Makes a point's arrays ready to be visited: inputs are filled where their data is not already there, with as many
    /// of `elements_wanted` elements as the slot holds, so that larger points find theirs filled too.
    ///
    /// # Errors
    /// What the device says.
    pub fn fill<D: Device<Buffer = Buffer>>(
        &mut self,
        device: &mut D,
        specs: &[BufferSpec],
        pattern: DataPattern,
        elements_wanted: impl Fn(&BufferSpec) -> u64,
    ) -> Result<(), DeviceError> {
        for (slot, spec) in self.slots.iter_mut().zip(specs) {
            let BufferRole::Input { seed } = spec.role else {
                slot.content = None;
                continue;
            };
            if slot.content.is_some_and(|content| content.serves(seed, spec)) {
                continue;
            }
            slot.content = None;
            let elements = elements_wanted(spec).min(slot.bytes / spec.dtype.bytes()).max(spec.elements);
            let filled = BufferSpec { elements, ..spec.clone() };
            if let Some(data) = filled.input(pattern) {
                device.fill(&at(slot, &filled, self.offset_bytes), &data)?;
            }
            slot.content = Some(Content { seed, dtype: spec.dtype, elements });
        }
        Ok(())
    }
}

/// The array of a spec in its slot.
fn at<'a, Buffer>(slot: &'a Slot<Buffer>, spec: &BufferSpec, offset_bytes: u64) -> Array<'a, Buffer> {
    Array { buffer: &slot.buffer, offset_bytes, spec: spec.clone() }
}
