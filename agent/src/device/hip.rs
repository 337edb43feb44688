//! AMD devices, through HIP. Both its libraries are loaded at run time; a node without them has no devices of this
//! backend, and is told why. docs/hip-abi.md lists the calls that are needed of them.
//!
//! **It never met a device**: there was none to try it on. Its calls are tested on a stand-in library that a C compiler
//! makes, and its kernels by AMD's own compiler.
//!
//! Without the feature `hip` there is none of this: then neither is `hip-runtime-sys` needed, whose build script looks for
//! a ROCm toolkit unless the workspace's `.cargo/config.toml` speaks for it.

#[cfg(not(feature = "hip"))]
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;

use super::DeviceError;
use super::discovery::DeviceVisitor;

#[cfg(feature = "hip")]
mod context;
#[cfg(feature = "hip")]
mod facts;
#[cfg(feature = "hip")]
mod guarded;
#[cfg(feature = "hip")]
pub mod hiprtc;
#[cfg(feature = "hip")]
mod memory;
#[cfg(feature = "hip")]
mod open;
#[cfg(feature = "hip")]
mod query;
#[cfg(feature = "hip")]
mod runtime;
#[cfg(feature = "hip")]
mod status;
#[cfg(feature = "hip")]
mod sysfs;
#[cfg(feature = "hip")]
#[cfg(test)]
mod tests;

#[cfg(feature = "hip")]
pub use open::{HipDevice, discover};

/// Opens the device with this UUID and hands it to the visitor.
///
/// # Errors
/// Those of [`HipDevice::open`]; the visitor is not called then.
#[cfg(feature = "hip")]
pub fn visit<V: DeviceVisitor>(uuid: &DeviceId, visitor: V) -> Result<V::Output, DeviceError> {
    Ok(visitor.visit(HipDevice::open(uuid)?))
}

/// Devices of this node: none.
///
/// # Errors
/// [`DeviceError::Library`], always: this build cannot drive AMD devices.
#[cfg(not(feature = "hip"))]
pub fn discover() -> Result<Vec<DeviceFacts>, DeviceError> {
    Err(left_out())
}

/// Opens no device.
///
/// # Errors
/// [`DeviceError::Library`], always: this build cannot drive AMD devices.
#[cfg(not(feature = "hip"))]
pub fn visit<V: DeviceVisitor>(_uuid: &DeviceId, _visitor: V) -> Result<V::Output, DeviceError> {
    Err(left_out())
}

#[cfg(not(feature = "hip"))]
fn left_out() -> DeviceError {
    let reason = "this fleetcal was built without the feature `hip`".to_owned();
    DeviceError::Library { library: "libamdhip64".to_owned(), reason }
}
