//! NVIDIA devices, through the CUDA driver. Both its libraries are loaded at run time; a node without them has no
//! devices of this backend, and is told why.
//!
//! One context (the primary one, which is the driver's cheapest), one stream, one thread. Buffers are plain addresses
//! rather than `cudarc`'s slices, so nothing of its event tracking can enter an interval.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;

use self::context::Cuda;
use self::nvrtc::Nvrtc;
use super::DeviceError;
use super::gpu::{self, GpuDevice};

mod context;
mod driver;
mod facts;
mod guarded;
mod memory;
mod nvml;
pub mod nvrtc;

/// Devices of this node.
///
/// # Errors
/// [`DeviceError::Library`]: no driver, an old one, no compiler, or no device; which one is said.
pub fn discover() -> Result<Vec<DeviceFacts>, DeviceError> {
    let driver = driver::initialise()?;
    let nvrtc = Nvrtc::load(driver.major)?;
    Ok(facts::find(driver, nvrtc.version())?.into_iter().map(|found| found.facts).collect())
}

/// An NVIDIA device.
pub type CudaDevice = GpuDevice<Cuda>;

impl CudaDevice {
    /// Opens the device with this UUID.
    ///
    /// # Errors
    /// [`DeviceError::Library`] as for [`discover`], or where the device is gone; [`DeviceError::Compile`] or
    /// [`DeviceError::Load`] where the support kernels do not compile or load; [`DeviceError::Lost`] where the device
    /// does not answer.
    pub fn open(uuid: &DeviceId) -> Result<Self, DeviceError> {
        let version = driver::initialise()?;
        let nvrtc = Nvrtc::load(version.major)?;
        let found = gpu::of(uuid, facts::find(version, nvrtc.version())?)
            .ok_or_else(|| driver::unusable(format!("the driver shows no device {uuid}")))?;
        let driver = Cuda::open(found.ordinal)?;
        Self::new(found, driver, nvrtc)
    }
}

#[cfg(test)]
mod tests;
