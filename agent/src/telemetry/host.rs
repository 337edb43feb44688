//! The sensor of the host's own processor: what Linux shows in sysfs, below a root, so that it can be tested anywhere.
//!
//! Clocks come from cpufreq, power from the energy counters of RAPL (packages only, which hold their parts), temperatures
//! from thermal zones of the processor, throttling from the counters beside each core, memory errors from EDAC. Many
//! machines have none of these, virtual ones above all, and RAPL is for root alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fleetcal_model::throttle::ThrottleReasons;

use super::{Processors, Reading, Sensor};

/// Time between two readings: reading wakes the very processor that is measured.
const PERIOD: Duration = Duration::from_millis(100);

/// Temperatures outside of these are words of a driver that knows none, millidegrees Celsius.
const TEMPERATURES_MC: std::ops::Range<i64> = -40_000..150_000;

/// What sysfs says of some processors.
#[derive(Debug)]
pub struct HostSensor {
    /// Files with the clock of each processor.
    clocks: Vec<PathBuf>,
    /// Files that count throttling.
    throttling: Vec<PathBuf>,
    /// Files with temperatures.
    temperatures: Vec<PathBuf>,
    /// Energy counters with the value at which each begins anew.
    energies: Vec<(PathBuf, u64)>,
    /// Folders of memory controllers.
    memories: Vec<PathBuf>,
    last_energy: Option<(Instant, Vec<u64>)>,
    last_throttling: Option<u64>,
}

impl HostSensor {
    /// Looks for what can be read of these processors.
    ///
    /// # Errors
    /// Why there is no sensor: nothing is there that says anything.
    pub fn open(processors: &Processors) -> Result<Self, String> {
        let cpus = processors.root.join("sys/devices/system/cpu");
        let of_each = |file: &str| -> Vec<PathBuf> {
            let paths = processors.numbers.iter().map(|number| cpus.join(format!("cpu{number}")).join(file));
            paths.filter(|path| number(path).is_some()).collect()
        };
        let class = processors.root.join("sys/class");
        let this = Self {
            clocks: of_each("cpufreq/scaling_cur_freq"),
            throttling: [
                of_each("thermal_throttle/core_throttle_count"),
                of_each("thermal_throttle/package_throttle_count"),
            ]
            .concat(),
            temperatures: folders(&class.join("thermal"), "thermal_zone")
                .into_iter()
                .filter(|zone| text(&zone.join("type")).is_some_and(|kind| is_of_processor(&kind)))
                .map(|zone| zone.join("temp"))
                .collect(),
            energies: folders(&class.join("powercap"), "intel-rapl:").into_iter().filter_map(energy_counter).collect(),
            memories: folders(&processors.root.join("sys/devices/system/edac/mc"), "mc"),
            last_energy: None,
            last_throttling: None,
        };
        let says_something = !(this.clocks.is_empty()
            && this.throttling.is_empty()
            && this.temperatures.is_empty()
            && this.energies.is_empty());
        let nothing = || "Linux shows neither clock nor power nor temperature of this processor".to_owned();
        says_something.then_some(this).ok_or_else(nothing)
    }

    /// Reads all there is, at this time.
    fn read_at(&mut self, now: Instant) -> Reading {
        let mut clocks: Vec<u64> = self.clocks.iter().filter_map(|path| number(path)).filter(|khz| *khz > 0).collect();
        clocks.sort_unstable();
        let degrees = self.temperatures.iter().filter_map(|path| text(path)?.parse::<i64>().ok());
        let errors = |file: &str| {
            let counts = self.memories.iter().filter_map(|memory| number(&memory.join(file)));
            counts.reduce(u64::saturating_add)
        };
        Reading {
            core_clock_khz: clocks.get(clocks.len() / 2).copied(),
            temperature_mc: degrees.filter(|degrees| TEMPERATURES_MC.contains(degrees)).max(),
            ecc_corrected: errors("ce_count"),
            ecc_uncorrected: errors("ue_count"),
            power_mw: self.power_mw(now),
            throttle: self.throttle(),
            ..Reading::default()
        }
    }

    /// Mean power since the last reading; none where a counter cannot be read, or no time passed.
    fn power_mw(&mut self, now: Instant) -> Option<u64> {
        let energies: Option<Vec<u64>> = self.energies.iter().map(|(path, _)| number(path)).collect();
        let energies = energies.filter(|energies| !energies.is_empty())?;
        let (then, before) = self.last_energy.replace((now, energies.clone()))?;
        let nanoseconds = now.checked_duration_since(then)?.as_nanos();
        let counters = energies.iter().zip(&before).zip(&self.energies);
        let microjoules: u64 = counters
            .map(|((now, before), (_, range))| now.checked_sub(*before).unwrap_or(now + range.saturating_sub(*before)))
            .sum();
        // Microjoules over nanoseconds are gigawatts over a million: 1e6 milliwatts.
        let power = u128::from(microjoules) * 1_000_000;
        u64::try_from(power.checked_div(nanoseconds)?).ok()
    }

    /// Whether any core was slowed down since the last reading.
    fn throttle(&mut self) -> Option<ThrottleReasons> {
        let counted = self.throttling.iter().filter_map(|path| number(path)).reduce(u64::saturating_add)?;
        let before = self.last_throttling.replace(counted)?;
        Some(if counted > before { ThrottleReasons::HARDWARE_THERMAL } else { ThrottleReasons::NONE })
    }
}

impl Sensor for HostSensor {
    fn source(&self) -> &'static str {
        "linux"
    }

    fn period(&self) -> Duration {
        PERIOD
    }

    fn read(&mut self) -> Reading {
        self.read_at(Instant::now())
    }
}

/// Whether a thermal zone of this type is the processor's: `x86_pkg_temp`, `cpu-thermal`, `cpu0-thermal`, `soc_thermal`.
fn is_of_processor(kind: &str) -> bool {
    kind == "x86_pkg_temp" || kind.starts_with("cpu") || kind.starts_with("soc")
}

/// The counter of a package with its range; what lies below a package is part of it.
fn energy_counter(zone: PathBuf) -> Option<(PathBuf, u64)> {
    let counter = zone.join("energy_uj");
    let is_package = text(&zone.join("name"))?.starts_with("package");
    number(&counter)?;
    Some((counter, number(&zone.join("max_energy_range_uj"))?)).filter(|_| is_package)
}

/// Folders whose names begin so, in order.
fn folders(parent: &Path, beginning: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let begins = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(beginning));
    let mut found: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(begins).collect();
    found.sort();
    found
}

fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    const CPU: &str = "sys/devices/system/cpu";

    fn host(numbers: &[usize], files: &[(String, &str)]) -> (tempfile::TempDir, Result<HostSensor, String>) {
        let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (name.as_str(), *text)).collect();
        let root = tree(&files);
        let sensor = HostSensor::open(&Processors { root: root.path().to_owned(), numbers: numbers.to_vec() });
        (root, sensor)
    }

    fn zone(number: u64, kind: &'static str, temp: &'static str) -> [(String, &'static str); 2] {
        let folder = format!("sys/class/thermal/thermal_zone{number}");
        [(format!("{folder}/type"), kind), (format!("{folder}/temp"), temp)]
    }

    fn write(root: &tempfile::TempDir, name: &str, text: &str) {
        fs::write(root.path().join(name), text).expect("a file can be written");
    }

    #[test]
    fn clocks_and_temperatures_are_those_of_the_processors_and_sentinels_are_none() {
        let mut files: Vec<(String, &str)> = [(0, "2100000\n"), (1, "2300000\n"), (2, "0\n"), (3, "9900000\n")]
            .map(|(number, khz)| (format!("{CPU}/cpu{number}/cpufreq/scaling_cur_freq"), khz))
            .to_vec();
        files.extend(zone(0, "acpitz\n", "99000\n"));
        files.extend(zone(1, "x86_pkg_temp\n", "61000\n"));
        files.extend(zone(2, "cpu-thermal\n", "-274000\n"));
        files.extend(zone(3, "cpu-thermal\n", "2147483647\n"));
        let (_root, sensor) = host(&[0, 1, 2], &files);
        let reading = sensor.expect("there is something to read").read();
        assert_eq!(reading.core_clock_khz, Some(2_300_000), "processor 2 says nothing, 3 is not ours");
        assert_eq!(reading.temperature_mc, Some(61_000), "nothing is colder than nothing, or so hot");
        assert_eq!((reading.power_mw, reading.throttle, reading.ecc_corrected), (None, None, None));
    }

    #[test]
    fn power_is_energy_over_time_across_the_end_of_a_counter() {
        let rapl = |zone: &str, file: &str| format!("sys/class/powercap/{zone}/{file}");
        let mut files = Vec::new();
        for (zone, name) in
            [("intel-rapl:0", "package-0\n"), ("intel-rapl:1", "package-1\n"), ("intel-rapl:0:0", "core\n")]
        {
            files.push((rapl(zone, "name"), name));
            files.push((rapl(zone, "energy_uj"), "900000000\n"));
            files.push((rapl(zone, "max_energy_range_uj"), "1000000000\n"));
        }
        let (root, sensor) = host(&[0], &files);
        let (mut sensor, zero) = (sensor.expect("there is something to read"), Instant::now());
        assert_eq!(sensor.read_at(zero).power_mw, None, "one look says no power");
        write(&root, &rapl("intel-rapl:0", "energy_uj"), "950000000");
        write(&root, &rapl("intel-rapl:1", "energy_uj"), "50000000");
        // 50 J and 150 J, the second over the end of its counter, in two seconds.
        assert_eq!(sensor.read_at(zero + Duration::from_secs(2)).power_mw, Some(100_000));
        assert_eq!(sensor.read_at(zero + Duration::from_secs(2)).power_mw, None, "no time passed");
        assert_eq!(sensor.read_at(zero).power_mw, None, "a clock that jumped back gives no power");
        fs::remove_file(root.path().join(rapl("intel-rapl:1", "energy_uj"))).expect("it was there");
        assert_eq!(sensor.read_at(zero + Duration::from_secs(9)).power_mw, None, "half of it is not the power");
    }

    #[test]
    fn a_core_that_was_slowed_down_and_memory_errors_are_counted() {
        let count = format!("{CPU}/cpu0/thermal_throttle/core_throttle_count");
        let errors = |file: &str| format!("sys/devices/system/edac/mc/mc0/{file}");
        let (root, sensor) =
            host(&[0], &[(count.clone(), "7\n"), (errors("ce_count"), "3\n"), (errors("ue_count"), "0\n")]);
        let mut sensor = sensor.expect("there is something to read");
        assert_eq!(sensor.read().throttle, None, "one look says nothing");
        let calm = sensor.read();
        assert_eq!(calm.throttle, Some(ThrottleReasons::NONE));
        assert_eq!((calm.ecc_corrected, calm.ecc_uncorrected), (Some(3), Some(0)));
        write(&root, &count, "8");
        assert_eq!(sensor.read().throttle, Some(ThrottleReasons::HARDWARE_THERMAL));
        assert_eq!(sensor.read().throttle, Some(ThrottleReasons::NONE), "it is over");
    }

    #[test]
    fn a_machine_that_shows_nothing_has_no_sensor_and_says_so() {
        let (_root, sensor) = host(&[0], &[("sys/class/thermal/none".to_owned(), "")]);
        assert!(sensor.err().is_some_and(|reason| reason.contains("neither clock nor power")));
    }
}
