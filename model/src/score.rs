//! The ranking score: a price of a kernel by which variants are ordered, and beside it the [bound].
//!
//! Version 1 is defined by these legs.
//!
//! | leg | time |
//! |---|---|
//! | memory, working set within the capacity | (read + written) / `memory_bandwidth` + re-reads / `cache_bandwidth` |
//! | memory, working set past the capacity | (read + written + re-reads) / `memory_bandwidth` |
//! | scalar | Σ over number formats of operations / (`full_issue_rate` · launch fill) |
//! | tensor | Σ over number formats of operations / `peak_flops` |
//! | launch | launches · `launch_latency` |
//!
//! Bytes read and written are distinct ones, re-reads are requested less distinct reads, and launch fill is
//! operations over effective operations of the [launch contexts](crate::seed::fill::FillModel::launch_fill).
//!
//! **score = max(memory, scalar + tensor)**; **time = score + launch**; a routine's are the sums of its kernels'.
//!
//! - Memory and compute overlap, because a full device hides one behind the other, and because the issue rate was fitted
//!   with the staging of operands inside: adding the memory leg would charge that traffic twice. Rows of an H200 say the
//!   same: docs/adr/0008 has the numbers.
//! - Scalar and tensor work add: the same warps issue both, and what feeds a tensor unit is scalar work before it.
//! - The launch is left out of the score, as the definition that this follows leaves it out (gh-ocannl-1253, 1442, 1479): it
//!   is the same for each variant of one kernel. Times are predicted with it.
//!
//! The score is never below the bound. Work whose constant is missing is [`Leg::NotPriced`], with the reason and with
//! what it takes at least; such a score orders nothing, and [`Score::seconds`] says so instead of leaving the leg out.

//!
//! ```
//! use fleetcal_model::machine::{Machine, Request};
//! use fleetcal_model::score::Kernel;
//! use fleetcal_model::units::{Bytes, BytesPerSecond, Seconds};
//!
//! // Usually `Machine::load` takes the constants from a document.
//! let mut machine = Machine::unknown(Request::new("a class".into()));
//! machine.memory_bandwidth = Ok(BytesPerSecond(4e12));
//! let once = Kernel { read: Bytes(4_000_000_000), requested: Bytes(4_000_000_000), ..Kernel::default() };
//! assert_eq!(machine.score(&once).seconds(), Ok(Seconds(1e-3)));
//! // Read twice, it depends on the cache, of which this machine knows nothing.
//! let twice = Kernel { requested: Bytes(8_000_000_000), working_set: Some(Bytes(1 << 20)), ..once };
//! let why = machine.score(&twice).seconds().unwrap_err();
//! assert_eq!(why.to_string(), "the document has no cache_capacity");
//! assert_eq!(machine.score(&twice).at_least(), Some(Seconds(1e-3)));
//! ```

use crate::machine::{Machine, Pipe};
use crate::units::{Operations, Seconds};

pub mod bound;
mod kernel;
mod leg;
#[cfg(test)]
mod tests;

pub use bound::{Bound, BoundLeg, NoBound, RoutineBound};
pub use kernel::Kernel;
pub use leg::{Leg, NotPriced};

use leg::{at_rate, duration};

/// Version of the definition above. It stands with each constant, and changes whenever the same constants would give
/// another score.
pub const SCORE_VERSION: u64 = 1;

/// The legs of one kernel's price.
#[derive(Debug, Clone, PartialEq)]
pub struct Score {
    /// Bytes.
    pub memory: Leg,
    /// Operations of scalar units.
    pub scalar: Leg,
    /// Operations of tensor units.
    pub tensor: Leg,
    /// Launches; no part of the score.
    pub launch: Leg,
}

impl Score {
    /// The score.
    ///
    /// # Errors
    /// [`NotPriced`], where a leg is not priced.
    pub fn seconds(&self) -> Result<Seconds, NotPriced> {
        let (memory, compute) = (self.memory.time()?, self.scalar.time()?.0 + self.tensor.time()?.0);
        duration(Seconds(memory.0.max(compute)))
    }

    /// The predicted time: the score and the launch.
    ///
    /// # Errors
    /// [`NotPriced`], where a leg is not priced.
    pub fn time(&self) -> Result<Seconds, NotPriced> {
        duration(Seconds(self.seconds()?.0 + self.launch.time()?.0))
    }

    /// What the score is at least, from the legs of which something is known; none where nothing is. It orders nothing: the
    /// missing leg of one variant may be the largest.
    pub fn at_least(&self) -> Option<Seconds> {
        let compute = match (self.scalar.known(), self.tensor.known()) {
            (Some(scalar), Some(tensor)) => Some(Seconds(scalar.0 + tensor.0)),
            (scalar, tensor) => scalar.or(tensor),
        };
        match (self.memory.known(), compute) {
            (Some(memory), Some(compute)) => Some(Seconds(memory.0.max(compute.0))),
            (memory, compute) => memory.or(compute),
        }
    }
}

impl Machine {
    /// Prices one kernel.
    pub fn score(&self, kernel: &Kernel) -> Score {
        let leg = |time: Option<Result<Seconds, NotPriced>>, at_least: Option<Seconds>| match time {
            None => Leg::NoWork,
            Some(_) if kernel.opaque => Leg::NotPriced { reason: NotPriced::Opaque, at_least },
            Some(time) => Leg::at_least(time, at_least),
        };
        let bound_of =
            |pipe: Pipe| self.bound_of(kernel, |leg| matches!(leg, BoundLeg::Operations(of, _) if of == pipe));
        Score {
            memory: leg(self.memory_time(kernel), self.bound_of(kernel, |leg| leg == BoundLeg::Memory)),
            scalar: leg(self.scalar_time(kernel), bound_of(Pipe::Scalar)),
            tensor: leg(self.tensor_time(kernel), bound_of(Pipe::Tensor)),
            launch: match kernel.launches {
                0 => Leg::NoWork,
                launches => {
                    let latency = self.launch_latency.clone().map_err(NotPriced::from);
                    Leg::of(latency.and_then(|latency| duration(Seconds(latency.0 * launches as f64))))
                }
            },
        }
    }

    /// The score of kernels that run one after the other: the sum of theirs.
    ///
    /// # Errors
    /// The first kernel that is not priced, by index, and why.
    pub fn routine_score(&self, kernels: &[Kernel]) -> Result<Seconds, (usize, NotPriced)> {
        let mut sum = 0.0;
        for (index, kernel) in kernels.iter().enumerate() {
            let seconds = self.score(kernel).seconds().map_err(|reason| (index, reason))?;
            sum = duration(Seconds(sum + seconds.0)).map_err(|reason| (index, reason))?.0;
        }
        Ok(Seconds(sum))
    }

    /// Time of the bytes; none where there are none.
    fn memory_time(&self, kernel: &Kernel) -> Option<Result<Seconds, NotPriced>> {
        let (compulsory, reread) = (kernel.compulsory(), kernel.reread());
        let time = || {
            let once = at_rate(compulsory.0 as f64, self.memory_bandwidth.clone()?.0)?;
            if reread.0 == 0 {
                return Ok(once);
            }
            let working_set = kernel.working_set.ok_or(NotPriced::NoWorkingSet)?;
            let rate = match working_set <= self.cache_capacity.clone()? {
                true => self.cache_bandwidth.clone()?,
                false => self.memory_bandwidth.clone()?,
            };
            duration(Seconds(once.0 + at_rate(reread.0 as f64, rate.0)?.0))
        };
        (compulsory.0 > 0 || reread.0 > 0).then(time)
    }

    /// Time of the scalar operations; none where there are none.
    fn scalar_time(&self, kernel: &Kernel) -> Option<Result<Seconds, NotPriced>> {
        let time = |dtype, Operations(count): Operations| {
            let rate = self.full_issue_rate(dtype)?;
            let filled = self.fill.clone()?.launch_fill(&kernel.launch_contexts).ok_or(NotPriced::NoFill)?;
            at_rate(count as f64, rate.0 * filled)
        };
        sum(kernel.operations_of(Pipe::Scalar).map(|(dtype, count)| time(dtype, count)))
    }

    /// Time of the tensor operations; none where there are none.
    fn tensor_time(&self, kernel: &Kernel) -> Option<Result<Seconds, NotPriced>> {
        let time = |dtype, count: Operations| at_rate(count.0 as f64, self.peak(Pipe::Tensor, dtype)?.0);
        sum(kernel.operations_of(Pipe::Tensor).map(|(dtype, count)| time(dtype, count)))
    }
}

/// The sum of times; none of none, and the first reason where one is not priced.
fn sum(times: impl Iterator<Item = Result<Seconds, NotPriced>>) -> Option<Result<Seconds, NotPriced>> {
    times.reduce(|sum, time| duration(Seconds(sum?.0 + time?.0)))
}
