//! Chains of fused multiply-adds in registers: `fleetcal_kernels::peak` says which.

#![allow(unsafe_code)]

use std::hint::black_box;

use fleetcal_kernels::peak::{LANES, OUTPUTS, STEPS, constants};
use fleetcal_model::point::Dtype;

use super::vectorised::{Vectorised, with};
use crate::device::cpu::memory::{Element, View};
use crate::device::cpu::stream::Instructions;

/// What the chains need of a number format.
trait Number: Element + PartialEq {
    /// The first value of a lane's first chain.
    fn first(lane: u64) -> Self;
    fn from_bits(bits: u64) -> Self;
    fn step(self, factor: Self, summand: Self) -> Self;
}

macro_rules! float {
    ($float:ty, $bits:ty) => {
        impl Number for $float {
            fn first(lane: u64) -> Self {
                1.0 + (lane * 16) as $float / 1024.0
            }
            fn from_bits(bits: u64) -> Self {
                <$float>::from_bits(bits as $bits)
            }
            #[inline(always)]
            fn step(self, factor: Self, summand: Self) -> Self {
                self.mul_add(factor, summand)
            }
        }
    };
}

float!(f32, u32);
float!(f64, u64);

impl Number for u32 {
    fn first(lane: u64) -> Self {
        (lane * 16) as u32
    }
    fn from_bits(bits: u64) -> Self {
        bits as u32
    }
    #[inline(always)]
    fn step(self, factor: Self, summand: Self) -> Self {
        self.wrapping_mul(factor).wrapping_add(summand)
    }
}

/// What one thread does. The one that is given the output writes there what its lanes came to.
pub(super) fn run(dtype: Dtype, instructions: Instructions, work: (u64, u64), output: Option<&View>) {
    match dtype {
        Dtype::F32 => with_chains::<f32, 16>(dtype, instructions, work, output),
        Dtype::I32 => with_chains::<u32, 16>(dtype, instructions, work, output),
        // `Program`s are made of points that their family has checked.
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {
            with_chains::<f64, 8>(dtype, instructions, work, output);
        }
    }
}

fn with_chains<T: Number, const WIDTH: usize>(
    dtype: Dtype,
    instructions: Instructions,
    (chains, iterations): (u64, u64),
    output: Option<&View>,
) {
    let [factor, summand] = constants(dtype).map(T::from_bits);
    let settings = Settings { factor, summand, iterations, output };
    match chains {
        4 => with(instructions, Chains::<'_, T, WIDTH, 4>(settings)),
        8 => with(instructions, Chains::<'_, T, WIDTH, 8>(settings)),
        _ => with(instructions, Chains::<'_, T, WIDTH, 12>(settings)),
    }
}

struct Settings<'a, T> {
    factor: T,
    summand: T,
    iterations: u64,
    output: Option<&'a View>,
}

/// Each chain is as wide as the widest vectors.
struct Chains<'a, T, const WIDTH: usize, const CHAINS: usize>(Settings<'a, T>);

impl<T: Number, const WIDTH: usize, const CHAINS: usize> Vectorised for Chains<'_, T, WIDTH, CHAINS> {
    #[inline(always)]
    fn run(self) {
        let Settings { factor, summand, iterations, output } = self.0;
        let (factor, summand) = (black_box(factor), black_box(summand));
        let mut chains = [[T::first(0); WIDTH]; CHAINS];
        for (index, value) in chains.iter_mut().flatten().enumerate() {
            *value = T::first(index as u64 % LANES);
        }
        for _ in 0..iterations {
            for _ in 0..STEPS {
                for value in chains.iter_mut().flatten() {
                    *value = value.step(factor, summand);
                }
            }
        }
        let chains = black_box(chains);
        let Some(output) = output else { return };
        // SAFETY: one thread alone is given the output, and this job is the only one.
        let output = unsafe { output.write::<T>(0..OUTPUTS as usize) };
        for (thread, to) in output.iter_mut().enumerate() {
            let lane = thread % LANES as usize;
            *to = chains[lane / WIDTH][lane % WIDTH];
        }
    }
}
