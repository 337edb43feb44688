//! Device sources as a program of the host's.

use std::fs;
use std::path::Path;
use std::process::Command;

use fleetcal_kernels::DeviceSource;
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;

const COMPAT: &str = include_str!("../../gpu/compat.h");
const PRELUDE: &str = include_str!("prelude.h");

/// Whether there is a C++ compiler; says so where there is none.
pub(crate) fn has_compiler() -> bool {
    if Command::new("c++").arg("--version").output().is_ok() {
        return true;
    }
    let required = std::env::var("FLEETCAL_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|tool| tool == "c++"), "FLEETCAL_REQUIRE names c++, and there is none");
    println!("skipped: there is no C++ compiler to run the device sources with");
    false
}

/// The sources behind the header that stands in for the portable one.
pub(crate) fn sources(sources: &[DeviceSource]) -> String {
    let bodies = sources
        .iter()
        .map(|source| source.text.strip_prefix(COMPAT).expect("every source begins with the portable header"));
    std::iter::once(PRELUDE).chain(bodies).collect()
}

/// Compiles a program and runs it in a folder; what it printed.
pub(crate) fn run(folder: &Path, program: &str, what: &str) -> String {
    fs::write(folder.join("program.cpp"), program).expect("the program can be written");
    start(folder, Command::new("c++").args(["-std=c++17", "-O1", "-w", "-o", "program", "program.cpp"]), what);
    start(folder, &mut Command::new("./program"), what)
}

fn start(folder: &Path, command: &mut Command, what: &str) -> String {
    let output = command.current_dir(folder).output().expect("the command starts");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{what}: {command:?} failed: {said}{complaint}");
    said
}

/// A device with one compute unit, so that grids take several trips.
pub(crate) fn one_unit() -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("host"),
        backend: Backend::Cuda,
        vendor: "nvidia".to_owned(),
        name: "host".to_owned(),
        architecture: "sm_90".to_owned(),
        compute_units: 1,
        memory_bytes: 1 << 30,
        memory_clock_khz: None,
        core_clock_khz: None,
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: None,
        l2_cache_bytes: None,
        last_level_cache_bytes: None,
        warp_size: 32,
    }
}
