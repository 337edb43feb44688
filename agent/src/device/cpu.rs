//! The host processor: native threads, one on each usable core.

use std::cell::Cell;
use std::marker::PhantomData;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{family, parameter};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Point, Solution, Sweep};
use fleetcal_model::row::Origin;
use rustix::thread::{CpuSet, sched_getaffinity};

use self::memory::{Mapping, Promised, View};
use self::pool::{Member, Pool, TeamLost};
use self::stream::{Instructions, Kernel};
use self::work::{Program, Task};
use super::{Array, Device, DeviceError, Instrument, PageGuard, Prepared, RawSample, Series};
use crate::telemetry::host::HostSensor;
use crate::telemetry::{Processors, Sensor};

mod cgroup;
mod compute;
mod facts;
mod instrument;
mod memory;
#[cfg(test)]
pub(crate) mod planted;
mod pool;
mod stream;
mod work;

/// Memory left alone: this share of the machine's, and no less than [`RESERVE_BYTES_MIN`]. The agent, its neighbours and
/// the page cache need some, and a machine that swaps measures nothing.
const RESERVE_DIVISOR: u64 = 16;
/// Least memory left alone, bytes.
const RESERVE_BYTES_MIN: u64 = 512 << 20;

/// Memory for arrays, freed on drop. It is used from one thread at a time, hence not `Sync`.
#[derive(Debug)]
pub struct CpuBuffer {
    mapping: Arc<Mapping>,
    not_sync: PhantomData<Cell<()>>,
}

impl CpuBuffer {
    fn mapping(&self) -> &Arc<Mapping> {
        &self.mapping
    }
}

/// A kernel with the settings of a solution.
#[derive(Debug, Clone)]
pub struct CpuProgram(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Stream(Program),
    Compute(compute::Program),
}

/// What one thread of a team does in one launch.
type Share = dyn Fn(&Member<'_>) -> Result<(), TeamLost> + Send + Sync;

impl Kind {
    /// Threads that it takes.
    fn threads(&self) -> usize {
        match self {
            Self::Stream(program) => program.threads,
            Self::Compute(program) => program.threads,
        }
    }

    /// The share of each thread, over these arrays.
    fn share(&self, arrays: &[Array<'_, CpuBuffer>]) -> Result<Box<Share>, DeviceError> {
        match self {
            Self::Stream(program) => {
                let task = Task::new(*program, arrays)?;
                Ok(Box::new(move |member| {
                    task.run(member);
                    Ok(())
                }))
            }
            Self::Compute(program) => {
                let task = compute::Task::new(program.clone(), arrays)?;
                Ok(Box::new(move |member| task.run(member)))
            }
        }
    }
}

/// The host processor as a device.
#[derive(Debug)]
pub struct CpuDevice {
    facts: DeviceFacts,
    /// `/`, but in tests.
    root: PathBuf,
    pool: Pool,
    /// The processors that its threads are pinned to.
    cores: Vec<usize>,
    instructions: Instructions,
    opened: Instant,
    promised: Promised,
    flush: Option<Arc<Mapping>>,
    #[cfg(test)]
    planted: Option<planted::Planted>,
}

/// The facts of the host processor, under the UUID given.
///
/// # Errors
/// [`DeviceError::Launch`] if the affinity of this process cannot be read.
pub fn discover(uuid: DeviceId) -> Result<Vec<DeviceFacts>, DeviceError> {
    let root = Path::new("/");
    Ok(vec![facts::read(root, uuid, &usable_cores(root)?)])
}

fn usable_cores(root: &Path) -> Result<Vec<usize>, DeviceError> {
    let mask = sched_getaffinity(None)
        .map_err(|errno| failed("reading which cores this process may use", &errno.to_string()))?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|core| mask.is_set(*core)).collect();
    Ok(facts::usable_cores(root, &allowed))
}

fn failed(what: &str, reason: &str) -> DeviceError {
    DeviceError::Launch { what: what.to_owned(), reason: reason.to_owned() }
}

impl CpuDevice {
    /// Starts one thread for each usable core.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if a thread cannot be started or pinned, or if there are fewer usable cores now than when
    /// the facts were taken.
    pub fn open(facts: &DeviceFacts) -> Result<Self, DeviceError> {
        Self::open_below(Path::new("/"), facts)
    }

    fn open_below(root: &Path, facts: &DeviceFacts) -> Result<Self, DeviceError> {
        let mut cores = usable_cores(root)?;
        let wanted = usize::try_from(facts.compute_units).unwrap_or(usize::MAX);
        if cores.len() < wanted {
            let reason = format!("{wanted} cores were usable when it was discovered, {} are now", cores.len());
            return Err(failed("opening the host processor", &reason));
        }
        cores.truncate(wanted);
        Ok(Self {
            facts: facts.clone(),
            root: root.to_owned(),
            pool: Pool::new(&cores)?,
            cores,
            instructions: Instructions::detect(),
            opened: Instant::now(),
            promised: Promised::default(),
            flush: None,
            #[cfg(test)]
            planted: planted::Planted::from_environment(),
        })
    }

    fn program(&self, point: &Point, solution: &Solution) -> Result<Kind, String> {
        let Some(family) = family(point.sweep) else {
            return Err(format!("the sweep `{}` has no kernels yet", point.sweep));
        };
        family.check(point).map_err(|error| error.to_string())?;
        let size = |name: &str| solution.parameter(name).map(|value| usize::try_from(value).unwrap_or(usize::MAX));
        let threads = size(parameter::THREADS).unwrap_or(self.pool.size());
        if threads == 0 || threads > self.pool.size() {
            return Err(format!("it wants {threads} threads, {} cores are usable", self.pool.size()));
        }
        if point.sweep != Sweep::Stream {
            let buffers = family.buffers(point);
            return compute::Program::new((point, solution), buffers, self.instructions, threads).map(Kind::Compute);
        }
        let kernel = Kernel::from_name(&point.kernel).ok_or_else(|| {
            format!("the cpu backend has no kernel `{}` of the sweep `{}`", point.kernel, point.sweep)
        })?;
        let nontemporal = solution.parameter(parameter::NONTEMPORAL) == Some(1);
        if nontemporal && !self.instructions.has_nontemporal_stores() {
            return Err(format!("there are no stores past the caches for {} here", self.facts.architecture));
        }
        let chunk_bytes = size(parameter::CHUNK_BYTES).unwrap_or(0);
        Ok(Kind::Stream(Program {
            kernel,
            dtype: point.dtype,
            instructions: self.instructions,
            threads,
            nontemporal,
            chunk_bytes,
            #[cfg(test)]
            misdeed: self.planted.as_ref().and_then(|planted| planted.of(&solution.name)),
        }))
    }

    fn prepare_one(&self, point: &Point, solution: &Solution) -> Result<Prepared<CpuProgram>, DeviceError> {
        let invalid = |log: String| DeviceError::Compile { entry: format!("{point} {solution}"), log };
        let program = self.program(point, solution).map_err(invalid)?;
        let family = family(point.sweep).ok_or_else(|| invalid("its sweep has no kernels yet".to_owned()))?;
        Ok(Prepared {
            program: CpuProgram(program),
            launches: family.launches(point, solution, &self.facts),
            source_digest: None,
            code_digest: None,
            compile_options: Some(format!("instructions={}", self.instructions.name())),
        })
    }

    /// Memory to flush with, at least as large as asked for; kept for the next time.
    fn flush_memory(&mut self, bytes: u64) -> Result<Arc<Mapping>, DeviceError> {
        if let Some(held) = self.flush.as_ref().filter(|held| held.bytes() >= bytes) {
            return Ok(Arc::clone(held));
        }
        self.flush = None;
        let mapping = self.allocate(bytes, PageGuard::None)?.mapping;
        self.flush = Some(Arc::clone(&mapping));
        Ok(mapping)
    }
}

impl Device for CpuDevice {
    type Buffer = CpuBuffer;
    type Program = CpuProgram;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn origin(&self) -> Origin {
        Origin::Measured
    }

    fn clock_source(&self) -> &'static str {
        "clock_monotonic"
    }

    fn opened_at(&self) -> Option<Instant> {
        Some(self.opened)
    }

    fn sensor(&self) -> Result<Box<dyn Sensor>, String> {
        Ok(Box::new(HostSensor::open(&Processors { root: self.root.clone(), numbers: self.cores.clone() })?))
    }

    fn processors(&self) -> Option<Processors> {
        Some(Processors { root: self.root.clone(), numbers: self.cores.clone() })
    }

    fn instrument(&mut self) -> Result<Instrument, DeviceError> {
        instrument::measure(&mut self.pool)
    }

    fn memory_available_bytes(&self) -> Result<u64, DeviceError> {
        let reserve = (self.facts.memory_bytes / RESERVE_DIVISOR).max(RESERVE_BYTES_MIN);
        let taken = reserve.saturating_add(self.promised.bytes());
        Ok(facts::memory_free_bytes(&self.root).saturating_sub(taken))
    }

    fn prepare(&mut self, work: &[(Point, Solution)]) -> Vec<Result<Prepared<CpuProgram>, DeviceError>> {
        work.iter().map(|(point, solution)| self.prepare_one(point, solution)).collect()
    }

    fn allocate(&mut self, bytes: u64, guard: PageGuard) -> Result<CpuBuffer, DeviceError> {
        let free_bytes = self.memory_available_bytes()?;
        if bytes > free_bytes {
            return Err(DeviceError::OutOfMemory { wanted_bytes: bytes, free_bytes });
        }
        let mapping = match guard {
            PageGuard::None => Mapping::new(bytes, &self.promised)?,
            PageGuard::Front | PageGuard::Back => Mapping::guarded(bytes, guard, &self.promised)?,
        };
        Ok(CpuBuffer { mapping: Arc::new(mapping), not_sync: PhantomData })
    }

    fn fill(&mut self, array: &Array<'_, CpuBuffer>, data: &InputData) -> Result<(), DeviceError> {
        work::fill(&mut self.pool, self.instructions, array, *data)
    }

    fn set(&mut self, array: &Array<'_, CpuBuffer>, bits: u64) -> Result<(), DeviceError> {
        work::set_bits(&mut self.pool, array, bits)
    }

    fn gather(&mut self, array: &Array<'_, CpuBuffer>, stride: u64) -> Result<Vec<f64>, DeviceError> {
        work::gather(array, stride)
    }

    fn run(&mut self, prepared: &Prepared<CpuProgram>, arrays: &[Array<'_, CpuBuffer>]) -> Result<(), DeviceError> {
        self.time(prepared, arrays, Series { intervals: 1, launches: 1, flush_bytes: None }).map(|_| ())
    }

    fn time(
        &mut self,
        prepared: &Prepared<CpuProgram>,
        arrays: &[Array<'_, CpuBuffer>],
        series: Series,
    ) -> Result<Vec<RawSample>, DeviceError> {
        let CpuProgram(program) = &prepared.program;
        let Series { intervals, launches, flush_bytes } = series;
        let share = program.share(arrays)?;
        let flush = flush_bytes.map(|bytes| self.flush_memory(bytes)).transpose()?.map(|memory| View::words(&memory));
        let opened = self.opened;
        let samples = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&samples);
        // A flush takes every core: each has caches of its own.
        let team = if flush.is_some() { self.pool.size() } else { program.threads() };
        self.pool.execute(team, move |member| {
            for _ in 0..intervals {
                if let Some(words) = &flush {
                    work::overwrite(words, member);
                }
                let start = member.meet(Instant::now)?;
                for launch in 0..launches {
                    if launch > 0 {
                        member.meet(|| ())?;
                    }
                    share(member)?;
                }
                let end = member.meet(Instant::now)?;
                if let (Some(start), Some(end)) = (start, end) {
                    let sample = RawSample { start_ns: nanoseconds(start - opened), ns: nanoseconds(end - start) };
                    collected.lock().unwrap_or_else(PoisonError::into_inner).push(sample);
                }
            }
            Ok(())
        })?;
        let mut samples = samples.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(std::mem::take(&mut samples))
    }
}

fn nanoseconds(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
