//! The devices of one class, against each other: who stands apart and why, whether they are two groups, and where their
//! spread comes from.
//!
//! Rows are compared by what they time, a *family*: one sweep, kernel and number format under one condition. Within it
//! every device has an effect on the logarithm of time, positive where it is slower, estimated from the points that it
//! shares with others; so designs need not be full.

use std::collections::BTreeMap;

use super::attribute::{AttributeRule, Explained, Explanation, explain};
use super::devices::{Cell, Effects, NoEffects, Outlier, OutlierRule, Outliers};
use super::humps::{HumpRule, Humps};
use super::pool::{Condition, Pool};
use super::record::{Reading, Record};
use super::variance::{NoSplit, Split};
use super::workers::{Alone, Workers, each};
use crate::id::DeviceId;
use crate::point::{Dtype, Sweep};
use crate::statistics::median;
use groups::is_outlier;

mod attributes;
mod evidence;
mod groups;
mod hours;
mod parted;
mod readings;
#[cfg(test)]
mod tests;

pub use evidence::{Cause, Clock, Compared, Evidence, FamilyEvidence, PointEvidence};
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
    pub fn of(row: &'a Record) -> Self {
        let work = row.work();
        Self { sweep: work.sweep, kernel: &work.kernel, dtype: work.dtype, condition: Condition::of(row) }
    }
}

/// One family's devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Family<'a> {
    /// What is compared.
    pub key: FamilyKey<'a>,
    /// Its rows that feed fits, in the order of their pool.
    pub rows: Vec<&'a Record>,
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
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ClassStudy<'a> {
    /// All devices, by identity.
    pub devices: Vec<&'a DeviceId>,
    /// What was compared, in order.
    pub families: Vec<Family<'a>>,
}

impl<'a> ClassStudy<'a> {
    /// Devices that stand apart in any family, with the evidence, by identity.
    pub fn outliers(&self, rule: ClassRule) -> Vec<Evidence<'a>> {
        evidence::all(self, rule, &Alone)
    }

    /// The same, each family a piece of work.
    pub(crate) fn outliers_by(&self, rule: ClassRule, workers: &dyn Workers) -> Vec<Evidence<'a>> {
        evidence::all(self, rule, workers)
    }
}

/// Devices and hours that stand apart, by family.
#[derive(Debug, Default)]
pub(crate) struct Apart<'a>(BTreeMap<FamilyKey<'a>, FamilyApart>);

/// Devices that stand apart in one family, by number, and hours.
#[derive(Debug, Default)]
struct FamilyApart {
    devices: BTreeMap<usize, Outlier>,
    smaller: Option<(SmallerGroup, Vec<usize>)>,
    hours: BTreeMap<u64, HourEffect>,
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

impl FamilyApart {
    fn of(hours: &[HourEffect], outliers: &Outliers, humps: &Humps) -> Self {
        let devices = match outliers {
            Outliers::Found(found) => found.iter().map(|outlier| (outlier.device, *outlier)).collect(),
            Outliers::TooFewDevices { .. } => BTreeMap::new(),
        };
        let smaller = SmallerGroup::of(humps).map(|(group, members)| (group, members.to_vec()));
        Self { devices, smaller, hours: hours.iter().map(|hour| (hour.hour, *hour)).collect() }
    }
}

impl<'a> Apart<'a> {
    /// Finds them among rows of one pool, which are in its order. A family that was studied with the same rows is not
    /// judged again.
    pub(crate) fn of(rows: &[&'a Record], study: &ClassStudy<'a>, rule: ClassRule) -> Self {
        let of_family = |(key, rows): (FamilyKey<'a>, Vec<&'a Record>)| {
            // Rows of a family that feed fits: as many as all of them are all of them.
            let studied = study.families.iter().find(|family| family.key == key && family.rows.len() == rows.len());
            let apart = studied.map(|family| FamilyApart::of(&family.hours, &family.outliers, &family.humps));
            let judged = || {
                let judged = judge(&rows, rule);
                FamilyApart::of(&judged.hours, &judged.outliers, &judged.humps)
            };
            (key, apart.unwrap_or_else(judged))
        };
        let apart = families(rows).into_iter().map(of_family);
        // A family in which nothing stands apart need not be looked up for each row.
        Self(
            apart
                .filter(|(_, apart)| !(apart.devices.is_empty() && apart.hours.is_empty() && apart.smaller.is_none()))
                .collect(),
        )
    }

    /// The outlier that a row's device is in its family.
    pub(crate) fn device(&self, row: &'a Record) -> Option<&Outlier> {
        self.0.get(&FamilyKey::of(row))?.devices.get(&(row.device_number as usize))
    }

    /// The smaller group that a row's device is of in its family.
    pub(crate) fn smaller(&self, row: &'a Record) -> Option<&SmallerGroup> {
        let (group, members) = self.0.get(&FamilyKey::of(row))?.smaller.as_ref()?;
        // A group's devices are in order.
        members.binary_search(&(row.device_number as usize)).is_ok().then_some(group)
    }

    /// The effect of a row's hour, if that stands apart.
    pub(crate) fn hour(&self, row: &'a Record) -> Option<&HourEffect> {
        self.0.get(&FamilyKey::of(row))?.hours.get(&row.hour())
    }
}

/// Rows that feed fits, by family.
fn families<'a>(rows: &[&'a Record]) -> BTreeMap<FamilyKey<'a>, Vec<&'a Record>> {
    let mut families: BTreeMap<FamilyKey<'a>, Vec<&'a Record>> = BTreeMap::new();
    // Rows that follow each other are mostly of one family.
    for alike in rows.chunk_by(|left, right| FamilyKey::of(left) == FamilyKey::of(right)) {
        let mut fit = alike.iter().copied().filter(|row| row.feeds_fits()).peekable();
        if fit.peek().is_some() {
            families.entry(FamilyKey::of(alike[0])).or_default().extend(fit);
        }
    }
    families
}

/// Effects of one family, who stands apart, and whether the rest are two groups.
struct Judged {
    /// The place of each point among the family's, by its number in the pool.
    points: BTreeMap<u32, usize>,
    effects: Result<Effects, NoEffects>,
    hours: Vec<HourEffect>,
    outliers: Outliers,
    humps: Humps,
    /// The attribute that told two humps, where their shape need not.
    told_by: Option<Explanation>,
}

fn judge(rows: &[&Record], rule: ClassRule) -> Judged {
    let points =
        index(rows.chunk_by(|left, right| left.point_number == right.point_number).map(|of| of[0].point_number));
    let cell = |row: &&Record| Cell {
        device: row.device_number as usize,
        point: points[&row.point_number],
        logarithm: libm::log(row.estimate_ns().unwrap_or(f64::NAN)),
    };
    let cells: Vec<Cell> = rows.iter().map(cell).collect();
    let hours: Vec<u64> = rows.iter().map(|row| row.hour()).collect();
    let (effects, hours) = hours::effects_without_hours(&cells, &hours);
    let of_devices: &[Option<f64>] = effects.as_ref().map_or(&[], |effects| &effects.devices);
    let is_small = !of_devices.is_empty() && of_devices.iter().flatten().count() <= parted::DEVICES_MAX;
    let attributes = if is_small { attributes::texts(&by_device(rows, of_devices.len())) } else { Vec::new() };
    let (outliers, humps, told_by) = groups::judge(of_devices, &attributes, rule);
    Judged { points, effects, hours, outliers, humps, told_by }
}

/// Studies the devices of a pool. The order of rows does not matter.
pub fn study(pool: &Pool, rule: ClassRule) -> ClassStudy<'_> {
    study_by(pool, rule, &Alone)
}

/// The same, each family a piece of work.
pub(crate) fn study_by<'a>(pool: &'a Pool, rule: ClassRule, workers: &dyn Workers) -> ClassStudy<'a> {
    let devices: Vec<&DeviceId> = pool.devices().iter().collect();
    let rows: Vec<&Record> = pool.rows().iter().collect();
    let families = families(&rows).into_iter().collect();
    let families = each(workers, families, |(key, rows)| family(key, rows, devices.len(), rule));
    ClassStudy { devices, families }
}

/// Numbers keys from 0 in their order.
fn index<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    let distinct: std::collections::BTreeSet<K> = keys.collect();
    distinct.into_iter().zip(0..).collect()
}

fn family<'a>(key: FamilyKey<'a>, rows: Vec<&'a Record>, devices: usize, rule: ClassRule) -> Family<'a> {
    let Judged { points, effects, hours, outliers, humps, told_by } = judge(&rows, rule);
    let of_devices: Vec<Option<f64>> = effects.as_ref().map_or_else(|_| Vec::new(), |effects| effects.devices.clone());
    let apart = |device: usize| is_outlier(&outliers, device);
    // Devices of a hump may all have been called outliers, and explain it.
    let in_hump = |device: &usize| match &humps {
        // A hump's devices are in order.
        Humps::Two { low, high, .. } => [low, high].iter().any(|hump| hump.devices.binary_search(device).is_ok()),
        Humps::One { .. } | Humps::TooFewDevices { .. } => false,
    };
    let grouped: Vec<Option<f64>> =
        of_devices.iter().enumerate().map(|(device, effect)| effect.filter(|_| in_hump(&device))).collect();
    let has_outliers = matches!(&outliers, Outliers::Found(found) if !found.is_empty());
    let explained = match &humps {
        Humps::Two { .. } => Some(&grouped),
        Humps::One { .. } | Humps::TooFewDevices { .. } => has_outliers.then_some(&of_devices),
    };
    let tried = || explained.map(|effects| explain(effects, &attributes::of(&rows, devices), rule.attributes));
    let explained = told_by.map(Explained::By).or_else(tried);
    let split = readings::split_of(&rows, &points, apart);
    let points = names(&rows);
    Family { key, rows, points, effects, hours, outliers, humps, explained, split }
}

/// The points and solutions of a family's rows, in order.
fn names<'a>(rows: &[&'a Record]) -> Vec<(&'a str, &'a str)> {
    let points = rows.chunk_by(|left, right| left.point_number == right.point_number);
    points.map(|of| of[0].work()).map(|work| (work.point.as_str(), work.solution.as_str())).collect()
}

/// The rows of each device, by number.
fn by_device<'a>(rows: &[&'a Record], devices: usize) -> Vec<Vec<&'a Record>> {
    let mut of_devices: Vec<Vec<&Record>> = vec![Vec::new(); devices];
    rows.iter().for_each(|row| of_devices[row.device_number as usize].push(row));
    of_devices
}

/// Median of what rows read.
fn median_of(rows: &[&Record], reading: Reading) -> Option<f64> {
    median(&rows.iter().filter_map(|row| row.reading(reading)).collect::<Vec<_>>())
}

/// The row of the smallest identity.
fn first<'a>(rows: &[&'a Record]) -> Option<&'a Record> {
    rows.iter().copied().min_by(|left, right| left.key().cmp(right.key()))
}
