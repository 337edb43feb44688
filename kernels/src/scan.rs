//! Inclusive prefix sums of an array: in one pass by decoupled look-back, and in three launches.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use self::right::{prefix_sums, spacing};
use crate::check::{SizeRule, check};
use crate::family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec,
};
use crate::parameter;

mod right;

const SUM: &str = "sum";
const ELEMENTS: &str = "elements";

/// `elements` must be a multiple of this: the largest tile is 512 threads of 8 packs of 4 elements.
pub const ELEMENTS_MULTIPLE: u64 = 512 * 8 * 4;
const ELEMENTS_MAX: u64 = 1 << 36;
/// Bytes of a pack: one access.
const PACK_BYTES: u64 = 16;
const RESIDENT_THREADS: u64 = 2048;
/// Threads of a block that clears the state, and of the one block that scans the sums of parts.
const CLEAR_THREADS: u64 = 256;
const SUMS_THREADS: u64 = 512;
/// Words of the state before those that tiles publish, as `gpu/scan.cu` has it.
const STATE_WORDS: u64 = 32;
/// Looks in vain after which a block gives up: a second or more, where tiles wait for microseconds.
const POLLS_MAX: u64 = 1 << 21;
const INPUT_SEED: u64 = 1;

/// Buffers, by their place.
const OUTPUT: usize = 0;
const INPUT: usize = 1;
const STATE: usize = 2;
const GIVEN_UP: usize = 3;

/// Packs of a thread, threads of a block, and whether accesses ask the caches to drop their lines first.
const LOOK_BACK: [(u64, u64, bool); 7] =
    [(4, 512, true), (8, 256, true), (4, 256, true), (8, 512, true), (2, 512, true), (4, 512, false), (8, 256, false)];
const THREE_LAUNCHES: [(u64, u64); 2] = [(4, 512), (8, 256)];

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Scan;

impl Family for Scan {
    fn sweep(&self) -> Sweep {
        Sweep::Scan
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[SUM]
    }

    /// Whole numbers are added modulo 2^32, so that every order of additions gives the same.
    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F64, Dtype::I32]
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[SizeSpec { name: ELEMENTS, defaults: &[1 << 20, 1 << 24, 1 << 28], optional: false }]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(ELEMENTS, 9 * ELEMENTS_MULTIPLE)]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        let (least, most) = (ELEMENTS_MULTIPLE, ELEMENTS_MAX);
        check(self, point, &[SizeRule { name: ELEMENTS, least, most, multiple_of: ELEMENTS_MULTIPLE }])
    }

    /// The last one says whether a block gave up waiting for another: 0 is right.
    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let spec = |name, role, dtype, elements| BufferSpec { name, role, dtype, elements, rows: None };
        // Sums of parts lie in the same memory, which is as wide.
        let tile =
            LOOK_BACK.iter().map(|(vectors, block, _)| tile_elements(point, *block, *vectors)).min().unwrap_or(1);
        let state_words = STATE_WORDS + elements(point) / tile * state_words_of_tile(point);
        vec![
            spec("sums", BufferRole::Output, point.dtype, elements(point)),
            spec("input", BufferRole::Input { seed: INPUT_SEED }, point.dtype, elements(point)),
            spec("state", BufferRole::Scratch, Dtype::F64, state_words),
            spec("given_up", BufferRole::Output, Dtype::I32, 1),
        ]
    }

    /// The arrays, read once and written once; in three launches read twice. Additions are those of one thread: what
    /// parallel sums add beyond that is not counted. Words by which blocks tell each other their sums are left out of the
    /// bytes, which are not exact for it: how many are read depends on who waits, a few in a hundred at most.
    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts {
        let array_bytes = elements(point).saturating_mul(point.dtype.bytes());
        let operations = elements(point).saturating_sub(1);
        let is_one_pass = is_look_back(solution);
        let context =
            |launch: &Launch, operations| LaunchContext { blocks: launch.blocks, threads: launch.threads, operations };
        let launches = self.launches(point, solution, device);
        let launch_contexts: Vec<LaunchContext> = match (device.backend, &launches[..]) {
            (Backend::Cpu, _) => {
                let (blocks, threads) = parameter::grid(solution);
                vec![LaunchContext { blocks, threads, operations }]
            }
            (_, [clear, scan]) => vec![context(clear, 0), context(scan, operations)],
            (_, launches) => launches.iter().zip([operations, 0, operations]).map(|(l, ops)| context(l, ops)).collect(),
        };
        let bytes_read = if is_one_pass { array_bytes } else { array_bytes.saturating_mul(2) };
        Counts {
            bytes_read,
            bytes_written: array_bytes,
            bytes_distinct: array_bytes.saturating_mul(2),
            bytes_requested: bytes_read,
            working_set_bytes: None,
            flops: operations,
            scalar_ops: operations,
            tensor_ops: 0,
            bytes_exact: false,
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
            name: "scan.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/scan.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Vec<Launch> {
        let (blocks, threads) = parameter::grid(solution);
        let vectors = solution.parameter(parameter::VECTORS_PER_THREAD).unwrap_or(1);
        let launch = |entry: String, (blocks, threads), arguments: &[Argument]| Launch {
            entry: format!("scan_{entry}_{}", point.dtype),
            blocks,
            threads,
            arguments: arguments.to_vec(),
        };
        let [output, input, state, given_up] = [OUTPUT, INPUT, STATE, GIVEN_UP].map(Argument::Buffer);
        if is_look_back(solution) {
            let words = STATE_WORDS + blocks * state_words_of_tile(point);
            let clear_blocks = words.div_ceil(CLEAR_THREADS).min(device.compute_units.max(1) * 8);
            let streaming = if solution.parameter(parameter::STREAMING) == Some(1) { "_streaming" } else { "" };
            return vec![
                launch("clear".to_owned(), (clear_blocks, CLEAR_THREADS), &[state, given_up, Argument::U64(words)]),
                launch(
                    format!("look_back_v{vectors}{streaming}"),
                    (blocks, threads),
                    &[output, input, state, given_up, Argument::U64(POLLS_MAX)],
                ),
            ];
        }
        let tiles = Argument::U64(elements(point) / tile_elements(point, threads, vectors).max(1));
        vec![
            launch(format!("sum_v{vectors}"), (blocks, threads), &[state, input, tiles, given_up]),
            launch("sums".to_owned(), (1, SUMS_THREADS), &[state, Argument::U64(blocks)]),
            launch(format!("part_v{vectors}"), (blocks, threads), &[output, input, state, tiles]),
        ]
    }

    /// A right sum is found from the nearest one that is kept.
    fn checked_elements_max(&self, point: &Point) -> u64 {
        (1 << 28) / spacing(elements(point))
    }

    fn reference(&self, point: &Point, pattern: DataPattern, buffer: usize) -> Reference {
        if buffer == GIVEN_UP {
            return Box::new(|_| Expected { value: 0.0, relative_tolerance: 0.0 });
        }
        prefix_sums(point, pattern, elements(point), INPUT_SEED)
    }
}

fn elements(point: &Point) -> u64 {
    point.size(ELEMENTS).unwrap_or(0)
}

fn is_look_back(solution: &Solution) -> bool {
    solution.parameter(parameter::LOOK_BACK) == Some(1)
}

/// Elements that one block takes at a time.
fn tile_elements(point: &Point, threads: u64, vectors: u64) -> u64 {
    threads * vectors * (PACK_BYTES / point.dtype.bytes())
}

/// 64-bit words in which a tile publishes a sum: half of each is the sum's, or a part of it.
fn state_words_of_tile(point: &Point) -> u64 {
    point.dtype.bytes() / 4
}

fn gpu(point: &Point, compute_units: u64) -> Vec<Solution> {
    let tiles = |vectors, block| elements(point) / tile_elements(point, block, vectors).max(1);
    let look_back = LOOK_BACK.iter().map(|&(vectors, block, is_streaming)| {
        let parameters = [
            (parameter::LOOK_BACK, 1),
            (parameter::VECTORS_PER_THREAD, vectors),
            (parameter::BLOCK, block),
            (parameter::BLOCKS, tiles(vectors, block)),
            (parameter::STREAMING, u64::from(is_streaming)),
        ];
        let streaming = if is_streaming { "_streaming" } else { "" };
        parameter::solution(format!("look_back_v{vectors}_b{block}{streaming}"), &parameters)
    });
    let three_launches = THREE_LAUNCHES.iter().map(|&(vectors, block)| {
        let blocks = (compute_units * (RESIDENT_THREADS / block)).min(tiles(vectors, block));
        let parameters = [
            (parameter::LOOK_BACK, 0),
            (parameter::VECTORS_PER_THREAD, vectors),
            (parameter::BLOCK, block),
            (parameter::BLOCKS, blocks),
            (parameter::STREAMING, 1),
        ];
        parameter::solution(format!("three_launches_v{vectors}_b{block}"), &parameters)
    });
    look_back.chain(three_launches).collect()
}

#[cfg(test)]
mod tests;
