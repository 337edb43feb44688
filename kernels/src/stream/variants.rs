//! Which variants of a STREAM kernel there are, in the order in which they are worth trying.

use std::collections::BTreeMap;

use fleetcal_model::point::{Point, Solution};

use crate::parameter;

/// Bytes of the widest access that every device has.
const WIDEST_ACCESS_BYTES: u64 = 16;
/// Vector widths, elements; those above [`WIDEST_ACCESS_BYTES`] fall away.
const WIDTHS: [u64; 3] = [4, 2, 1];
/// Vectors a thread: two loads in flight first, because one may not cover the latency and eight cost occupancy.
const VECTORS: [u64; 4] = [2, 1, 4, 8];
/// Threads a block.
const BLOCKS: [u64; 4] = [256, 512, 128, 1024];
/// Threads resident on one compute unit at full occupancy (CUDA compute capability 7.0 to 10.0 but 7.5 and 8.6 to 8.9;
/// CDNA). Where fewer fit, the grid runs in two waves, which costs little and is swept against one tile a block.
const RESIDENT_THREADS: u64 = 2048;
/// Largest grid of CUDA and HIP.
const GRID_BLOCKS_MAX: u64 = (1 << 31) - 1;
/// 32-bit registers of data that a thread may hold in a block of 1024: the register file has 65536.
const DATA_REGISTERS_OF_WIDE_BLOCK: u64 = 64;
/// Bytes that host threads take in turn: a few pages, so that neighbouring threads share open DRAM rows.
const HOST_CHUNK_BYTES: u64 = 64 << 10;
/// Variants of a simulated device: enough to rank, few enough to be quick.
pub(super) const SIMULATED: usize = 6;

/// One variant for a GPU.
#[derive(Debug, Clone, Copy)]
struct Variant {
    width: u64,
    vectors: u64,
    block: u64,
    grid_stride: bool,
    streaming: bool,
}

/// Every variant for a GPU: wide ones before narrow ones, one tile a block before grid-stride.
pub(super) fn gpu(point: &Point, compute_units: u64) -> Vec<Solution> {
    let mut variants = Vec::new();
    for (width_rank, width) in WIDTHS.into_iter().filter(|width| fits(point, *width)).enumerate() {
        for (vectors_rank, vectors) in VECTORS.into_iter().enumerate() {
            for (block_rank, block) in BLOCKS.into_iter().enumerate() {
                for (scheme_rank, (grid_stride, streaming)) in
                    [(false, false), (false, true), (true, false)].into_iter().enumerate()
                {
                    let variant = Variant { width, vectors, block, grid_stride, streaming };
                    let rank = 64 * width_rank + 12 * scheme_rank + 4 * vectors_rank + block_rank;
                    variants.push((rank, variant));
                }
            }
        }
    }
    variants.sort_by_key(|(rank, _)| *rank);
    variants.into_iter().filter_map(|(_, variant)| variant.solution(point, compute_units)).collect()
}

/// Every variant for the host: one contiguous share a thread or chunks in turn, stores through the caches or past them.
pub(super) fn host(threads: u64) -> Vec<Solution> {
    let mut solutions = Vec::new();
    for (chunk_bytes, chunk_name) in [(0, ""), (HOST_CHUNK_BYTES, "_chunked")] {
        for (nontemporal, store_name) in [(1, "nontemporal"), (0, "plain")] {
            let parameters = [
                (parameter::THREADS, threads),
                (parameter::NONTEMPORAL, nontemporal),
                (parameter::CHUNK_BYTES, chunk_bytes),
            ];
            solutions
                .push(Solution { name: format!("t{threads}_{store_name}{chunk_name}"), parameters: map(&parameters) });
        }
    }
    solutions
}

/// Elements that one block of a GPU solution takes at a time; 0 for a host solution.
pub(super) fn tile_elements(solution: &Solution) -> u64 {
    [parameter::VECTOR_WIDTH, parameter::VECTORS_PER_THREAD, parameter::BLOCK]
        .into_iter()
        .map(|name| solution.parameter(name).unwrap_or(0))
        .product()
}

/// Name of a GPU solution's kernel in the compiled source; the threads of a block are no part of it.
pub(super) fn entry(point: &Point, solution: &Solution) -> String {
    let get = |name: &str| solution.parameter(name).unwrap_or(0);
    format!(
        "stream_{}_{}_w{}_v{}_{}{}",
        point.kernel,
        point.dtype,
        get(parameter::VECTOR_WIDTH),
        get(parameter::VECTORS_PER_THREAD),
        if get(parameter::GRID_STRIDE) == 1 { "stride" } else { "tile" },
        if get(parameter::STREAMING) == 1 { "_streaming" } else { "" },
    )
}

impl Variant {
    /// The variant for a point, or `None` where it has no entry, no grid, or is another variant in disguise: a grid
    /// whose tiles are all resident has nothing to stride over.
    fn solution(self, point: &Point, compute_units: u64) -> Option<Solution> {
        let access_bytes = self.width * point.dtype.bytes();
        let inputs = u64::try_from(super::arrays(&point.kernel).1.len()).ok()?;
        let data_registers = inputs * self.vectors * access_bytes / 4;
        let too_many_registers = self.block == 1024 && data_registers >= DATA_REGISTERS_OF_WIDE_BLOCK;
        let no_streaming_entry = self.streaming && (access_bytes != WIDEST_ACCESS_BYTES || self.vectors > 4);
        if too_many_registers || no_streaming_entry {
            return None;
        }
        let tiles = super::elements(point) / (self.block * self.width * self.vectors);
        let resident = compute_units.max(1).saturating_mul(RESIDENT_THREADS / self.block);
        let all_resident = self.grid_stride && tiles <= resident;
        let blocks = if self.grid_stride { resident } else { tiles };
        if all_resident || blocks == 0 || blocks > GRID_BLOCKS_MAX {
            return None;
        }
        let name = format!(
            "w{}_v{}_b{}_{}{}",
            self.width,
            self.vectors,
            self.block,
            if self.grid_stride { "stride" } else { "tile" },
            if self.streaming { "_streaming" } else { "" },
        );
        let parameters = [
            (parameter::VECTOR_WIDTH, self.width),
            (parameter::VECTORS_PER_THREAD, self.vectors),
            (parameter::BLOCK, self.block),
            (parameter::BLOCKS, blocks),
            (parameter::GRID_STRIDE, u64::from(self.grid_stride)),
            (parameter::STREAMING, u64::from(self.streaming)),
        ];
        Some(Solution { name, parameters: map(&parameters) })
    }
}

fn fits(point: &Point, width: u64) -> bool {
    width * point.dtype.bytes() <= WIDEST_ACCESS_BYTES
}

fn map(parameters: &[(&str, u64)]) -> BTreeMap<String, u64> {
    parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}
