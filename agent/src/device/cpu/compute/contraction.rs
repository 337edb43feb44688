//! dw\[o,i\] = Σ over k of dy\[k,o\] · x\[k,i\]: each sum in the order of k by fused multiply-adds, as on every other backend.

#![allow(unsafe_code)]

use super::vectorised::{Vectorised, with};
use crate::device::cpu::memory::{Element, View};
use crate::device::cpu::stream::Instructions;

/// Columns of a part that is made at a time, tiled: two of the widest vectors of binary32.
const TILE_COLUMNS: usize = 32;
/// Rows of it.
const TILE_ROWS: usize = 4;
/// Columns of a part, untiled: those of a block on a GPU.
const UNTILED_COLUMNS: usize = 256;

/// Extents of the matrices, and how the output is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    rows: usize,
    columns: usize,
    depth: usize,
    is_tiled: bool,
}

impl Shape {
    pub(super) fn new(rows: u64, columns: u64, depth: u64, is_tiled: bool) -> Self {
        let length = |extent: u64| usize::try_from(extent).unwrap_or(usize::MAX);
        Self { rows: length(rows), columns: length(columns), depth: length(depth), is_tiled }
    }
}

/// What the kernel needs of a number format.
pub(super) trait Real: Element {
    const ZERO: Self;
    fn multiply_add(self, other: Self, sum: Self) -> Self;
}

impl Real for f32 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, other: Self, sum: Self) -> Self {
        self.mul_add(other, sum)
    }
}

impl Real for f64 {
    const ZERO: Self = 0.0;
    #[inline(always)]
    fn multiply_add(self, other: Self, sum: Self) -> Self {
        self.mul_add(other, sum)
    }
}

/// The share of one thread of so many: every so-manieth part of the output. `arrays` are dw, dy and x.
pub(super) fn run<T: Real>(
    shape: Shape,
    instructions: Instructions,
    (thread, threads): (usize, usize),
    arrays: &[View],
) {
    let [dw, dy, x] = arrays else { return };
    if shape.is_tiled {
        with(instructions, Share::<T, TILE_ROWS, TILE_COLUMNS>::new(shape, (thread, threads), (dw, dy, x)));
    } else {
        with(instructions, Share::<T, 1, UNTILED_COLUMNS>::new(shape, (thread, threads), (dw, dy, x)));
    }
}

struct Share<'a, T, const ROWS: usize, const COLUMNS: usize> {
    shape: Shape,
    thread: usize,
    threads: usize,
    dw: &'a View,
    dy: &'a [T],
    x: &'a [T],
}

impl<'a, T: Real, const ROWS: usize, const COLUMNS: usize> Share<'a, T, ROWS, COLUMNS> {
    fn new(shape: Shape, (thread, threads): (usize, usize), (dw, dy, x): (&'a View, &'a View, &'a View)) -> Self {
        // SAFETY: nobody writes to inputs during a job: the one array written overlaps none of them, and the device runs
        // one job at a time.
        let (dy, x) = unsafe { (dy.read(0..dy.elements()), x.read(0..x.elements())) };
        Self { shape, thread, threads: threads.max(1), dw, dy, x }
    }
}

impl<T: Real, const ROWS: usize, const COLUMNS: usize> Vectorised for Share<'_, T, ROWS, COLUMNS> {
    #[inline(always)]
    fn run(self) {
        let Shape { rows, columns, depth, .. } = self.shape;
        let parts_of_row = columns / COLUMNS;
        let parts = rows / ROWS * parts_of_row;
        for part in (self.thread..parts).step_by(self.threads) {
            let (row, column) = (part / parts_of_row * ROWS, part % parts_of_row * COLUMNS);
            let mut sums = [[T::ZERO; COLUMNS]; ROWS];
            for step in 0..depth {
                let lefts = &self.dy[step * rows + row..][..ROWS];
                let rights = &self.x[step * columns + column..][..COLUMNS];
                for (sums, left) in sums.iter_mut().zip(lefts) {
                    for (sum, right) in sums.iter_mut().zip(rights) {
                        *sum = left.multiply_add(*right, *sum);
                    }
                }
            }
            for (at, sums) in sums.iter().enumerate() {
                let start = (row + at) * columns + column;
                // SAFETY: parts of the output do not overlap, each belongs to one thread, and no input overlaps it.
                unsafe { self.dw.write::<T>(start..start + COLUMNS) }.copy_from_slice(sums);
            }
        }
    }
}
