//! The readings of a family: each round of each row of devices that do not stand apart.

use std::collections::{BTreeMap, BTreeSet};

use super::index;
use crate::fit::record::{Record, once};
use crate::fit::variance::{NoSplit, Reading, Source, Split, split};
use crate::row::DeviceColumns;

/// Readings from which on points are left out, evenly, until no more are compared. So many tell each source's spread to a
/// part in a thousand, and a large fleet has a hundred times as many.
const READINGS_MAX: usize = 1 << 20;

/// Where the spread of the family's rows comes from; rows of devices that are `apart` are left out.
pub(super) fn split_of(
    rows: &[&Record],
    points: &BTreeMap<u32, usize>,
    apart: impl Fn(usize) -> bool,
) -> Result<Split, NoSplit> {
    let rows: Vec<&Record> = rows.iter().copied().filter(|row| !apart(row.device_number as usize)).collect();
    let hosts = index(distinct_devices(&rows).map(|device| device.host.as_str()));
    let hours = index(rows.iter().map(|row| row.hour()));
    let total: usize = rows.iter().map(|row| measured(row).count()).sum();
    let every = total.div_ceil(READINGS_MAX).max(1);
    let mut readings = Vec::new();
    for row in &rows {
        let point = points.get(&row.point_number).copied().unwrap_or(0);
        if point % every != 0 {
            continue;
        }
        let (host, hour) = (hosts[row.device().host.as_str()], hours[&row.hour()]);
        let device = row.device_number as usize;
        let reading = |ns: f64| Reading { point, device, host, hour, logarithm: libm::log(ns) };
        readings.extend(measured(row).map(reading));
    }
    let mut found = split(&readings)?;
    if every > 1 {
        let devices: BTreeSet<u32> = rows.iter().map(|row| row.device_number).collect();
        let levels = |source: Source| match source {
            Source::Repeat => total,
            Source::Device => devices.len(),
            Source::Hour => hours.len(),
            Source::Host => hosts.len(),
        };
        found.components.iter_mut().for_each(|component| component.levels = levels(component.source));
    }
    Ok(found)
}

/// Medians of the rounds that count, nanoseconds a launch.
fn measured(row: &Record) -> impl Iterator<Item = f64> {
    row.rounds().filter(|(round, ns)| *round >= 1 && ns.is_finite() && *ns > 0.0).map(|(_, ns)| ns)
}

/// Each device as rows share it.
fn distinct_devices<'a>(rows: &[&'a Record]) -> impl Iterator<Item = &'a DeviceColumns> {
    once(rows.iter().copied(), Record::shared_device).into_values()
}
