//! One piece of work, compiled for each set of vector instructions.

#![allow(unsafe_code)]

use crate::device::cpu::stream::Instructions;

/// Work whose loops the compiler makes vector code of. `run` is inlined into each set of instructions.
pub(super) trait Vectorised {
    /// Does it.
    fn run(self);
}

/// Does the work with the instructions that were found.
pub(super) fn with<W: Vectorised>(instructions: Instructions, work: W) {
    match instructions {
        Instructions::Baseline => work.run(),
        // SAFETY: `Instructions::detect` has found these features.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx2 => unsafe { avx2(work) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Instructions::Avx512 => unsafe { avx512(work) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
fn avx2<W: Vectorised>(work: W) {
    work.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512dq,fma")]
fn avx512<W: Vectorised>(work: W) {
    work.run();
}
