//! Loading vendors' libraries at run time.

use std::error::Error;
use std::ffi::{OsStr, c_int};

/// Loads a shared library of a device vendor.
///
/// # Errors
/// The loader's words, such as `libcuda.so.1: cannot open shared object file: No such file or directory`.
#[allow(unsafe_code)]
pub(crate) fn open(name: impl AsRef<OsStr>) -> Result<libloading::Library, String> {
    // SAFETY: loading a driver or compiler of NVIDIA or AMD runs its own initialisers and nothing else.
    unsafe { libloading::Library::new(name.as_ref()) }.map_err(|error| words(&error))
}

/// What the loader says of a library or a function that it does not find.
pub(crate) fn words(error: &libloading::Error) -> String {
    // The error's own text says only what failed; its source says why.
    error.source().map_or_else(|| error.to_string(), |source| source.to_string().trim().to_owned())
}

/// Loads the first of these files that is there.
///
/// # Errors
/// The loader's words on the last of them.
pub(crate) fn open_first<Name: AsRef<OsStr>>(names: &[Name]) -> Result<libloading::Library, String> {
    let mut reason = "no name to look for".to_owned();
    for name in names {
        match open(name) {
            Ok(library) => return Ok(library),
            Err(words) => reason = words,
        }
    }
    Err(reason)
}

/// The value that a call has written, where it succeeded: its status is then 0.
pub(crate) fn written<T>(mut value: T, call: impl FnOnce(*mut T) -> c_int) -> Option<T> {
    (call(&raw mut value) == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_missing_library_is_named() {
        let reason = super::open("libfleetcal-there-is-none.so").map(|_| ()).expect_err("there is no such library");
        assert!(reason.contains("libfleetcal-there-is-none.so"), "{reason}");
        assert!(reason.contains("No such file"), "{reason}");
    }
}
