//! Hours in which the whole fleet was slower or faster, taken out before devices are judged.
//!
//! A cooling that failed for an hour slows every row of that hour. A device that happened to have most of its points
//! then would be called slow; so hours that stand apart are estimated beside points and devices, by median polish.

use std::collections::{BTreeMap, BTreeSet};

use crate::fit::devices::{Cell, Effects, NoEffects, effects};
use crate::statistics::median;

/// An hour that stands apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HourEffect {
    /// The hour, counted since 1970 UTC.
    pub hour: u64,
    /// How much longer everything took: 0.15 is 15%.
    pub slower: f64,
    /// Rows in it.
    pub rows: usize,
    /// Devices with rows in it.
    pub devices: usize,
}

/// Devices whose rows an hour must have: with fewer, it is these devices that are slow.
const DEVICES_MIN: usize = 5;

/// An hour stands apart from this on, on logarithms: no less than a device does, halved because many rows say it.
const EFFECT_MIN: f64 = 0.01;

/// Rounds of estimating hours and devices in turn, at most.
const ROUNDS_MAX: usize = 30;

/// Rounds end once no hour moves by more than this.
const TOLERANCE: f64 = 1e-6;

/// Effects of points and devices with hours that stand apart taken out, and these hours; `hours` has one for each cell.
pub(super) fn effects_without_hours(cells: &[Cell], hours: &[u64]) -> (Result<Effects, NoEffects>, Vec<HourEffect>) {
    let mut found = match effects(cells) {
        Ok(found) => found,
        Err(error) => return (Err(error), Vec::new()),
    };
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    hours.iter().enumerate().for_each(|(at, hour)| members.entry(*hour).or_default().push(at));
    let devices = |rows: &[usize]| rows.iter().map(|&at| cells[at].device).collect::<BTreeSet<_>>().len();
    members.retain(|_, rows| devices(rows) >= DEVICES_MIN);
    // Half of the rows in one hour are the usual state, whatever it is.
    members.retain(|_, rows| rows.len() * 2 <= cells.len());

    let mut apart: BTreeMap<u64, f64> = BTreeMap::new();
    let mut adjusted = cells.to_vec();
    for _ in 0..ROUNDS_MAX {
        let mut moved = 0.0_f64;
        for (&hour, rows) in &members {
            let left: Vec<f64> = rows.iter().map(|&at| found.residuals[at]).collect();
            let by = median(&left).unwrap_or(0.0);
            let total = apart.get(&hour).copied().unwrap_or(0.0) + by;
            if total.abs() < EFFECT_MIN && !apart.contains_key(&hour) {
                continue;
            }
            apart.insert(hour, total);
            rows.iter().for_each(|&at| adjusted[at].logarithm -= by);
            moved = moved.max(by.abs());
        }
        if moved <= TOLERANCE {
            break;
        }
        match effects(&adjusted) {
            Ok(next) => found = next,
            Err(error) => return (Err(error), Vec::new()),
        }
    }
    let effect = |(hour, by): (u64, f64)| HourEffect {
        hour,
        slower: libm::expm1(by),
        rows: members[&hour].len(),
        devices: devices(&members[&hour]),
    };
    (Ok(found), apart.into_iter().map(effect).collect())
}
