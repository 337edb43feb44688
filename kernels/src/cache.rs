//! What each level of the caches gives, by footprint. Bandwidth: one array read again and again by all threads together, past
//! the caches of the compute units. Latency: one thread on a chain of loads through every level.

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

mod chase;

const READ: &str = "read";
/// Latency.
pub const CHASE: &str = "chase";
const FOOTPRINT: &str = "footprint";

/// Bytes of one access.
const PACK_BYTES: u64 = 16;
/// A footprint is a multiple of this, bytes.
const FOOTPRINT_MULTIPLE: u64 = 1 << 16;
const FOOTPRINT_MAX: u64 = 1 << 36;
/// Bytes that one launch reads, about: long beside a launch on the fastest device known, short beside a visit.
const GPU_BYTES: u64 = 8 << 30;
/// The same of a processor.
const HOST_BYTES: u64 = 1 << 30;
/// Times that a check reads its array.
const CHECK_PASSES: u64 = 16;
/// Packs that a thread reads in one round.
const PACKS_PER_READ: u64 = 4;
const RESIDENT_THREADS: u64 = 2048;
const INPUT_SEED: u64 = 1;

/// From well inside the second level to well outside of the last, in mebibytes: knees lie where others have measured them,
/// and points are dense there.
const FOOTPRINTS: [u64; 28] = {
    const MEBIBYTES: [u64; 28] = [
        1, 2, 3, 4, 6, 8, 10, 12, 14, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 80, 96, 128, 192, 256, 384, 512, 1024,
    ];
    let mut bytes = [0; 28];
    let mut index = 0;
    while index < MEBIBYTES.len() {
        bytes[index] = MEBIBYTES[index] << 20;
        index += 1;
    }
    bytes
};

/// Sums that took long.
static RIGHT: Memo = Memo::new();

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Cache;

impl Family for Cache {
    fn sweep(&self) -> Sweep {
        Sweep::Cache
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[READ, CHASE]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::I32]
    }

    /// Numbers to read are of binary32; a chain is of byte numbers.
    fn supports(&self, kernel: &str, dtype: Dtype) -> bool {
        matches!((kernel, dtype), (READ, Dtype::F32) | (CHASE, Dtype::I32))
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[SizeSpec { name: FOOTPRINT, defaults: &FOOTPRINTS, optional: false }]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(FOOTPRINT, 3 * FOOTPRINT_MULTIPLE)]
    }

    fn default_values(&self, kernels: &[String], size: &SizeSpec) -> &'static [u64] {
        if kernels.iter().all(|kernel| kernel == CHASE) { &chase::FOOTPRINTS } else { size.defaults }
    }

    fn small_point(&self, kernel: &str, dtype: Dtype) -> Point {
        let footprint = if kernel == CHASE { chase::FOOTPRINT_OF_CHECKS } else { 3 * FOOTPRINT_MULTIPLE };
        let sizes = [(FOOTPRINT.to_owned(), footprint)].into();
        Point { sweep: Sweep::Cache, kernel: kernel.to_owned(), dtype, sizes }
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        let (multiple_of, most) = match point.kernel.as_str() {
            CHASE => (chase::FOOTPRINT_MULTIPLE, chase::FOOTPRINT_MAX),
            _ => (FOOTPRINT_MULTIPLE, FOOTPRINT_MAX),
        };
        let least = multiple_of;
        check(self, point, &[SizeRule { name: FOOTPRINT, least, most, multiple_of }])
    }

    /// The sum is of bits, so that it does not depend on an order.
    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        if point.kernel == CHASE {
            return chase::buffers(point);
        }
        let elements = footprint(point) / point.dtype.bytes();
        vec![
            BufferSpec { name: "sum", role: BufferRole::Output, dtype: Dtype::I32, elements: 1, rows: None },
            BufferSpec {
                name: "array",
                role: BufferRole::Input { seed: INPUT_SEED },
                dtype: point.dtype,
                elements,
                rows: None,
            },
        ]
    }

    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts {
        if point.kernel == CHASE {
            return chase::counts(point);
        }
        let (blocks, threads) = parameter::grid(solution);
        let reads = solution.parameter(parameter::READS).unwrap_or(0);
        let bytes_read = if device.backend == Backend::Cpu {
            footprint(point).saturating_mul(reads)
        } else {
            let again = [blocks, threads, reads, PACKS_PER_READ, PACK_BYTES].into_iter().fold(1, u64::saturating_mul);
            footprint(point).saturating_add(again)
        };
        let mut launch_contexts = vec![LaunchContext { blocks, threads, operations: 0 }];
        if device.backend != Backend::Cpu {
            launch_contexts.insert(0, LaunchContext { blocks: 1, threads: 32, operations: 0 });
        }
        Counts {
            bytes_read,
            bytes_written: Dtype::I32.bytes(),
            bytes_distinct: footprint(point),
            bytes_requested: bytes_read,
            working_set_bytes: Some(footprint(point)),
            flops: 0,
            scalar_ops: 0,
            tensor_ops: 0,
            bytes_exact: true,
            ops_exact: true,
            opaque: false,
            kernels: launch_contexts.len() as u64,
            launch_contexts,
        }
    }

    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        if point.kernel == CHASE {
            return vec![chase::solution(point, device.backend)];
        }
        let units = device.compute_units.max(1);
        if device.backend == Backend::Cpu {
            let passes = (HOST_BYTES / footprint(point).max(1)).clamp(2, 1 << 12);
            let parameters = [(parameter::THREADS, units), (parameter::READS, passes)];
            return vec![parameter::solution(format!("t{units}"), &parameters)];
        }
        let gpu = |block: u64| {
            let blocks = units * (RESIDENT_THREADS / block);
            let turn_bytes = blocks * block * PACKS_PER_READ * PACK_BYTES;
            let reads = (launch_bytes(point) / turn_bytes.max(1)).max(1);
            let parameters = [(parameter::BLOCK, block), (parameter::BLOCKS, blocks), (parameter::READS, reads)];
            parameter::solution(format!("v4_b{block}"), &parameters)
        };
        [256, 512, 1024].map(gpu).to_vec()
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "cache.cu",
            text: concat!(
                include_str!("../gpu/compat.h"),
                include_str!("../gpu/chain.h"),
                include_str!("../gpu/cache.cu")
            )
            .to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        if point.kernel == CHASE {
            return vec![chase::launch(point)];
        }
        let (blocks, threads) = parameter::grid(solution);
        let packs = footprint(point) / PACK_BYTES;
        let reads = solution.parameter(parameter::READS).unwrap_or(0);
        let step = blocks.saturating_mul(threads) % packs.max(1);
        let mut arguments = vec![Argument::Buffer(0), Argument::Buffer(1)];
        arguments.extend([packs, reads, step].map(Argument::U64));
        vec![
            Launch { entry: "cache_clear".to_owned(), blocks: 1, threads: 32, arguments: vec![Argument::Buffer(0)] },
            Launch { entry: "cache_read_f32".to_owned(), blocks, threads, arguments },
        ]
    }

    /// The sum of all words, modulo 2^32.
    fn reference(&self, point: &Point, pattern: DataPattern, _buffer: usize) -> Reference {
        if point.kernel == CHASE {
            return chase::reference(point);
        }
        let (dtype, row_elements) = (point.dtype, footprint(point) / point.dtype.bytes());
        let input = InputData { pattern, seed: INPUT_SEED, dtype, row_elements, first_element: 0 };
        let value = RIGHT.of(&format!("{point} {pattern:?}"), || {
            let words = (0..row_elements).map(|index| (input.rounded_element(index) as f32).to_bits());
            f64::from(words.fold(0, u32::wrapping_add).cast_signed())
        });
        Box::new(move |_| Expected { value, relative_tolerance: 0.0 })
    }
}

/// Bytes that one launch of a GPU reads. Footprints below those of the sweep are for checks alone, which wait for no clock.
fn launch_bytes(point: &Point) -> u64 {
    let is_measured = FOOTPRINTS.first().is_some_and(|least| footprint(point) >= *least);
    if is_measured { GPU_BYTES } else { CHECK_PASSES * footprint(point) }
}

fn footprint(point: &Point) -> u64 {
    point.size(FOOTPRINT).unwrap_or(0)
}

#[cfg(test)]
mod tests;
