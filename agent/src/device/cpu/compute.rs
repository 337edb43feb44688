//! Every kernel of the host but those of STREAM: contractions, arithmetic, reductions, prefix sums, and reading from the
//! caches.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use fleetcal_kernels::{BufferSpec, parameter};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};

use super::memory::View;
use super::pool::{Member, TeamLost};
use super::stream::Instructions;
use super::{CpuBuffer, failed};
use crate::device::{Array, DeviceError};

mod additions;
mod arithmetic;
mod contraction;
mod reading;
mod scan;
mod vectorised;

/// A kernel with the settings of a solution.
#[derive(Debug, Clone)]
pub(super) struct Program {
    job: Job,
    dtype: Dtype,
    instructions: Instructions,
    pub(super) threads: usize,
    /// The arrays that it runs on.
    buffers: Arc<[BufferSpec]>,
}

/// What each thread has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Job {
    /// Nothing: what is timed is how threads are started.
    Empty,
    Contraction(contraction::Shape),
    Arithmetic {
        chains: u64,
        iterations: u64,
    },
    Reduction(reading::Operation),
    PrefixSums,
    /// So many passes over the array.
    Reading {
        passes: u64,
    },
    /// So many additions of each thread to a counter.
    Additions {
        of_thread: u64,
    },
    /// So many loads on a chain, by one thread.
    Chase {
        loads: u64,
    },
}

impl Program {
    /// The program of a point and solution.
    ///
    /// # Errors
    /// Why the host has none.
    pub(super) fn new(
        (point, solution): (&Point, &Solution),
        buffers: Vec<BufferSpec>,
        instructions: Instructions,
        threads: usize,
    ) -> Result<Self, String> {
        let unsupported = || format!("{}/{} in {} is unsupported on cpu", point.sweep, point.kernel, point.dtype);
        let size = |name: &str| point.size(name).unwrap_or(0);
        let setting = |name: &str| solution.parameter(name).unwrap_or(0);
        let job = match (point.sweep, point.kernel.as_str()) {
            (Sweep::Latency, "empty") => Job::Empty,
            (Sweep::WorkingSet | Sweep::Issue, "contraction") => {
                let is_tiled = solution.parameter(parameter::TILE).is_some();
                Job::Contraction(contraction::Shape::new(size("m"), size("n"), size("k"), is_tiled))
            }
            (Sweep::Peak, "fma") => {
                Job::Arithmetic { chains: setting(parameter::CHAINS), iterations: size("iterations") }
            }
            (Sweep::Reduce, kernel) => Job::Reduction(reading::Operation::from_name(kernel).ok_or_else(unsupported)?),
            (Sweep::Scan, "sum") => Job::PrefixSums,
            (Sweep::Cache, "read") => Job::Reading { passes: setting(parameter::READS) },
            (Sweep::Onchip, "atomic_global_same" | "atomic_global_spread") => {
                Job::Additions { of_thread: setting(parameter::OPERATIONS) }
            }
            (Sweep::Cache, "chase") => Job::Chase { loads: setting(parameter::LOADS) },
            _ => return Err(unsupported()),
        };
        Ok(Self { job, dtype: point.dtype, instructions, threads, buffers: buffers.into() })
    }
}

/// A program and the arrays that it runs on, checked.
#[derive(Debug)]
pub(super) struct Task {
    program: Program,
    arrays: Vec<View>,
    /// What each thread has for the others.
    partials: Vec<AtomicU64>,
}

impl Task {
    /// # Errors
    /// [`DeviceError::Launch`] if the arrays are not those of the program.
    pub(super) fn new(program: Program, arrays: &[Array<'_, CpuBuffer>]) -> Result<Self, DeviceError> {
        let wrong = |reason: &str| failed("launching a kernel", reason);
        let are_its_own = arrays.iter().map(|array| &array.spec).eq(program.buffers.iter());
        if !are_its_own {
            return Err(wrong("its arrays are not those of its point"));
        }
        let views = arrays.iter().map(View::of).collect::<Result<Vec<_>, _>>()?;
        let overlapping = |(index, view): (usize, &View)| views[index + 1..].iter().any(|other| view.overlaps(other));
        if views.iter().enumerate().any(overlapping) {
            return Err(wrong("an array overlaps another"));
        }
        for (view, _) in views.iter().zip(program.buffers.iter()).filter(|(_, spec)| spec.input_seed().is_none()) {
            view.touch();
        }
        let partials = (0..program.threads).map(|_| AtomicU64::new(0)).collect();
        Ok(Self { program, arrays: views, partials })
    }

    /// Runs the share of one thread.
    ///
    /// # Errors
    /// [`TeamLost`] where another thread failed.
    pub(super) fn run(&self, member: &Member<'_>) -> Result<(), TeamLost> {
        let Program { job, dtype, instructions, threads, .. } = self.program;
        // A flush takes threads that a solution may not.
        let works = member.index() < threads;
        match (job, dtype) {
            (Job::Empty, _) => {}
            (Job::Contraction(shape), Dtype::F32) if works => {
                contraction::run::<f32>(shape, instructions, (member.index(), threads), &self.arrays);
            }
            (Job::Contraction(shape), _) if works => {
                contraction::run::<f64>(shape, instructions, (member.index(), threads), &self.arrays);
            }
            (Job::Arithmetic { chains, iterations }, _) if works => {
                let output = self.arrays.first().filter(|_| member.index() == 0);
                arithmetic::run(dtype, instructions, (chains, iterations), output);
            }
            (Job::Reduction(operation), _) => {
                if works {
                    reading::reduce(operation, dtype, instructions, (member.index(), threads), self);
                }
                member.meet(|| reading::join(operation, dtype, self))?;
            }
            (Job::PrefixSums, _) => {
                if works {
                    scan::sum(dtype, instructions, (member.index(), threads), self);
                }
                member.meet(|| ())?;
                if works {
                    scan::write(dtype, instructions, (member.index(), threads), self);
                }
            }
            (Job::Reading { passes }, _) => {
                if works {
                    reading::read(passes, instructions, (member.index(), threads), self);
                }
                member.meet(|| reading::write_sum(self))?;
            }
            (Job::Additions { of_thread }, _) => {
                member.meet(|| additions::begin(of_thread, threads, &self.arrays))?;
                if works {
                    additions::add(of_thread, member.index(), &self.arrays);
                }
            }
            (Job::Chase { loads }, _) if member.index() == 0 => reading::chase(loads, &self.arrays),
            (Job::Contraction(_) | Job::Arithmetic { .. } | Job::Chase { .. }, _) => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
