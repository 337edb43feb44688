//! The kernels in x86-64's wider instruction sets.

#![allow(unsafe_code)]

use std::arch::x86_64::{
    _mm_add_pd, _mm_add_ps, _mm_loadu_pd, _mm_loadu_ps, _mm_mul_pd, _mm_mul_ps, _mm_set1_pd, _mm_set1_ps, _mm_sfence,
    _mm_stream_pd, _mm_stream_ps, _mm256_add_pd, _mm256_add_ps, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_mul_pd,
    _mm256_mul_ps, _mm256_set1_pd, _mm256_set1_ps, _mm256_stream_pd, _mm256_stream_ps, _mm512_add_pd, _mm512_add_ps,
    _mm512_loadu_pd, _mm512_loadu_ps, _mm512_mul_pd, _mm512_mul_ps, _mm512_set1_pd, _mm512_set1_ps, _mm512_stream_pd,
    _mm512_stream_ps,
};

use super::{FACTOR, Instructions, Kernel, Number, Operands, loops, random_loop};

/// Stores past the caches leave in whole lines of this size if they fill them in order.
const LINE_BYTES: usize = 64;

/// The plain loops, compiled for the instructions named.
pub(super) fn plain<T: Number>(kernel: Kernel, instructions: Instructions, operands: Operands<'_, T>) {
    match instructions {
        Instructions::Baseline => loops(kernel, operands),
        // SAFETY: `Instructions::detect` has found the feature.
        Instructions::Avx2 => unsafe { plain_avx2(kernel, operands) },
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { plain_avx512(kernel, operands) },
    }
}

#[target_feature(enable = "avx2")]
fn plain_avx2<T: Number>(kernel: Kernel, operands: Operands<'_, T>) {
    loops(kernel, operands);
}

#[target_feature(enable = "avx512f")]
fn plain_avx512<T: Number>(kernel: Kernel, operands: Operands<'_, T>) {
    loops(kernel, operands);
}

/// The random fill, compiled for the instructions named.
pub(super) fn fill_random<T: Number>(instructions: Instructions, seed: u64, start: u64, output: &mut [T]) {
    match instructions {
        Instructions::Baseline => random_loop(seed, start, output),
        // SAFETY: `Instructions::detect` has found the feature.
        Instructions::Avx2 => unsafe { fill_avx2(seed, start, output) },
        // SAFETY: as above.
        Instructions::Avx512 => unsafe { fill_avx512(seed, start, output) },
    }
}

#[target_feature(enable = "avx2")]
fn fill_avx2<T: Number>(seed: u64, start: u64, output: &mut [T]) {
    random_loop(seed, start, output);
}

#[target_feature(enable = "avx512f,avx512dq")]
fn fill_avx512<T: Number>(seed: u64, start: u64, output: &mut [T]) {
    random_loop(seed, start, output);
}

/// A function that runs a kernel with stores past the caches: the elements before the first whole line and after the
/// last one with plain stores, whole lines with vectors of the width named.
macro_rules! nontemporal_lines {
    (
        $name:ident, $feature:literal, $float:ty, $lanes:literal,
        $load:ident, $stream:ident, $add:ident, $multiply:ident, $splat:ident
    ) => {
        #[target_feature(enable = $feature)]
        fn $name(kernel: Kernel, operands: Operands<'_, $float>) {
            let Operands { first, second, output } = operands;
            let two_inputs = kernel.inputs() == 2;
            let length = if two_inputs { second.len() } else { first.len() }.min(first.len()).min(output.len());
            let head = output.as_ptr().align_offset(LINE_BYTES).min(length);
            let lines = (length - head) / (LINE_BYTES / size_of::<$float>());
            let tail = head + lines * (LINE_BYTES / size_of::<$float>());
            for edge in [0..head, tail..length] {
                let second = if two_inputs { &second[edge.clone()] } else { second };
                loops(kernel, Operands { first: &first[edge.clone()], second, output: &mut output[edge] });
            }
            let (from, and, to) = (first.as_ptr(), second.as_ptr(), output.as_mut_ptr());
            let positions = (head..tail).step_by($lanes);
            // SAFETY: `head..tail` lies inside `output` and every input that the kernel reads, and is a whole number of
            // vectors; stores are aligned, because `head` is at the start of a line.
            unsafe {
                let factor = $splat(FACTOR.into());
                match kernel {
                    Kernel::Copy => {
                        for at in positions {
                            $stream(to.add(at), $load(from.add(at)));
                        }
                    }
                    Kernel::Scale => {
                        for at in positions {
                            $stream(to.add(at), $multiply(factor, $load(from.add(at))));
                        }
                    }
                    Kernel::Add => {
                        for at in positions {
                            $stream(to.add(at), $add($load(from.add(at)), $load(and.add(at))));
                        }
                    }
                    Kernel::Triad => {
                        for at in positions {
                            $stream(to.add(at), $add($load(from.add(at)), $multiply(factor, $load(and.add(at)))));
                        }
                    }
                }
            }
        }
    };
}

nontemporal_lines!(sse2_f32, "sse2", f32, 4, _mm_loadu_ps, _mm_stream_ps, _mm_add_ps, _mm_mul_ps, _mm_set1_ps);
nontemporal_lines!(sse2_f64, "sse2", f64, 2, _mm_loadu_pd, _mm_stream_pd, _mm_add_pd, _mm_mul_pd, _mm_set1_pd);
nontemporal_lines!(
    avx2_f32,
    "avx2",
    f32,
    8,
    _mm256_loadu_ps,
    _mm256_stream_ps,
    _mm256_add_ps,
    _mm256_mul_ps,
    _mm256_set1_ps
);
nontemporal_lines!(
    avx2_f64,
    "avx2",
    f64,
    4,
    _mm256_loadu_pd,
    _mm256_stream_pd,
    _mm256_add_pd,
    _mm256_mul_pd,
    _mm256_set1_pd
);
nontemporal_lines!(
    avx512_f32,
    "avx512f",
    f32,
    16,
    _mm512_loadu_ps,
    _mm512_stream_ps,
    _mm512_add_ps,
    _mm512_mul_ps,
    _mm512_set1_ps
);
nontemporal_lines!(
    avx512_f64,
    "avx512f",
    f64,
    8,
    _mm512_loadu_pd,
    _mm512_stream_pd,
    _mm512_add_pd,
    _mm512_mul_pd,
    _mm512_set1_pd
);

macro_rules! nontemporal {
    ($name:ident, $float:ty, $sse2:ident, $avx2:ident, $avx512:ident) => {
        /// The kernel with stores past the caches, which are in memory, or on their way in order, when it returns.
        pub(super) fn $name(kernel: Kernel, instructions: Instructions, operands: Operands<'_, $float>) {
            match instructions {
                // SAFETY: every x86-64 processor has SSE2.
                Instructions::Baseline => unsafe { $sse2(kernel, operands) },
                // SAFETY: `Instructions::detect` has found the feature.
                Instructions::Avx2 => unsafe { $avx2(kernel, operands) },
                // SAFETY: as above.
                Instructions::Avx512 => unsafe { $avx512(kernel, operands) },
            }
            // SAFETY: every x86-64 processor has SSE.
            unsafe { _mm_sfence() };
        }
    };
}

nontemporal!(nontemporal_f32, f32, sse2_f32, avx2_f32, avx512_f32);
nontemporal!(nontemporal_f64, f64, sse2_f64, avx2_f64, avx512_f64);
