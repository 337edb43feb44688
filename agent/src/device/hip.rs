//! AMD devices, through HIP, whose library is loaded at run time. This version counts them and says so; it does not
//! drive them.

use std::ffi::c_int;

use fleetcal_model::device::DeviceFacts;

use super::{DeviceError, library};

/// Names of the library, newest first: packages without headers have only the numbered ones.
const NAMES: [&str; 4] = ["libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"];
/// `hipErrorNoDevice`.
const NO_DEVICE: c_int = 100;

/// Devices of this node: none, and why.
///
/// # Errors
/// [`DeviceError::Library`], always: the library is missing, it finds no device, or devices are there that this version
/// cannot drive.
pub fn discover() -> Result<Vec<DeviceFacts>, DeviceError> {
    let reason = match count() {
        Ok(0) => "it finds no HIP device".to_owned(),
        Ok(1) => "it finds 1 HIP device; this version does not drive HIP devices yet".to_owned(),
        Ok(count) => format!("it finds {count} HIP devices; this version does not drive HIP devices yet"),
        Err(reason) => reason,
    };
    Err(DeviceError::Library { library: "libamdhip64".to_owned(), reason })
}

#[allow(unsafe_code)]
fn count() -> Result<c_int, String> {
    let mut reason = String::new();
    for name in NAMES {
        let library = match library::open(name) {
            Ok(library) => library,
            Err(words) => {
                reason = words;
                continue;
            }
        };
        // SAFETY: the type is that of `hip_runtime_api.h`, where `hipError_t` is an int.
        let count_devices = unsafe { library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"hipGetDeviceCount\0") }
            .map_err(|error| error.to_string())?;
        let mut count = 0;
        // SAFETY: the pointer is to a live integer.
        let code = unsafe { count_devices(&raw mut count) };
        // Its own threads may run on: the library stays.
        std::mem::forget(library);
        return match code {
            0 => Ok(count),
            NO_DEVICE => Ok(0),
            code => Err(format!("hipGetDeviceCount says error {code}")),
        };
    }
    Err(format!("it cannot be loaded: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_always_says_why_there_are_no_devices() {
        let error = discover().expect_err("this version drives no HIP device");
        let text = error.to_string();
        assert!(text.starts_with("libamdhip64 cannot be used: "), "{text}");
        assert!(text.len() > "libamdhip64 cannot be used: ".len(), "the reason is missing");
    }
}
