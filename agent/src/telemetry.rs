//! What sensors say of a device while it is measured: clocks, power, temperatures, throttle reasons, memory errors, and
//! who else uses it.
//!
//! A [`Sensor`] knows one vendor's library and its sentinels; what it cannot read is `None`. A [`Monitor`] reads it from
//! a thread of its own, stamps each reading with the host's monotonic clock, and answers for a window of time with the
//! readings that overlap it. Where none does, telemetry says nothing: a reading taken after a short kernel was over
//! tells of an idle device.
//!
//! Reading costs the device little and the host some. How much that moves times on a given device is measured by the
//! same plan with `monitor = false`; nothing here claims a number.

use std::time::Duration;

use fleetcal_model::throttle::ThrottleReasons;
use serde::{Deserialize, Serialize};

pub mod amd;
pub mod amd_smi;
pub mod host;
pub mod monitor;
pub mod nvml;
pub mod pci;
pub mod processors;
pub mod rocm_smi;
pub mod window;

pub use monitor::{Monitor, Schedule};
pub use processors::Processors;
pub use window::{TimedReading, Window};

/// Time between two readings where a sensor asks for nothing else.
pub const PERIOD: Duration = Duration::from_millis(10);

/// What changes slowly, or is slow to ask for, is asked for no more often, unless somebody wants a whole reading. Readings
/// in between leave it out: an old value says nothing about the time of the reading that would carry it.
const SLOW_EVERY: Duration = Duration::from_millis(200);

/// A process of somebody else on the device.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Its number, in the name space of processes that this one lives in.
    pub pid: u32,
    /// Its name, where it can be seen.
    pub name: Option<String>,
}

impl std::fmt::Display for ForeignProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} (process {})", self.pid),
            None => write!(f, "process {}", self.pid),
        }
    }
}

/// One look at a device. What the device has not, or does not say, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Reading {
    /// Clock of its cores, kHz.
    pub core_clock_khz: Option<u64>,
    /// Clock of its memory, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power, milliwatts.
    pub power_mw: Option<u64>,
    /// Temperature of the die's edge, millidegrees Celsius.
    pub temperature_mc: Option<i64>,
    /// Temperature of its hottest spot.
    pub hot_spot_mc: Option<i64>,
    /// Temperature of its memory.
    pub memory_temperature_mc: Option<i64>,
    /// Fan, percent of its full speed.
    pub fan_percent: Option<u64>,
    /// Why its clock is held back now.
    pub throttle: Option<ThrottleReasons>,
    /// Corrected memory errors counted so far.
    pub ecc_corrected: Option<u64>,
    /// Uncorrected memory errors counted so far.
    pub ecc_uncorrected: Option<u64>,
    /// Memory rows remapped so far.
    pub rows_remapped: Option<u64>,
    /// Part of recent time in which something ran on it, percent.
    pub busy_percent: Option<u64>,
    /// Processes on it that are not this one; unknown where they cannot be seen.
    pub foreign: Option<Vec<ForeignProcess>>,
}

/// Something that can be asked how a device is. Calls come from one thread.
pub trait Sensor: Send {
    /// Where its readings come from, for the row: `nvml`, `amd_smi`, `rocm_smi`, `linux`, `simulated`.
    fn source(&self) -> &'static str;

    /// Time between two readings that it bears without disturbing the device.
    fn period(&self) -> Duration {
        PERIOD
    }

    /// Reads what it can quickly. A value that cannot be read this time, or was not asked for afresh because that is slow,
    /// is `None` this time; that is no error.
    fn read(&mut self) -> Reading;

    /// Reads all it can, slow or not.
    fn read_whole(&mut self) -> Reading {
        self.read()
    }
}
