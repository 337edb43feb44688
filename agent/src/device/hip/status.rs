//! What HIP's status codes mean. They are plain integers: the enumeration of a header is undefined for codes that newer
//! releases add.

use std::ffi::c_int;

use hip_runtime_sys::hipError_t;

use crate::device::DeviceError;

pub(super) const OUT_OF_MEMORY: c_int = hipError_t::hipErrorOutOfMemory as c_int;
const NO_DEVICE: c_int = hipError_t::hipErrorNoDevice as c_int;
const INVALID_DEVICE: c_int = hipError_t::hipErrorInvalidDevice as c_int;
pub(super) const NOT_READY: c_int = hipError_t::hipErrorNotReady as c_int;

/// Codes after which every later call fails too, or nothing is known of what ran.
const STICKY: [c_int; 12] = [
    hipError_t::hipErrorDeinitialized as c_int,
    hipError_t::hipErrorPriorLaunchFailure as c_int,
    hipError_t::hipErrorInvalidContext as c_int,
    hipError_t::hipErrorECCNotCorrectable as c_int,
    hipError_t::hipErrorIllegalAddress as c_int,
    hipError_t::hipErrorLaunchTimeOut as c_int,
    hipError_t::hipErrorContextIsDestroyed as c_int,
    hipError_t::hipErrorAssert as c_int,
    hipError_t::hipErrorLaunchFailure as c_int,
    hipError_t::hipErrorUnknown as c_int,
    hipError_t::hipErrorRuntimeMemory as c_int,
    hipError_t::hipErrorRuntimeOther as c_int,
];

/// Sticky codes that came after HIP 5.4, with CUDA's numbers: a broken stack, an illegal instruction, an access that is
/// not aligned or in no address space, and an address of code that is none.
const STICKY_SINCE: [c_int; 5] = [714, 715, 716, 717, 718];

/// A call that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub(super) code: c_int,
    /// What the library says of the code: `hipErrorIllegalAddress (an illegal memory access was encountered)`.
    pub(super) words: String,
}

impl Fault {
    fn is_sticky(&self) -> bool {
        STICKY.contains(&self.code) || STICKY_SINCE.contains(&self.code)
    }

    /// Whether it says that there is no device. Releases differ in what they say when they are started without one.
    pub(super) fn is_no_device(&self) -> bool {
        matches!(self.code, NO_DEVICE | INVALID_DEVICE)
    }

    /// What it means for the work that goes on.
    pub(super) fn of_work(self, what: &str) -> DeviceError {
        if self.is_sticky() {
            return DeviceError::Lost { reason: format!("{what}: {}", self.words) };
        }
        DeviceError::Launch { what: what.to_owned(), reason: self.words }
    }

    /// What it means where code was being loaded: it costs the solutions of that code, unless it sticks.
    pub(super) fn of_loading(self, entry: &str) -> DeviceError {
        if self.is_sticky() {
            return DeviceError::Lost { reason: format!("loading {entry}: {}", self.words) };
        }
        DeviceError::Load { entry: entry.to_owned(), reason: self.words }
    }

    /// What it means where memory was being allocated.
    pub(super) fn of_allocating(self, what: &str, wanted_bytes: u64, free_bytes: u64) -> DeviceError {
        if self.code == OUT_OF_MEMORY {
            return DeviceError::OutOfMemory { wanted_bytes, free_bytes };
        }
        self.of_work(what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(code: c_int) -> Fault {
        Fault { code, words: "the library's words".to_owned() }
    }

    #[test]
    fn only_what_poisons_the_process_costs_it() {
        for code in [4, 53, 201, 214, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 999, 1052, 1053] {
            assert!(matches!(fault(code).of_work("timing"), DeviceError::Lost { .. }), "{code} sticks");
            assert!(matches!(fault(code).of_loading("copy"), DeviceError::Lost { .. }), "{code} sticks");
        }
        for code in [1, 2, 9, 98, 209, 500, 701, 801, 901, 31_415] {
            let error = fault(code).of_work("timing");
            assert!(matches!(&error, DeviceError::Launch { .. }), "{code} costs one row");
            assert!(error.to_string().contains("the library's words"), "{error}");
            assert!(matches!(fault(code).of_loading("copy"), DeviceError::Load { .. }), "{code} costs the code's rows");
        }
    }

    #[test]
    fn memory_that_is_not_there_is_told_from_other_faults() {
        let error = fault(2).of_allocating("allocating", 7, 5);
        assert_eq!(error, DeviceError::OutOfMemory { wanted_bytes: 7, free_bytes: 5 });
        assert!(matches!(fault(1).of_allocating("allocating", 7, 5), DeviceError::Launch { .. }));
    }
}
