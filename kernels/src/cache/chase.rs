//! Latency by footprint: one thread, and each load waits for the one before, whose result is its address.

use fleetcal_model::device::Backend;
use fleetcal_model::point::{Dtype, Point, Solution};
use fleetcal_model::row::{Counts, LaunchContext};

use super::footprint;
use crate::chain::{self, Chain};
use crate::family::{Argument, BufferRole, BufferSpec, Expected, Launch, Reference};
use crate::parameter;

/// A footprint is a multiple of this, bytes.
pub(super) const FOOTPRINT_MULTIPLE: u64 = 4096;
/// What byte numbers in a chain's words reach.
pub(super) const FOOTPRINT_MAX: u64 = 1 << 31;
/// Of checks alone, bytes: below every footprint that is measured.
pub(super) const FOOTPRINT_OF_CHECKS: u64 = 3 * FOOTPRINT_MULTIPLE;

/// Up to so many slots a compute unit's own cache may hold them. Only there do launches begin in a cold cache: so many
/// more loads follow than there are slots that the first round on the ring is lost in them.
const SLOTS_OF_FIRST_LEVEL: u64 = 2048;
const LOADS_OF_FIRST_LEVEL: u64 = 1 << 20;
/// Beyond, some milliseconds of the slowest memory known. A launch goes on where the last one ended, so that a few of them
/// see more lines than a cache keeps for the next round.
const LOADS: u64 = 1 << 16;
/// Loads of the unrolled body.
const LOADS_MULTIPLE: u64 = 16;

/// From inside a compute unit's cache to main memory, in kibibytes.
pub(super) const FOOTPRINTS: [u64; 30] = {
    const KIBIBYTES: [u64; 30] = [
        16,
        32,
        64,
        96,
        128,
        160,
        192,
        224,
        256,
        384,
        512,
        1 << 10,
        2 << 10,
        4 << 10,
        8 << 10,
        12 << 10,
        16 << 10,
        20 << 10,
        24 << 10,
        28 << 10,
        32 << 10,
        40 << 10,
        48 << 10,
        56 << 10,
        64 << 10,
        96 << 10,
        128 << 10,
        256 << 10,
        512 << 10,
        1 << 20,
    ];
    let mut bytes = [0; 30];
    let mut index = 0;
    while index < KIBIBYTES.len() {
        bytes[index] = KIBIBYTES[index] << 10;
        index += 1;
    }
    bytes
};

/// Loads of one launch.
fn loads(point: &Point) -> u64 {
    let slots = chain_of(point).slots();
    if footprint(point) < FOOTPRINTS[0] {
        (4 * slots).next_multiple_of(LOADS_MULTIPLE)
    } else if slots <= SLOTS_OF_FIRST_LEVEL {
        LOADS_OF_FIRST_LEVEL
    } else {
        LOADS
    }
}

fn chain_of(point: &Point) -> Chain {
    Chain::of_elements(footprint(point) / Dtype::I32.bytes())
}

pub(super) fn buffers(point: &Point) -> Vec<BufferSpec> {
    let spec = |name, role, elements| BufferSpec { name, role, dtype: Dtype::I32, elements, rows: None };
    vec![
        spec("loads", BufferRole::Output, 1),
        spec("chain", BufferRole::Input { seed: chain::SEED }, footprint(point) / Dtype::I32.bytes()),
        spec("slot", BufferRole::Scratch, 1),
    ]
}

/// Loads are of 4 bytes, and so many are the operations of the launch's context: time over them is the latency. The slot
/// to begin with is read, and written with the result.
pub(super) fn counts(point: &Point) -> Counts {
    let (word, loads) = (Dtype::I32.bytes(), loads(point));
    let bytes_read = (loads + 1) * word;
    Counts {
        bytes_read,
        bytes_written: 2 * word,
        bytes_distinct: (loads.min(chain_of(point).slots()) + 2) * word,
        bytes_requested: bytes_read,
        working_set_bytes: Some(footprint(point)),
        bytes_exact: true,
        ops_exact: true,
        kernels: 1,
        launch_contexts: vec![LaunchContext { blocks: 1, threads: 1, operations: loads }],
        ..Counts::default()
    }
}

/// The one there is.
pub(super) fn solution(point: &Point, backend: Backend) -> Solution {
    let loads = (parameter::LOADS, loads(point));
    match backend {
        Backend::Cpu => parameter::solution("t1", &[(parameter::THREADS, 1), loads]),
        Backend::Cuda | Backend::Hip | Backend::Sim => {
            parameter::solution("one_thread", &[(parameter::BLOCK, 1), (parameter::BLOCKS, 1), loads])
        }
    }
}

pub(super) fn launch(point: &Point) -> Launch {
    let chain = chain_of(point);
    let mut arguments: Vec<Argument> = (0..3).map(Argument::Buffer).collect();
    arguments.extend([loads(point), chain.slots(), u64::from(chain.bits())].map(Argument::U64));
    Launch { entry: "cache_chase_i32".to_owned(), blocks: 1, threads: 1, arguments }
}

/// Where a launch begins is not known here. It works out by itself where it has to end, and writes the number of its loads
/// plus the distance from there.
pub(super) fn reference(point: &Point) -> Reference {
    let value = loads(point) as f64;
    Box::new(move |_| Expected { value, relative_tolerance: 0.0 })
}
