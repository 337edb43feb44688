//! The order of a pool's rows, and the numbers of its devices and points.
//!
//! Rows of one point lie together, and within it by device: so fits go through memory in its order, and groups are runs.
//! Names are compared once for each thing that rows share, and not for each row.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fit::record::{Record, address, once};
use crate::id::DeviceId;

/// Numbers devices and points of the rows, and sorts the rows by point, solution, device and identity. Gives the devices.
pub(super) fn sort(rows: &mut [Record]) -> Vec<DeviceId> {
    let devices = ranks(rows, Record::shared_device, |device| device.device_uuid.as_str());
    let points = ranks(rows, Record::subject, |subject| (subject.work.point.as_str(), subject.work.solution.as_str()));
    for row in rows.iter_mut() {
        let number = |ranks: &BTreeMap<usize, u32>, address: usize| ranks.get(&address).copied().unwrap_or(0);
        row.device_number = number(&devices, address(row.shared_device()));
        row.point_number = number(&points, address(row.subject()));
    }
    let place = |row: &Record| u64::from(row.point_number) << 32 | u64::from(row.device_number);
    let mut order: Vec<(u64, usize)> = rows.iter().enumerate().map(|(at, row)| (place(row), at)).collect();
    order.sort_unstable();
    for alike in order.chunk_by_mut(|left, right| left.0 == right.0) {
        // Row identities are unique; the rest only orders rows that were never given one.
        let identity = |row: &Record| (row.digest(), row.estimate_ns().map(f64::to_bits));
        alike.sort_by(|(_, left), (_, right)| {
            let (left, right) = (&rows[*left], &rows[*right]);
            left.key().cmp(right.key()).then_with(|| identity(left).cmp(&identity(right)))
        });
    }
    permute(rows, &mut order);
    let shared = rows.iter().map(|row| (row.device_number, &row.device().device_uuid));
    let mut names: BTreeMap<u32, &DeviceId> = BTreeMap::new();
    for (number, name) in shared {
        names.entry(number).or_insert(name);
    }
    names.into_values().cloned().collect()
}

/// The rank of each shared thing by its name, by its address. Things of one name have one rank.
fn ranks<'a, T: 'a, N: Ord>(
    rows: &'a [Record],
    shared: impl Fn(&'a Record) -> &'a Arc<T>,
    name: impl Fn(&'a T) -> N,
) -> BTreeMap<usize, u32> {
    let things = once(rows, shared);
    let mut names: BTreeMap<N, Vec<usize>> = BTreeMap::new();
    for (address, thing) in things {
        names.entry(name(thing)).or_default().push(address);
    }
    let ranked = names.into_values().zip(0_u32..);
    ranked.flat_map(|(addresses, rank)| addresses.into_iter().map(move |address| (address, rank))).collect()
}

/// Puts into each place the row that `order` names for it, without a second copy of all of them.
fn permute(rows: &mut [Record], order: &mut [(u64, usize)]) {
    for place in 0..rows.len() {
        let mut from = order[place].1;
        // What stood there has been swapped on since.
        while from < place {
            from = order[from].1;
        }
        order[place].1 = from;
        rows.swap(place, from);
    }
}
