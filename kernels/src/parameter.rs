//! Names of solution parameters. A backend reads them, a row has columns for the common ones.

use fleetcal_model::point::Solution;

/// Elements that one access of a GPU thread moves.
pub const VECTOR_WIDTH: &str = "vector_width";
/// Vectors that one GPU thread has in flight.
pub const VECTORS_PER_THREAD: &str = "vectors_per_thread";
/// Threads of a GPU block.
pub const BLOCK: &str = "block";
/// Blocks of a GPU grid.
pub const BLOCKS: &str = "blocks";
/// 1 if resident blocks share the tiles out, 0 if every tile has a block of its own.
pub const GRID_STRIDE: &str = "grid_stride";
/// 1 if blocks wait for what blocks before them have published, 0 if none waits for another.
pub const LOOK_BACK: &str = "look_back";
/// 1 if accesses ask the caches to drop their lines first.
pub const STREAMING: &str = "streaming";
/// Threads of the host processor, one a core.
pub const THREADS: &str = "threads";
/// 1 if stores of the host bypass its caches.
pub const NONTEMPORAL: &str = "nontemporal";
/// Bytes of each array that a host thread takes at a time, in turn with the others; 0 if each thread has one
/// contiguous share.
pub const CHUNK_BYTES: &str = "chunk_bytes";
/// Rows and columns of the output that a block makes, which are as many.
pub const TILE: &str = "tile";
/// Rows and columns of the output that a thread has in registers.
pub const THREAD_TILE: &str = "thread_tile";
/// Independent chains of arithmetic of one thread.
pub const CHAINS: &str = "chains";
/// Rounds of four reads that each thread makes after the array was read once; of the host, passes over the array.
pub const READS: &str = "reads";

/// Loads of one thread, one after the other.
pub const LOADS: &str = "loads";

/// Operations of one thread of the host.
pub const OPERATIONS: &str = "operations";

/// A solution of these parameters.
pub(crate) fn solution(name: impl Into<String>, parameters: &[(&str, u64)]) -> Solution {
    let parameters = parameters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    Solution { name: name.into(), parameters }
}

/// Blocks of a solution's grid, and threads of a block; threads of the host count as blocks of one.
pub(crate) fn grid(solution: &Solution) -> (u64, u64) {
    match solution.parameter(THREADS) {
        Some(threads) => (threads, 1),
        None => (solution.parameter(BLOCKS).unwrap_or(1), solution.parameter(BLOCK).unwrap_or(1)),
    }
}
