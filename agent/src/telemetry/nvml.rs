//! The sensor of NVIDIA devices: NVML, loaded at run time.
//!
//! A device is found by its PCI address with domain, never by an index: the orders of CUDA and NVML differ as soon as
//! somebody hides a device. Power is what the board reports: a mean over up to a second on recent ones, so that short
//! visits see their neighbours in it; clocks and throttle reasons are of the moment.

use std::fs;
use std::sync::OnceLock;
use std::time::Instant;

use fleetcal_model::throttle::ThrottleReasons;
use nvml_wrapper::bitmasks::device::ThrottleReasons as Bits;
use nvml_wrapper::enum_wrappers::device::{Clock, EccCounter, MemoryError, TemperatureSensor};
use nvml_wrapper::enums::device::SampleValue;
use nvml_wrapper::error::{Bits as Unnamed, NvmlError};
use nvml_wrapper::structs::device::FieldId;
use nvml_wrapper::sys_exports::field_id;
use nvml_wrapper::{Device, Nvml};

use super::{ForeignProcess, Reading, SLOW_EVERY, Sensor};

/// The inode of the name space of processes that the machine started with (`PROC_PID_INIT_INO` of Linux).
const FIRST_NAME_SPACE: &str = "pid:[4026531836]";
/// Hotter than this is no temperature, degrees Celsius.
const DEGREES_MAX: u32 = 150;
/// A fan may run above its full speed, but not at many times of it, percent.
const FAN_PERCENT_MAX: u32 = 200;

/// One device of NVML.
#[derive(Debug)]
pub struct NvmlSensor {
    device: Device<'static>,
    /// Whether it is a whole device. A slice shares clocks and power with its neighbours, and their processes too.
    whole: bool,
    slow_read: Option<Instant>,
}

impl NvmlSensor {
    /// The device at this PCI address, such as `00000000:65:00.0`.
    ///
    /// # Errors
    /// Why there is no sensor: no NVML here, or no device of that address in it.
    pub fn open(pci_bdf: &str, whole: bool) -> Result<Self, String> {
        // Kept for the life of the process: a monitor's thread that hangs in it may outlive everything else.
        static LIBRARY: OnceLock<Result<Nvml, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| Nvml::init().map_err(|error| format!("NVML cannot be used: {error}")));
        Self::of(library.as_ref().map_err(Clone::clone)?, pci_bdf, whole)
    }

    fn of(library: &'static Nvml, pci_bdf: &str, whole: bool) -> Result<Self, String> {
        let device = library
            .device_by_pci_bus_id(pci_bdf)
            .map_err(|error| format!("NVML shows no device at {pci_bdf}: {error}"))?;
        Ok(Self { device, whole, slow_read: None })
    }

    /// Reads what changes slowly.
    fn read_slow(&self) -> Reading {
        let device = &self.device;
        let errors = |kind| device.total_ecc_errors(kind, EccCounter::Volatile).ok().filter(|count| *count < u64::MAX);
        let fields =
            [field_id::NVML_FI_DEV_MEMORY_TEMP, field_id::NVML_FI_DEV_REMAPPED_COR, field_id::NVML_FI_DEV_REMAPPED_UNC];
        let values: Vec<Option<u64>> = match device.field_values_for(&fields.map(FieldId)) {
            Ok(values) => values.into_iter().map(|value| whole_number(&value.ok()?.value.ok()?)).collect(),
            Err(_) => Vec::new(),
        };
        let field = |index: usize| values.get(index).copied().flatten();
        Reading {
            memory_temperature_mc: field(0).and_then(|degrees| millidegrees(u32::try_from(degrees).ok()?)),
            rows_remapped: field(1).zip(field(2)).and_then(|(corrected, not)| corrected.checked_add(not)),
            ecc_corrected: errors(MemoryError::Corrected),
            ecc_uncorrected: errors(MemoryError::Uncorrected),
            fan_percent: device.fan_speed(0).ok().filter(|percent| *percent <= FAN_PERCENT_MAX).map(u64::from),
            busy_percent: device.utilization_rates().ok().map(|rates| u64::from(rates.gpu)).filter(|part| *part <= 100),
            foreign: self.foreign(),
            ..Reading::default()
        }
    }

    /// Reads what changes quickly, and what changes slowly where that is due at this time.
    fn read_at(&mut self, now: Instant) -> Reading {
        let due = |read: Instant| now.saturating_duration_since(read) >= SLOW_EVERY;
        let slow = if self.slow_read.is_none_or(due) {
            self.slow_read = Some(now);
            self.read_slow()
        } else {
            Reading::default()
        };
        let device = &self.device;
        let power_mw = device.power_usage().ok().filter(|power_mw| *power_mw < u32::MAX);
        Reading {
            core_clock_khz: device.clock_info(Clock::SM).ok().and_then(kilohertz),
            memory_clock_khz: device.clock_info(Clock::Memory).ok().and_then(kilohertz),
            power_mw: power_mw.map(u64::from),
            temperature_mc: device.temperature(TemperatureSensor::Gpu).ok().and_then(millidegrees),
            throttle: throttle(device.current_throttle_reasons_strict()),
            ..slow
        }
    }

    fn foreign(&self) -> Option<Vec<ForeignProcess>> {
        if !self.whole {
            return None;
        }
        // Drivers before 510 lack this form of the list: unknown there.
        let running = self.device.running_compute_processes().ok()?;
        let pids: Vec<u32> = running.iter().map(|process| process.pid).collect();
        let first_space = fs::read_link("/proc/self/ns/pid").is_ok_and(|space| space.as_os_str() == FIRST_NAME_SPACE);
        let others = foreign_pids(std::process::id(), &pids, first_space)?;
        let name = |pid: u32| Some(fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim().to_owned());
        Some(others.into_iter().map(|pid| ForeignProcess { pid, name: name(pid) }).collect())
    }
}

impl Sensor for NvmlSensor {
    fn source(&self) -> &'static str {
        "nvml"
    }

    fn read(&mut self) -> Reading {
        self.read_at(Instant::now())
    }

    fn read_whole(&mut self) -> Reading {
        self.slow_read = None;
        self.read()
    }
}

/// Megahertz as kilohertz. A clock of nothing or of everything is none.
fn kilohertz(megahertz: u32) -> Option<u64> {
    (1..u32::MAX).contains(&megahertz).then(|| u64::from(megahertz) * 1000)
}

/// Degrees as millidegrees. What no silicon survives is a driver's word for "unknown".
fn millidegrees(degrees: u32) -> Option<i64> {
    (degrees <= DEGREES_MAX).then(|| i64::from(degrees) * 1000)
}

fn whole_number(value: &SampleValue) -> Option<u64> {
    match value {
        SampleValue::U32(value) => Some(u64::from(*value)).filter(|value| *value < u64::from(u32::MAX)),
        SampleValue::U64(value) => Some(*value).filter(|value| *value < u64::MAX),
        SampleValue::I64(value) => u64::try_from(*value).ok(),
        SampleValue::F64(_) => None,
    }
}

/// NVML's reasons as ours. One that the bindings have no name for is another reason, not none.
fn throttle(reasons: Result<Bits, NvmlError>) -> Option<ThrottleReasons> {
    match reasons {
        Ok(bits) => Some(translated(bits.bits())),
        Err(NvmlError::IncorrectBits(Unnamed::U64(bits))) => Some(translated(bits)),
        Err(_) => None,
    }
}

fn translated(bits: u64) -> ThrottleReasons {
    let named = [
        (Bits::GPU_IDLE, ThrottleReasons::IDLE),
        (Bits::APPLICATIONS_CLOCKS_SETTING, ThrottleReasons::CLOCK_SETTING),
        (Bits::DISPLAY_CLOCK_SETTING, ThrottleReasons::CLOCK_SETTING),
        (Bits::SW_POWER_CAP, ThrottleReasons::POWER_CAP),
        (Bits::SYNC_BOOST, ThrottleReasons::SYNC_BOOST),
        (Bits::SW_THERMAL_SLOWDOWN, ThrottleReasons::SOFTWARE_THERMAL),
        (Bits::HW_THERMAL_SLOWDOWN, ThrottleReasons::HARDWARE_THERMAL),
        (Bits::HW_POWER_BRAKE_SLOWDOWN, ThrottleReasons::POWER_BRAKE),
        (Bits::HW_SLOWDOWN, ThrottleReasons::HARDWARE_SLOWDOWN),
    ];
    let mut rest = bits;
    let mut reasons = ThrottleReasons::NONE;
    for (bit, reason) in named {
        if bits & bit.bits() != 0 {
            reasons = reasons.union(reason);
            rest &= !bit.bits();
        }
    }
    if rest == 0 { reasons } else { reasons.union(ThrottleReasons::OTHER) }
}

/// Processes on the device that are not this one. Unknown where this one, which holds a context on it, is not in the
/// list: its numbers are then of another name space, or hidden. In a container none that can be seen is not none at all.
fn foreign_pids(own: u32, pids: &[u32], first_space: bool) -> Option<Vec<u32>> {
    if !pids.contains(&own) {
        return None;
    }
    let mut others: Vec<u32> = pids.iter().copied().filter(|pid| *pid != own).collect();
    others.sort_unstable();
    others.dedup();
    (first_space || !others.is_empty()).then_some(others)
}

#[cfg(test)]
mod tests;
