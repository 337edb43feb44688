//! The emulator for HIP: it finds what is planted, and what is right runs clean, whatever the order of its threads.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

#[path = "emulator/backend.rs"]
mod backend;
#[path = "emulator/families.rs"]
mod families;
#[path = "emulator/look_back.rs"]
mod look_back;
#[path = "emulator/planted.rs"]
mod planted;
#[path = "emulator/right.rs"]
mod right;

/// The settings of a run.
fn setting(seed: u64, wave: u64) -> Vec<(&'static str, String)> {
    vec![("FLEETCAL_EMULATOR_SEED", seed.to_string()), ("FLEETCAL_EMULATOR_WAVE", wave.to_string())]
}

/// A program of `tests/emulator/planted` behind the portable header, as a file of this folder.
fn write_program(folder: &std::path::Path, name: &str) {
    let header = fleetcal_tests::processes::workspace_root().join("kernels/gpu/compat.h");
    let body = fleetcal_tests::emulator::sources().join("planted").join(name);
    let text = [header, body].map(|path| std::fs::read_to_string(path).expect("a source is there")).concat();
    std::fs::write(folder.join(name), text).expect("the program can be written");
}
