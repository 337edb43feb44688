//! Sum, largest and smallest number of an array, in two launches: blocks to partial results, these to one.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use crate::check::{SizeRule, check};
use crate::data::InputData;
use crate::family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec,
};
use crate::memo::Memo;
use crate::parameter;

const SUM: &str = "sum";
const MAX: &str = "max";
const MIN: &str = "min";
const ELEMENTS: &str = "elements";

/// `elements` must be a multiple of this: the largest tile is 1024 threads of 8 packs of 4 elements.
pub const ELEMENTS_MULTIPLE: u64 = 1024 * 8 * 4;
const ELEMENTS_MAX: u64 = 1 << 40;
/// Bytes of a pack: one access.
const PACK_BYTES: u64 = 16;
/// Most partial results.
const PARTIALS_MAX: u64 = 1 << 14;
/// Threads of the one block that joins them.
const TOTAL_THREADS: u64 = 1024;
const RESIDENT_THREADS: u64 = 2048;
const INPUT_SEED: u64 = 1;

/// Error of a sum, relative, that passes. Rounding errors of the long sums of one thread are independent of each other
/// nearly (Higham and Mary: A new approach to probabilistic rounding error analysis, SIAM J. Sci. Comput. 41, 2019): over
/// 2^28 random numbers in [−0.5, 0.5) with partial sums of a thousand each they come to some 10^-6 of the sum.
const SUM_TOLERANCE_F32: f64 = 2e-5;
const SUM_TOLERANCE_F64: f64 = 1e-13;

/// What was worked out last: a point's right value takes a second of the host, and every check asks for it.
static RIGHT: Memo = Memo::new();

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Reduce;

impl Family for Reduce {
    fn sweep(&self) -> Sweep {
        Sweep::Reduce
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[SUM, MAX, MIN]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F64]
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[SizeSpec { name: ELEMENTS, defaults: &[1 << 20, 1 << 24, 1 << 28], optional: false }]
    }

    fn arrays_min(&self) -> u64 {
        1
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(ELEMENTS, 9 * ELEMENTS_MULTIPLE)]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        let (least, most) = (ELEMENTS_MULTIPLE, ELEMENTS_MAX);
        check(self, point, &[SizeRule { name: ELEMENTS, least, most, multiple_of: ELEMENTS_MULTIPLE }])
    }

    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let spec = |name, role, elements| BufferSpec { name, role, dtype: point.dtype, elements, rows: None };
        vec![
            spec("result", BufferRole::Output, 1),
            spec("input", BufferRole::Input { seed: INPUT_SEED }, elements(point)),
            spec("partials", BufferRole::Scratch, PARTIALS_MAX),
        ]
    }

    /// The array is read once; partial results go out and come back.
    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts {
        let width = point.dtype.bytes();
        let input_bytes = elements(point).saturating_mul(width);
        let (blocks, threads) = parameter::grid(solution);
        let partial_bytes = blocks.saturating_mul(width);
        let operations = elements(point).saturating_sub(1);
        let mut launch_contexts = vec![LaunchContext { blocks, threads, operations }];
        if device.backend != Backend::Cpu {
            launch_contexts.push(LaunchContext { blocks: 1, threads: TOTAL_THREADS, operations: blocks });
        }
        Counts {
            bytes_read: input_bytes.saturating_add(partial_bytes),
            bytes_written: partial_bytes.saturating_add(width),
            bytes_distinct: input_bytes.saturating_add(partial_bytes).saturating_add(width),
            bytes_requested: input_bytes.saturating_add(partial_bytes),
            working_set_bytes: None,
            flops: operations,
            scalar_ops: operations,
            tensor_ops: 0,
            bytes_exact: true,
            ops_exact: true,
            opaque: false,
            kernels: launch_contexts.len() as u64,
            launch_contexts,
        }
    }

    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        match device.backend {
            Backend::Cpu => {
                let threads = device.compute_units;
                vec![parameter::solution(format!("t{threads}"), &[(parameter::THREADS, threads)])]
            }
            Backend::Cuda | Backend::Hip | Backend::Sim => gpu(point, device.compute_units.max(1)),
        }
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "reduce.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/reduce.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        let (blocks, threads) = parameter::grid(solution);
        let vectors = solution.parameter(parameter::VECTORS_PER_THREAD).unwrap_or(1);
        let entry = format!("reduce_{}_{}", point.kernel, point.dtype);
        let tiles = elements(point) / tile_elements(point, threads, vectors).max(1);
        vec![
            Launch {
                entry: format!("{entry}_v{vectors}"),
                blocks,
                threads,
                arguments: vec![Argument::Buffer(2), Argument::Buffer(1), Argument::U64(tiles)],
            },
            Launch {
                entry: format!("{entry}_total"),
                blocks: 1,
                threads: TOTAL_THREADS,
                arguments: vec![Argument::Buffer(0), Argument::Buffer(2), Argument::U64(blocks)],
            },
        ]
    }

    /// Largest and smallest are exact. A sum is the exact one, which no order of additions in the format need give.
    fn reference(&self, point: &Point, pattern: DataPattern, _buffer: usize) -> Reference {
        let (dtype, row_elements) = (point.dtype, elements(point));
        let input = InputData { pattern, seed: INPUT_SEED, dtype, row_elements, first_element: 0 };
        let value = RIGHT.of(&format!("{point} {pattern:?}"), || right(&point.kernel, &input, row_elements));
        let relative_tolerance = match (point.kernel.as_str(), dtype) {
            (SUM, Dtype::F64) => SUM_TOLERANCE_F64,
            (SUM, _) => SUM_TOLERANCE_F32,
            _ => 0.0,
        };
        Box::new(move |_| Expected { value, relative_tolerance })
    }
}

/// The right value. Elements are multiples of 2^-24, so that sums of up to 2^29 of them are exact in binary64.
fn right(kernel: &str, input: &InputData, elements: u64) -> f64 {
    let values = (0..elements).map(|index| input.rounded_element(index));
    match kernel {
        MAX => values.fold(f64::NEG_INFINITY, |best, value| if value > best { value } else { best }),
        MIN => values.fold(f64::INFINITY, |best, value| if value < best { value } else { best }),
        _ => values.sum(),
    }
}

fn elements(point: &Point) -> u64 {
    point.size(ELEMENTS).unwrap_or(0)
}

/// Elements that one block takes at a time.
fn tile_elements(point: &Point, threads: u64, vectors: u64) -> u64 {
    threads * vectors * (PACK_BYTES / point.dtype.bytes())
}

/// Packs in flight, threads a block, and how many of them are resident. Blocks without a tile are left out.
fn gpu(point: &Point, compute_units: u64) -> Vec<Solution> {
    let mut solutions: Vec<Solution> = Vec::new();
    for vectors in [4, 8, 2, 1] {
        for block in [512, 256, 1024] {
            for resident in [RESIDENT_THREADS, RESIDENT_THREADS / 2] {
                let tiles = elements(point) / tile_elements(point, block, vectors).max(1);
                let blocks = (compute_units * (resident / block).max(1)).min(tiles).min(PARTIALS_MAX);
                let parameters = [
                    (parameter::VECTORS_PER_THREAD, vectors),
                    (parameter::BLOCK, block),
                    (parameter::BLOCKS, blocks),
                    (parameter::GRID_STRIDE, 1),
                ];
                let solution = parameter::solution(format!("v{vectors}_b{block}_r{resident}"), &parameters);
                if blocks > 0 && solutions.iter().all(|known| known.parameters != solution.parameters) {
                    solutions.push(solution);
                }
            }
        }
    }
    solutions
}

#[cfg(test)]
mod tests;
