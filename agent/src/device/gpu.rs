//! What devices of NVIDIA and AMD have in common: one stream of work, kernels that fill, set and read arrays, timing by
//! events. What differs stands behind [`Driver`].
//!
//! Buffers are plain addresses, so nothing that tracks them can enter an interval.

use std::time::Instant;

use fleetcal_kernels::data::{Formula, InputData};
use fleetcal_kernels::{Launch, family, number, support};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::Origin;

use self::gather::Gathered;
use self::launch::Ready;
use self::program::Programs;
use self::support_kernels::SupportKernels;
use self::timing::{Intervals, Timer};
use super::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use crate::telemetry::Sensor;

pub mod driver;
mod gather;
pub mod guard;
pub mod launch;
mod program;
pub mod rtc;
mod support_kernels;
mod timing;

pub use driver::{CodeObject, Compiler, Driver, Memory};

/// Cycles for which a lead kernel holds the device, whatever follows: about 10 µs.
const LEAD_CYCLES: u64 = 20_000;
/// Cycles more for each interval queued behind it: about 10 µs, twice what the host takes to queue one.
const LEAD_CYCLES_PER_INTERVAL: u64 = 20_000;
/// Intervals that the instrument is measured over.
const INSTRUMENT_INTERVALS: u64 = 256;

/// A device of a driver, by its position, with what is known of it.
#[derive(Debug)]
pub(super) struct Found {
    /// Position in the driver's order.
    pub(super) ordinal: usize,
    /// The facts.
    pub(super) facts: DeviceFacts,
    /// What its sources are compiled for, as the compiler wants it.
    pub(super) target: String,
}

/// The device with this UUID, wherever it stands in the driver's order.
pub(super) fn of(uuid: &DeviceId, found: Vec<Found>) -> Option<Found> {
    found.into_iter().find(|found| found.facts.uuid == *uuid)
}

/// The kernels of a solution.
#[derive(Debug, Clone)]
pub struct GpuProgram<Function> {
    /// One for each launch, in their order.
    functions: Vec<Function>,
}

/// A GPU. Fields are dropped in their order: the driver last.
#[derive(Debug)]
pub struct GpuDevice<D: Driver> {
    facts: DeviceFacts,
    /// What sources are compiled for.
    pub(super) target: String,
    compiler: D::Compiler,
    timer: Timer<D>,
    support: SupportKernels<D>,
    programs: Programs<D>,
    flush: Option<D::Buffer>,
    gathered: Option<Gathered<D>>,
    /// One period of the pattern that was filled last.
    period: Option<D::Buffer>,
    pub(super) driver: D,
}

impl<D: Driver> GpuDevice<D> {
    /// A device that was found and opened.
    ///
    /// # Errors
    /// [`DeviceError::Compile`] or [`DeviceError::Load`] where the support kernels do not compile or load;
    /// [`DeviceError::Lost`] where the device does not answer.
    pub(super) fn new(found: Found, driver: D, compiler: D::Compiler) -> Result<Self, DeviceError> {
        let support = SupportKernels::load(&driver, &compiler, &found.target)?;
        Ok(Self {
            timer: Timer::new(&driver)?,
            facts: found.facts,
            target: found.target,
            compiler,
            support,
            programs: Programs::default(),
            flush: None,
            gathered: None,
            period: None,
            driver,
        })
    }

    /// Forgets what was compiled, so that it is compiled anew.
    #[cfg(test)]
    pub(super) fn forget_programs(&mut self) {
        self.programs = Programs::default();
    }

    /// Queues a run, and does not wait for it.
    #[cfg(test)]
    pub(super) fn enqueue(
        &self,
        prepared: &Prepared<GpuProgram<D::Function>>,
        arrays: &[Array<'_, D::Buffer>],
    ) -> Result<(), DeviceError> {
        let enqueue = |ready: &Ready<'_, D>| ready.enqueue(&self.driver);
        let fault = |fault| self.driver.fault("queueing", fault);
        self.driver.bind().map_err(fault)?;
        Self::ready(prepared, arrays)?.iter().try_for_each(enqueue).map_err(fault)
    }

    /// Runs a support launch and waits for it.
    fn support(&self, launch: &Launch, addresses: &[u64]) -> Result<(), DeviceError> {
        let ready = Ready::new(self.support.function(&launch.entry)?, launch, addresses)?;
        self.finish(&launch.entry, std::slice::from_ref(&ready))
    }

    fn finish(&self, what: &str, launches: &[Ready<'_, D>]) -> Result<(), DeviceError> {
        let run = || {
            self.driver.bind()?;
            launches.iter().try_for_each(|ready| ready.enqueue(&self.driver))?;
            self.driver.synchronize()
        };
        run().map_err(|fault| self.driver.fault(what, fault))
    }

    /// Times runs of `body`, which may be nothing.
    fn series(
        &self,
        body: Vec<Ready<'_, D>>,
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
        self.timer.time(&self.driver, &Intervals { flush, body, launches, count }, lead)
    }

    /// Address of a buffer of at least so many bytes, kept for the life of the device.
    fn scratch(driver: &D, kept: &mut Option<D::Buffer>, bytes: u64) -> Result<u64, DeviceError> {
        if kept.as_ref().is_none_or(|buffer| buffer.bytes() < bytes) {
            // The old one is freed first: the two may not fit together.
            *kept = None;
            *kept = Some(driver.allocate(bytes, PageGuard::None)?);
        }
        Ok(kept.as_ref().map_or(0, Memory::address))
    }

    fn prepare_one(
        &self,
        point: &Point,
        solution: &Solution,
    ) -> Result<Prepared<GpuProgram<D::Function>>, DeviceError> {
        let loaded = self.programs.of(point)?;
        let Some(family) = family(point.sweep) else {
            let log = format!("the sweep {} has no kernels in this version", point.sweep);
            return Err(DeviceError::Compile { entry: point.to_string(), log });
        };
        let launches = family.launches(point, solution, &self.facts);
        let functions = launches.iter().map(|launch| loaded.function(&self.driver, &launch.entry));
        Ok(Prepared {
            program: GpuProgram { functions: functions.collect::<Result<_, _>>()? },
            launches,
            source_digest: Some(loaded.source_digest.clone()),
            code_digest: Some(loaded.code_digest.clone()),
            compile_options: Some(loaded.compile_options.clone()),
        })
    }

    fn ready<'a>(
        prepared: &'a Prepared<GpuProgram<D::Function>>,
        arrays: &[Array<'_, D::Buffer>],
    ) -> Result<Vec<Ready<'a, D>>, DeviceError> {
        let addresses = arrays.iter().map(address_of).collect::<Result<Vec<_>, _>>()?;
        let launches = prepared.program.functions.iter().zip(&prepared.launches);
        launches.map(|(function, launch)| Ready::new(function, launch, &addresses)).collect()
    }
}

impl<D: Driver> Device for GpuDevice<D> {
    type Buffer = D::Buffer;
    type Program = GpuProgram<D::Function>;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn origin(&self) -> Origin {
        self.driver.origin()
    }

    fn clock_source(&self) -> &'static str {
        D::CLOCK_SOURCE
    }

    fn opened_at(&self) -> Option<Instant> {
        Some(self.timer.opened())
    }

    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        self.driver.sensor(&self.facts)
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
        self.driver.available_bytes()
    }

    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<GpuProgram<D::Function>>, DeviceError>> {
        let points = work.iter().map(|(point, _)| point);
        self.programs.add(&self.driver, &self.compiler, &self.target, points);
        work.iter().map(|(point, solution)| self.prepare_one(point, solution)).collect()
    }

    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<D::Buffer, DeviceError> {
        self.driver.allocate(bytes, guard)
    }

    fn fill(&mut self, array: &Array<'_, D::Buffer>, data: &InputData) -> Result<(), DeviceError> {
        let (elements, to) = (array.spec.elements, address_of(array)?);
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
            Formula::Chain(chain) => {
                let launch = support::fill_chain(&self.facts, elements, data, chain);
                self.support(&launch, &[to])
            }
            Formula::Periodic { values, repeat } => {
                let words = values.iter().map(|value| number::bits(*value, data.dtype));
                let words: Vec<u64> = words.collect::<Option<_>>().ok_or_else(unsupported)?;
                let width = usize::try_from(data.dtype.bytes()).unwrap_or(size_of::<u64>());
                let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width)).collect();
                let from = Self::scratch(&self.driver, &mut self.period, bytes.len() as u64)?;
                if let Some(period) = &self.period {
                    self.driver.write(period, &bytes)?;
                }
                let launch = support::fill_periodic(&self.facts, elements, data, words.len() as u64, repeat);
                self.support(&launch, &[to, from])
            }
        }
    }

    fn set(&mut self, array: &Array<'_, D::Buffer>, bits: u64) -> Result<(), DeviceError> {
        let launch = support::poison(&self.facts, &array.spec, bits);
        self.support(&launch, &[address_of(array)?])
    }

    fn gather(&mut self, array: &Array<'_, D::Buffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        Ok(self.gather_looks(&[(array, stride)])?.pop().unwrap_or_default())
    }

    fn gather_all(&mut self, looks: &[(Array<'_, D::Buffer>, u64)]) -> Result<Vec<Vec<f64>>, DeviceError> {
        let looks: Vec<_> = looks.iter().map(|(array, stride)| (array, *stride)).collect();
        self.gather_looks(&looks)
    }

    fn run(
        &mut self,
        prepared: &Prepared<GpuProgram<D::Function>>,
        arrays: &[Array<'_, D::Buffer>],
    ) -> Result<(), DeviceError> {
        let what = prepared.launches.first().map_or("nothing", |launch| launch.entry.as_str());
        self.finish(what, &Self::ready(prepared, arrays)?)
    }

    fn time(
        &mut self,
        prepared: &Prepared<GpuProgram<D::Function>>,
        arrays: &[Array<'_, D::Buffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let body = Self::ready(prepared, arrays)?;
        let Some(bytes) = series.flush_bytes else {
            return self.series(body, series.intervals, series.launches, None);
        };
        let is_fresh = self.flush.as_ref().is_none_or(|buffer| buffer.bytes() < bytes);
        let address = Self::scratch(&self.driver, &mut self.flush, bytes)?;
        if is_fresh {
            // A flush reads what it writes; what nobody has written must not be read, whatever becomes of it.
            self.support(&support::clear(&self.facts, bytes), &[address])?;
        }
        let flush = support::flush(&self.facts, bytes);
        self.series(body, series.intervals, series.launches, Some((&flush, address)))
    }
}

fn no_support<Buffer>(what: &str, array: &Array<'_, Buffer>) -> DeviceError {
    let reason = format!("no support kernel works on {}", array.spec.dtype);
    DeviceError::Launch { what: format!("{what} the array `{}`", array.spec.name), reason }
}

/// Where an array starts on the device, after a look that it lies inside its allocation.
fn address_of<Buffer: Memory>(array: &Array<'_, Buffer>) -> Result<u64, DeviceError> {
    let end = array.offset_bytes.saturating_add(array.spec.bytes());
    if end > array.buffer.bytes() {
        let reason = format!("it ends at byte {end} of an allocation of {} bytes", array.buffer.bytes());
        return Err(DeviceError::Launch { what: format!("placing the array `{}`", array.spec.name), reason });
    }
    Ok(array.buffer.address() + array.offset_bytes)
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
