//! The devices of one class, against each other: who stands apart and why, whether they are two groups, and where their
//! spread comes from.
//!
//! Rows are compared by what they time, a *family*: one sweep, kernel and number format under one condition. Within it
//! every device has an effect on the logarithm of time, positive where it is slower, estimated from the points that it
//! shares with others; so designs need not be full.

use std::collections::BTreeMap;

use super::attribute::{Attribute, AttributeRule, Explained, bands, explain};
use super::devices::{Cell, Effects, NoEffects, Outlier, OutlierRule, Outliers};
use super::humps::{HumpRule, Humps};
use super::pool::{Condition, Pool};
use groups::is_outlier;

use super::variance::{NoSplit, Reading, Split, split};
use crate::id::DeviceId;
use crate::point::{Dtype, Sweep};
use crate::row::Row;

mod evidence;
mod groups;
mod hours;
#[cfg(test)]
mod tests;

pub use evidence::{Cause, Clock, Compared, Evidence, FamilyEvidence, PointEvidence, evidence};
pub use hours::HourEffect;

/// How devices are judged.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct ClassRule {
    /// Who stands apart.
    pub outliers: OutlierRule,
    /// When two groups are two humps.
    pub humps: HumpRule,
    /// When an attribute explains.
    pub attributes: AttributeRule,
}

/// What is compared with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FamilyKey<'a> {
    /// The sweep.
    pub sweep: Sweep,
    /// The kernel.
    pub kernel: &'a str,
    /// Its number format.
    pub dtype: Dtype,
    /// Under which condition it was measured.
    pub condition: Condition<'a>,
}

impl<'a> FamilyKey<'a> {
    /// The family that a row belongs to.
    pub fn of(row: &'a Row) -> Self {
        let work = &row.work;
        Self { sweep: work.sweep, kernel: &work.kernel, dtype: work.dtype, condition: Condition::of(row) }
    }
}

/// One family's devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// What is compared.
    pub key: FamilyKey<'a>,
    /// Its rows that feed fits, by identity.
    pub rows: Vec<&'a Row>,
    /// Its points, as (point, solution): indices are those of `effects`.
    pub points: Vec<(&'a str, &'a str)>,
    /// Effects of points and of devices, on logarithms of nanoseconds.
    pub effects: Result<Effects, NoEffects>,
    /// Hours in which all devices were slower or faster; `effects` are without them.
    pub hours: Vec<HourEffect>,
    /// Devices that stand apart, by index into the study's devices.
    pub outliers: Outliers,
    /// Whether devices are two groups. If they are, a device stands apart if it does so from its own group.
    pub humps: Humps,
    /// What explains two groups, or devices that stand apart. `None` where there is nothing to explain.
    pub explained: Option<Explained>,
    /// Where the spread of the devices that do not stand apart comes from.
    pub split: Result<Split, NoSplit>,
}

/// A class's devices.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassStudy<'a> {
    /// All devices, by identity.
    pub devices: Vec<&'a DeviceId>,
    /// What was compared, in order.
    pub families: Vec<Family<'a>>,
}

impl<'a> ClassStudy<'a> {
    /// Devices that stand apart in any family, with the evidence, by identity.
    pub fn outliers(&self, rule: ClassRule) -> Vec<Evidence<'a>> {
        (0..self.devices.len()).filter_map(|device| evidence(self, device, rule)).collect()
    }
}

/// Devices and hours that stand apart, by family.
#[derive(Debug, Default)]
pub(crate) struct Apart<'a> {
    devices: BTreeMap<(FamilyKey<'a>, &'a DeviceId), Outlier>,
    hours: BTreeMap<(FamilyKey<'a>, u64), HourEffect>,
    smaller: BTreeMap<(FamilyKey<'a>, &'a DeviceId), SmallerGroup>,
}

/// The smaller of two groups of devices. A number between two groups is true of no device, so constants are those of the
/// larger, and of the faster where both are as large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SmallerGroup {
    /// Its devices.
    pub(crate) devices: usize,
    /// Those of the larger group.
    pub(crate) larger: usize,
    /// How much longer it takes than the larger one: 0.04 is 4%.
    pub(crate) slower: f64,
}

impl SmallerGroup {
    /// It and its devices, by index, where there are two groups.
    fn of(humps: &Humps) -> Option<(Self, &[usize])> {
        let Humps::Two { low, high, .. } = humps else { return None };
        let (larger, smaller) = if high.devices.len() > low.devices.len() { (high, low) } else { (low, high) };
        let slower = libm::expm1(smaller.center - larger.center);
        let group = Self { devices: smaller.devices.len(), larger: larger.devices.len(), slower };
        Some((group, &smaller.devices))
    }
}

impl<'a> Apart<'a> {
    /// Finds them among rows of one class.
    pub(crate) fn of(rows: &[&'a Row], rule: ClassRule) -> Self {
        let numbers = index(rows.iter().map(|row| &row.device.device_uuid));
        let devices: Vec<&'a DeviceId> = numbers.keys().copied().collect();
        let mut apart = Self::default();
        for (key, rows) in families(rows) {
            let judged = judge(&rows, &numbers, rule);
            if let Some((group, members)) = SmallerGroup::of(&judged.humps) {
                apart.smaller.extend(members.iter().map(|device| ((key, devices[*device]), group)));
            }
            apart.hours.extend(judged.hours.into_iter().map(|hour| ((key, hour.hour), hour)));
            if let Outliers::Found(found) = judged.outliers {
                apart.devices.extend(found.into_iter().map(|outlier| ((key, devices[outlier.device]), outlier)));
            }
        }
        apart
    }

    /// The outlier that a row's device is in its family.
    pub(crate) fn device(&self, row: &'a Row) -> Option<&Outlier> {
        self.devices.get(&(FamilyKey::of(row), &row.device.device_uuid))
    }

    /// The smaller group that a row's device is of in its family.
    pub(crate) fn smaller(&self, row: &'a Row) -> Option<&SmallerGroup> {
        self.smaller.get(&(FamilyKey::of(row), &row.device.device_uuid))
    }

    /// The effect of a row's hour, if that stands apart.
    pub(crate) fn hour(&self, row: &'a Row) -> Option<&HourEffect> {
        self.hours.get(&(FamilyKey::of(row), hour_of(row)))
    }
}

/// Rows that feed fits, by family.
fn families<'a>(rows: &[&'a Row]) -> BTreeMap<FamilyKey<'a>, Vec<&'a Row>> {
    let mut families: BTreeMap<FamilyKey<'a>, Vec<&'a Row>> = BTreeMap::new();
    for &row in rows.iter().filter(|row| row.feeds_fits()) {
        families.entry(FamilyKey::of(row)).or_default().push(row);
    }
    families
}

/// Effects of one family, who stands apart, and whether the rest are two groups.
struct Judged<'a> {
    points: BTreeMap<(&'a str, &'a str), usize>,
    effects: Result<Effects, NoEffects>,
    hours: Vec<HourEffect>,
    outliers: Outliers,
    humps: Humps,
}

fn judge<'a>(rows: &[&'a Row], numbers: &BTreeMap<&'a DeviceId, usize>, rule: ClassRule) -> Judged<'a> {
    let points = index(rows.iter().map(|row| point_of(row)));
    let cell = |row: &&'a Row| Cell {
        device: numbers[&row.device.device_uuid],
        point: points[&point_of(row)],
        logarithm: libm::log(row.timing.estimate_ns.unwrap_or(f64::NAN)),
    };
    let cells: Vec<Cell> = rows.iter().map(cell).collect();
    let hours: Vec<u64> = rows.iter().map(|row| hour_of(row)).collect();
    let (effects, hours) = hours::effects_without_hours(&cells, &hours);
    let (outliers, humps) = groups::judge(effects.as_ref().map_or(&[], |effects| &effects.devices), rule);
    Judged { points, effects, hours, outliers, humps }
}

/// Nanoseconds of an hour.
const HOUR_NS: u64 = 3_600_000_000_000;

/// Studies the devices of a pool. The order of rows does not matter.
pub fn study<'a>(pool: &Pool<'a>, rule: ClassRule) -> ClassStudy<'a> {
    study_rows(pool.rows(), rule)
}

/// Studies the devices of these rows, which are of one class.
pub(crate) fn study_rows<'a>(rows: &[&'a Row], rule: ClassRule) -> ClassStudy<'a> {
    let numbers = index(rows.iter().map(|row| &row.device.device_uuid));
    let families = families(rows).into_iter().map(|(key, rows)| family(key, rows, &numbers, rule)).collect();
    ClassStudy { devices: numbers.into_keys().collect(), families }
}

/// Numbers keys from 0 in their order.
fn index<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let distinct: std::collections::BTreeSet<K> = keys.collect();
    distinct.into_iter().zip(0..).collect()
}

fn family<'a>(
    key: FamilyKey<'a>,
    rows: Vec<&'a Row>,
    numbers: &BTreeMap<&'a DeviceId, usize>,
    rule: ClassRule,
) -> Family<'a> {
    let Judged { points, effects, hours, outliers, humps } = judge(&rows, numbers, rule);
    let of_devices: Vec<Option<f64>> = effects.as_ref().map_or_else(|_| Vec::new(), |effects| effects.devices.clone());
    let apart = |device: usize| is_outlier(&outliers, device);
    // Devices of a hump may all have been called outliers, and explain it.
    let in_hump = |device: &usize| match &humps {
        Humps::Two { low, high, .. } => low.devices.contains(device) || high.devices.contains(device),
        Humps::One { .. } | Humps::TooFewDevices { .. } => false,
    };
    let grouped: Vec<Option<f64>> =
        of_devices.iter().enumerate().map(|(device, effect)| effect.filter(|_| in_hump(&device))).collect();
    let has_outliers = matches!(&outliers, Outliers::Found(found) if !found.is_empty());
    let explained = match &humps {
        Humps::Two { .. } => Some(&grouped),
        Humps::One { .. } | Humps::TooFewDevices { .. } => has_outliers.then_some(&of_devices),
    };
    let explained = explained.map(|effects| explain(effects, &attributes(&rows, numbers), rule.attributes));
    let split = split(&readings(&rows, numbers, &points, apart));
    Family { key, rows, points: points.into_keys().collect(), effects, hours, outliers, humps, explained, split }
}

/// The hour that a row was begun in, counted since 1970 UTC.
fn hour_of(row: &Row) -> u64 {
    row.outcome.started_utc_ns / HOUR_NS
}

fn point_of(row: &Row) -> (&str, &str) {
    (&row.work.point, &row.work.solution)
}

/// Each round of each row of devices that do not stand apart.
fn readings<'a>(
    rows: &[&'a Row],
    numbers: &BTreeMap<&'a DeviceId, usize>,
    points: &BTreeMap<(&'a str, &'a str), usize>,
    apart: impl Fn(usize) -> bool,
) -> Vec<Reading> {
    let hosts = index(rows.iter().map(|row| row.device.host.as_str()));
    let hours = index(rows.iter().map(|row| hour_of(row)));
    let mut readings = Vec::new();
    for row in rows.iter().filter(|row| !apart(numbers[&row.device.device_uuid])) {
        let measured = row.timing.rounds.iter().filter(|round| round.round >= 1);
        for round in measured.filter(|round| round.median_ns.is_finite() && round.median_ns > 0.0) {
            readings.push(Reading {
                point: points[&point_of(row)],
                device: numbers[&row.device.device_uuid],
                host: hosts[row.device.host.as_str()],
                hour: hours[&hour_of(row)],
                logarithm: libm::log(round.median_ns),
            });
        }
    }
    readings
}

/// What devices have that may explain how they differ: the first row's text of each, and bands of what was measured.
fn attributes<'a>(rows: &[&'a Row], numbers: &BTreeMap<&'a DeviceId, usize>) -> Vec<Attribute> {
    type Text = fn(&Row) -> Option<String>;
    let texts: [(&str, Text); 5] = [
        ("driver", |row| row.device.driver.clone()),
        ("host", |row| Some(row.device.host.clone())),
        ("rack", |row| row.device.rack.clone()),
        ("slot", |row| slot(row.device.pci_bdf.as_deref()?)),
        ("vbios", |row| row.device.vbios.clone()),
    ];
    type Number = fn(&Row) -> Option<f64>;
    let measured: [(&str, Number); 3] = [
        ("core_clock_khz", |row| row.conditions.core_clock_khz.map(|khz| khz as f64)),
        ("memory_clock_khz", |row| row.conditions.memory_clock_khz.map(|khz| khz as f64)),
        ("power_mw", |row| row.conditions.power_mw.map(|mw| mw as f64)),
    ];
    let mut of_devices: Vec<Vec<&Row>> = vec![Vec::new(); numbers.len()];
    rows.iter().for_each(|row| of_devices[numbers[&row.device.device_uuid]].push(row));
    let text = |(name, read): &(&str, Text)| {
        let levels = of_devices.iter().map(|rows| rows.first().and_then(|row| read(row))).collect();
        Attribute { name: (*name).to_owned(), levels }
    };
    let band = |(name, read): &(&str, Number)| {
        let medians: Vec<Option<f64>> = of_devices.iter().map(|rows| evidence::median_of(rows, *read)).collect();
        bands(name, &medians)
    };
    texts.iter().map(text).chain(measured.iter().filter_map(band)).collect()
}

/// Bus and device of a PCI address, without its domain: the place within a host.
fn slot(bdf: &str) -> Option<String> {
    let mut parts = bdf.rsplitn(3, ':');
    let (device, bus) = (parts.next()?, parts.next()?);
    Some(format!("{bus}:{device}"))
}
