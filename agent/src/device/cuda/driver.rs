//! The CUDA driver library: whether it can be used, and what its errors mean.

use cudarc::driver::DriverError;
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUresult};

use crate::device::{DeviceError, library};

/// Oldest driver interface that is used, as the driver writes it (major · 1000 + minor · 10): CUDA 12.0, driver 525.
const OLDEST_DRIVER: i32 = 12_000;

/// Version of the driver interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DriverVersion {
    pub(super) major: i32,
    pub(super) minor: i32,
}

/// Loads the driver library and initialises it, once for the process.
///
/// # Errors
/// [`DeviceError::Library`] where there is no driver, an old one, or no device. The check comes first because `cudarc`
/// panics when the library is missing.
pub(super) fn initialise() -> Result<DriverVersion, DeviceError> {
    load()?;
    let version = version()?;
    result::init().map_err(|error| unusable(format!("its initialisation failed: {}", explain(error))))?;
    Ok(version)
}

#[allow(unsafe_code)]
fn load() -> Result<(), DeviceError> {
    // SAFETY: loading the driver library runs NVIDIA's own initialisers and nothing else.
    if unsafe { sys::is_culib_present() } {
        return Ok(());
    }
    // Loaded again only for the loader's words: `cudarc` keeps them to itself.
    let reason = library::open("libcuda.so.1").map_or_else(|reason| reason, |_| "cudarc does not find it".to_owned());
    Err(unusable(format!("{reason} (is the NVIDIA driver installed, and visible in this container?)")))
}

#[allow(unsafe_code)]
fn version() -> Result<DriverVersion, DeviceError> {
    let mut version = 0_i32;
    // SAFETY: the library is loaded, the function needs no initialisation, and the pointer is to a live integer.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }
        .result()
        .map_err(|error| unusable(format!("its version cannot be read: {}", explain(error))))?;
    let found = DriverVersion { major: version / 1000, minor: version % 1000 / 10 };
    if version < OLDEST_DRIVER {
        let reason = format!(
            "the driver speaks CUDA {}.{}, at least CUDA 12.0 (driver 525) is needed: update the driver",
            found.major, found.minor
        );
        return Err(unusable(reason));
    }
    Ok(found)
}

/// The driver library is of no use, and why.
pub(super) fn unusable(reason: impl Into<String>) -> DeviceError {
    DeviceError::Library { library: "libcuda".to_owned(), reason: reason.into() }
}

/// What the driver says of an error: `CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)`.
pub(super) fn explain(error: DriverError) -> String {
    let text = error.error_string().map(|text| text.to_string_lossy().into_owned());
    text.map_or_else(|_| format!("{:?}", error.0), |text| format!("{:?} ({text})", error.0))
}

/// What a driver's error means for the work that goes on.
///
/// Errors of the first kind stick: every later call in the context returns them too.
pub(super) fn fault(what: &str, error: DriverError) -> DeviceError {
    if is_sticky(error.0) {
        return DeviceError::Lost { reason: format!("{what}: {}", explain(error)) };
    }
    DeviceError::Launch { what: what.to_owned(), reason: explain(error) }
}

/// What a driver's error means where code was being loaded: it costs the solutions of that code, unless it sticks.
pub(super) fn loading_fault(entry: &str, error: DriverError) -> DeviceError {
    loading_fault_in_words(entry, error.0, explain(error))
}

fn loading_fault_in_words(entry: &str, code: CUresult, words: String) -> DeviceError {
    if is_sticky(code) {
        return DeviceError::Lost { reason: format!("loading {entry}: {words}") };
    }
    DeviceError::Load { entry: entry.to_owned(), reason: words }
}

fn is_sticky(code: CUresult) -> bool {
    matches!(
        code,
        CUresult::CUDA_ERROR_DEINITIALIZED
            | CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE
            | CUresult::CUDA_ERROR_INVALID_CONTEXT
            | CUresult::CUDA_ERROR_ECC_UNCORRECTABLE
            | CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE
            | CUresult::CUDA_ERROR_CONTAINED
            | CUresult::CUDA_ERROR_ILLEGAL_ADDRESS
            | CUresult::CUDA_ERROR_LAUNCH_TIMEOUT
            | CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED
            | CUresult::CUDA_ERROR_ASSERT
            | CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR
            | CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION
            | CUresult::CUDA_ERROR_MISALIGNED_ADDRESS
            | CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE
            | CUresult::CUDA_ERROR_INVALID_PC
            | CUresult::CUDA_ERROR_LAUNCH_FAILED
            | CUresult::CUDA_ERROR_SYSTEM_NOT_READY
            | CUresult::CUDA_ERROR_MPS_RPC_FAILURE
            | CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED
            | CUresult::CUDA_ERROR_EXTERNAL_DEVICE
            | CUresult::CUDA_ERROR_UNKNOWN
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_context_that_is_lost_while_code_is_loaded_is_no_fault_of_the_code() {
        let fault = |code| loading_fault_in_words("copy", code, "the driver's words".to_owned());
        let lost = fault(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS);
        assert!(matches!(&lost, DeviceError::Lost { reason } if reason.contains("the driver's words")), "{lost}");
        let wrong = fault(CUresult::CUDA_ERROR_NO_BINARY_FOR_GPU);
        assert!(matches!(&wrong, DeviceError::Load { entry, .. } if entry == "copy"), "{wrong}");
    }

    #[test]
    fn only_errors_that_poison_the_context_are_sticky() {
        assert!(is_sticky(CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(is_sticky(CUresult::CUDA_ERROR_ECC_UNCORRECTABLE));
        assert!(!is_sticky(CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), "a launch that asks too much costs one row");
        assert!(!is_sticky(CUresult::CUDA_ERROR_INVALID_VALUE));
        assert!(!is_sticky(CUresult::CUDA_ERROR_OUT_OF_MEMORY));
    }
}
