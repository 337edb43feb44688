//! Variants of the contraction, and the shape of their grids.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Point, Solution};

use crate::parameter;

/// Steps of k that a tile stages at a time.
pub(super) const STEP: u64 = 8;
/// Threads of a block of the untiled kernel: neighbouring columns of one row.
pub(super) const UNTILED_BLOCK: u64 = 256;
/// Threads that a compute unit holds, for how many blocks are resident at once.
const RESIDENT_THREADS: u64 = 2048;

/// A block's part of the output, a square.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// Its name in entries and solutions.
    pub name: &'static str,
    /// Rows and columns of a block.
    pub width: u64,
    /// Rows and columns of a thread.
    pub thread_width: u64,
}

/// The tiles that there are: the two pinned geometries of seed 000, and a wider one.
const TILES: [Tile; 3] = [
    Tile { name: "t32", width: 32, thread_width: 4 },
    Tile { name: "t64", width: 64, thread_width: 4 },
    Tile { name: "t128", width: 128, thread_width: 8 },
];

/// What a grid covers, and with how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    /// Rows of a block.
    pub(super) rows: u64,
    /// Columns of a block.
    pub(super) columns: u64,
    pub(super) threads: u64,
    pub(super) blocks: u64,
    /// Blocks that run at once, at most.
    pub(super) resident_blocks: u64,
}

impl Shape {
    pub(super) fn of(point: &Point, solution: &Solution, device: &DeviceFacts) -> Self {
        let (m, n, _) = super::extents(point);
        let tile = tile_of(solution);
        let (rows, columns, threads) = match tile {
            Some(tile) => (tile.width, tile.width, (tile.width / tile.thread_width).pow(2)),
            None => (1, UNTILED_BLOCK, UNTILED_BLOCK),
        };
        let blocks = (m / rows).saturating_mul(n / columns);
        // A thread of the host has one block in hand at a time, and does the work of all its threads.
        let (threads, at_once) = match solution.parameter(parameter::THREADS) {
            Some(host_threads) => (1, host_threads),
            None => (threads, device.compute_units.max(1).saturating_mul(RESIDENT_THREADS / threads)),
        };
        Self { rows, columns, threads, blocks, resident_blocks: blocks.min(at_once) }
    }
}

/// Tiles that divide the output, or the untiled kernel.
pub(super) fn gpu(is_tiled: bool, point: &Point) -> Vec<Solution> {
    if !is_tiled {
        let name = format!("untiled_b{UNTILED_BLOCK}");
        return vec![parameter::solution(name, &[(parameter::BLOCK, UNTILED_BLOCK)])];
    }
    let (m, n, _) = super::extents(point);
    let fitting = TILES.iter().filter(|tile| m.is_multiple_of(tile.width) && n.is_multiple_of(tile.width));
    let solution = |tile: &Tile| {
        let parameters = [
            (parameter::TILE, tile.width),
            (parameter::THREAD_TILE, tile.thread_width),
            (parameter::BLOCK, (tile.width / tile.thread_width).pow(2)),
        ];
        parameter::solution(tile.name, &parameters)
    };
    fitting.map(solution).collect()
}

/// The kernel of the host: blocks in registers, or one row of one output after the other.
pub(super) fn host(is_tiled: bool, threads: u64) -> Vec<Solution> {
    let mut parameters = vec![(parameter::THREADS, threads)];
    if is_tiled {
        parameters.extend([(parameter::TILE, 64), (parameter::THREAD_TILE, 4)]);
    }
    let kind = if is_tiled { "t64" } else { "untiled" };
    vec![parameter::solution(format!("{kind}_t{threads}"), &parameters)]
}

/// The end of the entry's name.
pub(super) fn entry(solution: &Solution) -> &'static str {
    tile_of(solution).map_or("untiled", |tile| tile.name)
}

fn tile_of(solution: &Solution) -> Option<Tile> {
    let width = solution.parameter(parameter::TILE)?;
    TILES.into_iter().find(|tile| tile.width == width)
}
