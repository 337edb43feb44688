//! One device of the runtime, and the stream that its work goes through.

#![allow(unsafe_code)]

use std::ffi::{CString, c_int, c_void};
use std::rc::Rc;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::row::Origin;
use hip_runtime_sys::{hipEventDefault, hipStreamCaptureMode, hipStreamNonBlocking};

use super::hiprtc::Hiprtc;
use super::memory::{self, HipBuffer, HostBuffer};
use super::runtime::{Graphs, Handle, Runtime};
use super::status::{Fault, NOT_READY};
use crate::device::gpu::Driver;
use crate::device::gpu::launch::{ARGUMENTS_MAX, Resolved};
use crate::device::{DeviceError, PageGuard};
use crate::telemetry::{Sensor, amd};

/// A device and its stream; buffers, events and modules keep it.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) runtime: &'static Runtime,
    pub(super) ordinal: c_int,
    pub(super) stream: Handle,
}

impl Context {
    fn open(runtime: &'static Runtime, ordinal: c_int) -> Result<Self, Fault> {
        let mut context = Self { runtime, ordinal, stream: std::ptr::null_mut() };
        context.bind()?;
        // SAFETY: the device is current on this thread, and the pointer is to a live handle.
        let create = |to| unsafe { (runtime.calls.create_stream)(to, hipStreamNonBlocking) };
        context.stream = runtime.written(std::ptr::null_mut(), create)?;
        Ok(context)
    }

    /// Makes the device the one that calls of this thread mean.
    pub(super) fn bind(&self) -> Result<(), Fault> {
        // SAFETY: it takes any number.
        self.runtime.check(unsafe { (self.runtime.calls.set_device)(self.ordinal) })
    }

    /// Waits until the stream is empty.
    pub(super) fn synchronize(&self) -> Result<(), Fault> {
        // SAFETY: the stream is live.
        self.runtime.check(unsafe { (self.runtime.calls.synchronize)(self.stream) })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.stream.is_null() && self.bind().is_ok() {
            // SAFETY: the stream is live, and nobody else holds it.
            _ = unsafe { (self.runtime.calls.destroy_stream)(self.stream) };
        }
    }
}

/// A loaded code object, unloaded on drop.
#[derive(Debug)]
pub struct Module {
    context: Rc<Context>,
    handle: Handle,
    /// The code object: whether every release copies it when it loads it is said nowhere.
    _image: Vec<u8>,
}

impl Drop for Module {
    fn drop(&mut self) {
        if self.context.bind().is_ok() {
            // SAFETY: the module is live, nobody else holds it, and launches of its functions were waited for.
            _ = unsafe { (self.context.runtime.calls.unload_module)(self.handle) };
        }
    }
}

/// A kernel.
#[derive(Debug, Clone)]
pub struct Function {
    handle: Handle,
    /// Keeps the kernel loaded.
    _module: Rc<Module>,
}

/// An event, destroyed on drop.
#[derive(Debug)]
pub struct Event {
    context: Rc<Context>,
    handle: Handle,
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: the event is live, and nobody else holds it.
        _ = unsafe { (self.context.runtime.calls.destroy_event)(self.handle) };
    }
}

/// A graph and its executable form, destroyed on drop.
#[derive(Debug)]
pub struct Graph {
    calls: &'static Graphs,
    graph: Handle,
    executable: Handle,
}

impl Drop for Graph {
    fn drop(&mut self) {
        if !self.executable.is_null() {
            // SAFETY: the executable is live, nobody else holds it, and its launches were waited for.
            _ = unsafe { (self.calls.destroy_executable)(self.executable) };
        }
        // SAFETY: the graph is live, and nobody else holds it.
        _ = unsafe { (self.calls.destroy)(self.graph) };
    }
}

/// A device by the calls of HIP.
#[derive(Debug)]
pub struct Hip {
    pub(super) context: Rc<Context>,
}

impl Hip {
    /// Opens the device at this position of the runtime's order.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] or [`DeviceError::Lost`].
    pub(super) fn open(runtime: &'static Runtime, ordinal: usize) -> Result<Self, DeviceError> {
        let context = Context::open(runtime, c_int::try_from(ordinal).unwrap_or(c_int::MAX));
        Ok(Self { context: Rc::new(context.map_err(|fault| fault.of_work("opening the device"))?) })
    }

    fn runtime(&self) -> &'static Runtime {
        self.context.runtime
    }

    fn is_emulated(&self) -> bool {
        self.runtime().emulator.is_some()
    }

    /// Makes an executable graph of what is put into the stream meanwhile.
    fn capture_by(&self, calls: &'static Graphs, fill: impl FnOnce() -> Result<(), Fault>) -> Result<Graph, Fault> {
        let (runtime, stream) = (self.runtime(), self.context.stream);
        self.context.bind()?;
        let mode = hipStreamCaptureMode::hipStreamCaptureModeThreadLocal as c_int;
        // SAFETY: the stream is live and not being captured.
        runtime.check(unsafe { (calls.begin_capture)(stream, mode) })?;
        let captured = fill();
        // Ended even where a launch failed, or the stream would stay unusable.
        // SAFETY: the stream is being captured, and the pointer is to a live handle.
        let graph = runtime.written(std::ptr::null_mut(), |to| unsafe { (calls.end_capture)(stream, to) });
        let graph = graph.map(|graph| Graph { calls, graph, executable: std::ptr::null_mut() });
        captured?;
        let mut graph = graph?;
        let none = std::ptr::null_mut();
        // SAFETY: the graph is live, the pointer is to a live handle, and neither node nor log is asked for.
        let instantiate =
            |to| unsafe { (calls.instantiate)(to, graph.graph, std::ptr::null_mut(), std::ptr::null_mut(), 0) };
        let executable = runtime.written(none, instantiate)?;
        graph.executable = executable;
        if let Some(upload) = runtime.upload_graph {
            // SAFETY: graph and stream are live.
            runtime.check(unsafe { upload(executable, stream) })?;
        }
        Ok(graph)
    }
}

impl Driver for Hip {
    type Fault = Fault;
    type Buffer = HipBuffer;
    type HostBuffer = HostBuffer;
    type Module = Rc<Module>;
    type Function = Function;
    type Event = Event;
    type Graph = Graph;
    type Compiler = Hiprtc;

    const CLOCK_SOURCE: &'static str = "hip_event";

    fn origin(&self) -> Origin {
        if self.is_emulated() { Origin::Emulated } else { Origin::Measured }
    }

    fn sensor(&self, facts: &DeviceFacts) -> Result<Box<dyn Sensor>, String> {
        if self.is_emulated() {
            return Err("the device is emulated".to_owned());
        }
        amd::open(facts.pci_bdf.as_deref().ok_or("the driver gives no PCI address")?)
    }

    fn fault(&self, what: &str, fault: Fault) -> DeviceError {
        fault.of_work(what)
    }

    fn bind(&self) -> Result<(), Fault> {
        self.context.bind()
    }

    fn available_bytes(&self) -> Result<u64, DeviceError> {
        memory::available_bytes(&self.context)
    }

    fn allocate(&self, bytes: u64, guard: PageGuard) -> Result<HipBuffer, DeviceError> {
        memory::allocate(&self.context, bytes, guard)
    }

    fn allocate_on_host(&self, values: usize) -> Result<HostBuffer, DeviceError> {
        memory::allocate_on_host(&self.context, values)
    }

    fn write(&self, buffer: &HipBuffer, from: &[u8]) -> Result<(), DeviceError> {
        memory::write(buffer, from)
    }

    fn read<'a>(&self, buffer: &HipBuffer, host: &'a mut HostBuffer, values: usize) -> Result<&'a [f64], DeviceError> {
        memory::read(buffer, host, values)
    }

    fn load(&self, name: &str, image: Vec<u8>) -> Result<Rc<Module>, DeviceError> {
        let load = || {
            self.context.bind()?;
            // SAFETY: the image is a code object, whole as the compiler gave it, and the module keeps it.
            let call = |to| unsafe { (self.runtime().calls.load_module)(to, image.as_ptr().cast()) };
            self.runtime().written(std::ptr::null_mut(), call)
        };
        let handle = load().map_err(|fault| fault.of_loading(name))?;
        Ok(Rc::new(Module { context: Rc::clone(&self.context), handle, _image: image }))
    }

    fn function(&self, module: &Rc<Module>, entry: &str) -> Result<Function, DeviceError> {
        let broken = |reason: String| DeviceError::Load { entry: entry.to_owned(), reason };
        let name = CString::new(entry).map_err(|error| broken(error.to_string()))?;
        // SAFETY: module and name are live, and the name ends in zero.
        let call = |to| unsafe { (self.runtime().calls.function)(to, module.handle, name.as_ptr()) };
        let handle = self.runtime().written(std::ptr::null_mut(), call).map_err(|fault| fault.of_loading(entry))?;
        Ok(Function { handle, _module: Rc::clone(module) })
    }

    fn enqueue(&self, function: &Function, launch: &Resolved) -> Result<(), Fault> {
        let mut pointers: [*mut c_void; ARGUMENTS_MAX] =
            launch.words().each_ref().map(|word| std::ptr::from_ref(word) as *mut _);
        let (blocks, threads) = (launch.blocks(), launch.threads());
        let (stream, parameters) = (self.context.stream, pointers.as_mut_ptr());
        let launch = self.runtime().calls.launch;
        // SAFETY: the function keeps its module loaded; every parameter of every kernel of ours is 64 bits wide, there are
        // as many words as the kernel has parameters, and the library copies them before it returns; the arrays behind
        // the addresses are borrowed by the caller until the stream is synchronised, and were checked to be long enough.
        let code = unsafe {
            launch(function.handle, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, std::ptr::null_mut())
        };
        self.runtime().check(code)
    }

    fn synchronize(&self) -> Result<(), Fault> {
        self.context.synchronize()
    }

    fn event(&self) -> Result<Event, Fault> {
        self.context.bind()?;
        // SAFETY: the pointer is to a live handle.
        let create = |to| unsafe { (self.runtime().calls.create_event)(to, hipEventDefault) };
        let handle = self.runtime().written(std::ptr::null_mut(), create)?;
        Ok(Event { context: Rc::clone(&self.context), handle })
    }

    fn record(&self, event: &Event) -> Result<(), Fault> {
        // SAFETY: event and stream are live, and of one device.
        self.runtime().check(unsafe { (self.runtime().calls.record)(event.handle, self.context.stream) })
    }

    fn is_reached(&self, event: &Event) -> Result<bool, Fault> {
        if self.is_emulated() {
            // It works while it is called: the host can never be ahead of it, and its times mean nothing anyway.
            return Ok(false);
        }
        // SAFETY: the event is live.
        match unsafe { (self.runtime().calls.query)(event.handle) } {
            NOT_READY => Ok(false),
            code => self.runtime().check(code).map(|()| true),
        }
    }

    fn elapsed_ms(&self, start: &Event, stop: &Event) -> Result<f32, Fault> {
        // SAFETY: both events are live, and the pointer is to a live number.
        let call = |to| unsafe { (self.runtime().calls.elapsed)(to, start.handle, stop.handle) };
        self.runtime().written(0.0, call)
    }

    fn capture(&self, fill: impl FnOnce() -> Result<(), Fault>) -> Result<Option<Graph>, DeviceError> {
        let Some(calls) = &self.runtime().graphs else { return Ok(None) };
        self.capture_by(calls, fill).map(Some).map_err(|fault| fault.of_work("capturing launches"))
    }

    fn launch_graph(&self, graph: &Graph) -> Result<(), Fault> {
        // SAFETY: graph and stream are live, and of one device.
        self.runtime().check(unsafe { (graph.calls.launch)(graph.executable, self.context.stream) })
    }
}
