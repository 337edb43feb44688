//! Names of solution parameters. A backend reads them, a row has columns for the common ones.

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
/// 1 if accesses ask the caches to drop their lines first.
pub const STREAMING: &str = "streaming";
/// Threads of the host processor, one a core.
pub const THREADS: &str = "threads";
/// 1 if stores of the host bypass its caches.
pub const NONTEMPORAL: &str = "nontemporal";
/// Bytes of each array that a host thread takes at a time, in turn with the others; 0 if each thread has one
/// contiguous share.
pub const CHUNK_BYTES: &str = "chunk_bytes";
