//! Devices within a class: each one's own effect, from designs in which not every device has every point.
//!
//! The model is log y = point + device + noise. A class measured in shares (each point on some of its devices) has a
//! median for each point over *those* devices, which moves with who they happened to be. Where devices share points,
//! their effects are estimated and taken out, and every point is given as the median device would show it. Medians
//! rather than means, because a class has throttled and broken devices in it.

use crate::statistics::{MAD_TO_SIGMA, median, median_absolute_deviation};

mod design;

use design::{Side, groups};

/// Sweeps over rows and columns at most; a few are usual.
const SWEEPS_MAX: usize = 100;

/// Sweeps end once no effect moves by more than this, on logarithms.
const TOLERANCE: f64 = 1e-12;

/// One observation of a two-way design.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// Which device, from 0.
    pub device: usize,
    /// Which point, from 0.
    pub point: usize,
    /// Logarithm of what was measured.
    pub logarithm: f64,
}

/// Effects of a two-way design.
#[derive(Debug, Clone, PartialEq)]
pub struct Effects {
    /// For each point the logarithm that the median device shows; none where no device has it.
    pub points: Vec<Option<f64>>,
    /// For each device its logarithm relative to the median device: positive is larger. None where it has no point.
    pub devices: Vec<Option<f64>>,
    /// For each cell, in the order given, what is left.
    pub residuals: Vec<f64>,
}

/// Why effects cannot be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoEffects {
    /// No cell, or a logarithm that is no number.
    #[error("there are no finite observations")]
    Nothing,
    /// Some devices share no point with others, not even by way of a third.
    #[error("devices fall into {groups} groups that share no point: measure some points on all of them")]
    NotConnected {
        /// How many groups.
        groups: usize,
    },
}

/// Estimates effects by median polish (Tukey, Exploratory Data Analysis, 1977), devices centred on their median.
///
/// The order of cells does not matter. Several cells of one device and point count one each.
///
/// # Errors
/// [`NoEffects`].
pub fn effects(cells: &[Cell]) -> Result<Effects, NoEffects> {
    if cells.is_empty() || cells.iter().any(|cell| !cell.logarithm.is_finite()) {
        return Err(NoEffects::Nothing);
    }
    let mut by_point = Side::of(cells, |cell| cell.point, |cell| cell.device);
    let mut by_device = Side::of(cells, |cell| cell.device, |cell| cell.point);
    let groups = groups(&by_point, &by_device);
    if groups > 1 {
        return Err(NoEffects::NotConnected { groups });
    }
    let mut points = vec![0.0; by_point.len()];
    let mut devices = vec![0.0; by_device.len()];
    for _ in 0..SWEEPS_MAX {
        let moved = by_point.polish(&mut points, &devices).max(by_device.polish(&mut devices, &points));
        let known: Vec<f64> = by_device.known().map(|device| devices[device]).collect();
        let center = median(&known).unwrap_or(0.0);
        by_device.known().for_each(|device| devices[device] -= center);
        by_point.known().for_each(|point| points[point] += center);
        if moved <= TOLERANCE {
            break;
        }
    }
    let residual = |cell: &Cell| cell.logarithm - points[cell.point] - devices[cell.device];
    let residuals = cells.iter().map(residual).collect();
    let seen = |values: &[f64], side: &Side| -> Vec<Option<f64>> {
        values.iter().enumerate().map(|(at, value)| (!side.row(at).is_empty()).then_some(*value)).collect()
    };
    Ok(Effects { points: seen(&points, &by_point), devices: seen(&devices, &by_device), residuals })
}

/// Devices from which on one's own effect is told from its class's.
pub(crate) const LEVELED_MIN: usize = 3;

/// For each point, given as its devices' positive values by number, the value that a device at the class's centre shows; none where
/// devices and points cannot be told apart.
///
/// Effects come from medians, which no slow device moves; the centre of devices, and what is left at a point, from Huber's
/// weights, which bound what one adds and waste less of what the others say.
pub(crate) fn point_levels(points: &[&[(u32, f64)]]) -> Vec<Option<f64>> {
    let of_point = |(point, values): (usize, &&[(u32, f64)])| {
        let cell =
            move |(device, value): &(u32, f64)| Cell { device: *device as usize, point, logarithm: libm::log(*value) };
        values.iter().map(cell).collect::<Vec<_>>()
    };
    let cells: Vec<Cell> = points.iter().enumerate().flat_map(of_point).collect();
    let Ok(found) = effects(&cells) else { return vec![None; points.len()] };
    let mut rest = vec![Vec::new(); points.len()];
    for (cell, residual) in cells.iter().zip(&found.residuals) {
        rest[cell.point].push(*residual);
    }
    let own: Vec<f64> = found.devices.iter().copied().flatten().collect();
    let center = huber_center(&own).unwrap_or(0.0);
    let level = |point: usize| Some(found.points.get(point).copied()?? + huber_center(&rest[point])? + center);
    (0..points.len()).map(|point| level(point).map(libm::exp)).collect()
}

/// Values beyond so many robust standard deviations pull no harder: 95% efficient on normal values (Huber, Robust
/// estimation of a location parameter, Annals of Mathematical Statistics 35, 1964). A median is 64%.
const HUBER_SIGMAS: f64 = 1.345;

/// The centre of some values by Huber's weights, from their median on and with its scale held; none for no values.
fn huber_center(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut center = median(&sorted)?;
    let bound = HUBER_SIGMAS * MAD_TO_SIGMA * median_absolute_deviation(&sorted)?;
    // Half of the values are equal: there is no scale to weigh the others by.
    if bound <= 0.0 {
        return Some(center);
    }
    for _ in 0..SWEEPS_MAX {
        let moved = sorted.iter().map(|value| (value - center).clamp(-bound, bound)).sum::<f64>() / sorted.len() as f64;
        center += moved;
        if moved.abs() <= TOLERANCE {
            break;
        }
    }
    Some(center)
}

/// How devices that stand apart are told from the usual spread.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OutlierRule {
    /// Of the devices called outliers, the part that may be healthy (Benjamini and Hochberg, 1995).
    pub false_discoveries: f64,
    /// Fewest devices: with fewer, the usual spread is not known.
    pub devices_min: usize,
    /// The usual spread is never taken below this, on logarithms: devices of one class differ by so much.
    pub sigma_floor: f64,
    /// A device nearer than this to the median is none, however small the spread.
    pub distance_min: f64,
}

impl Default for OutlierRule {
    /// 1% false discoveries, 16 devices, a spread of 0.3%, a distance of 2%.
    fn default() -> Self {
        Self { false_discoveries: 0.01, devices_min: 16, sigma_floor: 0.003, distance_min: 0.02 }
    }
}

/// A device that stands apart from its class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlier {
    /// Its index.
    pub device: usize,
    /// Its effect, on logarithms.
    pub effect: f64,
    /// Its distance from the median in robust standard deviations.
    pub z: f64,
}

/// What is known of the devices of a class.
#[derive(Debug, Clone, PartialEq)]
pub enum Outliers {
    /// The spread is known, and these stand apart, by index; none may.
    Found(Vec<Outlier>),
    /// Too few devices to know the usual spread.
    TooFewDevices {
        /// Devices there are.
        devices: usize,
        /// Devices needed.
        needed: usize,
    },
}

/// Finds devices whose effect is beyond the class's usual spread, by robust z with control of false discoveries.
///
/// The spread is the median absolute deviation of the effects. Where a fifth of the devices is slow it comes out a
/// quarter too large, which costs no device that is 10% off in a class that spreads by 0.5%.
pub fn outliers(effects: &[Option<f64>], rule: OutlierRule) -> Outliers {
    let known: Vec<(usize, f64)> =
        effects.iter().enumerate().filter_map(|(device, effect)| Some((device, (*effect)?))).collect();
    let values: Vec<f64> = known.iter().map(|(_, effect)| *effect).collect();
    let spread = median(&values).zip(median_absolute_deviation(&values));
    let (Some((center, deviation)), true) = (spread, values.len() >= rule.devices_min) else {
        return Outliers::TooFewDevices { devices: values.len(), needed: rule.devices_min };
    };
    let sigma = (deviation * MAD_TO_SIGMA).max(rule.sigma_floor);
    let mut ranked: Vec<Outlier> =
        known.into_iter().map(|(device, effect)| Outlier { device, effect, z: (effect - center) / sigma }).collect();
    ranked.sort_by(|left, right| right.z.abs().total_cmp(&left.z.abs()).then(left.device.cmp(&right.device)));
    let allowed = |rank: usize| rule.false_discoveries * (rank + 1) as f64 / ranked.len() as f64;
    let chance = |z: f64| libm::erfc(z.abs() / std::f64::consts::SQRT_2);
    let called = ranked.iter().enumerate().rposition(|(rank, outlier)| chance(outlier.z) <= allowed(rank));
    ranked.truncate(called.map_or(0, |last| last + 1));
    ranked.retain(|outlier| (outlier.effect - center).abs() >= rule.distance_min);
    ranked.sort_by_key(|outlier| outlier.device);
    Outliers::Found(ranked)
}

#[cfg(test)]
mod tests;
