//! The sensors of AMD devices: AMD SMI where it is there, else its predecessor, ROCm SMI.
//!
//! **Neither ever met a device**: there was none to try them on. What they make of the libraries' answers is tested,
//! and so are their calls, on stand-in libraries that a C compiler makes from the documented prototypes. The
//! HIP backend opens them for its devices, which never ran on one either.

use super::Sensor;
use super::amd_smi::AmdSmiSensor;
use super::rocm_smi::RocmSmiSensor;

/// Temperatures outside of these are words of a driver that knows none, millidegrees Celsius.
const TEMPERATURES_MC: std::ops::Range<i64> = -40_000..150_000;
/// A fan may run above its full speed, but not at many times of it, percent.
const FAN_PERCENT_MAX: u64 = 200;

/// The sensor of the device at this PCI address, such as `0000:65:00.0`.
///
/// # Errors
/// Why neither library gives one.
pub fn open(pci_bdf: &str) -> Result<Box<dyn Sensor>, String> {
    first_of(AmdSmiSensor::open(pci_bdf), || RocmSmiSensor::open(pci_bdf))
}

/// The newer one, else the older one, else both reasons.
fn first_of<Newer: Sensor + 'static, Older: Sensor + 'static>(
    newer: Result<Newer, String>,
    older: impl FnOnce() -> Result<Older, String>,
) -> Result<Box<dyn Sensor>, String> {
    let newer_reason = match newer {
        Ok(sensor) => return Ok(Box::new(sensor)),
        Err(reason) => reason,
    };
    match older() {
        Ok(sensor) => Ok(Box::new(sensor)),
        Err(reason) => Err(format!("{newer_reason}; {reason}")),
    }
}

/// A temperature, unless no silicon has it.
pub(super) fn plausible_mc(temperature_mc: i64) -> Option<i64> {
    Some(temperature_mc).filter(|mc| TEMPERATURES_MC.contains(mc))
}

/// A fan's speed in percent of its full speed.
pub(super) fn fan_percent(speed: i64, fastest: u64) -> Option<u64> {
    let speed = u64::try_from(speed).ok()?;
    speed.checked_mul(100)?.checked_div(fastest).filter(|percent| *percent <= FAN_PERCENT_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::Reading;

    struct Named(&'static str);

    impl Sensor for Named {
        fn source(&self) -> &'static str {
            self.0
        }

        fn read(&mut self) -> Reading {
            Reading::default()
        }
    }

    #[test]
    fn the_older_library_is_asked_only_where_the_newer_one_has_no_sensor() {
        let newer = first_of(Ok(Named("newer")), || -> Result<Named, _> { panic!("the newer one is there") });
        assert_eq!(newer.expect("it is there").source(), "newer");
        let older = first_of(Err::<Named, _>("too new".to_owned()), || Ok(Named("older")));
        assert_eq!(older.expect("it is there").source(), "older");
        let neither = first_of(Err::<Named, _>("too new".to_owned()), || Err::<Named, _>("not there".to_owned()));
        assert_eq!(neither.err().as_deref(), Some("too new; not there"), "both reasons are said");
    }

    #[test]
    fn a_machine_without_either_library_says_what_it_looked_for() {
        // A machine that has one has no device at an address that is none.
        let reason = open("nowhere").err().expect("there is no such address");
        assert!(reason.contains("AMD SMI") || reason.contains("`nowhere`"), "{reason}");
        assert!(reason.contains("ROCm SMI") || reason.matches("`nowhere`").count() == 2, "{reason}");
    }
}
