//! The roofline bound: no kernel is faster than each of its legs at the highest rate known of the machine.
//!
//! A bound ranks and prunes; it predicts nothing. It grows with counts, and never with a constant: raising one only
//! weakens it. The legs of one kernel overlap at best, hence the maximum; kernels of a routine run one after the other,
//! hence the sum of their maxima, which lies between the largest leg of the summed counts and the sum of these legs.
//! Pipes and number formats are legs of their own: nothing forbids that they run at once.

use super::leg::{NotPriced, at_rate};
use super::{Kernel, Leg};
use crate::machine::{Machine, Pipe};
use crate::point::Dtype;
use crate::units::Seconds;

/// What limits a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BoundLeg {
    /// Distinct bytes at the rate of main memory.
    Memory,
    /// Operations at their peak.
    Operations(Pipe, Dtype),
}

/// A time that a kernel cannot beat.
#[derive(Debug, Clone, PartialEq)]
pub struct Bound {
    /// The time.
    pub time: Seconds,
    /// The leg that gives it.
    pub leg: BoundLeg,
    /// Whether that leg's count is exact. If not it is an upper bound, and a kernel that skips work may be faster. An exact
    /// bound above a measured time says that the constants understate the machine.
    pub exact: bool,
    /// Legs that have work and no rate: with one, the bound might be higher.
    pub not_priced: Vec<(BoundLeg, NotPriced)>,
}

/// A time that a routine cannot beat.
#[derive(Debug, Clone, PartialEq)]
pub struct RoutineBound {
    /// The sum of its kernels' bounds.
    pub time: Seconds,
    /// Whether each of them is exact.
    pub exact: bool,
    /// Indices of kernels that have work and no bound: they add nothing to the sum.
    pub unbounded: Vec<usize>,
}

/// Why nothing bounds a kernel or routine.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoBound {
    /// It moves and computes nothing.
    #[error("there is no work: no bytes and no operations")]
    NoWork,
    /// No leg that has work has a rate.
    #[error("no leg has a rate: {}", list(.0))]
    NotPriced(Vec<(BoundLeg, NotPriced)>),
}

fn list(legs: &[(BoundLeg, NotPriced)]) -> String {
    legs.iter().map(|(_, why)| why.to_string()).collect::<Vec<_>>().join("; ")
}

impl Bound {
    /// Whether a measured time proves the constants wrong: they understate the machine, and must be fitted again. A bound
    /// whose count is an upper one proves nothing.
    pub fn is_violated_by(&self, measured: Seconds) -> bool {
        self.exact && measured.0 > 0.0 && measured < self.time
    }
}

impl Machine {
    /// The roofline bound of one kernel. It exists if any leg with work has a rate.
    ///
    /// # Errors
    /// [`NoBound`].
    pub fn bound(&self, kernel: &Kernel) -> Result<Bound, NoBound> {
        let mut best: Option<(Seconds, BoundLeg)> = None;
        let mut not_priced = Vec::new();
        for (name, leg) in self.bound_legs(kernel) {
            match leg {
                Leg::NoWork => {}
                Leg::Priced(time) if best.is_none_or(|(best, _)| time > best) => best = Some((time, name)),
                Leg::Priced(_) => {}
                Leg::NotPriced { reason, .. } => not_priced.push((name, reason)),
            }
        }
        match best {
            Some((time, leg)) => {
                let exact = match leg {
                    BoundLeg::Memory => kernel.bytes_exact,
                    BoundLeg::Operations(..) => kernel.operations_exact,
                };
                Ok(Bound { time, leg, exact, not_priced })
            }
            None if not_priced.is_empty() => Err(NoBound::NoWork),
            None => Err(NoBound::NotPriced(not_priced)),
        }
    }

    /// The bound of kernels that run one after the other. It exists if any of them has one.
    ///
    /// # Errors
    /// [`NoBound`].
    pub fn routine_bound(&self, kernels: &[Kernel]) -> Result<RoutineBound, NoBound> {
        let mut routine = RoutineBound { time: Seconds(0.0), exact: true, unbounded: Vec::new() };
        let (mut bounded, mut missing) = (false, Vec::new());
        for (index, kernel) in kernels.iter().enumerate() {
            match self.bound(kernel) {
                Ok(bound) => {
                    bounded = true;
                    // A sum beyond the numbers is bounded by the largest of them.
                    routine.time.0 = (routine.time.0 + bound.time.0).min(f64::MAX);
                    routine.exact &= bound.exact;
                }
                Err(NoBound::NoWork) => {}
                Err(NoBound::NotPriced(legs)) => {
                    routine.unbounded.push(index);
                    missing.extend(legs);
                }
            }
        }
        match bounded {
            true => Ok(routine),
            false if missing.is_empty() => Err(NoBound::NoWork),
            false => Err(NoBound::NotPriced(missing)),
        }
    }

    fn bound_legs(&self, kernel: &Kernel) -> Vec<(BoundLeg, Leg)> {
        let bytes = kernel.compulsory();
        let memory = match bytes.0 {
            0 => Leg::NoWork,
            _ => {
                Leg::of(self.memory_ceiling().map_err(NotPriced::from).and_then(|rate| at_rate(bytes.0 as f64, rate.0)))
            }
        };
        let mut legs = vec![(BoundLeg::Memory, memory)];
        for &pipe in Pipe::ALL {
            legs.extend(kernel.operations_of(pipe).map(|(dtype, count)| {
                let rate = self.ceiling(pipe, dtype).map_err(NotPriced::from);
                let time = rate.and_then(|rate| at_rate(count.0 as f64, rate.0));
                (BoundLeg::Operations(pipe, dtype), Leg::of(time))
            }));
        }
        legs
    }

    /// The bound's leg of a pipe: its largest, none where none has a rate.
    pub(super) fn bound_of(&self, kernel: &Kernel, wanted: impl Fn(BoundLeg) -> bool) -> Option<Seconds> {
        let priced = self.bound_legs(kernel).into_iter().filter_map(|(name, leg)| match leg {
            Leg::Priced(time) if wanted(name) => Some(time),
            Leg::Priced(_) | Leg::NoWork | Leg::NotPriced { .. } => None,
        });
        priced.reduce(|best, time| if time > best { time } else { best })
    }
}
