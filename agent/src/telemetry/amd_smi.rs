//! A sensor of AMD devices: AMD SMI, loaded at run time.
//!
//! **It never ran on a device**, see [`super::amd`]. Foreign processes are not read, and are therefore unknown.
//!
//! What changes quickly comes from one call, the table of metrics: clocks, power, temperatures and what held the clock
//! back are of one moment. Of a device of several dies the slowest one's clock is told: a kernel ends with its last
//! die. Devices name their throttlers in one of two ways. Up to the MI200 generation the table has a bit for each that
//! is at work now. Later ones count the time that each was at work, so that two tables are needed: the reading between
//! whose table and the one before it a count grew says so, and one whose table is the same as before says nothing.
//! (`amdsmi_get_violation_status` does the same subtraction, and sleeps for a tenth of a second in it.)
//!
//! A device is found by its PCI address with domain, never by an index: the order of HIP follows `HIP_VISIBLE_DEVICES`
//! and `ROCR_VISIBLE_DEVICES`, that of the library does not.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use fleetcal_model::throttle::ThrottleReasons;

use self::library::{Library, Temperature};
use self::metrics::{Metrics, Residencies, Table};
use super::pci::PciAddress;
use super::{Reading, SLOW_EVERY, Sensor, amd};

mod library;
mod metrics;

/// Names of the library, newest first: packages without headers have only the numbered ones.
const NAMES: [&str; 5] =
    ["libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24", "libamd_smi.so.23", "libamd_smi.so"];
/// Two tables further apart than this say too little of the time in which the later one was read. The firmware renews
/// its counts about ten times a second.
const TABLES_APART_MAX: Duration = Duration::from_millis(500);

/// One device of AMD SMI.
#[derive(Debug)]
pub struct AmdSmiSensor {
    library: &'static Library,
    processor: usize,
    table: Table,
    /// The last counts that differed from the ones before them, and when they were read.
    counted: Option<(Instant, Residencies)>,
    slow_read: Option<Instant>,
}

impl AmdSmiSensor {
    /// The device at this PCI address, such as `0000:65:00.0`.
    ///
    /// # Errors
    /// Why there is no sensor: no library, one of a version that this one does not know, or no device of that address.
    pub fn open(pci_bdf: &str) -> Result<Self, String> {
        // Kept for the life of the process: a monitor's thread that hangs in it may outlive everything else.
        static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| Library::load(&NAMES));
        Self::of(library.as_ref().map_err(Clone::clone)?, pci_bdf)
    }

    fn of(library: &'static Library, pci_bdf: &str) -> Result<Self, String> {
        let wanted = PciAddress::parse(pci_bdf).ok_or_else(|| format!("`{pci_bdf}` is no PCI address"))?.amd_smi_bdf();
        let processor = library
            .processor(wanted)
            // It is asked back: a wrong device is worse than none.
            .filter(|processor| library.bdf(*processor) == Some(wanted))
            .ok_or_else(|| format!("AMD SMI shows no device at {pci_bdf}"))?;
        Ok(Self { library, processor, table: Table::new(), counted: None, slow_read: None })
    }

    /// Reads what changes slowly or takes a call of its own.
    fn read_slow(&self) -> Reading {
        let Self { library, processor, .. } = self;
        let degrees = |which| library.temperature_c(*processor, which).and_then(millidegrees);
        let errors = library.memory_errors(*processor);
        Reading {
            temperature_mc: degrees(Temperature::Edge),
            hot_spot_mc: degrees(Temperature::HotSpot),
            memory_temperature_mc: degrees(Temperature::Memory),
            fan_percent: library.fan(*processor).and_then(|(speed, fastest)| amd::fan_percent(speed, fastest)),
            ecc_corrected: errors.map(|(corrected, _)| corrected).filter(|count| *count < u64::MAX),
            ecc_uncorrected: errors.map(|(_, uncorrected)| uncorrected).filter(|count| *count < u64::MAX),
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
        self.table.forget();
        if !self.library.read_metrics(self.processor, &mut self.table) {
            return slow;
        }
        let metrics = self.table.metrics(self.library.has_residencies());
        let degrees = |whole: Option<u16>| whole.and_then(|degrees| millidegrees(i64::from(degrees)));
        Reading {
            core_clock_khz: metrics.core_clock_mhz.map(thousands),
            memory_clock_khz: metrics.memory_clock_mhz.map(thousands),
            power_mw: metrics.power_w.map(thousands),
            temperature_mc: degrees(metrics.edge_c).or(slow.temperature_mc),
            hot_spot_mc: degrees(metrics.hot_spot_c).or(slow.hot_spot_mc),
            memory_temperature_mc: degrees(metrics.memory_c).or(slow.memory_temperature_mc),
            busy_percent: metrics.busy_percent.map(u64::from),
            throttle: self.throttle(now, &metrics),
            ..slow
        }
    }

    /// What held the clock back: by name, or by counts that grew since the last table that differs from this one.
    fn throttle(&mut self, now: Instant, metrics: &Metrics) -> Option<ThrottleReasons> {
        let named = metrics.throttlers.map(metrics::named);
        let grown = metrics.residencies.and_then(|counts| {
            if self.counted.is_some_and(|(_, before)| before.cycles == counts.cycles) {
                return None;
            }
            let (then, before) = self.counted.replace((now, counts))?;
            let near = now.saturating_duration_since(then) <= TABLES_APART_MAX;
            near.then(|| counts.since(&before)).flatten()
        });
        match (named, grown) {
            (Some(named), Some(grown)) => Some(named.union(grown)),
            (named, grown) => named.or(grown),
        }
    }
}

impl Sensor for AmdSmiSensor {
    fn source(&self) -> &'static str {
        "amd_smi"
    }

    fn read(&mut self) -> Reading {
        self.read_at(Instant::now())
    }

    fn read_whole(&mut self) -> Reading {
        self.slow_read = None;
        self.read()
    }
}

/// Degrees as millidegrees.
fn millidegrees(degrees: i64) -> Option<i64> {
    amd::plausible_mc(degrees.checked_mul(1000)?)
}

/// Megahertz as kilohertz, watts as milliwatts.
fn thousands(value: u16) -> u64 {
    u64::from(value) * 1000
}

#[cfg(test)]
mod tests;
