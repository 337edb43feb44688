//! A device that stands apart, with what a person needs to believe it.

use super::FamilyName;
use crate::fit::class::{Cause, Clock, Compared, Evidence, FamilyEvidence};
use crate::id::DeviceId;

/// A device that stands apart in some family, and everything that was measured on it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RejectedDevice {
    /// The device.
    pub device_uuid: DeviceId,
    /// Its host.
    pub host: String,
    /// Families that it was measured in, those included in which it is as others are.
    pub families: Vec<FamilyEvidenceStudy>,
}

/// A device in one family.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct FamilyEvidenceStudy {
    /// The family.
    pub family: FamilyName,
    /// Whether it stands apart here.
    pub stands_apart: bool,
    /// How much longer it takes than the median device: 0.25 is 25%.
    pub slower: f64,
    /// The same at the core clock of the class, if time goes as the clock; none where no clock was read.
    pub slower_at_class_core_clock: Option<f64>,
    /// The same at the memory clock of the class.
    pub slower_at_class_memory_clock: Option<f64>,
    /// Its distance from the median device in robust standard deviations, where it stands apart.
    pub z: Option<f64>,
    /// Why, where it stands apart.
    pub cause: Option<ClockCause>,
    /// Each of its points.
    pub points: Vec<PointStudy>,
    /// Core clock, kHz.
    pub core_clock_khz: Option<Reading>,
    /// Memory clock, kHz.
    pub memory_clock_khz: Option<Reading>,
    /// Power, milliwatts.
    pub power_mw: Option<Reading>,
    /// Temperature of the die, millidegrees Celsius.
    pub temperature_mc: Option<Reading>,
    /// Throttle reasons seen on its rows; none where nobody looked, empty where none was seen.
    pub throttle: Option<Vec<String>>,
}

/// What makes a device stand apart, as far as its clocks tell.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ClockCause {
    /// Its clock differs as its times do: it is capped, or boosted, and not bad.
    Clock {
        /// Which clock.
        clock: Clock,
        /// Throttle reasons seen on its rows.
        reasons: Vec<String>,
    },
    /// At its class's clocks it would stand apart all the same.
    Device,
    /// No clock of it was read.
    NotKnown,
}

/// A point of a device against its class.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PointStudy {
    /// The point.
    pub point: String,
    /// The solution.
    pub solution: String,
    /// How much longer than the class it takes there.
    pub slower: f64,
}

/// A device's median reading beside the median of its class's devices.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Reading {
    /// The device's.
    pub device: f64,
    /// The class's.
    pub class: f64,
}

impl From<Evidence<'_>> for RejectedDevice {
    fn from(evidence: Evidence<'_>) -> Self {
        let Evidence { device, host, families } = evidence;
        let families = families.into_iter().map(FamilyEvidenceStudy::from).collect();
        Self { device_uuid: device.clone(), host: host.to_owned(), families }
    }
}

impl From<FamilyEvidence<'_>> for FamilyEvidenceStudy {
    fn from(found: FamilyEvidence<'_>) -> Self {
        let reading = |compared: Option<Compared>| compared.map(|Compared { device, class }| Reading { device, class });
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let point = |point: crate::fit::class::PointEvidence<'_>| PointStudy {
            point: point.point.to_owned(),
            solution: point.solution.to_owned(),
            slower: point.slower,
        };
        Self {
            family: found.key.into(),
            stands_apart: found.stands_apart,
            slower: found.slower,
            // A clock that reads zero gives no ratio.
            slower_at_class_core_clock: finite(found.slower_at_class_core_clock),
            slower_at_class_memory_clock: finite(found.slower_at_class_memory_clock),
            z: finite(found.z),
            cause: found.cause.map(ClockCause::from),
            points: found.points.into_iter().map(point).collect(),
            core_clock_khz: reading(found.core_clock_khz),
            memory_clock_khz: reading(found.memory_clock_khz),
            power_mw: reading(found.power_mw),
            temperature_mc: reading(found.temperature_mc),
            throttle: found.throttle.map(|reasons| reasons.names()),
        }
    }
}

impl From<Cause> for ClockCause {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Clock { clock, reasons } => Self::Clock { clock, reasons: reasons.names() },
            Cause::Device => Self::Device,
            Cause::NotKnown => Self::NotKnown,
        }
    }
}
