//! Refits of the line by round and by device, for its interval.

use std::collections::BTreeMap;

use super::{best_by_size, growing_line, line_of};
use crate::fit::ConstantInterval;
use crate::fit::line::Line;
use crate::fit::pool::Group;
use crate::id::DeviceId;
use crate::statistics::median;
use crate::units::{Bytes, Seconds};

/// Refits of a single device's curve, one for each round that all its sizes share.
pub(super) fn of_rounds(curve: &[(&Group<'_>, f64)], sizes_min: u64) -> Result<Vec<Line>, ConstantInterval> {
    let by_size: Vec<(Bytes, BTreeMap<u64, f64>)> =
        curve.iter().map(|(group, _)| (group.bytes, seconds_by_round(group))).collect();
    let Some((_, first)) = by_size.first() else { return Err(ConstantInterval::TooFewRounds) };
    let mut lines = Vec::new();
    for round in first.keys() {
        let times: Option<Vec<(Bytes, f64)>> =
            by_size.iter().map(|(bytes, rounds)| Some((*bytes, *rounds.get(round)?))).collect();
        let Some(times) = times else { continue };
        lines.push(growing_line(&times, sizes_min).map_err(|_| ConstantInterval::ReplicateFailed)?);
    }
    Ok(lines)
}

/// Seconds a launch by round, the screening round left out; several rows' rounds of one number by their median.
fn seconds_by_round(group: &Group<'_>) -> BTreeMap<u64, f64> {
    let mut rounds: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for observation in &group.observations {
        let measured = observation.row.rounds().filter(|(round, _)| *round >= 1);
        for (round, median_ns) in measured.filter(|(_, ns)| ns.is_finite() && *ns > 0.0) {
            rounds.entry(round).or_default().push(Seconds::from_ns(median_ns).0);
        }
    }
    rounds.into_iter().filter_map(|(round, seconds)| Some((round, median(&seconds)?))).collect()
}

/// Each device's own line, over its own best solution of each size. A device with too few sizes is no replicate.
pub(super) fn of_devices(
    groups: &[Group<'_>],
    devices: &BTreeMap<u32, &DeviceId>,
    sizes_min: u64,
) -> Result<Vec<Line>, ConstantInterval> {
    let mut lines = Vec::new();
    for device in devices.keys() {
        let curve = best_by_size(groups, |group| group.rate_of(*device));
        if (curve.len() as u64) < sizes_min {
            continue;
        }
        lines.push(line_of(&curve, sizes_min).map_err(|_| ConstantInterval::ReplicateFailed)?);
    }
    Ok(lines)
}
