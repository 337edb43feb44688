//! What the runtime says of itself and of its devices.

#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int};

use hip_runtime_sys::{hipDeviceAttribute_t, hipDeviceProp_t};

use super::runtime::Runtime;
use super::status::Fault;

/// Longest name of a device, the final zero included.
const NAME_BYTES: usize = 256;
/// Longest PCI address, the final zero included.
const PCI_BYTES: usize = 64;
/// Words of a buffer that holds the properties of every release, with room for more.
const PROPERTIES_WORDS: usize = 1024;
/// Where in the properties the architecture's name stands: `gcnArchName` of `hipDeviceProp_tR0600`, from ROCm 6 on, and
/// of the structure before that, which is the one that the crate has.
const ARCHITECTURE_AT: [usize; 2] = [1160, std::mem::offset_of!(hipDeviceProp_t, gcnArchName)];
/// Length of the architecture's name in both.
const ARCHITECTURE_BYTES: usize = 256;

impl Runtime {
    /// Starts the library.
    pub(super) fn initialise(&self) -> Result<(), Fault> {
        // SAFETY: 0 is the only value of the flags.
        self.check(unsafe { (self.calls.initialise)(0) })
    }

    /// Its release, as it writes it: major · 10⁷ + minor · 10⁵ + patch.
    pub(super) fn version(&self) -> Result<c_int, Fault> {
        // SAFETY: the pointer is to a live integer.
        self.written(0, |to| unsafe { (self.calls.version)(to) })
    }

    /// The driver's release.
    pub(super) fn driver_version(&self) -> Option<c_int> {
        let call = self.driver_version?;
        // SAFETY: the pointer is to a live integer.
        self.written(0, |to| unsafe { call(to) }).ok()
    }

    /// How many devices it shows.
    pub(super) fn count_devices(&self) -> Result<c_int, Fault> {
        // SAFETY: the pointer is to a live integer.
        self.written(0, |to| unsafe { (self.calls.count_devices)(to) })
    }

    /// One attribute of a device.
    pub(super) fn attribute(&self, device: c_int, which: hipDeviceAttribute_t) -> Result<c_int, Fault> {
        // SAFETY: the pointer is to a live integer, and the library looks at device and attribute.
        self.written(0, |to| unsafe { (self.calls.attribute)(to, which as c_int, device) })
    }

    /// Its product name.
    pub(super) fn name(&self, device: c_int) -> Result<String, Fault> {
        // SAFETY: the buffer has the size that is said.
        self.text::<NAME_BYTES>(|to, bytes| unsafe { (self.calls.name)(to, bytes, device) })
    }

    /// Its memory, bytes.
    pub(super) fn total_memory(&self, device: c_int) -> Result<u64, Fault> {
        // SAFETY: the pointer is to a live integer.
        self.written(0, |to| unsafe { (self.calls.total_memory)(to, device) }).map(|bytes| bytes as u64)
    }

    /// The 16 bytes that tell it from others.
    pub(super) fn uuid(&self, device: c_int) -> Option<[u8; 16]> {
        let call = self.uuid?;
        // SAFETY: the pointer is to 16 live bytes, which is what `hipUUID` is.
        self.written([0_u8; 16], |to| unsafe { call(to.cast(), device) }).ok()
    }

    /// Its PCI address, such as `0000:c1:00.0`.
    pub(super) fn pci_address(&self, device: c_int) -> Option<String> {
        let call = self.pci_address?;
        // SAFETY: the buffer has the size that is said.
        self.text::<PCI_BYTES>(|to, bytes| unsafe { call(to, bytes, device) }).ok()
    }

    /// The name of its architecture with its features, such as `gfx90a:sramecc+:xnack-`. It is no attribute, and the
    /// structure that has it changed its layout: what does not look like a name is none.
    pub(super) fn architecture(&self, device: c_int) -> Option<String> {
        let read = |call: &unsafe extern "C" fn(*mut _, c_int) -> c_int| {
            let mut words = [0_u64; PROPERTIES_WORDS];
            // SAFETY: the buffer is aligned for, and longer than, the structure of every release.
            (unsafe { call(words.as_mut_ptr().cast(), device) } == 0).then_some(words)
        };
        self.properties.iter().filter_map(read).find_map(|words| {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            architecture_in(&bytes)
        })
    }

    fn text<const BYTES: usize>(&self, call: impl FnOnce(*mut c_char, c_int) -> c_int) -> Result<String, Fault> {
        let mut buffer = [0_u8; BYTES];
        self.check(call(buffer.as_mut_ptr().cast(), c_int::try_from(BYTES).unwrap_or(c_int::MAX)))?;
        Ok(until_zero(&buffer))
    }
}

/// The architecture's name in a structure of properties, whichever layout it has.
fn architecture_in(properties: &[u8]) -> Option<String> {
    let names = ARCHITECTURE_AT.iter().filter_map(|at| properties.get(*at..at + ARCHITECTURE_BYTES)).map(until_zero);
    names.into_iter().find(|name| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, ':' | '+' | '-' | '_');
        name.len() > "gfx".len() && name.starts_with("gfx") && name.chars().all(allowed)
    })
}

/// Text up to its final zero, or to the end where there is none.
fn until_zero(bytes: &[u8]) -> String {
    let text = CStr::from_bytes_until_nul(bytes).map_or(bytes, CStr::to_bytes);
    String::from_utf8_lossy(text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_architecture_is_found_in_both_layouts_and_nowhere_else() {
        let properties = |at: usize, name: &str| {
            let mut bytes = vec![0_u8; 1472];
            bytes[at..at + name.len()].copy_from_slice(name.as_bytes());
            bytes
        };
        assert_eq!(ARCHITECTURE_AT, [1160, 396], "of ROCm 6 and of HIP 5");
        for at in ARCHITECTURE_AT {
            let found = architecture_in(&properties(at, "gfx90a:sramecc+:xnack-"));
            assert_eq!(found.as_deref(), Some("gfx90a:sramecc+:xnack-"), "at byte {at}");
        }
        for (at, name) in [(100, "gfx942"), (396, "gfx"), (396, "gfx90a\u{1}"), (1160, "sm_90"), (396, "")] {
            assert_eq!(architecture_in(&properties(at, name)), None, "{name} at byte {at}");
        }
        assert_eq!(architecture_in(&properties(396, "gfx1100")[..792]).as_deref(), Some("gfx1100"), "a short one");
    }
}
