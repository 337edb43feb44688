//! The calls of `rocm_smi.h` that are needed, and nothing else of it.

use std::ffi::{OsStr, c_int};

use crate::device::library::{self, written};

/// Bytes of `rsmi_frequencies_t` in its longer form: 33 frequencies behind a flag and two counts. Room for more is left.
const FREQUENCIES_WORDS: usize = 64;
/// Most frequencies that a device has.
const FREQUENCIES_MAX: u32 = 33;
/// `RSMI_GPU_BLOCK_UMC`: the memory controller.
const MEMORY_BLOCK: u64 = 1;

/// `rsmi_clk_type_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clock {
    /// `RSMI_CLK_TYPE_SYS`.
    System = 0,
    /// `RSMI_CLK_TYPE_MEM`.
    Memory = 4,
}

/// `rsmi_temperature_type_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Temperature {
    /// `RSMI_TEMP_TYPE_EDGE`.
    Edge = 0,
    /// `RSMI_TEMP_TYPE_JUNCTION`.
    Junction = 1,
    /// `RSMI_TEMP_TYPE_MEMORY`.
    Memory = 2,
}

type Initialise = unsafe extern "C" fn(u64) -> c_int;
type CountDevices = unsafe extern "C" fn(*mut u32) -> c_int;
type GetWhole = unsafe extern "C" fn(u32, *mut u64) -> c_int;
type GetOfSensor<T> = unsafe extern "C" fn(u32, u32, *mut T) -> c_int;
type GetTemperature = unsafe extern "C" fn(u32, u32, c_int, *mut i64) -> c_int;
type GetPower = unsafe extern "C" fn(u32, *mut u64, *mut c_int) -> c_int;
type GetBusy = unsafe extern "C" fn(u32, *mut u32) -> c_int;
type GetFrequencies = unsafe extern "C" fn(u32, c_int, *mut u64) -> c_int;
type GetErrors = unsafe extern "C" fn(u32, u64, *mut [u64; 2]) -> c_int;

/// The library with the functions found in it; one that is missing gives no value.
#[derive(Debug)]
pub(super) struct Library {
    devices: u32,
    pci_id: Option<GetWhole>,
    temperature: Option<GetTemperature>,
    power: Option<GetPower>,
    average_power: Option<GetOfSensor<u64>>,
    fan: Option<GetOfSensor<i64>>,
    fan_max: Option<GetOfSensor<u64>>,
    busy: Option<GetBusy>,
    frequencies: Option<GetFrequencies>,
    errors: Option<GetErrors>,
}

#[allow(unsafe_code)]
impl Library {
    /// Loads the first of these files that is there, and starts it.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(super) fn load<Name: AsRef<OsStr>>(names: &[Name]) -> Result<Self, String> {
        let opened = library::open_first(names);
        Self::start(opened.map_err(|reason| format!("ROCm SMI cannot be loaded: {reason}"))?)
    }

    fn start(library: libloading::Library) -> Result<Self, String> {
        // Functions stay where they are: the library is never unloaded, because threads of its own may run on.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        /// A function of the library; none where it is missing.
        macro_rules! function {
            ($kind:ty, $name:literal) => {
                // SAFETY: the type is that of the prototype in `rocm_smi.h`, where `rsmi_status_t` and the other
                // enumerations are C enumerations of the size of an int, and `rsmi_gpu_block_t` is 64 bits wide.
                unsafe { library.get::<$kind>(concat!($name, "\0").as_bytes()) }.ok().map(|found| *found)
            };
        }
        let initialise = function!(Initialise, "rsmi_init").ok_or("ROCm SMI has no `rsmi_init`")?;
        let count = function!(CountDevices, "rsmi_num_monitor_devices").ok_or("ROCm SMI cannot count devices")?;
        // SAFETY: the flags are those of a plain start.
        let code = unsafe { initialise(0) };
        if code != 0 {
            return Err(format!("rsmi_init says error {code}"));
        }
        // SAFETY: the pointer is to a live integer.
        let devices = written(0, |devices| unsafe { count(devices) }).ok_or("ROCm SMI cannot count devices")?;
        Ok(Self {
            devices,
            pci_id: function!(GetWhole, "rsmi_dev_pci_id_get"),
            temperature: function!(GetTemperature, "rsmi_dev_temp_metric_get"),
            power: function!(GetPower, "rsmi_dev_power_get"),
            average_power: function!(GetOfSensor<u64>, "rsmi_dev_power_ave_get"),
            fan: function!(GetOfSensor<i64>, "rsmi_dev_fan_speed_get"),
            fan_max: function!(GetOfSensor<u64>, "rsmi_dev_fan_speed_max_get"),
            busy: function!(GetBusy, "rsmi_dev_busy_percent_get"),
            frequencies: function!(GetFrequencies, "rsmi_dev_gpu_clk_freq_get"),
            errors: function!(GetErrors, "rsmi_dev_ecc_count_get"),
        })
    }

    /// Devices that it shows.
    pub(super) fn devices(&self) -> u32 {
        self.devices
    }

    /// The 64-bit PCI identity of a device.
    pub(super) fn pci_id(&self, index: u32) -> Option<u64> {
        let get = self.pci_id?;
        // SAFETY: the pointer is to a live integer.
        written(0, |id| unsafe { get(index, id) })
    }

    /// A temperature, millidegrees Celsius.
    pub(super) fn temperature_mc(&self, index: u32, which: Temperature) -> Option<i64> {
        let get = self.temperature?;
        // SAFETY: the pointer is to a live integer; metric 0 is the current value.
        written(0, |degrees| unsafe { get(index, which as u32, 0, degrees) })
    }

    /// Power, microwatts: the current one where the library tells it, else the average.
    pub(super) fn power_uw(&self, index: u32) -> Option<u64> {
        let current = self.power.and_then(|get| {
            let mut kind = 0;
            // SAFETY: both pointers are to live integers.
            written(0, |power| unsafe { get(index, power, &raw mut kind) })
        });
        current.or_else(|| {
            let get = self.average_power?;
            // SAFETY: the pointer is to a live integer.
            written(0, |power| unsafe { get(index, 0, power) })
        })
    }

    /// Speed of the fan, and its full speed.
    pub(super) fn fan(&self, index: u32) -> Option<(i64, u64)> {
        let (speed, most) = (self.fan?, self.fan_max?);
        // SAFETY: the pointer is to a live integer.
        let speed = written(0, |value| unsafe { speed(index, 0, value) })?;
        // SAFETY: the pointer is to a live integer.
        Some((speed, written(0, |fastest| unsafe { most(index, 0, fastest) })?))
    }

    /// Part of the time in which something runs on it, percent.
    pub(super) fn busy_percent(&self, index: u32) -> Option<u32> {
        let get = self.busy?;
        // SAFETY: the pointer is to a live integer.
        written(0, |percent| unsafe { get(index, percent) })
    }

    /// A clock, hertz.
    pub(super) fn clock_hz(&self, index: u32, which: Clock) -> Option<u64> {
        let get = self.frequencies?;
        let table = written([0_u64; FREQUENCIES_WORDS], |table| {
            // SAFETY: the table is aligned for 64-bit words and larger than the structure in any of its forms.
            unsafe { get(index, which as c_int, table.cast()) }
        })?;
        current_frequency_hz(&table)
    }

    /// Corrected and uncorrected errors of the memory controller.
    pub(super) fn memory_errors(&self, index: u32) -> Option<(u64, u64)> {
        let get = self.errors?;
        // SAFETY: `rsmi_error_count_t` is two 64-bit counts, and the pointer is to two live ones.
        written([0; 2], |counts| unsafe { get(index, MEMORY_BLOCK, counts) }).map(|[right, wrong]| (right, wrong))
    }
}

/// The frequency in force of a `rsmi_frequencies_t`. Newer releases have a flag before the counts, so the table has two
/// forms. One is never mistaken for the other: read as the older form, the newer one has no frequency, or an index
/// beyond its single one; read as the newer, the older one has a frequency in hertz where the index should be.
pub(super) fn current_frequency_hz(table: &[u64; FREQUENCIES_WORDS]) -> Option<u64> {
    let halves = |word: u64| {
        let bytes = word.to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        (half(0), half(4))
    };
    let at = |count: u32, current: u32, first: usize| {
        let valid = (1..=FREQUENCIES_MAX).contains(&count) && current < count;
        valid.then(|| table.get(first + usize::try_from(current).ok()?).copied()).flatten()
    };
    let ((first, second), (third, _)) = (halves(table[0]), halves(table[1]));
    at(second, third, 2).or_else(|| at(first, second, 1))
}
