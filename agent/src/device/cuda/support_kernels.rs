//! The support kernels of a device, loaded when it is opened.

use std::collections::BTreeMap;
use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaFunction};
use fleetcal_kernels::support;

use super::nvrtc::Nvrtc;
use super::program;
use crate::device::DeviceError;

/// Functions by entry.
#[derive(Debug)]
pub(super) struct SupportKernels {
    functions: BTreeMap<&'static str, CudaFunction>,
}

impl SupportKernels {
    /// Compiles and loads them.
    pub(super) fn load(context: &Arc<CudaContext>, nvrtc: &Nvrtc, architecture: &str) -> Result<Self, DeviceError> {
        let loaded = program::build(context, nvrtc, architecture, &support::source())?;
        let functions = support::ENTRIES.iter().map(|entry| Ok((*entry, loaded.function(entry)?)));
        Ok(Self { functions: functions.collect::<Result<_, DeviceError>>()? })
    }

    /// The function of an entry.
    pub(super) fn function(&self, entry: &str) -> Result<&CudaFunction, DeviceError> {
        let missing =
            || DeviceError::Compile { entry: entry.to_owned(), log: "no support kernel has that name".to_owned() };
        self.functions.get(entry).ok_or_else(missing)
    }
}
