//! Kernels as data: device sources in one dialect for CUDA and HIP, exact counts, variants, and host references.
//!
//! No device library is loaded here and nothing is compiled here; backends in `fleetcal-agent` do that.

pub mod cache;
pub mod chain;
mod check;
pub mod contraction;
pub mod data;
pub mod family;
pub mod latency;
mod memo;
pub mod number;
pub mod onchip;
pub mod parameter;
pub mod peak;
pub mod reduce;
pub mod scan;
pub mod stream;
pub mod support;
#[cfg(test)]
mod testing;

pub use family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, Rows, SizeSpec,
    family, program_defines,
};
