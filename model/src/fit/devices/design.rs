//! A two-way design seen from one of its sides: the cells of each point, or of each device, lying together.

use super::Cell;
use crate::statistics::median_in_place;

/// The cells of each key of one side.
pub(super) struct Side {
    /// Where each key's cells begin, and where the last one's end.
    starts: Vec<usize>,
    /// Keys of the other side, and logarithms.
    cells: Vec<(u32, f64)>,
    scratch: Vec<f64>,
}

impl Side {
    /// Sorts cells by a key; what is kept of each is its other key.
    pub(super) fn of(cells: &[Cell], key: fn(&Cell) -> usize, other: fn(&Cell) -> usize) -> Self {
        let length = cells.iter().map(key).max().map_or(0, |largest| largest + 1);
        let mut starts = vec![0; length + 1];
        cells.iter().for_each(|cell| starts[key(cell) + 1] += 1);
        for at in 1..starts.len() {
            starts[at] += starts[at - 1];
        }
        let mut next = starts.clone();
        let mut sorted = vec![(0, 0.0); cells.len()];
        for cell in cells {
            let place = &mut next[key(cell)];
            // Keys are numbers of devices and points; four billion of either are no fleet.
            sorted[*place] = (u32::try_from(other(cell)).unwrap_or(u32::MAX), cell.logarithm);
            *place += 1;
        }
        Self { starts, cells: sorted, scratch: Vec::new() }
    }

    /// One more than the largest key.
    pub(super) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// The cells of a key.
    pub(super) fn row(&self, key: usize) -> &[(u32, f64)] {
        &self.cells[self.starts[key]..self.starts[key + 1]]
    }

    /// Keys that have cells.
    pub(super) fn known(&self) -> impl Iterator<Item = usize> {
        (0..self.len()).filter(|&key| !self.row(key).is_empty())
    }

    /// Sets each key's effect to the median of what the other side's leave of its cells; how far that moved the most moved.
    pub(super) fn polish(&mut self, effects: &mut [f64], others: &[f64]) -> f64 {
        let mut moved = 0.0_f64;
        for (key, effect) in effects.iter_mut().enumerate() {
            let cells = &self.cells[self.starts[key]..self.starts[key + 1]];
            self.scratch.clear();
            self.scratch.extend(cells.iter().map(|(other, logarithm)| logarithm - others[*other as usize]));
            let Some(center) = median_in_place(&mut self.scratch) else { continue };
            moved = moved.max((std::mem::replace(effect, center) - center).abs());
        }
        moved
    }
}

/// Groups of devices that points connect.
pub(super) fn groups(by_point: &Side, by_device: &Side) -> usize {
    let mut parents: Vec<usize> = (0..by_device.len()).collect();
    let mut groups = by_device.known().count();
    for point in by_point.known() {
        let mut devices = by_point.row(point).iter().map(|(device, _)| *device as usize);
        let Some(first) = devices.next() else { continue };
        for device in devices {
            let (one, other) = (root(&mut parents, first), root(&mut parents, device));
            if one != other {
                parents[other] = one;
                groups -= 1;
            }
        }
    }
    groups
}

/// The device that stands for a device's group. Each look halves the way to it.
fn root(parents: &mut [usize], mut device: usize) -> usize {
    while parents[device] != device {
        parents[device] = parents[parents[device]];
        device = parents[device];
    }
    device
}
