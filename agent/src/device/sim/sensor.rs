//! The sensor of a simulated device: constant values, and what its faults make of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fleetcal_model::throttle::ThrottleReasons;

use super::SimFault;
use crate::telemetry::{ForeignProcess, Reading, Sensor};

/// Clock of the cores, kHz; under a throttle reason two thirds of it.
const CORE_CLOCK_KHZ: u64 = 1_500_000;
/// Clock of the memory, kHz.
const MEMORY_CLOCK_KHZ: u64 = 2_000_000;
/// Number of a process that is not there.
const FOREIGN_PID: u32 = 4_000_000;

/// Reads what the specification says.
#[derive(Debug)]
pub(super) struct SimSensor {
    /// Visits of the device so far.
    pub(super) visits: Arc<AtomicU64>,
    /// How it misbehaves.
    pub(super) faults: Vec<SimFault>,
    /// Power, milliwatts.
    pub(super) power_mw: Option<u64>,
    /// Readings so far.
    pub(super) readings: u64,
}

impl Sensor for SimSensor {
    fn source(&self) -> &'static str {
        "simulated"
    }

    fn read(&mut self) -> Reading {
        let visits = self.visits.load(Ordering::Relaxed);
        let earlier = self.readings;
        self.readings += 1;
        let (mut throttle, mut foreign) = (ThrottleReasons::NONE, Vec::new());
        for fault in &self.faults {
            match fault {
                SimFault::SensorLost { after_readings } if earlier >= *after_readings => return Reading::default(),
                SimFault::Throttled { reason, from_visit } if visits >= *from_visit => {
                    throttle = throttle.union(*reason);
                }
                SimFault::Foreign { from_visit } if visits >= *from_visit => {
                    foreign.push(ForeignProcess { pid: FOREIGN_PID, name: Some("simulated".to_owned()) });
                }
                SimFault::SensorLost { .. }
                | SimFault::Throttled { .. }
                | SimFault::Foreign { .. }
                | SimFault::Lost { .. }
                | SimFault::Hang { .. }
                | SimFault::Spin { .. }
                | SimFault::Exit { .. }
                | SimFault::WrongResult { .. }
                | SimFault::OffByOne { .. }
                | SimFault::OutOfMemory
                | SimFault::Unloadable { .. }
                | SimFault::Compile { .. } => {}
            }
        }
        let core_clock_khz = if throttle.is_empty() { CORE_CLOCK_KHZ } else { CORE_CLOCK_KHZ / 3 * 2 };
        Reading {
            core_clock_khz: Some(core_clock_khz),
            memory_clock_khz: Some(MEMORY_CLOCK_KHZ),
            power_mw: self.power_mw,
            temperature_mc: Some(50_000),
            hot_spot_mc: Some(60_000),
            memory_temperature_mc: Some(55_000),
            fan_percent: None,
            throttle: Some(throttle),
            ecc_corrected: Some(0),
            ecc_uncorrected: Some(0),
            rows_remapped: Some(0),
            busy_percent: Some(0),
            foreign: Some(foreign),
        }
    }
}
