//! NVIDIA devices, through the CUDA driver. Both its libraries are loaded at run time; a node without them has no
//! devices of this backend, and is told why.
//!
//! One context (the primary one, which is the driver's cheapest), one stream, one thread. Buffers are plain addresses
//! rather than `cudarc`'s slices, so nothing of its event tracking can enter an interval.

use std::sync::Arc;
use std::time::Instant;

use cudarc::driver::{CudaContext, CudaFunction, CudaStream};
use fleetcal_kernels::data::{Formula, InputData};
use fleetcal_kernels::{Launch, family, number, support};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::Origin;

use self::gather::Gathered;
use self::launch::Ready;
use self::nvrtc::Nvrtc;
use self::program::Programs;
use self::support_kernels::SupportKernels;
use self::timing::{Intervals, Timer};
use super::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use crate::telemetry::Sensor;
use crate::telemetry::nvml::NvmlSensor;

mod driver;
mod facts;
mod gather;
mod guarded;
mod launch;
mod memory;
mod nvml;
pub mod nvrtc;
mod program;
mod support_kernels;
mod timing;

pub use memory::CudaBuffer;

/// Cycles for which a lead kernel holds the device, whatever follows: about 10 µs.
const LEAD_CYCLES: u64 = 20_000;
/// Cycles more for each interval queued behind it: about 10 µs, twice what the host takes to queue one.
const LEAD_CYCLES_PER_INTERVAL: u64 = 20_000;
/// Intervals that the instrument is measured over.
const INSTRUMENT_INTERVALS: u64 = 256;

/// Devices of this node.
///
/// # Errors
/// [`DeviceError::Library`]: no driver, an old one, no compiler, or no device; which one is said.
pub fn discover() -> Result<Vec<DeviceFacts>, DeviceError> {
    let driver = driver::initialise()?;
    let nvrtc = Nvrtc::load(driver.major)?;
    Ok(facts::find(driver, nvrtc.version())?.into_iter().map(|found| found.facts).collect())
}

/// A loaded kernel.
#[derive(Debug, Clone)]
pub struct CudaProgram {
    /// One for each launch, in their order.
    functions: Vec<CudaFunction>,
}

/// An NVIDIA device.
#[derive(Debug)]
pub struct CudaDevice {
    facts: DeviceFacts,
    nvrtc: Nvrtc,
    timer: Timer,
    support: SupportKernels,
    programs: Programs,
    flush: Option<CudaBuffer>,
    gathered: Option<Gathered>,
    /// One period of the pattern that was filled last.
    period: Option<CudaBuffer>,
    stream: Arc<CudaStream>,
    context: Arc<CudaContext>,
}

impl CudaDevice {
    /// Opens the device with this UUID.
    ///
    /// # Errors
    /// [`DeviceError::Library`] as for [`discover`], or where the device is gone; [`DeviceError::Compile`] or
    /// [`DeviceError::Load`] where the support kernels do not compile or load; [`DeviceError::Lost`] where the device
    /// does not answer.
    pub fn open(uuid: &DeviceId) -> Result<Self, DeviceError> {
        let version = driver::initialise()?;
        let nvrtc = Nvrtc::load(version.major)?;
        let found = facts::find(version, nvrtc.version())?;
        let found =
            facts::of(uuid, found).ok_or_else(|| driver::unusable(format!("the driver shows no device {uuid}")))?;
        let context = CudaContext::new(found.ordinal).map_err(|error| driver::fault("creating a context", error))?;
        let stream = context.new_stream().map_err(|error| driver::fault("creating a stream", error))?;
        let support = SupportKernels::load(&context, &nvrtc, &found.facts.architecture)?;
        Ok(Self {
            timer: Timer::new(&context)?,
            facts: found.facts,
            nvrtc,
            support,
            programs: Programs::default(),
            flush: None,
            gathered: None,
            period: None,
            stream,
            context,
        })
    }

    /// Runs a support launch and waits for it.
    fn support(&self, launch: &Launch, addresses: &[u64]) -> Result<(), DeviceError> {
        let ready = Ready::new(self.support.function(&launch.entry)?, launch, addresses)?;
        self.finish(&launch.entry, std::slice::from_ref(&ready))
    }

    fn finish(&self, what: &str, launches: &[Ready<'_>]) -> Result<(), DeviceError> {
        let run = || {
            self.context.bind_to_thread()?;
            launches.iter().try_for_each(|ready| ready.enqueue(&self.stream))?;
            self.stream.synchronize()
        };
        run().map_err(|error| driver::fault(what, error))
    }

    /// Times runs of `body`, which may be nothing.
    fn series(
        &self,
        body: Vec<Ready<'_>>,
        count: u64,
        launches: u64,
        flush: Option<(&Launch, u64)>,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let flush = flush
            .map(|(launch, address)| Ready::new(self.support.function(&launch.entry)?, launch, &[address]))
            .transpose()?;
        let lead = |intervals: u64, scale: u64| {
            let usual = LEAD_CYCLES.saturating_add(LEAD_CYCLES_PER_INTERVAL.saturating_mul(intervals));
            let lead = support::lead(usual.saturating_mul(scale));
            Ready::new(self.support.function(&lead.entry)?, &lead, &[])
        };
        self.timer.time(&self.stream, &Intervals { flush, body, launches, count }, lead)
    }

    /// Address of a buffer of at least so many bytes, kept for the life of the device.
    fn scratch(context: &Arc<CudaContext>, kept: &mut Option<CudaBuffer>, bytes: u64) -> Result<u64, DeviceError> {
        if kept.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            // The old one is freed first: the two may not fit together.
            *kept = None;
            *kept = Some(memory::allocate(context, bytes)?);
        }
        Ok(kept.as_ref().map_or(0, CudaBuffer::address))
    }

    fn prepare_one(&self, point: &Point, solution: &Solution) -> Result<Prepared<CudaProgram>, DeviceError> {
        let loaded = self.programs.of(point)?;
        let Some(family) = family(point.sweep) else {
            let log = format!("the sweep {} has no kernels in this version", point.sweep);
            return Err(DeviceError::Compile { entry: point.to_string(), log });
        };
        let launches = family.launches(point, solution, &self.facts);
        let functions = launches.iter().map(|launch| loaded.function(&launch.entry));
        Ok(Prepared {
            program: CudaProgram { functions: functions.collect::<Result<_, _>>()? },
            launches,
            source_digest: Some(loaded.source_digest.clone()),
            code_digest: Some(loaded.code_digest.clone()),
            compile_options: Some(loaded.compile_options.clone()),
        })
    }

    fn ready<'a>(
        prepared: &'a Prepared<CudaProgram>,
        arrays: &[Array<'_, CudaBuffer>],
    ) -> Result<Vec<Ready<'a>>, DeviceError> {
        let addresses = arrays.iter().map(memory::address_of).collect::<Result<Vec<_>, _>>()?;
        let launches = prepared.program.functions.iter().zip(&prepared.launches);
        launches.map(|(function, launch)| Ready::new(function, launch, &addresses)).collect()
    }
}

impl Device for CudaDevice {
    type Buffer = CudaBuffer;
    type Program = CudaProgram;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn origin(&self) -> Origin {
        Origin::Measured
    }

    fn clock_source(&self) -> &'static str {
        "cuda_event"
    }

    fn opened_at(&self) -> Option<Instant> {
        Some(self.timer.opened())
    }

    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        let pci_bdf = self.facts.pci_bdf.as_deref().ok_or("the driver gives no PCI address")?;
        let whole = self.facts.partition_mode.as_deref().is_none_or(|mode| mode == "none");
        Ok(Box::new(NvmlSensor::open(pci_bdf, whole)?))
    }

    fn instrument(&mut self) -> Result<Instrument, DeviceError> {
        let empty = support::empty();
        let body = Ready::new(self.support.function(&empty.entry)?, &empty, &[])?;
        let mut nothing = durations(&self.series(Vec::new(), INSTRUMENT_INTERVALS, 1, None)?);
        let mut launches = durations(&self.series(vec![body], INSTRUMENT_INTERVALS, 1, None)?);
        let (clock_overhead_ns, empty_launch_ns) = (median(&mut nothing), median(&mut launches));
        let mut seen = [nothing, launches].concat();
        seen.sort_unstable();
        let steps = seen.windows(2).map(|pair| pair[1] - pair[0]).filter(|step| *step > 0);
        // Where all intervals look alike the step is not seen; it is at most their length.
        let resolution = steps.min().or_else(|| seen.iter().copied().find(|ns| *ns > 0)).unwrap_or(1);
        Ok(Instrument { clock_resolution_ns: resolution as f64, clock_overhead_ns, empty_launch_ns })
    }

    fn memory_available_bytes(&self) -> Result<u64, DeviceError> {
        memory::available_bytes(&self.context)
    }

    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<CudaProgram>, DeviceError>> {
        let points = work.iter().map(|(point, _)| point);
        self.programs.add(&self.context, &self.nvrtc, &self.facts.architecture, points);
        work.iter().map(|(point, solution)| self.prepare_one(point, solution)).collect()
    }

    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<CudaBuffer, DeviceError> {
        match guard {
            PageGuard::None => memory::allocate(&self.context, bytes),
            PageGuard::Front | PageGuard::Back => memory::allocate_guarded(&self.context, bytes, guard),
        }
    }

    fn fill(&mut self, array: &Array<'_, CudaBuffer>, data: &InputData) -> Result<(), DeviceError> {
        let (elements, to) = (array.spec.elements, memory::address_of(array)?);
        let unsupported = || no_support("filling", array);
        if array.spec.dtype != data.dtype {
            return Err(unsupported());
        }
        match data.formula() {
            Formula::Random => {
                let launch = support::fill_random(&self.facts, elements, data).ok_or_else(unsupported)?;
                self.support(&launch, &[to])
            }
            Formula::Identity => {
                let launch = support::fill_identity(&self.facts, elements, data).ok_or_else(unsupported)?;
                self.support(&launch, &[to])
            }
            Formula::Periodic { values, repeat } => {
                let words = values.iter().map(|value| number::bits(*value, data.dtype));
                let words: Vec<u64> = words.collect::<Option<_>>().ok_or_else(unsupported)?;
                let width = usize::try_from(data.dtype.bytes()).unwrap_or(size_of::<u64>());
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect();
                let from = Self::scratch(&self.context, &mut self.period, bytes.len() as u64)?;
                if let Some(period) = &self.period {
                    memory::write(period, &bytes)?;
                }
                let launch = support::fill_periodic(&self.facts, elements, data, words.len() as u64, repeat);
                self.support(&launch, &[to, from])
            }
        }
    }

    fn set(&mut self, array: &Array<'_, CudaBuffer>, bits: u64) -> Result<(), DeviceError> {
        let launch = support::poison(&self.facts, &array.spec, bits);
        self.support(&launch, &[memory::address_of(array)?])
    }

    fn gather(&mut self, array: &Array<'_, CudaBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        Ok(self.gather_looks(&[(array, stride)])?.pop().unwrap_or_default())
    }

    fn gather_all(&mut self, looks: &[(Array<'_, CudaBuffer>, u64)]) -> Result<Vec<Vec<f64>>, DeviceError> {
        let looks: Vec<_> = looks.iter().map(|(array, stride)| (array, *stride)).collect();
        self.gather_looks(&looks)
    }

    fn run(&mut self, prepared: &Prepared<CudaProgram>, arrays: &[Array<'_, CudaBuffer>]) -> Result<(), DeviceError> {
        let what = prepared.launches.first().map_or("nothing", |launch| launch.entry.as_str());
        self.finish(what, &Self::ready(prepared, arrays)?)
    }

    fn time(
        &mut self,
        prepared: &Prepared<CudaProgram>,
        arrays: &[Array<'_, CudaBuffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let body = Self::ready(prepared, arrays)?;
        let Some(bytes) = series.flush_bytes else {
            return self.series(body, series.intervals, series.launches, None);
        };
        let address = Self::scratch(&self.context, &mut self.flush, bytes)?;
        let flush = support::flush(&self.facts, bytes);
        self.series(body, series.intervals, series.launches, Some((&flush, address)))
    }
}

fn no_support(what: &str, array: &Array<'_, CudaBuffer>) -> DeviceError {
    let reason = format!("no support kernel works on {}", array.spec.dtype);
    DeviceError::Launch { what: format!("{what} the array `{}`", array.spec.name), reason }
}

fn durations(samples: &[RawSample]) -> Vec<u64> {
    samples.iter().map(|sample| sample.ns).collect()
}

fn median(values: &mut [u64]) -> f64 {
    values.sort_unstable();
    let middle = values.len() / 2;
    match values.get(middle) {
        Some(upper) if values.len().is_multiple_of(2) && middle > 0 => (*upper + values[middle - 1]) as f64 / 2.0,
        Some(upper) => *upper as f64,
        None => 0.0,
    }
}

#[cfg(test)]
mod tests;
