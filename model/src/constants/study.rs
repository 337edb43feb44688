//! The devices of the class, as documents state them: the study of each family, and devices that stand apart.

use std::collections::BTreeMap;

use crate::fit::attribute::Explained;
use crate::fit::class::{ClassRule, ClassStudy, Family, FamilyKey, study_by};
use crate::fit::devices::Outliers;
use crate::fit::humps::{Hump, Humps};
use crate::fit::pool::Pool;
use crate::fit::variance::Source;
use crate::fit::workers::Workers;
use crate::id::DeviceId;
use crate::point::{Dtype, Sweep};

mod rejected;

pub use rejected::{ClockCause, FamilyEvidenceStudy, PointStudy, Reading, RejectedDevice};

/// What is compared with each other: one kernel under one condition.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FamilyName {
    /// The sweep.
    pub sweep: Sweep,
    /// The kernel.
    pub kernel: String,
    /// Its number format.
    pub dtype: Dtype,
    /// Under which condition it was measured.
    pub condition: BTreeMap<String, String>,
}

/// What one family says of the class's devices. Effects are on logarithms of time: 0.02 is 2% slower.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FamilyStudy {
    /// The family.
    pub family: FamilyName,
    /// Rows that feed it.
    pub rows: u64,
    /// Points and solutions that it compares.
    pub points: u64,
    /// Why devices cannot be compared, where they cannot.
    pub not_compared: Option<String>,
    /// Devices that stand apart.
    pub outliers: OutliersStudy,
    /// Hours in which all devices were slower or faster.
    pub hours: Vec<HourStudy>,
    /// Whether devices are two groups.
    pub humps: HumpsStudy,
    /// What explains two groups, or devices that stand apart; none where there is nothing to explain.
    pub explained: Option<ExplainedStudy>,
    /// Where the spread of the devices that do not stand apart comes from.
    pub spread: SpreadStudy,
}

/// Devices that stand apart.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum OutliersStudy {
    /// The usual spread is known, and these stand apart; none may.
    Found(Vec<DeviceId>),
    /// Too few devices to know the usual spread.
    TooFewDevices {
        /// Devices there are.
        devices: u64,
        /// Devices needed.
        needed: u64,
    },
}

/// An hour that stands apart.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HourStudy {
    /// The hour, counted since 1970 UTC.
    pub hour: u64,
    /// How much longer everything took: 0.15 is 15%.
    pub slower: f64,
    /// Rows in it.
    pub rows: u64,
    /// Devices with rows in it.
    pub devices: u64,
}

/// One group of devices.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HumpStudy {
    /// Its devices.
    pub devices: Vec<DeviceId>,
    /// Median of their effects.
    pub center: f64,
    /// Robust standard deviation of their effects.
    pub sigma: f64,
}

/// Whether devices are two groups.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum HumpsStudy {
    /// Nothing speaks against one.
    One {
        /// How far the effects are from a single mode.
        dip: f64,
        /// From which on there are two.
        limit: f64,
    },
    /// There are two: the split is proposed, not made.
    Two {
        /// How far the effects are from a single mode.
        dip: f64,
        /// From which on there are two; below it, the gap between the groups told them, or the attribute that explains
        /// them.
        limit: f64,
        /// The faster group.
        low: HumpStudy,
        /// The slower group.
        high: HumpStudy,
    },
    /// Too few devices to tell.
    TooFewDevices {
        /// Devices there are.
        devices: u64,
        /// Devices needed.
        needed: u64,
    },
}

/// A level of an attribute.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LevelStudy {
    /// Its name.
    pub name: String,
    /// Its devices.
    pub devices: Vec<DeviceId>,
    /// Median of their effects.
    pub center: f64,
}

/// What attributes of devices say.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ExplainedStudy {
    /// One explains how devices differ.
    By {
        /// Its name, for example `vbios`.
        attribute: String,
        /// Part of the variance between its levels.
        explained: f64,
        /// Chance of explaining as much by accident.
        chance: f64,
        /// Its levels, by the median of their effects.
        levels: Vec<LevelStudy>,
        /// Other attributes that explain as much.
        alike: Vec<String>,
    },
    /// None does.
    ByNone {
        /// Attributes that could be tried.
        tried: Vec<String>,
    },
    /// Too few devices to tell.
    TooFewDevices {
        /// Devices there are.
        devices: u64,
        /// Devices needed.
        needed: u64,
    },
}

/// Where spread comes from.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum SpreadStudy {
    /// Each source's part.
    Split(Vec<SpreadSource>),
    /// The readings do not tell; the text says why.
    NotSplit(String),
}

/// One source of spread.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct SpreadSource {
    /// The source.
    pub source: Source,
    /// Its standard deviation, of logarithms; none where the design does not tell it from another.
    pub sigma: Option<f64>,
    /// Distinct devices, hosts or hours; for repeats the readings.
    pub levels: u64,
    /// Sources that it includes because the design does not tell them apart.
    pub includes: Vec<Source>,
}

/// The study of a pool; nothing of a single device, which has nobody to differ from.
pub(super) fn of<'a>(pool: &'a Pool, workers: &dyn Workers) -> ClassStudy<'a> {
    if pool.devices().len() <= 1 {
        return ClassStudy::default();
    }
    study_by(pool, ClassRule::default(), workers)
}

/// What it says of families and of devices that stand apart.
pub(super) fn stated(study: &ClassStudy<'_>, workers: &dyn Workers) -> (Vec<FamilyStudy>, Vec<RejectedDevice>) {
    let families = study.families.iter().map(|family| FamilyStudy::of(family, &study.devices)).collect();
    let outliers = study.outliers_by(ClassRule::default(), workers);
    (families, outliers.into_iter().map(RejectedDevice::from).collect())
}

impl From<FamilyKey<'_>> for FamilyName {
    fn from(key: FamilyKey<'_>) -> Self {
        let FamilyKey { sweep, kernel, dtype, condition } = key;
        Self { sweep, kernel: kernel.to_owned(), dtype, condition: condition.to_map() }
    }
}

impl FamilyStudy {
    fn of(family: &Family<'_>, devices: &[&DeviceId]) -> Self {
        let spread = match &family.split {
            Err(reason) => SpreadStudy::NotSplit(reason.to_string()),
            Ok(split) => SpreadStudy::Split(
                split
                    .components
                    .iter()
                    .map(|component| SpreadSource {
                        source: component.source,
                        sigma: component.sigma().filter(|sigma| sigma.is_finite()),
                        levels: component.levels as u64,
                        includes: component.includes.clone(),
                    })
                    .collect(),
            ),
        };
        let hours = family.hours.iter().map(|hour| HourStudy {
            hour: hour.hour,
            slower: hour.slower,
            rows: hour.rows as u64,
            devices: hour.devices as u64,
        });
        Self {
            family: family.key.into(),
            rows: family.rows.len() as u64,
            points: family.points.len() as u64,
            not_compared: family.effects.as_ref().err().map(ToString::to_string),
            outliers: outliers(&family.outliers, devices),
            hours: hours.collect(),
            humps: humps(&family.humps, devices),
            explained: family.explained.as_ref().map(|found| explained(found, devices)),
            spread,
        }
    }
}

/// The devices with these indices.
fn named(indices: impl IntoIterator<Item = usize>, devices: &[&DeviceId]) -> Vec<DeviceId> {
    indices.into_iter().filter_map(|index| devices.get(index).map(|device| (*device).clone())).collect()
}

fn outliers(found: &Outliers, devices: &[&DeviceId]) -> OutliersStudy {
    match found {
        Outliers::Found(found) => OutliersStudy::Found(named(found.iter().map(|outlier| outlier.device), devices)),
        Outliers::TooFewDevices { devices, needed } => {
            OutliersStudy::TooFewDevices { devices: *devices as u64, needed: *needed as u64 }
        }
    }
}

fn humps(found: &Humps, devices: &[&DeviceId]) -> HumpsStudy {
    let hump = |hump: &Hump| HumpStudy {
        devices: named(hump.devices.iter().copied(), devices),
        center: hump.center,
        sigma: hump.sigma,
    };
    match found {
        Humps::One { dip, limit } => HumpsStudy::One { dip: *dip, limit: *limit },
        Humps::Two { dip, limit, low, high } => {
            HumpsStudy::Two { dip: *dip, limit: *limit, low: hump(low), high: hump(high) }
        }
        Humps::TooFewDevices { devices, needed } => {
            HumpsStudy::TooFewDevices { devices: *devices as u64, needed: *needed as u64 }
        }
    }
}

fn explained(found: &Explained, devices: &[&DeviceId]) -> ExplainedStudy {
    match found {
        Explained::By(found) => ExplainedStudy::By {
            attribute: found.attribute.clone(),
            explained: found.explained,
            chance: found.chance,
            levels: found
                .levels
                .iter()
                .map(|level| LevelStudy {
                    name: level.name.clone(),
                    devices: named(level.devices.iter().copied(), devices),
                    center: level.center,
                })
                .collect(),
            alike: found.alike.clone(),
        },
        Explained::ByNone { tried } => ExplainedStudy::ByNone { tried: tried.clone() },
        Explained::TooFewDevices { devices, needed } => {
            ExplainedStudy::TooFewDevices { devices: *devices as u64, needed: *needed as u64 }
        }
    }
}
