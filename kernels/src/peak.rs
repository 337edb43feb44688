//! Arithmetic at full rate: chains of fused multiply-adds, and tensor instructions, in registers alone.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use crate::check::{SizeRule, check};
use crate::family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec,
};
use crate::parameter;

mod tensor;

const FMA: &str = "fma";
const MMA: &str = "mma";
const ITERATIONS: &str = "iterations";

/// Steps of every chain in one iteration: the unrolled body.
pub const STEPS: u64 = 16;
/// Threads that store what they have come to: those of the smallest block.
pub const OUTPUTS: u64 = 128;
/// Most iterations: the sums of the tensor kernels are then whole numbers below 2^24, which binary32 holds exactly. Some milliseconds on every device: beginning and end of a launch are lost in them.
const ITERATIONS_MAX: u64 = 4096;
/// Lanes after which first values repeat.
pub const LANES: u64 = 32;
/// Threads resident on one compute unit.
const RESIDENT_THREADS: u64 = 2048;
/// Numbers that a thread of the host has in one chain: those of its widest vectors.
const HOST_CHAIN_BYTES: u64 = 64;

/// Factor and summand: the chains tend to 2, so no value overflows or becomes denormal, and mantissas stay busy.
const FACTOR: f64 = 1.0 - 1.0 / 2048.0;
const SUMMAND: f64 = 1.0 / 1024.0;
/// Those of whole numbers, which wrap: a generator of random numbers (Knuth, TAOCP 2, 3.3.4).
const WHOLE_FACTOR: u32 = 1_664_525;
const WHOLE_SUMMAND: u32 = 1_013_904_223;

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Peak;

impl Family for Peak {
    fn sweep(&self) -> Sweep {
        Sweep::Peak
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[FMA, MMA]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F64, Dtype::I32, Dtype::F16, Dtype::Bf16, Dtype::Tf32, Dtype::I8]
    }

    fn supports(&self, kernel: &str, dtype: Dtype) -> bool {
        match kernel {
            FMA => matches!(dtype, Dtype::F32 | Dtype::F64 | Dtype::I32),
            MMA => tensor::product(dtype).is_some(),
            _ => false,
        }
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[SizeSpec { name: ITERATIONS, defaults: &[4096], optional: false }]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(ITERATIONS, 3)]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        check(self, point, &[SizeRule { name: ITERATIONS, least: 1, most: ITERATIONS_MAX, multiple_of: 1 }])
    }

    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let dtype = match point.kernel.as_str() {
            MMA => tensor::product(point.dtype).map_or(Dtype::F32, |product| product.sum),
            _ => point.dtype,
        };
        vec![BufferSpec { name: "last", role: BufferRole::Output, dtype, elements: OUTPUTS, rows: None }]
    }

    /// A fused multiply-add counts as two operations, of whole numbers too. Nothing is read.
    fn counts(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Counts {
        let (blocks, threads) = parameter::grid(solution);
        let steps = iterations(point).saturating_mul(STEPS).saturating_mul(chains(solution));
        let is_tensor = point.kernel == MMA;
        let operations = match tensor::product(point.dtype).filter(|_| is_tensor) {
            // The threads of a warp share one instruction.
            Some(product) => [blocks, threads / tensor::WARP, steps, product.operations()],
            None => [blocks, threads, steps, 2 * numbers_of_chain(point, solution)],
        };
        let operations = operations.into_iter().fold(1, u64::saturating_mul);
        let bytes_written = self.buffers(point).iter().map(BufferSpec::bytes).sum();
        Counts {
            bytes_read: 0,
            bytes_written,
            bytes_distinct: bytes_written,
            bytes_requested: 0,
            working_set_bytes: None,
            flops: operations,
            scalar_ops: if is_tensor { 0 } else { operations },
            tensor_ops: if is_tensor { operations } else { 0 },
            bytes_exact: true,
            ops_exact: true,
            opaque: false,
            kernels: 1,
            launch_contexts: vec![LaunchContext { blocks, threads, operations }],
        }
    }

    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        match (point.kernel.as_str(), device.backend) {
            (MMA, Backend::Cpu | Backend::Hip) => Vec::new(),
            (MMA, Backend::Cuda) if !tensor::is_there(device) => Vec::new(),
            (_, Backend::Cpu) => [4, 8, 12].map(|chains| host(device.compute_units, chains)).to_vec(),
            (kernel, Backend::Cuda | Backend::Hip | Backend::Sim) => gpu(kernel == MMA, device.compute_units),
        }
    }

    fn declined(&self, point: &Point, device: &DeviceFacts) -> String {
        let why = match device.backend {
            Backend::Cuda => format!("it takes compute capability 8.0, the device is {}", device.architecture),
            Backend::Hip => "this version has no matrix instructions of AMD devices".to_owned(),
            Backend::Cpu | Backend::Sim => "a processor has no such instruction here".to_owned(),
        };
        format!("peak/{} is unsupported on {}: {why}", point.kernel, device.backend.name())
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "peak.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/peak.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        let (blocks, threads) = parameter::grid(solution);
        let mut arguments = vec![Argument::Buffer(0), Argument::U64(iterations(point))];
        if point.kernel == FMA {
            arguments.extend(constants(point.dtype).map(Argument::U64));
        }
        arguments.push(Argument::U64(OUTPUTS));
        let entry = format!("peak_{}_{}_c{}", point.kernel, point.dtype, chains(solution));
        vec![Launch { entry, blocks, threads, arguments }]
    }

    /// Exact: the same steps, one after the other.
    fn reference(&self, point: &Point, _pattern: DataPattern, _buffer: usize) -> Reference {
        let steps = iterations(point).saturating_mul(STEPS);
        if let Some(product) = tensor::product(point.dtype).filter(|_| point.kernel == MMA) {
            return Box::new(move |thread| exact(product.first_of_thread(thread % tensor::WARP) * steps as f64));
        }
        let dtype = point.dtype;
        let values: Vec<f64> = (0..LANES).map(|lane| chain(dtype, lane, steps)).collect();
        Box::new(move |thread| exact(values[(thread % LANES) as usize]))
    }
}

fn exact(value: f64) -> Expected {
    Expected { value, relative_tolerance: 0.0 }
}

/// What the first chain of a lane comes to.
fn chain(dtype: Dtype, lane: u64, steps: u64) -> f64 {
    let first = 1.0 + (lane * 16) as f64 / 1024.0;
    match dtype {
        Dtype::I32 => {
            let step = |value: u32, _| value.wrapping_mul(WHOLE_FACTOR).wrapping_add(WHOLE_SUMMAND);
            f64::from((0..steps).fold((lane * 16) as u32, step).cast_signed())
        }
        Dtype::F32 => {
            let (factor, summand) = (FACTOR as f32, SUMMAND as f32);
            f64::from((0..steps).fold(first as f32, |value, _| value.mul_add(factor, summand)))
        }
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {
            (0..steps).fold(first, |value, _| value.mul_add(FACTOR, SUMMAND))
        }
    }
}

/// Bits of the factor and the summand of a step, in their number format.
pub fn constants(dtype: Dtype) -> [u64; 2] {
    match dtype {
        Dtype::I32 => [WHOLE_FACTOR, WHOLE_SUMMAND].map(u64::from),
        Dtype::F32 => [FACTOR, SUMMAND].map(|value| u64::from((value as f32).to_bits())),
        Dtype::F64 | Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => {
            [FACTOR, SUMMAND].map(f64::to_bits)
        }
    }
}

fn iterations(point: &Point) -> u64 {
    point.size(ITERATIONS).unwrap_or(0)
}

fn chains(solution: &Solution) -> u64 {
    solution.parameter(parameter::CHAINS).unwrap_or(0)
}

/// A chain of the host is as many numbers as its widest vectors hold.
fn numbers_of_chain(point: &Point, solution: &Solution) -> u64 {
    if solution.parameter(parameter::THREADS).is_some() { HOST_CHAIN_BYTES / point.dtype.bytes() } else { 1 }
}

/// Chains, threads a block, and how full the device is: each warp scheduler needs as many independent instructions in
/// flight as one takes cycles, whether they come from chains or from warps.
fn gpu(is_tensor: bool, compute_units: u64) -> Vec<Solution> {
    let mut solutions = Vec::new();
    for chains in [8, 4, 16] {
        for resident in [RESIDENT_THREADS, RESIDENT_THREADS / 2, RESIDENT_THREADS / 4] {
            for block in if is_tensor { [256, 128] } else { [256, 1024] } {
                let blocks = compute_units.max(1) * (resident / block).max(1);
                let parameters = [(parameter::CHAINS, chains), (parameter::BLOCK, block), (parameter::BLOCKS, blocks)];
                solutions.push(parameter::solution(format!("c{chains}_b{block}_r{resident}"), &parameters));
            }
        }
    }
    solutions.dedup_by(|left, right| left.parameters == right.parameters);
    solutions
}

fn host(threads: u64, chains: u64) -> Solution {
    parameter::solution(format!("c{chains}_t{threads}"), &[(parameter::CHAINS, chains), (parameter::THREADS, threads)])
}

#[cfg(test)]
mod tests;
