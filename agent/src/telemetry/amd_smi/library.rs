//! The calls of `amdsmi.h` that are needed, and nothing else of it: those whose prototypes are the same in all releases
//! that [`Version::is_known`] accepts.

use std::ffi::{OsStr, c_int};
use std::fmt;

use super::metrics::Table;
use crate::device::library::{self, written};

/// `AMDSMI_INIT_AMD_GPUS`.
const ONLY_GPUS: u64 = 1 << 1;
/// `AMDSMI_GPU_BLOCK_UMC`: the memory controller.
const MEMORY_BLOCK: u64 = 1;
/// Room for `amdsmi_error_count_t`, which has 4 or 8 words, and for `amdsmi_version_t`, which has 3.
const WORDS: usize = 32;

/// `amdsmi_temperature_type_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Temperature {
    /// `AMDSMI_TEMPERATURE_TYPE_EDGE`.
    Edge = 0,
    /// `AMDSMI_TEMPERATURE_TYPE_HOTSPOT`.
    HotSpot = 1,
    /// `AMDSMI_TEMPERATURE_TYPE_VRAM`.
    Memory = 2,
}

/// A handle of a device: a pointer that is only handed back.
type Processor = usize;

type Initialise = unsafe extern "C" fn(u64) -> c_int;
type GetVersion = unsafe extern "C" fn(*mut u32) -> c_int;
type FindProcessor = unsafe extern "C" fn(u64, *mut Processor) -> c_int;
type GetWhole = unsafe extern "C" fn(Processor, *mut u64) -> c_int;
type GetOfSensor<T> = unsafe extern "C" fn(Processor, u32, *mut T) -> c_int;
type GetTemperature = unsafe extern "C" fn(Processor, c_int, c_int, *mut i64) -> c_int;
type GetErrors = unsafe extern "C" fn(Processor, u64, *mut u64) -> c_int;

/// What the library says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The first two words of `amdsmi_version_t`: year and major up to 25, major and minor from 26 on. Either way they
    /// are the first two numbers of the release, such as 24.7 or 26.0.
    fn of_words(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }

    /// Whether its prototypes and tables were read, in its header or its bindings; of others nothing is guessed.
    /// Between 25.0 and its last, and 26.0 and 26.5, both ends were.
    pub(super) fn is_known(self) -> bool {
        matches!((self.major, self.minor), (23, 4) | (24, 5..=7) | (25, _) | (26, 0..=5))
    }

    /// Whether its table counts throttled cycles.
    fn has_residencies(self) -> bool {
        (self.major, self.minor) >= (24, 7)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The library with the functions found in it; one that is missing gives no value.
#[derive(Debug)]
pub(super) struct Library {
    version: Version,
    find: FindProcessor,
    bdf: Option<GetWhole>,
    metrics: Option<GetWhole>,
    temperature: Option<GetTemperature>,
    fan: Option<GetOfSensor<i64>>,
    fan_max: Option<GetOfSensor<u64>>,
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
        Self::start(opened.map_err(|reason| format!("AMD SMI cannot be loaded: {reason}"))?)
    }

    fn start(library: libloading::Library) -> Result<Self, String> {
        // Functions stay where they are: the library is never unloaded, because threads of its own may run on.
        let library: &'static libloading::Library = Box::leak(Box::new(library));
        /// A function of the library; none where it is missing.
        macro_rules! function {
            ($kind:ty, $name:literal) => {
                // SAFETY: the type is that of the prototype in `amdsmi.h`, where handles are pointers, structures are
                // written through pointers, `amdsmi_bdf_t` is a union of 64 bits that travels as an integer,
                // `amdsmi_gpu_block_t` has 64 bits and the other enumerations have the size of an int.
                unsafe { library.get::<$kind>(concat!($name, "\0").as_bytes()) }.ok().map(|found| *found)
            };
        }
        let missing = |name: &str| format!("AMD SMI has no `{name}`");
        let initialise = function!(Initialise, "amdsmi_init").ok_or_else(|| missing("amdsmi_init"))?;
        let version = function!(GetVersion, "amdsmi_get_lib_version");
        let version = version.ok_or_else(|| missing("amdsmi_get_lib_version"))?;
        let find = function!(FindProcessor, "amdsmi_get_processor_handle_from_bdf");
        let find = find.ok_or_else(|| missing("amdsmi_get_processor_handle_from_bdf"))?;
        // SAFETY: the flag is one of the header's.
        let code = unsafe { initialise(ONLY_GPUS) };
        if code != 0 {
            return Err(format!("amdsmi_init says error {code}"));
        }
        // SAFETY: the words are aligned for the structure, and more than it has in any release.
        let words = written([0_u64; WORDS], |words| unsafe { version(words.cast()) });
        let [first, second] = words.map(|words| halves(words[0])).ok_or("AMD SMI does not say its version")?;
        let version = Version::of_words(first, second);
        if !version.is_known() {
            return Err(format!("AMD SMI is of version {version}, whose tables this version does not know"));
        }
        Ok(Self {
            version,
            find,
            bdf: function!(GetWhole, "amdsmi_get_gpu_device_bdf"),
            metrics: function!(GetWhole, "amdsmi_get_gpu_metrics_info"),
            temperature: function!(GetTemperature, "amdsmi_get_temp_metric"),
            fan: function!(GetOfSensor<i64>, "amdsmi_get_gpu_fan_speed"),
            fan_max: function!(GetOfSensor<u64>, "amdsmi_get_gpu_fan_speed_max"),
            errors: function!(GetErrors, "amdsmi_get_gpu_ecc_count"),
        })
    }

    /// Whether its table of metrics counts throttled cycles.
    pub(super) fn has_residencies(&self) -> bool {
        self.version.has_residencies()
    }

    /// The device at this address, in the library's bit field.
    pub(super) fn processor(&self, bdf: u64) -> Option<Processor> {
        // SAFETY: the pointer is to a live handle.
        written(0, |processor| unsafe { (self.find)(bdf, processor) }).filter(|processor| *processor != 0)
    }

    /// The address of a device.
    pub(super) fn bdf(&self, processor: Processor) -> Option<u64> {
        let get = self.bdf?;
        // SAFETY: the pointer is to a live union of 64 bits.
        written(0, |bdf| unsafe { get(processor, bdf) })
    }

    /// Fills the table of metrics; whether it could.
    pub(super) fn read_metrics(&self, processor: Processor, table: &mut Table) -> bool {
        // SAFETY: the table is aligned for the structure and several times larger than it is in any known release.
        self.metrics.is_some_and(|get| unsafe { get(processor, table.as_mut_ptr()) } == 0)
    }

    /// A temperature, degrees Celsius.
    pub(super) fn temperature_c(&self, processor: Processor, which: Temperature) -> Option<i64> {
        let get = self.temperature?;
        // SAFETY: the pointer is to a live integer; metric 0 is the current value.
        written(0, |degrees| unsafe { get(processor, which as c_int, 0, degrees) })
    }

    /// Speed of the fan, and its full speed.
    pub(super) fn fan(&self, processor: Processor) -> Option<(i64, u64)> {
        let (speed, most) = (self.fan?, self.fan_max?);
        // SAFETY: the pointer is to a live integer.
        let speed = written(0, |value| unsafe { speed(processor, 0, value) })?;
        // SAFETY: the pointer is to a live integer.
        Some((speed, written(0, |fastest| unsafe { most(processor, 0, fastest) })?))
    }

    /// Corrected and uncorrected errors of the memory controller.
    pub(super) fn memory_errors(&self, processor: Processor) -> Option<(u64, u64)> {
        let get = self.errors?;
        // SAFETY: the words are aligned for the structure, and more than it has in any release.
        let words = written([u64::MAX; WORDS], |words| unsafe { get(processor, MEMORY_BLOCK, words.cast()) })?;
        Some((words[0], words[1]))
    }
}

/// The two 32-bit words of a 64-bit one, in the order in which they lie in memory.
fn halves(word: u64) -> [u32; 2] {
    let bytes = word.to_ne_bytes();
    let half = |at: usize| u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    [half(0), half(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_releases_whose_tables_were_read_are_used() {
        for (version, known, counts) in [
            ((23, 2), false, false),
            ((23, 4), true, false),
            ((24, 6), true, false),
            ((24, 7), true, true),
            ((24, 8), false, true),
            ((25, 3), true, true),
            ((26, 0), true, true),
            ((26, 5), true, true),
            ((26, 6), false, true),
            ((27, 0), false, true),
        ] {
            let of = Version::of_words(version.0, version.1);
            assert_eq!((of.is_known(), of.has_residencies()), (known, counts), "{of}");
        }
    }
}
