//! The support kernels of a device, loaded when it is opened.

use std::collections::BTreeMap;

use fleetcal_kernels::support;

use super::driver::Driver;
use super::program;
use crate::device::DeviceError;

/// Functions by entry.
#[derive(Debug)]
pub(super) struct SupportKernels<D: Driver> {
    functions: BTreeMap<&'static str, D::Function>,
}

impl<D: Driver> SupportKernels<D> {
    /// Compiles and loads them.
    pub(super) fn load(driver: &D, compiler: &D::Compiler, architecture: &str) -> Result<Self, DeviceError> {
        let loaded = program::build(driver, compiler, architecture, &support::source())?;
        let functions = support::ENTRIES.iter().map(|entry| Ok((*entry, loaded.function(driver, entry)?)));
        Ok(Self { functions: functions.collect::<Result<_, DeviceError>>()? })
    }

    /// The function of an entry.
    pub(super) fn function(&self, entry: &str) -> Result<&D::Function, DeviceError> {
        let missing =
            || DeviceError::Compile { entry: entry.to_owned(), log: "no support kernel has that name".to_owned() };
        self.functions.get(entry).ok_or_else(missing)
    }
}
