//! What lies on the chip of one compute unit: shared memory, its cache, special functions, barriers, shuffles; and atomics.
//!
//! Blocks are a size and no variant: what a barrier or an atomic costs depends on how many threads take part.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use crate::check::{SizeRule, check};
use crate::family::{Argument, BufferRole, BufferSpec, DeviceSource, Family, Launch, PointError, Reference, SizeSpec};
use crate::parameter;

mod kernel;
mod reference;

use kernel::Kernel;

const ITERATIONS: &str = "iterations";
/// Threads of a block.
const BLOCK: &str = "block";
/// 1 if every compute unit has as many blocks as it holds, 0 if there is one block on the whole device.
const FULL_DEVICE: &str = "full_device";

const ITERATIONS_MAX: u64 = 1 << 16;
const BLOCK_MULTIPLE: u64 = 32;
const BLOCK_MAX: u64 = 1024;
/// Threads and blocks resident on one compute unit.
const RESIDENT_THREADS: u64 = 2048;
const RESIDENT_BLOCKS: u64 = 32;
/// Of blocks that have the array of [`kernel::PACKS`] in shared memory: two rounds of them on the smallest, 64 KiB.
const RESIDENT_BLOCKS_OF_SHARED: u64 = 8;

/// Additions of a thread of the host for each of a device's: there are few of these threads, and first values take time.
const OF_HOST: u64 = 1024;

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Onchip;

impl Family for Onchip {
    fn sweep(&self) -> Sweep {
        Sweep::Onchip
    }

    fn kernels(&self) -> &'static [&'static str] {
        &Kernel::NAMES
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::I32]
    }

    /// Special functions are of binary32, everything else of whole numbers, which are exact.
    fn supports(&self, kernel: &str, dtype: Dtype) -> bool {
        Kernel::of(kernel).is_some_and(|kernel| kernel.dtype() == dtype)
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[
            SizeSpec { name: ITERATIONS, defaults: &[1024], optional: false },
            SizeSpec { name: BLOCK, defaults: &[32, 256, 1024], optional: false },
            SizeSpec { name: FULL_DEVICE, defaults: &[0, 1], optional: false },
        ]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(ITERATIONS, 3), (BLOCK, 64), (FULL_DEVICE, 1)]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        check(
            self,
            point,
            &[
                SizeRule { name: ITERATIONS, least: 1, most: ITERATIONS_MAX, multiple_of: 1 },
                SizeRule { name: BLOCK, least: BLOCK_MULTIPLE, most: BLOCK_MAX, multiple_of: BLOCK_MULTIPLE },
                SizeRule { name: FULL_DEVICE, least: 0, most: 1, multiple_of: 1 },
            ],
        )
    }

    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let Some(kernel) = Kernel::of(&point.kernel) else { return Vec::new() };
        let spec = |name, role, dtype, elements| BufferSpec { name, role, dtype, elements, rows: None };
        let output = spec("last", BufferRole::Output, kernel.dtype(), kernel.outputs(block(point)));
        // Its words are whole numbers to the kernel.
        let input = || spec("array", BufferRole::Input { seed: kernel::INPUT_SEED }, Dtype::F32, 4 * kernel::PACKS);
        std::iter::once(output).chain((kernel == Kernel::L1Read).then(input)).collect()
    }

    /// Operations are what the kernel is about, those of each thread: additions to a counter, special functions without the
    /// sums that some take, shuffles; of barriers those of each block. Bytes are of shared memory where the kernel reads it.
    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts {
        let Some(kernel) = Kernel::of(&point.kernel) else { return Counts::default() };
        let (blocks, threads) = parameter::grid(solution);
        let of_host = solution.parameter(parameter::OPERATIONS);
        let work = of_host.unwrap_or_else(|| kernel.work(iterations(point), chains(solution)));
        let actors = if kernel == Kernel::Barrier { blocks } else { blocks.saturating_mul(threads) };
        let total = actors.saturating_mul(work);
        let output_bytes: u64 = self.buffers(point).first().map_or(0, BufferSpec::bytes);
        let (reads, array_bytes) = (kernel.is_read(), kernel::PACKS * kernel::PACK_BYTES);
        let operations = if reads { 0 } else { total };
        let [bytes_read, bytes_written] = kernel.bytes(blocks, total, output_bytes);
        let mut launch_contexts = vec![LaunchContext { blocks, threads, operations }];
        if kernel.is_global_atomic() && device.backend != Backend::Cpu {
            let (blocks, threads) = kernel::counters_grid(kernel.counters(block(point)));
            launch_contexts.insert(0, LaunchContext { blocks, threads, operations: 0 });
        }
        Counts {
            bytes_read,
            bytes_written,
            bytes_distinct: output_bytes + if reads { array_bytes } else { 0 },
            bytes_requested: bytes_read,
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
        let Some(kernel) = Kernel::of(&point.kernel) else { return Vec::new() };
        let units = device.compute_units.max(1);
        let is_full = point.size(FULL_DEVICE) == Some(1);
        if device.backend == Backend::Cpu {
            let threads = if is_full { units } else { 1 };
            let operations = (parameter::OPERATIONS, kernel.work(iterations(point), 1).saturating_mul(OF_HOST));
            let solution = parameter::solution(format!("t{threads}"), &[(parameter::THREADS, threads), operations]);
            return if kernel.is_global_atomic() { vec![solution] } else { Vec::new() };
        }
        let block = block(point).max(1);
        let most = if kernel == Kernel::SharedRead { RESIDENT_BLOCKS_OF_SHARED } else { RESIDENT_BLOCKS };
        let blocks = if is_full { units * (RESIDENT_THREADS / block).clamp(1, most) } else { 1 };
        let grid = [(parameter::BLOCK, block), (parameter::BLOCKS, blocks)];
        let Some(chains) = kernel.chains() else { return vec![parameter::solution("plain", &grid)] };
        let with = |chains: &u64| {
            let parameters = [grid[0], grid[1], (parameter::CHAINS, *chains)];
            parameter::solution(format!("c{chains}"), &parameters)
        };
        chains.iter().map(with).collect()
    }

    fn declined(&self, point: &Point, device: &DeviceFacts) -> String {
        let why = "a processor has no such memory or instruction";
        format!("onchip/{} is unsupported on {}: {why}", point.kernel, device.backend.name())
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "onchip.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/onchip.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        let Some(kernel) = Kernel::of(&point.kernel) else { return Vec::new() };
        let (blocks, threads) = parameter::grid(solution);
        let work = kernel.work(iterations(point), 1);
        let counters = kernel.counters(block(point));
        let launch = |entry: String, (blocks, threads), buffers: usize, numbers: &[u64]| {
            let buffers = (0..buffers).map(|index| Argument::Buffer(index.min(self.buffers(point).len() - 1)));
            let arguments = buffers.chain(numbers.iter().map(|number| Argument::U64(*number))).collect();
            Launch { entry, blocks, threads, arguments }
        };
        let entry = kernel.entry(chains(solution));
        let grid = (blocks, threads);
        match kernel {
            Kernel::SharedRead | Kernel::L1Read => vec![launch(entry, grid, 2, &[work, kernel::STEP])],
            Kernel::AtomicGlobalSame | Kernel::AtomicGlobalSpread => {
                let first = [counters, blocks.saturating_mul(threads), work];
                vec![
                    launch("onchip_counters".to_owned(), kernel::counters_grid(counters), 1, &first),
                    launch(entry, grid, 1, &[counters, work, 1]),
                ]
            }
            Kernel::AtomicSharedSame | Kernel::AtomicSharedSpread => vec![launch(entry, grid, 1, &[counters, work, 1])],
            Kernel::Barrier | Kernel::Shuffle | Kernel::Special(_) => vec![launch(entry, grid, 1, &[work])],
        }
    }

    fn reference(&self, point: &Point, pattern: DataPattern, _buffer: usize) -> Reference {
        reference::of(point, pattern)
    }
}

fn iterations(point: &Point) -> u64 {
    point.size(ITERATIONS).unwrap_or(0)
}

fn block(point: &Point) -> u64 {
    point.size(BLOCK).unwrap_or(0)
}

fn chains(solution: &Solution) -> u64 {
    solution.parameter(parameter::CHAINS).unwrap_or(1)
}

#[cfg(test)]
mod tests;
