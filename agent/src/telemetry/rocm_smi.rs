//! A sensor of AMD devices where AMD SMI is not there: its predecessor ROCm SMI, loaded at run time.
//!
//! **It never ran on a device**, see [`super::amd`]. Throttle reasons and foreign processes are not read, and are
//! therefore unknown: the former stand in a table whose layout follows the generation of the device.
//!
//! A device is found by the 64-bit form of its PCI address, never by an index: the order of HIP follows
//! `HIP_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES`, that of the library does not.

use std::sync::OnceLock;

use self::library::{Clock, Library, Temperature};
use super::pci::PciAddress;
use super::{Reading, Sensor, amd};

mod library;

/// Names of the library, newest first: packages without headers have only the numbered ones.
const NAMES: [&str; 5] =
    ["librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "librocm_smi64.so.1", "librocm_smi64.so"];

/// Bits of the library's PCI identity that hold a partition's number, which no PCI address has.
const PARTITION_BITS: u64 = 0xf << 28;
/// More than any board draws, microwatts.
const POWER_UW_MAX: u64 = 100_000_000_000;
/// More than any clock, hertz.
const CLOCK_HZ_MAX: u64 = 100_000_000_000;

/// One device of ROCm SMI.
#[derive(Debug)]
pub struct RocmSmiSensor {
    library: &'static Library,
    index: u32,
}

impl RocmSmiSensor {
    /// The device at this PCI address, such as `0000:65:00.0`.
    ///
    /// # Errors
    /// Why there is no sensor: no library, or no device of that address in it.
    pub fn open(pci_bdf: &str) -> Result<Self, String> {
        // Kept for the life of the process: a monitor's thread that hangs in it may outlive everything else.
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| Library::load(&NAMES));
        Self::of(library.as_ref().map_err(Clone::clone)?, pci_bdf)
    }

    fn of(library: &'static Library, pci_bdf: &str) -> Result<Self, String> {
        let wanted = PciAddress::parse(pci_bdf).ok_or_else(|| format!("`{pci_bdf}` is no PCI address"))?.rocm_smi_id();
        let index = (0..library.devices())
            .find(|index| library.pci_id(*index).is_some_and(|id| id & !PARTITION_BITS == wanted))
            .ok_or_else(|| format!("ROCm SMI shows no device at {pci_bdf}"))?;
        Ok(Self { library, index })
    }
}

impl Sensor for RocmSmiSensor {
    fn source(&self) -> &'static str {
        "rocm_smi"
    }

    fn read(&mut self) -> Reading {
        let Self { library, index } = self;
        let degrees = |which| library.temperature_mc(*index, which).and_then(amd::plausible_mc);
        let clock = |which| library.clock_hz(*index, which).and_then(kilohertz);
        let errors = library.memory_errors(*index);
        Reading {
            core_clock_khz: clock(Clock::System),
            memory_clock_khz: clock(Clock::Memory),
            power_mw: library.power_uw(*index).and_then(milliwatts),
            temperature_mc: degrees(Temperature::Edge),
            hot_spot_mc: degrees(Temperature::Junction),
            memory_temperature_mc: degrees(Temperature::Memory),
            fan_percent: library.fan(*index).and_then(|(speed, fastest)| amd::fan_percent(speed, fastest)),
            busy_percent: library.busy_percent(*index).map(u64::from).filter(|part| *part <= 100),
            ecc_corrected: errors.map(|(corrected, _)| corrected).filter(|count| *count < u64::MAX),
            ecc_uncorrected: errors.map(|(_, uncorrected)| uncorrected).filter(|count| *count < u64::MAX),
            ..Reading::default()
        }
    }
}

fn kilohertz(hertz: u64) -> Option<u64> {
    (1..=CLOCK_HZ_MAX).contains(&hertz).then_some(hertz / 1000)
}

fn milliwatts(microwatts: u64) -> Option<u64> {
    (1..=POWER_UW_MAX).contains(&microwatts).then_some(microwatts / 1000)
}

#[cfg(test)]
mod tests;
