//! What the harness needs of a device. A backend is only what differs; the loop stands above this trait.

use fleetcal_kernels::{BufferSpec, Launch};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Dtype, Point, Solution};
use fleetcal_model::row::Origin;

pub mod cpu;
pub mod cuda;
pub mod discovery;
pub mod hip;
mod library;
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
    /// One solution does not compile or load. Its row is Invalid; the others go on.
    #[error("{entry} does not compile: {log}")]
    Compile {
        /// The kernel.
        entry: String,
        /// The compiler's words.
        log: String,
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
    /// The launch, as the family described it.
    pub launch: Launch,
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

    /// Allocates.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`].
    fn allocate(&mut self, bytes: u64) -> Result<Self::Buffer, DeviceError>;

    /// Fills an array with [`fleetcal_kernels::data::random_element`] of the seed.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn fill_random(&mut self, array: &Array<'_, Self::Buffer>, seed: u64) -> Result<(), DeviceError>;

    /// Fills an array with quiet NaN (integers: the largest value), so that an element never written shows.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn poison(&mut self, array: &Array<'_, Self::Buffer>) -> Result<(), DeviceError>;

    /// Reads elements 0, `stride`, 2·`stride`, … below the array's length, widened to `f64`.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn gather(&mut self, array: &Array<'_, Self::Buffer>, stride: u64) -> Result<Vec<f64>, DeviceError>;

    /// Runs a solution once, untimed, and waits for it.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn run(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
    ) -> Result<(), DeviceError>;

    /// Times `count` launches, one interval each, flushing caches outside the interval where `flush_bytes` is set.
    /// Nothing else happens inside an interval.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn time(
        &mut self,
        prepared: &Prepared<Self::Program>,
        arrays: &[Array<'_, Self::Buffer>],
        count: u64,
        flush_bytes: Option<u64>,
    ) -> Result<Vec<RawSample>, DeviceError>;
}

/// The bit pattern of poison for a number format, as bytes of one element.
pub fn poison_pattern(dtype: Dtype) -> Vec<u8> {
    match dtype {
        Dtype::F64 => f64::NAN.to_le_bytes().to_vec(),
        Dtype::F32 | Dtype::Tf32 => f32::NAN.to_le_bytes().to_vec(),
        Dtype::F16 => 0x7e00_u16.to_le_bytes().to_vec(),
        Dtype::Bf16 => 0x7fc0_u16.to_le_bytes().to_vec(),
        Dtype::I32 => i32::MAX.to_le_bytes().to_vec(),
        Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => vec![0x7f],
    }
}
