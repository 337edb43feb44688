//! Finding and opening AMD devices.

use std::sync::OnceLock;

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;

use super::context::Hip;
use super::facts::{self, unusable};
use super::hiprtc::Hiprtc;
use super::runtime::{self, Runtime};
use crate::device::DeviceError;
use crate::device::gpu::{self, Found, GpuDevice};

/// An AMD device.
pub type HipDevice = GpuDevice<Hip>;

/// Devices of this node.
///
/// # Errors
/// [`DeviceError::Library`]: no HIP runtime, no compiler, or no device; which one is said.
pub fn discover() -> Result<Vec<DeviceFacts>, DeviceError> {
    let (found, _) = find(loaded()?)?;
    Ok(found.into_iter().map(|found| found.facts).collect())
}

impl HipDevice {
    /// Opens the device with this UUID.
    ///
    /// # Errors
    /// [`DeviceError::Library`] as for [`discover`], or where the device is gone; [`DeviceError::Compile`] or
    /// [`DeviceError::Load`] where the support kernels do not compile or load; [`DeviceError::Lost`] where the device
    /// does not answer.
    pub fn open(uuid: &DeviceId) -> Result<Self, DeviceError> {
        Self::open_of(loaded()?, uuid)
    }

    /// Opens the device of a runtime with this UUID.
    pub(super) fn open_of(runtime: &'static Runtime, uuid: &DeviceId) -> Result<Self, DeviceError> {
        let (found, compiler) = find(runtime)?;
        let found = gpu::of(uuid, found).ok_or_else(|| unusable(format!("the runtime shows no device {uuid}")))?;
        let driver = Hip::open(runtime, found.ordinal)?;
        Self::new(found, driver, compiler)
    }
}

/// The runtime of this process: loaded once, because it bears no second start.
fn loaded() -> Result<&'static Runtime, DeviceError> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    RUNTIME.get_or_init(Runtime::load).as_ref().map_err(unusable)
}

/// The devices of a runtime, and the compiler for them.
pub(super) fn find(runtime: &Runtime) -> Result<(Vec<Found>, Hiprtc), DeviceError> {
    let count = || {
        runtime.initialise()?;
        runtime.count_devices()
    };
    let count = match count() {
        Err(fault) if fault.is_no_device() => 0,
        count => count.map_err(|fault| unusable(format!("its initialisation failed: {}", fault.words)))?,
    };
    // A node without a device needs no compiler, and hears of the device.
    if count <= 0 {
        return Err(unusable("the runtime shows no device (look at `rocminfo` and HIP_VISIBLE_DEVICES)"));
    }
    let compiler = Hiprtc::load(&runtime.path, std::env::var_os(runtime::PATH_VARIABLE).is_some())?;
    Ok((facts::find(runtime, compiler.version())?, compiler))
}
