//! A launch with its arguments resolved, so that nothing is allocated or looked up between two events.

use std::ffi::c_void;

use cudarc::driver::{CudaFunction, CudaStream, DriverError, result};
use fleetcal_kernels::{Argument, Launch};

use crate::device::DeviceError;

/// Most arguments that a kernel of ours takes.
const ARGUMENTS_MAX: usize = 8;

/// A launch, ready to be enqueued any number of times. Every argument is one 64-bit word: an address or a number.
#[derive(Debug)]
pub(super) struct Ready<'a> {
    function: &'a CudaFunction,
    blocks: u32,
    threads: u32,
    words: [u64; ARGUMENTS_MAX],
    count: usize,
}

impl<'a> Ready<'a> {
    /// Resolves a launch: `addresses` are those of the buffers that it names by position.
    ///
    /// # Errors
    /// [`DeviceError::Launch`]: it names a buffer that was not passed, or is too large for a grid.
    pub(super) fn new(function: &'a CudaFunction, launch: &Launch, addresses: &[u64]) -> Result<Self, DeviceError> {
        let refuse = |reason: String| DeviceError::Launch { what: format!("preparing `{}`", launch.entry), reason };
        let dimension = |value: u64, what: &str| {
            u32::try_from(value).map_err(|_| refuse(format!("{value} {what} are more than a launch can have")))
        };
        let mut words = [0; ARGUMENTS_MAX];
        if launch.arguments.len() > words.len() {
            return Err(refuse(format!(
                "it has {} arguments, at most {ARGUMENTS_MAX} are passed",
                launch.arguments.len()
            )));
        }
        for (word, argument) in words.iter_mut().zip(&launch.arguments) {
            *word = match argument {
                Argument::U64(value) => *value,
                Argument::Buffer(index) => *addresses
                    .get(*index)
                    .ok_or_else(|| refuse(format!("it names buffer {index}, {} were passed", addresses.len())))?,
            };
        }
        Ok(Self {
            function,
            blocks: dimension(launch.blocks, "blocks")?,
            threads: dimension(launch.threads, "threads")?,
            words,
            count: launch.arguments.len(),
        })
    }

    /// Puts the launch at the end of the stream. The stream's context must be current on this thread.
    #[allow(unsafe_code)]
    pub(super) fn enqueue(&self, stream: &CudaStream) -> Result<(), DriverError> {
        let mut pointers: [*mut c_void; ARGUMENTS_MAX] =
            self.words.each_ref().map(|word| std::ptr::from_ref(word) as *mut _);
        let grid = (self.blocks, 1, 1);
        let block = (self.threads, 1, 1);
        // SAFETY: the function belongs to a module that `self.function` keeps loaded; every parameter of every kernel of
        // ours is 64 bits wide, and the driver copies the words before it returns; the arrays behind the addresses are
        // borrowed by the caller until the stream is synchronised, and were checked to be long enough.
        unsafe {
            let parameters = &mut pointers[..self.count];
            result::launch_kernel(self.function.cu_function(), grid, block, 0, stream.cu_stream(), parameters)
        }
    }
}
