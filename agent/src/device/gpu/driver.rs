//! What a vendor's driver and compiler are asked for.

use std::fmt::Debug;

use fleetcal_kernels::DeviceSource;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::row::Origin;

use super::launch::Resolved;
use crate::device::{DeviceError, PageGuard};
use crate::telemetry::Sensor;

/// Device memory, freed on drop.
pub trait Memory: Debug {
    /// Address of its first byte on the device.
    fn address(&self) -> u64;

    /// Its size, bytes.
    fn bytes(&self) -> u64;
}

/// What a compiler made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeObject {
    /// Machine code, or what the driver makes machine code of.
    pub image: Vec<u8>,
    /// Options that it was made with, as for the compiler's command line.
    pub options: String,
}

/// A compiler of device sources. Calls may come from several threads.
pub trait Compiler: Debug + Sync {
    /// Compiles a source for an architecture, with these macros defined.
    ///
    /// # Errors
    /// The compiler's words.
    fn compile(&self, source: &DeviceSource, defines: &[String], architecture: &str) -> Result<CodeObject, String>;
}

/// One device with one stream of work, by the calls of its vendor's driver. Calls come from one thread, and all but
/// those that say so want the device bound to it.
pub trait Driver: Debug {
    /// What a call that failed says.
    type Fault;
    /// Device memory.
    type Buffer: Memory;
    /// Host memory that is locked in place, so that copies to it need no detour.
    type HostBuffer: Debug;
    /// A loaded code object.
    type Module: Debug;
    /// A kernel of a module; keeps it loaded.
    type Function: Debug + Clone;
    /// A moment in the stream that can be timed.
    type Event: Debug;
    /// Launches that travel as one.
    type Graph;
    /// The compiler of its device sources.
    type Compiler: Compiler;

    /// Name of the clock of its events, for the row.
    const CLOCK_SOURCE: &'static str;

    /// Whether its times are real.
    fn origin(&self) -> Origin;

    /// A sensor of the device.
    ///
    /// # Errors
    /// Why there is none.
    fn sensor(&self, facts: &DeviceFacts) -> Result<Box<dyn Sensor>, String>;

    /// What a fault means for the work that goes on.
    fn fault(&self, what: &str, fault: Self::Fault) -> DeviceError;

    /// Makes the device the one that calls of this thread mean.
    ///
    /// # Errors
    /// The driver's.
    fn bind(&self) -> Result<(), Self::Fault>;

    /// Bytes that can be allocated, leaving what the system needs. Binds.
    ///
    /// # Errors
    /// [`DeviceError::Lost`].
    fn available_bytes(&self) -> Result<u64, DeviceError>;

    /// Allocates device memory. Binds.
    ///
    /// # Errors
    /// Those of [`crate::device::Device::allocate`].
    fn allocate(&self, bytes: u64, guard: PageGuard) -> Result<Self::Buffer, DeviceError>;

    /// Allocates locked host memory for so many values. Binds.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    fn allocate_on_host(&self, values: usize) -> Result<Self::HostBuffer, DeviceError>;

    /// Copies bytes from the host to the start of a buffer, and waits for it. Binds.
    ///
    /// # Errors
    /// [`DeviceError::Launch`], also where they do not fit, or [`DeviceError::Lost`].
    fn write(&self, buffer: &Self::Buffer, from: &[u8]) -> Result<(), DeviceError>;

    /// Copies the first values of a buffer to the host once everything before it in the stream is done, waits for that,
    /// and shows them. Binds.
    ///
    /// # Errors
    /// [`DeviceError::Launch`], also where they do not fit, or [`DeviceError::Lost`].
    fn read<'a>(
        &self,
        buffer: &Self::Buffer,
        host: &'a mut Self::HostBuffer,
        values: usize,
    ) -> Result<&'a [f64], DeviceError>;

    /// Brings a code object to the device. Binds.
    ///
    /// # Errors
    /// [`DeviceError::Load`] or [`DeviceError::Lost`].
    fn load(&self, name: &str, image: Vec<u8>) -> Result<Self::Module, DeviceError>;

    /// Finds an entry of a module, and brings its code to the device where that happens lazily.
    ///
    /// # Errors
    /// [`DeviceError::Load`] or [`DeviceError::Lost`].
    fn function(&self, module: &Self::Module, entry: &str) -> Result<Self::Function, DeviceError>;

    /// Puts a launch at the end of the stream. Every parameter of the kernel is 64 bits wide, and as many as the launch
    /// has words; what its addresses name lives until the stream was waited for.
    ///
    /// # Errors
    /// The driver's.
    fn enqueue(&self, function: &Self::Function, launch: &Resolved) -> Result<(), Self::Fault>;

    /// Waits until the stream is empty.
    ///
    /// # Errors
    /// The driver's, those of the work waited for included.
    fn synchronize(&self) -> Result<(), Self::Fault>;

    /// Creates an event. Binds.
    ///
    /// # Errors
    /// The driver's.
    fn event(&self) -> Result<Self::Event, Self::Fault>;

    /// Puts an event at the end of the stream.
    ///
    /// # Errors
    /// The driver's.
    fn record(&self, event: &Self::Event) -> Result<(), Self::Fault>;

    /// Whether the device has come to an event.
    ///
    /// # Errors
    /// The driver's.
    fn is_reached(&self, event: &Self::Event) -> Result<bool, Self::Fault>;

    /// Time between two events that were reached, milliseconds.
    ///
    /// # Errors
    /// The driver's.
    fn elapsed_ms(&self, start: &Self::Event, stop: &Self::Event) -> Result<f32, Self::Fault>;

    /// Makes a graph of what is put into the stream meanwhile; none where the driver has no graphs, and then nothing
    /// was put there. Binds.
    ///
    /// # Errors
    /// The driver's; [`DeviceError::Launch`] where no graph comes of it.
    fn capture(&self, fill: impl FnOnce() -> Result<(), Self::Fault>) -> Result<Option<Self::Graph>, DeviceError>;

    /// Puts the launches of a graph at the end of the stream.
    ///
    /// # Errors
    /// The driver's.
    fn launch_graph(&self, graph: &Self::Graph) -> Result<(), Self::Fault>;
}
