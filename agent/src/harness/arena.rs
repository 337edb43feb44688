//! Buffers of a round, shared by all its points, with guard zones around every array where these are wanted.

use std::ops::Range;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferSpec, Rows};
use fleetcal_model::policy::{BoundsCheck, DataPattern};

use super::order::OFFSET_RANGE_BYTES;
use super::zones::{self, ZONE_BYTES, ZONE_ELEMENTS, Zone};
use crate::device::{Array, Device, DeviceError, PageGuard};

/// What a slot's memory holds from the start of its arrays.
#[derive(Debug, Clone)]
struct Content {
    data: InputData,
    elements: u64,
    /// Elements that guard zones of smaller arrays took.
    holes: Vec<Range<u64>>,
    /// Rows whose gaps are guard zones.
    rows: Option<Rows>,
}

impl Content {
    /// Whether an array finds its data here, once holes are filled.
    fn serves(&self, data: &InputData, spec: &BufferSpec) -> bool {
        let whole = self.elements >= spec.elements && data.agrees_with(&self.data, spec.elements);
        whole && (self.rows.is_none() || self.rows == spec.rows)
    }
}

#[derive(Debug)]
struct Slot<Buffer> {
    buffer: Buffer,
    bytes: u64,
    content: Option<Content>,
    /// The array whose guard zones are set and intact.
    guarded: Option<BufferSpec>,
}

/// How the allocations of an arena are guarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guards {
    /// Not at all.
    None,
    /// By zones on both sides of each array.
    Zones,
}

impl Guards {
    /// Those of a round where bounds are checked in that way.
    pub fn of(bounds: BoundsCheck) -> Self {
        match bounds {
            BoundsCheck::Values => Self::Zones,
            BoundsCheck::None | BoundsCheck::Pages => Self::None,
        }
    }
}

/// The allocations of a round: slot `i` is home to the `i`-th array of every point, and as large as the largest of them.
/// Inputs keep their data from point to point, and are filled once a round where the points agree on seed and number
/// format.
#[derive(Debug)]
pub struct Arena<Buffer> {
    slots: Vec<Slot<Buffer>>,
    offset_bytes: u64,
    guards: Guards,
}

/// Where the buffers of a round lie.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Placement {
    /// Arrays start so many bytes after the front zone of their allocations.
    pub offset_bytes: u64,
    /// So many bytes are held while the buffers are allocated, and freed then, so that they lie elsewhere than those of the
    /// round before; where memory is too short for that, nothing is displaced.
    pub displacement_bytes: u64,
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

/// Bytes that slots of these sizes take with the room for their offset and their guard zones.
pub fn allocated_bytes(slots: &[u64], guards: Guards) -> u64 {
    slots.iter().fold(0, |total: u64, bytes| total.saturating_add(allocation_bytes(*bytes, guards)))
}

fn allocation_bytes(bytes: u64, guards: Guards) -> u64 {
    bytes.saturating_add(OFFSET_RANGE_BYTES).saturating_add(2 * lead_bytes(guards))
}

/// Bytes that a guard zone takes in front of an array, and behind it.
fn lead_bytes(guards: Guards) -> u64 {
    match guards {
        Guards::None => 0,
        Guards::Zones => ZONE_BYTES,
    }
}

impl<Buffer> Default for Arena<Buffer> {
    fn default() -> Self {
        Self { slots: Vec::new(), offset_bytes: 0, guards: Guards::None }
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
        placement: Placement,
        guards: Guards,
    ) -> Result<(), DeviceError> {
        let Placement { offset_bytes, displacement_bytes } = placement;
        *self = Self { slots: Vec::new(), offset_bytes: lead_bytes(guards) + offset_bytes, guards };
        let displacement =
            (displacement_bytes > 0).then(|| device.allocate(displacement_bytes, PageGuard::None).ok()).flatten();
        let mut fresh = Vec::with_capacity(slots.len());
        for &bytes in slots {
            let buffer = device.allocate(allocation_bytes(bytes, guards), PageGuard::None)?;
            fresh.push(Slot { buffer, bytes, content: None, guarded: None });
        }
        drop(displacement);
        self.slots = fresh;
        Ok(())
    }

    /// Frees the old buffers, then gives each array of one point an allocation of its own, flush with an unmapped page.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`], or [`DeviceError::Launch`] where the backend has no page guards.
    pub fn renew_between_pages<D: Device<Buffer = Buffer>>(
        &mut self,
        device: &mut D,
        specs: &[BufferSpec],
        guard: PageGuard,
    ) -> Result<(), DeviceError> {
        /// The widest access of any kernel, to whose multiples arrays must be aligned. An access within the padding that
        /// this leaves behind an array is not seen; no array of a family here has any.
        const ALIGNMENT_BYTES: u64 = 16;
        *self = Self::default();
        let mut fresh = Vec::with_capacity(specs.len());
        for spec in specs {
            let bytes = spec.bytes().next_multiple_of(ALIGNMENT_BYTES);
            fresh.push(Slot { buffer: device.allocate(bytes, guard)?, bytes, content: None, guarded: None });
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
            let Some(data) = spec.input(pattern) else {
                slot.content = None;
                continue;
            };
            let offset_bytes = self.offset_bytes;
            match slot.content.take().filter(|content| content.serves(&data, spec)) {
                Some(content) => slot.content = Some(without_holes(device, slot, content, spec, offset_bytes)?),
                None => {
                    let most = elements_wanted(spec).min(slot.bytes / spec.dtype.bytes()).max(spec.elements);
                    // A longer chain is another from its first link on.
                    let elements = if data.chain().is_some() { spec.elements } else { most };
                    let filled = BufferSpec { elements, ..spec.clone() };
                    let data = filled.input(pattern).unwrap_or(data);
                    slot.guarded = None;
                    device.fill(&at(slot, &filled, offset_bytes), &data)?;
                    slot.content = Some(Content { data, elements, holes: Vec::new(), rows: None });
                }
            }
        }
        Ok(())
    }

    /// Sets the guard zones of a point's arrays where they are not set already.
    ///
    /// # Errors
    /// What the device says.
    pub fn guard<D: Device<Buffer = Buffer>>(
        &mut self,
        device: &mut D,
        specs: &[BufferSpec],
    ) -> Result<(), DeviceError> {
        if self.guards == Guards::None {
            return Ok(());
        }
        for (array, spec) in specs.iter().enumerate().take(self.slots.len()) {
            let slot = &mut self.slots[array];
            if slot.guarded.as_ref().is_some_and(|guarded| zones::are_alike(guarded, spec)) {
                continue;
            }
            for zone in zones::around(array, spec) {
                let bits = zone.sentinel().bits;
                device.set(&zone.view(&slot.buffer, self.offset_bytes), bits)?;
            }
            if let Some(content) = &mut slot.content {
                let end = content.elements.min(spec.elements.saturating_add(ZONE_ELEMENTS));
                content.holes.extend(Some(spec.elements..end).filter(|hole| !hole.is_empty()));
                content.rows = content.rows.or(spec.rows);
            }
            slot.guarded = Some(spec.clone());
        }
        Ok(())
    }

    /// Whether the guard zones of a point's arrays are set.
    pub fn is_guarded(&self) -> bool {
        self.guards == Guards::Zones
    }

    /// What these zones hold, element by element.
    ///
    /// # Errors
    /// What the device says.
    pub fn look<D: Device<Buffer = Buffer>>(
        &self,
        device: &mut D,
        zones: &[Zone],
    ) -> Result<Vec<Vec<f64>>, DeviceError> {
        let slots = zones.iter().filter_map(|zone| Some((zone, self.slots.get(zone.array)?)));
        let views: Vec<_> = slots.map(|(zone, slot)| (zone.view(&slot.buffer, self.offset_bytes), 1)).collect();
        device.gather_all(&views)
    }

    /// Trusts nothing of what the slots hold: somebody wrote where it should not.
    pub fn forget(&mut self) {
        for slot in &mut self.slots {
            (slot.content, slot.guarded) = (None, None);
        }
    }
}

/// Fills the holes that an array reaches into.
fn without_holes<D: Device>(
    device: &mut D,
    slot: &Slot<D::Buffer>,
    mut content: Content,
    spec: &BufferSpec,
    offset_bytes: u64,
) -> Result<Content, DeviceError> {
    let (inside, outside): (Vec<_>, Vec<_>) =
        content.holes.into_iter().partition(|hole: &Range<u64>| hole.start < spec.elements);
    content.holes = outside;
    for hole in inside {
        let part = BufferSpec { elements: hole.end - hole.start, rows: None, ..spec.clone() };
        let data = InputData { first_element: hole.start, ..content.data };
        device.fill(&at(slot, &part, offset_bytes + hole.start * spec.dtype.bytes()), &data)?;
    }
    Ok(content)
}

/// The array of a spec in its slot.
fn at<'a, Buffer>(slot: &'a Slot<Buffer>, spec: &BufferSpec, offset_bytes: u64) -> Array<'a, Buffer> {
    Array { buffer: &slot.buffer, offset_bytes, spec: spec.clone() }
}
