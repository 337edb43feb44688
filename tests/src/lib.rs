//! Tests that span crates. Nobody imports this crate.
//!
//! - `tests/architecture.rs`: what may import what, how long files may be, and that the documents name what is there.
//! - `tests/cluster.rs`: coordinator and agents as real processes, killed and restarted.
//! - `tests/cli.rs`: the binary through its front door.
//! - `tests/emulator.rs`: device sources on an emulated HIP device, which finds races, missing barriers and stray accesses.

pub mod emulator;
pub mod processes;
