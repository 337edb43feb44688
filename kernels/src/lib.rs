//! Kernels as data: device sources in one dialect for CUDA and HIP, exact counts, variants, and host references.
//!
//! No device library is loaded here and nothing is compiled here; backends in `fleetcal-agent` do that.

pub mod data;
pub mod family;
pub mod number;
pub mod parameter;
pub mod stream;
pub mod support;

pub use family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, Rows, SizeSpec,
    family, program_defines,
};
