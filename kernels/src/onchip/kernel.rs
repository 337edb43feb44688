//! The kernels: names, number formats, and how much each thread does.

use fleetcal_model::point::Dtype;

/// Packs of the array that is read, 16 KiB: it fits into the first cache of every device.
pub(super) const PACKS: u64 = 1024;
pub(super) const PACK_BYTES: u64 = 16;
/// Packs from a thread's read to its next: odd, so that all of them come by.
pub(super) const STEP: u64 = 33;
pub(super) const INPUT_SEED: u64 = 1;

/// Steps of the unrolled body.
const STEPS: u64 = 16;
/// Counters that additions are spread over: a mebibyte, more than lines of one part of a cache.
const SPREAD: u64 = 1 << 18;
/// Iterations of which one is done where all threads add to one counter: they wait for each other.
const CONTENDED: u64 = 16;
/// Additions in one iteration to shared memory.
const SHARED_ADDITIONS: u64 = 4;

/// A special function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Special {
    Rsqrt,
    Rcp,
    Exp2,
    Log2,
    Sin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kernel {
    SharedRead,
    L1Read,
    AtomicGlobalSame,
    AtomicGlobalSpread,
    AtomicSharedSame,
    AtomicSharedSpread,
    Barrier,
    Shuffle,
    Special(Special),
}

impl Kernel {
    /// Names, in the order of [`Self::ALL`].
    pub(super) const NAMES: [&'static str; 13] = [
        "shared_read",
        "l1_read",
        "atomic_global_same",
        "atomic_global_spread",
        "atomic_shared_same",
        "atomic_shared_spread",
        "barrier",
        "shuffle",
        "rsqrt",
        "rcp",
        "exp2",
        "log2",
        "sin",
    ];

    const ALL: [Self; 13] = [
        Self::SharedRead,
        Self::L1Read,
        Self::AtomicGlobalSame,
        Self::AtomicGlobalSpread,
        Self::AtomicSharedSame,
        Self::AtomicSharedSpread,
        Self::Barrier,
        Self::Shuffle,
        Self::Special(Special::Rsqrt),
        Self::Special(Special::Rcp),
        Self::Special(Special::Exp2),
        Self::Special(Special::Log2),
        Self::Special(Special::Sin),
    ];

    /// The kernel of that name.
    pub(super) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().zip(Self::NAMES).find_map(|(kernel, known)| (known == name).then_some(kernel))
    }

    fn name(self) -> &'static str {
        Self::ALL.into_iter().zip(Self::NAMES).find_map(|(kernel, name)| (kernel == self).then_some(name)).unwrap_or("")
    }

    pub(super) fn dtype(self) -> Dtype {
        if matches!(self, Self::Special(_)) { Dtype::F32 } else { Dtype::I32 }
    }

    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::SharedRead | Self::L1Read)
    }

    pub(super) fn is_global_atomic(self) -> bool {
        matches!(self, Self::AtomicGlobalSame | Self::AtomicGlobalSpread)
    }

    pub(super) fn is_atomic(self) -> bool {
        self.is_global_atomic() || matches!(self, Self::AtomicSharedSame | Self::AtomicSharedSpread)
    }

    /// Variants: reads under way, or chains of operations; none where there is one way.
    pub(super) fn chains(self) -> Option<&'static [u64]> {
        match self {
            Self::SharedRead | Self::L1Read | Self::Shuffle | Self::Special(_) => Some(&[4, 1, 8]),
            Self::AtomicGlobalSame
            | Self::AtomicGlobalSpread
            | Self::AtomicSharedSame
            | Self::AtomicSharedSpread
            | Self::Barrier => None,
        }
    }

    /// What each thread does, of all its chains together: reads of a pack, additions, shuffles, special functions; or the
    /// barriers of each block. Reads are as many with any number of them under way.
    pub(super) fn work(self, iterations: u64, chains: u64) -> u64 {
        match self {
            Self::SharedRead | Self::L1Read | Self::Barrier => iterations.saturating_mul(STEPS),
            Self::Shuffle | Self::Special(_) => iterations.saturating_mul(STEPS).saturating_mul(chains),
            Self::AtomicGlobalSame => (iterations / CONTENDED).max(1),
            Self::AtomicGlobalSpread => iterations,
            Self::AtomicSharedSame | Self::AtomicSharedSpread => iterations.saturating_mul(SHARED_ADDITIONS),
        }
    }

    /// Bytes read and written, where all threads do so much together: an addition does both; arrays and counters get first
    /// values.
    pub(super) fn bytes(self, blocks: u64, total: u64, output_bytes: u64) -> [u64; 2] {
        let added = total.saturating_mul(Dtype::I32.bytes());
        let packs = total.saturating_mul(PACK_BYTES);
        match self {
            Self::SharedRead => [packs, blocks.saturating_mul(PACKS * PACK_BYTES).saturating_add(output_bytes)],
            Self::L1Read => [packs, output_bytes],
            Self::AtomicGlobalSame | Self::AtomicGlobalSpread => [added, added.saturating_add(output_bytes)],
            Self::AtomicSharedSame | Self::AtomicSharedSpread => {
                let stored = (blocks + 1).saturating_mul(output_bytes);
                [added, added.saturating_add(stored)]
            }
            Self::Barrier | Self::Shuffle | Self::Special(_) => [0, output_bytes],
        }
    }

    /// Counters that threads add to; 0 where they do not.
    pub(super) fn counters(self, block: u64) -> u64 {
        match self {
            Self::AtomicGlobalSame | Self::AtomicSharedSame => 1,
            Self::AtomicGlobalSpread => SPREAD,
            Self::AtomicSharedSpread => block,
            Self::SharedRead | Self::L1Read | Self::Barrier | Self::Shuffle | Self::Special(_) => 0,
        }
    }

    /// Elements of the output: one for each thread of a block, or counter.
    pub(super) fn outputs(self, block: u64) -> u64 {
        if self.is_atomic() { self.counters(block) } else { block }
    }

    /// Its name in the compiled source.
    pub(super) fn entry(self, chains: u64) -> String {
        match self {
            Self::AtomicGlobalSame | Self::AtomicGlobalSpread => "onchip_atomic_global_i32".to_owned(),
            Self::AtomicSharedSame | Self::AtomicSharedSpread => "onchip_atomic_shared_i32".to_owned(),
            Self::Barrier => "onchip_barrier_i32".to_owned(),
            Self::SharedRead | Self::L1Read | Self::Shuffle | Self::Special(_) => {
                format!("onchip_{}_{}_c{chains}", self.name(), self.dtype())
            }
        }
    }
}

/// Blocks and threads of the launch that gives counters their first values.
pub(super) fn counters_grid(counters: u64) -> (u64, u64) {
    const THREADS: u64 = 256;
    const BLOCKS_MAX: u64 = 64;
    (counters.div_ceil(THREADS).clamp(1, BLOCKS_MAX), THREADS)
}
