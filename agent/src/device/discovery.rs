//! Which devices this node has, and how one of them is opened. Runs in a worker process: a driver may crash it.

use std::panic::AssertUnwindSafe;
use std::path::Path;

use fleetcal_model::device::{Backend, DeviceFacts};

use super::cpu::CpuDevice;
use super::cuda::CudaDevice;
use super::sim::{SimDevice, SimSpec};
use super::{Device, DeviceError, cpu, cuda, hip, sim};
use crate::identity::{Identity, cpu_uuid};
use crate::worker::message::BackendReport;

/// The devices of every backend, in the order cuda, hip, cpu, sim. A backend that fails says why in its note; the others
/// go on.
///
/// The identity of the data folder gives simulated devices their UUIDs, and a processor whose machine has none. Where the
/// folder has no identity yet, these UUIDs are made up for this look: nothing is written.
pub fn discover(data_folder: &Path, sim: &SimSpec) -> Vec<BackendReport> {
    let identity = Identity::load_or_make_up(data_folder).map_err(|error| error.to_string());
    vec![
        report(Backend::Cuda, survived(|| said(cuda::discover()))),
        report(Backend::Hip, survived(|| said(hip::discover()))),
        report(Backend::Cpu, host_processor(&identity)),
        report(Backend::Sim, simulated(sim, &identity)),
    ]
}

/// Somebody who needs an opened device, whatever its backend.
pub trait DeviceVisitor {
    /// What comes of it.
    type Output;

    /// Is given the device.
    fn visit<D: Device>(self, device: D) -> Self::Output;
}

/// Opens the device of these facts and hands it to the visitor.
///
/// # Errors
/// [`DeviceError`] if it cannot be opened; the visitor is not called then.
pub fn with_device<V: DeviceVisitor>(facts: &DeviceFacts, sim: &SimSpec, visitor: V) -> Result<V::Output, DeviceError> {
    match facts.backend {
        Backend::Cuda => Ok(visitor.visit(CudaDevice::open(&facts.uuid)?)),
        Backend::Cpu => Ok(visitor.visit(CpuDevice::open(facts)?)),
        Backend::Sim => Ok(visitor.visit(SimDevice::open(facts, sim))),
        Backend::Hip => hip::visit(&facts.uuid, visitor),
    }
}

fn report(backend: Backend, found: Result<Vec<DeviceFacts>, String>) -> BackendReport {
    let (devices, note) = match found {
        Ok(devices) => (devices, None),
        Err(note) => (Vec::new(), Some(note)),
    };
    BackendReport { backend: backend.name().to_owned(), devices, note }
}

/// Looks for a vendor's devices. Bindings to its libraries panic where a symbol is missing, in an old driver for
/// example: that costs this backend, not the others.
fn survived(look: impl FnOnce() -> Result<Vec<DeviceFacts>, String>) -> Result<Vec<DeviceFacts>, String> {
    std::panic::catch_unwind(AssertUnwindSafe(look)).unwrap_or_else(|panic| {
        let words = panic.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason was given");
        Err(format!("its library cannot be used by this version: {words}"))
    })
}

fn said(found: Result<Vec<DeviceFacts>, DeviceError>) -> Result<Vec<DeviceFacts>, String> {
    let devices = found.map_err(|error| error.to_string())?;
    if devices.is_empty() { Err("the library is there and found no devices".to_owned()) } else { Ok(devices) }
}

fn host_processor(identity: &Result<Identity, String>) -> Result<Vec<DeviceFacts>, String> {
    let uuid = cpu_uuid(Path::new("/"), identity.as_ref().ok());
    // The machine has no identity, and the error says why the agent has none either.
    let uuid = uuid.ok_or_else(|| identity.as_ref().err().cloned().unwrap_or_default())?;
    cpu::discover(uuid).map_err(|error| error.to_string())
}

fn simulated(spec: &SimSpec, identity: &Result<Identity, String>) -> Result<Vec<DeviceFacts>, String> {
    if spec.devices == 0 {
        return Err("none were asked for".to_owned());
    }
    identity.as_ref().map(|identity| sim::discover(spec, identity)).map_err(Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_makes_its_bindings_panic_costs_its_own_backend() {
        let found = survived(|| panic!("symbol cuNew is missing"));
        assert_eq!(found, Err("its library cannot be used by this version: symbol cuNew is missing".to_owned()));
        assert_eq!(survived(|| Ok(Vec::new())), Ok(Vec::new()));
    }

    #[test]
    fn backends_come_in_order_and_say_why_they_have_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let reports = discover(folder.path(), &SimSpec::default());
        let names: Vec<&str> = reports.iter().map(|report| report.backend.as_str()).collect();
        assert_eq!(names, ["cuda", "hip", "cpu", "sim"]);
        for report in &reports {
            let explained = !report.devices.is_empty() || report.note.as_ref().is_some_and(|note| !note.is_empty());
            assert!(explained, "{} is silent", report.backend);
        }
        assert_eq!(reports[2].devices.len(), 1, "every machine has a processor: {:?}", reports[2].note);
    }

    #[test]
    fn simulated_devices_keep_their_uuids_from_one_discovery_to_the_next() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let spec: SimSpec = "2,model=S2".parse().expect("a specification");
        Identity::load_or_create(folder.path()).expect("an agent has worked here");
        let first = discover(folder.path(), &spec).remove(3).devices;
        assert_eq!(first.len(), 2);
        assert_ne!(first[0].uuid, first[1].uuid);
        assert_eq!(first[0].class_key(), first[1].class_key());
        assert_eq!(discover(folder.path(), &spec).remove(3).devices, first);
    }

    #[test]
    fn a_data_folder_that_cannot_be_made_costs_the_simulated_devices_only() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("file");
        std::fs::write(&file, "").expect("a file can be written");
        let reports = discover(&file.join("data"), &"1".parse().expect("a specification"));
        assert!(reports[3].note.as_ref().is_some_and(|note| note.contains("identity.json")), "{:?}", reports[3].note);
    }
}
