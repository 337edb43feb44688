//! What the harness needs of a device. A backend is only what differs; the loop stands above this trait.

use std::time::Instant;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{BufferSpec, Launch};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Dtype, Point, Solution};
use fleetcal_model::row::Origin;

use crate::telemetry::{Processors, Sensor};

pub mod cpu;
pub mod cuda;
pub mod discovery;
pub mod gpu;
pub mod hip;
pub(crate) mod library;
pub mod sim;

/// What went wrong with a device. The kind decides what happens next: see each variant.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// The library that drives it is not there, or too old. The backend finds no devices.
    #[error("{library} cannot be used: {reason}")]
    Library {
        /// The library.
        library: String,
        /// What the loader or the version check said.
        reason: String,
    },
    /// It has not enough memory. The point is skipped, and said.
    #[error("{wanted_bytes} bytes were wanted, {free_bytes} are free")]
    OutOfMemory {
        /// Bytes asked for.
        wanted_bytes: u64,
        /// Bytes free.
        free_bytes: u64,
    },
    /// One solution does not compile. Its row is Invalid; the others go on.
    #[error("{entry} does not compile: {log}")]
    Compile {
        /// The kernel.
        entry: String,
        /// The compiler's words.
        log: String,
    },
    /// One solution compiled, and its code cannot be brought to the device. Its row is Invalid; the others go on.
    #[error("{entry} cannot be loaded: {reason}")]
    Load {
        /// The kernel.
        entry: String,
        /// The driver's words.
        reason: String,
    },
    /// A launch failed in a way that leaves the context usable. The row is Invalid.
    #[error("{what} failed: {reason}")]
    Launch {
        /// What was tried.
        what: String,
        /// What the driver said.
        reason: String,
    },
    /// The context is poisoned. The worker ends; a fresh one goes on.
    #[error("the device context is lost: {reason}")]
    Lost {
        /// What the driver said.
        reason: String,
    },
}

/// The instrument, measured before anything else. Stored with every row, never subtracted.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Instrument {
    /// Smallest non-zero difference that the clock shows, nanoseconds.
    pub clock_resolution_ns: f64,
    /// Median of an empty interval, nanoseconds.
    pub clock_overhead_ns: f64,
    /// Median of an interval that holds one empty launch, nanoseconds.
    pub empty_launch_ns: f64,
}

/// A solution, ready to run.
#[derive(Debug, Clone)]
pub struct Prepared<Program> {
    /// What the backend launches.
    pub program: Program,
    /// The launches, as the family described them. Never empty.
    pub launches: Vec<Launch>,
    /// SHA-256 of the device source, hexadecimal; none where there is no source.
    pub source_digest: Option<String>,
    /// SHA-256 of the code object, hexadecimal; none where there is none.
    pub code_digest: Option<String>,
    /// Options of the compiler.
    pub compile_options: Option<String>,
}

/// One timed launch as the backend saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawSample {
    /// Start, nanoseconds since the device was opened.
    pub start_ns: u64,
    /// Duration, nanoseconds.
    pub ns: u64,
}

/// What one call of [`Device::time`] is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Series {
    /// Timed intervals.
    pub intervals: u64,
    /// Launches of each interval, one after the other; at least one.
    pub launches: u64,
    /// Bytes written before each interval to flush caches, outside of it; none flushes nothing.
    pub flush_bytes: Option<u64>,
}

/// Memory next to an allocation that no kernel can touch without being caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PageGuard {
    /// None: the allocation may be part of a larger one.
    None,
    /// The byte before its first is not mapped.
    Front,
    /// The byte behind its last is not mapped.
    Back,
}

/// A stretch of device memory that holds one array.
#[derive(Debug)]
pub struct Array<'a, Buffer> {
    /// The allocation.
    pub buffer: &'a Buffer,
    /// Where in it the array starts, bytes.
    pub offset_bytes: u64,
    /// What it holds.
    pub spec: BufferSpec,
}

/// A device that kernels can be timed on. Calls come from one thread.
pub trait Device {
    /// An allocation, freed on drop.
    type Buffer;
    /// A loaded kernel.
    type Program;

    /// What is known of it.
    fn facts(&self) -> &DeviceFacts;

    /// Whether its times are real.
    fn origin(&self) -> Origin;

    /// Name of its clock, for the row.
    fn clock_source(&self) -> &'static str;

    /// The moment on the host's clock from which the starts of its samples count; `None` where its time is its own.
    fn opened_at(&self) -> Option<Instant> {
        None
    }

    /// A sensor that a monitor's thread may ask while the device works.
    ///
    /// # Errors
    /// Why there is none.
    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        Err(format!("the backend `{}` reads no sensor", self.facts().backend.name()))
    }

    /// The host's processors that it consists of; `None` for devices that are none.
    fn processors(&self) -> Option<Processors> {
        None
    }

    /// Measures the instrument.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn instrument(&mut self) -> Result<Instrument, DeviceError>;

    /// Bytes that can be allocated now, leaving what the system needs.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn memory_available_bytes(&self) -> Result<u64, DeviceError>;

    /// Compiles and loads solutions, in the order given; may work on several at once. Modules are fully loaded
    /// before it returns, so that no launch loads lazily.
    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<Self::Program>, DeviceError>>;

    /// Allocates. With a page guard, the first byte (front) or the end (back) of what is handed out lies at the border of
    /// mapped memory, to the byte.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; [`DeviceError::Launch`] where the backend has no page guards.
    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<Self::Buffer, DeviceError>;

    /// Fills an array with input data, rounded to its number format, gaps between its rows included.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn fill(&mut self, array: &Array<'_, Self::Buffer>, data: &InputData) -> Result<(), DeviceError>;

    /// Sets every element of an array to the same bits, those of its number format's width. Gaps between its rows stay
    /// as they are.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn set(&mut self, array: &Array<'_, Self::Buffer>, bits: u64) -> Result<(), DeviceError>;

    /// Reads the logical elements (those outside of gaps, see [`BufferSpec::position`]) 0, `stride`, 2·`stride`, … of an
    /// array, widened to `f64`.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn gather(&mut self, array: &Array<'_, Self::Buffer>, stride: u64) -> Result<Vec<f64>, DeviceError>;

    /// [`Device::gather`] of several arrays, each with its stride; may wait for the device only once.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn gather_all(&mut self, looks: &[(Array<'_, Self::Buffer>, u64)]) -> Result<Vec<Vec<f64>>, DeviceError> {
        looks.iter().map(|(array, stride)| self.gather(array, *stride)).collect()
    }

    /// Runs a solution once, untimed, and waits for it.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn run(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
    ) -> Result<(), DeviceError>;

    /// Times launches. Nothing but them happens inside an interval, and a sample is the time of all launches of one.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn time(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError>;
}

/// Bits of a quiet NaN of a number format; of the largest value, where it has none.
pub fn nan_bits(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F64 => f64::NAN.to_bits(),
        Dtype::F32 | Dtype::Tf32 => u64::from(f32::NAN.to_bits()),
        Dtype::F16 => 0x7e00,
        Dtype::Bf16 => 0x7fc0,
        Dtype::I32 => 0x7fff_ffff,
        Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => 0x7f,
    }
}

/// Bits of infinity of a number format; of the smallest value, or of the largest number, where it has none.
pub fn infinity_bits(dtype: Dtype) -> u64 {
    match dtype {
        Dtype::F64 => f64::INFINITY.to_bits(),
        Dtype::F32 | Dtype::Tf32 => u64::from(f32::INFINITY.to_bits()),
        Dtype::F16 => 0x7c00,
        Dtype::Bf16 => 0x7f80,
        Dtype::I32 => 0x8000_0000,
        Dtype::I8 => 0x80,
        Dtype::Fp8E4m3 => 0x7e,
        Dtype::Fp8E5m2 => 0x7c,
    }
}
