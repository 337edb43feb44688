//! The sensor of AMD devices: ROCm SMI, loaded at run time.
//!
//! **It never ran on a device**: there was none to try it on. What it makes of the library's answers is tested, and so
//! are its calls, on a stand-in library that a C compiler makes from the documented prototypes. Throttle reasons and
//! foreign processes are not read, and are therefore unknown: the former stand in a table whose layout follows the
//! generation of the device.
//!
//! A device is found by the 64-bit form of its PCI address, never by an index: the order of HIP follows
//! `HIP_VISIBLE_DEVICES` and `ROCR_VISIBLE_DEVICES`, that of the library does not.

use std::sync::OnceLock;

use self::library::{Clock, Library, Temperature};
use super::{Reading, Sensor};

mod library;

/// Names of the library, newest first: packages without headers have only the numbered ones.
const NAMES: [&str; 5] =
    ["librocm_smi64.so.7", "librocm_smi64.so.6", "librocm_smi64.so.5", "librocm_smi64.so.1", "librocm_smi64.so"];

/// Bits of the library's PCI identity that hold a partition's number, which no PCI address has.
const PARTITION_BITS: u64 = 0xf << 28;
/// Temperatures outside of these are words of a driver that knows none, millidegrees Celsius.
const TEMPERATURES_MC: std::ops::Range<i64> = -40_000..150_000;
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
        let wanted = pci_id(pci_bdf).ok_or_else(|| format!("`{pci_bdf}` is no PCI address"))?;
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
        let degrees = |which| library.temperature_mc(*index, which).filter(|mc| TEMPERATURES_MC.contains(mc));
        let clock = |which| library.clock_hz(*index, which).and_then(kilohertz);
        let errors = library.memory_errors(*index);
        Reading {
            core_clock_khz: clock(Clock::System),
            memory_clock_khz: clock(Clock::Memory),
            power_mw: library.power_uw(*index).and_then(milliwatts),
            temperature_mc: degrees(Temperature::Edge),
            hot_spot_mc: degrees(Temperature::Junction),
            memory_temperature_mc: degrees(Temperature::Memory),
            fan_percent: library.fan(*index).and_then(|(speed, fastest)| percent(speed, fastest)),
            busy_percent: library.busy_percent(*index).map(u64::from).filter(|part| *part <= 100),
            ecc_corrected: errors.map(|(corrected, _)| corrected).filter(|count| *count < u64::MAX),
            ecc_uncorrected: errors.map(|(_, uncorrected)| uncorrected).filter(|count| *count < u64::MAX),
            ..Reading::default()
        }
    }
}

/// The 64-bit identity of a PCI address `DOMAIN:BUS:DEVICE.FUNCTION`, all hexadecimal: domain << 32 | bus << 8 |
/// device << 3 | function.
pub fn pci_id(pci_bdf: &str) -> Option<u64> {
    let part = |text: &str, most: u64| u64::from_str_radix(text, 16).ok().filter(|value| *value <= most);
    let (domain, rest) = pci_bdf.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let domain = part(domain, u64::from(u32::MAX))?;
    Some(domain << 32 | part(bus, 0xff)? << 8 | part(device, 0x1f)? << 3 | part(function, 0x7)?)
}

fn kilohertz(hertz: u64) -> Option<u64> {
    (1..=CLOCK_HZ_MAX).contains(&hertz).then_some(hertz / 1000)
}

fn milliwatts(microwatts: u64) -> Option<u64> {
    (1..=POWER_UW_MAX).contains(&microwatts).then_some(microwatts / 1000)
}

fn percent(speed: i64, fastest: u64) -> Option<u64> {
    let speed = u64::try_from(speed).ok()?;
    speed.checked_mul(100)?.checked_div(fastest).filter(|percent| *percent <= 200)
}

#[cfg(test)]
mod tests;
