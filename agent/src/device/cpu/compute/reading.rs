//! Reading an array: reductions to one number, and what the caches give when it is read again and again.

#![allow(unsafe_code)]

use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::Ordering;

use fleetcal_kernels::chain::{Chain, SLOT_BYTES};
use fleetcal_model::point::Dtype;

use super::Task;
use super::vectorised::{Vectorised, with};
use crate::device::cpu::memory::{Element, View};
use crate::device::cpu::stream::Instructions;

/// Results that a thread joins side by side: enough independent vectors to hide the latency of an addition.
const SIDE_BY_SIDE: usize = 64;

/// A reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Sum,
    Max,
    Min,
}

impl Operation {
    /// The one of that name.
    pub(super) fn from_name(name: &str) -> Option<Self> {
        match name {
            "sum" => Some(Self::Sum),
            "max" => Some(Self::Max),
            "min" => Some(Self::Min),
            _ => None,
        }
    }
}

/// What reductions need of a number format.
trait Number: Element {
    fn neutral(operation: Operation) -> Self;
    fn joined(self, other: Self, operation: Operation) -> Self;
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

macro_rules! float {
    ($float:ty, $bits:ty) => {
        impl Number for $float {
            #[inline(always)]
            fn neutral(operation: Operation) -> Self {
                match operation {
                    Operation::Sum => 0.0,
                    Operation::Max => <$float>::NEG_INFINITY,
                    Operation::Min => <$float>::INFINITY,
                }
            }
            #[inline(always)]
            fn joined(self, other: Self, operation: Operation) -> Self {
                match operation {
                    Operation::Sum => self + other,
                    Operation::Max => {
                        if other > self {
                            other
                        } else {
                            self
                        }
                    }
                    Operation::Min => {
                        if other < self {
                            other
                        } else {
                            self
                        }
                    }
                }
            }
            fn to_bits(self) -> u64 {
                u64::from(<$float>::to_bits(self))
            }
            fn from_bits(bits: u64) -> Self {
                <$float>::from_bits(bits as $bits)
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

/// The contiguous share of one thread of so many, in whole blocks of [`SIDE_BY_SIDE`] elements but for the last.
fn share(elements: usize, (thread, threads): (usize, usize)) -> Range<usize> {
    let length = elements.div_ceil(threads.max(1)).next_multiple_of(SIDE_BY_SIDE);
    let start = thread.saturating_mul(length).min(elements);
    start..start.saturating_add(length).min(elements)
}

/// Reduces the share of one thread, and leaves the result for the others.
pub(super) fn reduce(
    operation: Operation,
    dtype: Dtype,
    instructions: Instructions,
    thread: (usize, usize),
    task: &Task,
) {
    let [_, input, _] = &task.arrays[..] else { return };
    let bits = match dtype {
        Dtype::F32 => reduced::<f32>(operation, instructions, thread, input),
        Dtype::F64
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::Tf32
        | Dtype::I8
        | Dtype::I32
        | Dtype::Fp8E4m3
        | Dtype::Fp8E5m2 => reduced::<f64>(operation, instructions, thread, input),
    };
    leave(task, thread.0, bits);
}

fn reduced<T: Number>(operation: Operation, instructions: Instructions, thread: (usize, usize), input: &View) -> u64 {
    // SAFETY: nobody writes to an input during a job.
    let values = unsafe { input.read::<T>(share(input.elements(), thread)) };
    let mut result = T::neutral(operation);
    with(instructions, Reduction { operation, values, result: &mut result });
    result.to_bits()
}

struct Reduction<'a, T> {
    operation: Operation,
    values: &'a [T],
    result: &'a mut T,
}

impl<T: Number> Vectorised for Reduction<'_, T> {
    #[inline(always)]
    fn run(self) {
        // The operation is looked up once, and each loop compiled for it.
        match self.operation {
            Operation::Sum => self.run_as(Operation::Sum),
            Operation::Max => self.run_as(Operation::Max),
            Operation::Min => self.run_as(Operation::Min),
        }
    }
}

impl<T: Number> Reduction<'_, T> {
    #[inline(always)]
    fn run_as(self, operation: Operation) {
        let mut results = [T::neutral(operation); SIDE_BY_SIDE];
        let (blocks, rest) = self.values.as_chunks::<SIDE_BY_SIDE>();
        for block in blocks {
            for (result, value) in results.iter_mut().zip(block) {
                *result = result.joined(*value, operation);
            }
        }
        let all = results.iter().chain(rest);
        *self.result = all.fold(T::neutral(operation), |joined, value| joined.joined(*value, operation));
    }
}

/// Joins what the threads left, and writes it.
pub(super) fn join(operation: Operation, dtype: Dtype, task: &Task) {
    let Some(output) = task.arrays.first() else { return };
    match dtype {
        Dtype::F32 => join_as::<f32>(operation, task, output),
        Dtype::F64
        | Dtype::F16
        | Dtype::Bf16
        | Dtype::Tf32
        | Dtype::I8
        | Dtype::I32
        | Dtype::Fp8E4m3
        | Dtype::Fp8E5m2 => join_as::<f64>(operation, task, output),
    }
}

fn join_as<T: Number>(operation: Operation, task: &Task, output: &View) {
    let values = task.partials.iter().map(|bits| T::from_bits(bits.load(Ordering::Acquire)));
    let result = values.fold(T::neutral(operation), |joined, value| joined.joined(value, operation));
    // SAFETY: the leader acts alone while the others wait for it.
    unsafe { output.write::<T>(0..1) }.fill(result);
}

/// Reads the share of one thread so many times, and leaves the sum of its words for the others.
pub(super) fn read(passes: u64, instructions: Instructions, thread: (usize, usize), task: &Task) {
    let [_, array] = &task.arrays[..] else { return };
    // SAFETY: nobody writes to an input during a job. Words are as wide as the array's elements.
    let words = unsafe { array.read::<u32>(share(array.elements(), thread)) };
    let mut sum = 0;
    for _ in 0..passes {
        // The compiler must not know that every pass gives the same.
        with(instructions, Words { words: black_box(words), sum: &mut sum });
        black_box(&mut sum);
    }
    leave(task, thread.0, u64::from(sum));
}

struct Words<'a> {
    words: &'a [u32],
    sum: &'a mut u32,
}

impl Vectorised for Words<'_> {
    #[inline(always)]
    fn run(self) {
        let mut sums = [0_u32; SIDE_BY_SIDE];
        let (blocks, rest) = self.words.as_chunks::<SIDE_BY_SIDE>();
        for block in blocks {
            for (sum, word) in sums.iter_mut().zip(block) {
                *sum = sum.wrapping_add(*word);
            }
        }
        *self.sum = sums.iter().chain(rest).fold(0, |sum, word| sum.wrapping_add(*word));
    }
}

/// Follows a chain from where the last run ended, and writes the number of loads plus the distance from where they have to
/// lead. `arrays` are output, chain and slot.
pub(super) fn chase(loads: u64, arrays: &[View]) {
    let [output, chain, slot] = arrays else { return };
    // SAFETY: nobody writes to an input during a job.
    let words = unsafe { chain.read::<u32>(0..chain.elements()) };
    // SAFETY: one thread alone is given this job, the only one.
    let (output, slot) = unsafe { (output.write::<u32>(0..1), slot.write::<u32>(0..1)) };
    let ([to], [slot]) = (output, slot) else { return };
    let ring = Chain::of_elements(words.len() as u64);
    let first = u64::from(*slot) % ring.slots();
    let link = |at: u64| words.get((at / 4) as usize).map_or(0, |next| u64::from(*next));
    let at = (0..loads).fold(first * SLOT_BYTES, |at, _| link(at));
    let right = ring.after(first, loads) * SLOT_BYTES;
    *to = (at.wrapping_sub(right) as u32).wrapping_add(loads as u32);
    *slot = (at / SLOT_BYTES) as u32;
}

/// Writes the sum of what the threads left.
pub(super) fn write_sum(task: &Task) {
    let Some(output) = task.arrays.first() else { return };
    let sum = task.partials.iter().fold(0_u32, |sum, part| sum.wrapping_add(part.load(Ordering::Acquire) as u32));
    // SAFETY: the leader acts alone while the others wait for it.
    unsafe { output.write::<u32>(0..1) }.fill(sum);
}

fn leave(task: &Task, thread: usize, bits: u64) {
    if let Some(partial) = task.partials.get(thread) {
        partial.store(bits, Ordering::Release);
    }
}
