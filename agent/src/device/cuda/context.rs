//! One device by the calls of the CUDA driver: its primary context, and one stream.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaEvent, CudaFunction, CudaGraph, CudaModule, CudaStream, DriverError};
use cudarc::driver::{PinnedHostSlice, result, sys};
use cudarc::nvrtc::Ptx;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::row::Origin;

use super::driver;
use super::memory::{self, CudaBuffer};
use super::nvrtc::Nvrtc;
use crate::device::gpu::Driver;
use crate::device::gpu::launch::Resolved;
use crate::device::{DeviceError, PageGuard};
use crate::telemetry::Sensor;
use crate::telemetry::nvml::NvmlSensor;

/// A context and its stream.
#[derive(Debug)]
pub struct Cuda {
    pub(super) stream: Arc<CudaStream>,
    pub(super) context: Arc<CudaContext>,
}

impl Cuda {
    /// Opens the device at this position of the driver's order.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    pub(super) fn open(ordinal: usize) -> Result<Self, DeviceError> {
        let context = CudaContext::new(ordinal).map_err(|error| driver::fault("creating a context", error))?;
        let stream = context.new_stream().map_err(|error| driver::fault("creating a stream", error))?;
        Ok(Self { stream, context })
    }
}

impl Driver for Cuda {
    type Fault = DriverError;
    type Buffer = CudaBuffer;
    type HostBuffer = PinnedHostSlice<f64>;
    type Module = Arc<CudaModule>;
    type Function = CudaFunction;
    type Event = CudaEvent;
    type Graph = CudaGraph;
    type Compiler = Nvrtc;

    const CLOCK_SOURCE: &'static str = "cuda_event";

    fn origin(&self) -> Origin {
        Origin::Measured
    }

    fn sensor(&self, facts: &DeviceFacts) -> Result<Box<dyn Sensor>, String> {
        let pci_bdf = facts.pci_bdf.as_deref().ok_or("the driver gives no PCI address")?;
        let whole = facts.partition_mode.as_deref().is_none_or(|mode| mode == "none");
        Ok(Box::new(NvmlSensor::open(pci_bdf, whole)?))
    }

    fn fault(&self, what: &str, fault: DriverError) -> DeviceError {
        driver::fault(what, fault)
    }

    fn bind(&self) -> Result<(), DriverError> {
        self.context.bind_to_thread()
    }

    fn available_bytes(&self) -> Result<u64, DeviceError> {
        memory::available_bytes(&self.context)
    }

    fn allocate(&self, bytes: u64, guard: PageGuard) -> Result<CudaBuffer, DeviceError> {
        match guard {
            PageGuard::None => memory::allocate(&self.context, bytes),
            PageGuard::Front | PageGuard::Back => memory::allocate_guarded(&self.context, bytes, guard),
        }
    }

    fn allocate_on_host(&self, values: usize) -> Result<PinnedHostSlice<f64>, DeviceError> {
        memory::allocate_on_host(&self.context, values)
    }

    fn write(&self, buffer: &CudaBuffer, from: &[u8]) -> Result<(), DeviceError> {
        memory::write(buffer, from)
    }

    fn read<'a>(
        &self,
        buffer: &CudaBuffer,
        host: &'a mut PinnedHostSlice<f64>,
        values: usize,
    ) -> Result<&'a [f64], DeviceError> {
        memory::read(buffer, host, values, &self.stream)
    }

    fn load(&self, name: &str, image: Vec<u8>) -> Result<Arc<CudaModule>, DeviceError> {
        self.context.load_module(Ptx::from_binary(image)).map_err(|error| driver::loading_fault(name, error))
    }

    fn function(&self, module: &Arc<CudaModule>, entry: &str) -> Result<CudaFunction, DeviceError> {
        module.load_function(entry).map_err(|error| driver::loading_fault(entry, error))
    }

    #[allow(unsafe_code)]
    fn enqueue(&self, function: &CudaFunction, launch: &Resolved) -> Result<(), DriverError> {
        let mut pointers = launch.words().each_ref().map(|word| std::ptr::from_ref(word) as *mut c_void);
        let grid = (launch.blocks(), 1, 1);
        let block = (launch.threads(), 1, 1);
        // SAFETY: the function belongs to a module that it keeps loaded; every parameter of every kernel of ours is 64 bits
        // wide, and the driver copies the words before it returns; the arrays behind the addresses are borrowed by the
        // caller until the stream is synchronised, and were checked to be long enough.
        unsafe {
            let parameters = &mut pointers[..launch.count()];
            result::launch_kernel(function.cu_function(), grid, block, 0, self.stream.cu_stream(), parameters)
        }
    }

    fn synchronize(&self) -> Result<(), DriverError> {
        self.stream.synchronize()
    }

    fn event(&self) -> Result<CudaEvent, DriverError> {
        self.context.new_event(Some(sys::CUevent_flags::CU_EVENT_DEFAULT))
    }

    fn record(&self, event: &CudaEvent) -> Result<(), DriverError> {
        event.record(&self.stream)
    }

    fn is_reached(&self, event: &CudaEvent) -> Result<bool, DriverError> {
        event.try_is_complete()
    }

    fn elapsed_ms(&self, start: &CudaEvent, stop: &CudaEvent) -> Result<f32, DriverError> {
        start.elapsed_ms(stop)
    }

    fn capture(&self, fill: impl FnOnce() -> Result<(), DriverError>) -> Result<Option<CudaGraph>, DeviceError> {
        let capture = || {
            self.context.bind_to_thread()?;
            self.stream.begin_capture(sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
            let captured = fill();
            // Ended even where a launch failed, or the stream would stay unusable.
            let graph = self.stream.end_capture(sys::CUgraphInstantiate_flags(0));
            captured?;
            let graph = graph?;
            graph.iter().try_for_each(CudaGraph::upload)?;
            Ok(graph)
        };
        let graph = capture().map_err(|error| driver::fault("capturing launches", error))?;
        let none = || DeviceError::Launch {
            what: "capturing launches".to_owned(),
            reason: "the driver made no graph of them".to_owned(),
        };
        graph.map(Some).ok_or_else(none)
    }

    fn launch_graph(&self, graph: &CudaGraph) -> Result<(), DriverError> {
        graph.launch()
    }
}
