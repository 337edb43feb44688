//! Inclusive prefix sums: each thread adds up its share, then writes its sums behind those of the threads before it.

#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::Ordering;

use fleetcal_model::point::Dtype;

use super::Task;
use super::vectorised::{Vectorised, with};
use crate::device::cpu::memory::{Element, View};
use crate::device::cpu::stream::Instructions;

/// Elements that are added up by themselves, and joined with what comes before them: as the smallest tile of a GPU, so that
/// sums of either are as near to the right ones. They stay in the nearest cache.
const TILE: usize = 2048;
/// Elements whose sums are worked out before what comes before them is known.
const GROUP: usize = 8;

/// What sums need of a number format.
trait Number: Element + Default {
    fn plus(self, other: Self) -> Self;
    fn to_bits(self) -> u64;
    fn from_bits(bits: u64) -> Self;
}

impl Number for f32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn to_bits(self) -> u64 {
        u64::from(Self::to_bits(self))
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits as u32)
    }
}

impl Number for f64 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self + other
    }
    fn to_bits(self) -> u64 {
        Self::to_bits(self)
    }
    fn from_bits(bits: u64) -> Self {
        Self::from_bits(bits)
    }
}

impl Number for u32 {
    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        self.wrapping_add(other)
    }
    fn to_bits(self) -> u64 {
        u64::from(self)
    }
    fn from_bits(bits: u64) -> Self {
        bits as Self
    }
}

/// The contiguous share of one thread of so many, in whole tiles but for the last.
fn share(elements: usize, (thread, threads): (usize, usize)) -> Range<usize> {
    let length = elements.div_ceil(threads.max(1)).next_multiple_of(TILE);
    let start = thread.saturating_mul(length).min(elements);
    start..start.saturating_add(length).min(elements)
}

/// Adds up the share of one thread, and leaves the sum for the others.
pub(super) fn sum(dtype: Dtype, instructions: Instructions, thread: (usize, usize), task: &Task) {
    let [_, input, ..] = &task.arrays[..] else { return };
    let bits = match dtype {
        Dtype::F32 => sum_as::<f32>(instructions, thread, input),
        Dtype::I32 => sum_as::<u32>(instructions, thread, input),
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {
            sum_as::<f64>(instructions, thread, input)
        }
    };
    if let Some(partial) = task.partials.get(thread.0) {
        partial.store(bits, Ordering::Release);
    }
}

fn sum_as<T: Number>(instructions: Instructions, thread: (usize, usize), input: &View) -> u64 {
    // SAFETY: nobody writes to an input during a job.
    let values = unsafe { input.read::<T>(share(input.elements(), thread)) };
    let mut sum = T::default();
    with(instructions, Sum { values, sum: &mut sum });
    sum.to_bits()
}

struct Sum<'a, T> {
    values: &'a [T],
    sum: &'a mut T,
}

impl<T: Number> Vectorised for Sum<'_, T> {
    #[inline(always)]
    fn run(self) {
        for tile in self.values.chunks(TILE) {
            let mut sums = [T::default(); 64];
            let (blocks, rest) = tile.as_chunks::<64>();
            for block in blocks {
                for (sum, value) in sums.iter_mut().zip(block) {
                    *sum = sum.plus(*value);
                }
            }
            let of_tile = sums.iter().chain(rest).fold(T::default(), |sum, value| sum.plus(*value));
            *self.sum = self.sum.plus(of_tile);
        }
    }
}

/// Writes the sums of the share of one thread, once all have left theirs.
pub(super) fn write(dtype: Dtype, instructions: Instructions, thread: (usize, usize), task: &Task) {
    match dtype {
        Dtype::F32 => write_as::<f32>(instructions, thread, task),
        Dtype::I32 => write_as::<u32>(instructions, thread, task),
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {
            write_as::<f64>(instructions, thread, task);
        }
    }
}

fn write_as<T: Number>(instructions: Instructions, thread: (usize, usize), task: &Task) {
    let [output, input, _, given_up] = &task.arrays[..] else { return };
    let left = task.partials.iter().take(thread.0).map(|bits| T::from_bits(bits.load(Ordering::Acquire)));
    let before = left.fold(T::default(), T::plus);
    let part = share(input.elements(), thread);
    // SAFETY: nobody writes to an input during a job.
    let values = unsafe { input.read::<T>(part.clone()) };
    // SAFETY: the shares of two threads are disjoint, and arrays do not overlap.
    let output = unsafe { output.write::<T>(part) };
    with(instructions, Sums { values, output, before });
    if thread.0 == 0 {
        // Threads wait for each other, and none gives up.
        // SAFETY: one thread alone writes it, and nobody reads it.
        unsafe { given_up.write::<u32>(0..1) }.fill(0);
    }
}

struct Sums<'a, T> {
    values: &'a [T],
    output: &'a mut [T],
    before: T,
}

impl<T: Number> Vectorised for Sums<'_, T> {
    #[inline(always)]
    fn run(mut self) {
        for (to, from) in self.output.chunks_mut(TILE).zip(self.values.chunks(TILE)) {
            let of_tile = sums_of_tile(to, from);
            for sum in to {
                *sum = self.before.plus(*sum);
            }
            self.before = self.before.plus(of_tile);
        }
    }
}

/// Writes the sums of a tile as if nothing came before it; the last of them.
#[inline(always)]
fn sums_of_tile<T: Number>(output: &mut [T], values: &[T]) -> T {
    let mut before = T::default();
    let (to_groups, to_rest) = output.as_chunks_mut::<GROUP>();
    let (from_groups, from_rest) = values.as_chunks::<GROUP>();
    for (to, from) in to_groups.iter_mut().zip(from_groups) {
        let mut sum = T::default();
        for (to, from) in to.iter_mut().zip(from) {
            sum = sum.plus(*from);
            *to = before.plus(sum);
        }
        before = before.plus(sum);
    }
    for (to, from) in to_rest.iter_mut().zip(from_rest) {
        before = before.plus(*from);
        *to = before;
    }
    before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_tiles_and_hold_every_element_once() {
        for (elements, threads) in [(0, 3), (1, 1), (TILE, 2), (9 * TILE + 5, 4), (5 * TILE, 64)] {
            let mut next = 0;
            for thread in 0..threads {
                let part = share(elements, (thread, threads));
                assert_eq!(part.start, next, "thread {thread} of {threads}, {elements} elements");
                assert!(part.is_empty() || part.start.is_multiple_of(TILE), "{part:?}");
                next = part.end;
            }
            assert_eq!(next, elements, "{threads} threads");
        }
    }

    #[test]
    fn sums_go_on_from_group_to_group_and_from_tile_to_tile() {
        let values: Vec<u32> = (0..3 * TILE as u32 + 13).map(|index| index.wrapping_mul(2_654_435_761)).collect();
        let mut output = vec![0; values.len()];
        Sums { values: &values, output: &mut output, before: 7 }.run();
        let mut sum = 7_u32;
        for (index, (value, found)) in values.iter().zip(&output).enumerate() {
            sum = sum.wrapping_add(*value);
            assert_eq!(*found, sum, "element {index}");
        }
        let mut total = 0;
        Sum { values: &values, sum: &mut total }.run();
        assert_eq!(total.wrapping_add(7), sum, "the sum of a share is its last sum");
    }
}
