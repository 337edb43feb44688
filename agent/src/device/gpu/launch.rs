//! A launch with its arguments resolved, so that nothing is allocated or looked up between two events.

use fleetcal_kernels::{Argument, Launch};

use super::driver::Driver;
use crate::device::DeviceError;

/// Most arguments that a kernel of ours takes.
pub(in crate::device) const ARGUMENTS_MAX: usize = 8;

/// Grid, block and arguments of a launch. Every argument is one 64-bit word: an address or a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resolved {
    blocks: u32,
    threads: u32,
    words: [u64; ARGUMENTS_MAX],
    count: usize,
}

impl Resolved {
    /// Resolves a launch: `addresses` are those of the buffers that it names by position.
    ///
    /// # Errors
    /// [`DeviceError::Launch`]: it names a buffer that was not passed, or is too large for a grid.
    pub fn new(launch: &Launch, addresses: &[u64]) -> Result<Self, DeviceError> {
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
            blocks: dimension(launch.blocks, "blocks")?,
            threads: dimension(launch.threads, "threads")?,
            words,
            count: launch.arguments.len(),
        })
    }

    /// Blocks of the grid, which has one dimension.
    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Threads of a block, which has one dimension.
    pub fn threads(&self) -> u32 {
        self.threads
    }

    /// The arguments, and as many unused words as there are up to [`ARGUMENTS_MAX`].
    pub(in crate::device) fn words(&self) -> &[u64; ARGUMENTS_MAX] {
        &self.words
    }

    /// How many arguments there are.
    pub(in crate::device) fn count(&self) -> usize {
        self.count
    }
}

/// A launch, ready to be enqueued any number of times.
#[derive(Debug)]
pub(super) struct Ready<'a, D: Driver> {
    function: &'a D::Function,
    launch: Resolved,
}

impl<'a, D: Driver> Ready<'a, D> {
    /// Resolves a launch of a function.
    ///
    /// # Errors
    /// Those of [`Resolved::new`].
    pub(super) fn new(function: &'a D::Function, launch: &Launch, addresses: &[u64]) -> Result<Self, DeviceError> {
        Ok(Self { function, launch: Resolved::new(launch, addresses)? })
    }

    /// Puts the launch at the end of the stream. The device must be bound to this thread.
    pub(super) fn enqueue(&self, driver: &D) -> Result<(), D::Fault> {
        driver.enqueue(self.function, &self.launch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_resolved_in_order_and_what_cannot_be_launched_is_refused() {
        let launch = |blocks, threads, arguments: &[Argument]| Launch {
            entry: "copy".to_owned(),
            blocks,
            threads,
            arguments: arguments.to_vec(),
        };
        let arguments = [Argument::Buffer(1), Argument::U64(7), Argument::Buffer(0)];
        let resolved = Resolved::new(&launch(3, 256, &arguments), &[64, 128]).expect("it can be launched");
        assert_eq!((resolved.blocks(), resolved.threads(), resolved.count()), (3, 256, 3));
        assert_eq!(resolved.words()[..3], [128, 7, 64]);
        for (wrong, said) in [
            (launch(1 << 32, 256, &[]), "4294967296 blocks"),
            (launch(1, 1 << 40, &[]), "threads"),
            (launch(1, 1, &[Argument::Buffer(2)]), "it names buffer 2, 2 were passed"),
            (launch(1, 1, &[Argument::U64(0); ARGUMENTS_MAX + 1]), "9 arguments"),
        ] {
            let error = Resolved::new(&wrong, &[64, 128]).expect_err(said).to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
