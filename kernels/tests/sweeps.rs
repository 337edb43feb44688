//! `docs/sweeps.md` says of every kernel what each kind of device does with it. It is written by this test from what the
//! families say of themselves: `UPDATE_DOCS=1 cargo test -p fleetcal-kernels --test sweeps` writes it anew.

#![allow(clippy::expect_used, clippy::panic, reason = "helpers of tests are tests")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use fleetcal_kernels::{Family, family};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Dtype, Point, Sweep};

/// Sizes without a default are so many times those of the smallest point: 2^28 elements of STREAM.
const LARGE: u64 = 1 << 13;

const HEAD: &str = "# What runs where

Written by `UPDATE_DOCS=1 cargo test -p fleetcal-kernels --test sweeps`, and checked by the same test without the
variable: do not edit it by hand. It shows what the families say of example devices; that a kernel is right on one of
them is shown elsewhere (`agent/tests/device.rs`, `tests/tests/emulator.rs`).

A number is how many solutions are tried of the largest default point. A letter is the reason below the table why there
is none. Sweeps that are not here have no kernels yet.

| device | backend | units | compiler |
|---|---|---|---|
";

#[test]
fn the_table_of_sweeps_is_what_the_families_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/sweeps.md");
    let table = document();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &table).expect("the document can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the document is committed");
    let differs = table.lines().zip(committed.lines()).find(|(ours, theirs)| ours != theirs);
    assert_eq!(differs, None, "(now, committed): docs/sweeps.md is old, UPDATE_DOCS=1 writes it anew");
    assert_eq!(table.lines().count(), committed.lines().count(), "docs/sweeps.md is old, UPDATE_DOCS=1 writes it anew");
}

fn document() -> String {
    let devices = devices();
    let mut text = HEAD.to_owned();
    for facts in &devices {
        let (name, backend, compiler) =
            (&facts.architecture, facts.backend, facts.runtime.as_deref().unwrap_or("none"));
        writeln!(text, "| {name} | {backend} | {} | {compiler} |", facts.compute_units).expect("strings grow");
    }
    for family in Sweep::ALL.iter().filter_map(|sweep| family(*sweep)) {
        section(&mut text, family, &devices);
    }
    text
}

/// A family's kernels and number formats down, devices across.
fn section(text: &mut String, family: &dyn Family, devices: &[DeviceFacts]) {
    let names: Vec<&str> = devices.iter().map(|facts| facts.architecture.as_str()).collect();
    write!(text, "\n## {}\n\n| kernel | format | {} |\n|---|---|", family.sweep(), names.join(" | "))
        .expect("strings grow");
    text.push_str(&"---|".repeat(devices.len()));
    let mut reasons: Vec<String> = Vec::new();
    for kernel in family.kernels() {
        for dtype in family.dtypes().iter().filter(|dtype| family.supports(kernel, **dtype)) {
            let point = large_point(family, kernel, *dtype);
            write!(text, "\n| {kernel} | {dtype} |").expect("strings grow");
            for facts in devices {
                let solutions = family.solutions(&point, facts).len();
                let cell =
                    if solutions > 0 { solutions.to_string() } else { letter(&mut reasons, family, &point, facts) };
                write!(text, " {cell} |").expect("strings grow");
            }
        }
    }
    text.push('\n');
    for (reason, letter) in reasons.iter().zip('a'..) {
        write!(text, "\n{letter}. {reason}").expect("strings grow");
    }
    if !reasons.is_empty() {
        text.push('\n');
    }
}

/// The letter of the reason why a device has no solution.
fn letter(reasons: &mut Vec<String>, family: &dyn Family, point: &Point, facts: &DeviceFacts) -> String {
    let reason = family.declined(point, facts);
    assert!(!reason.trim().is_empty(), "{point} is declined on {} without a reason", facts.architecture);
    let place = reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
        reasons.push(reason);
        reasons.len() - 1
    });
    ('a'..='z').nth(place).expect("a family declines for few reasons").to_string()
}

/// The point of the largest default sizes; where those cannot be used together, the smallest one.
fn large_point(family: &dyn Family, kernel: &str, dtype: Dtype) -> Point {
    let small = family.small_point(kernel, dtype);
    let sizes = family.sizes().iter().filter_map(|size| {
        let smallest = small.size(size.name).map(|value| value.saturating_mul(LARGE));
        let value = size.defaults.last().copied().or_else(|| smallest.filter(|_| !size.optional))?;
        Some((size.name.to_owned(), value))
    });
    let large = Point { sizes: family.complete(sizes.collect::<BTreeMap<_, _>>()), ..small.clone() };
    if family.check(&large).is_ok() { large } else { small }
}

fn devices() -> Vec<DeviceFacts> {
    let (cuda, hip) = (Some("cuda 13.0, nvrtc 13.0"), Some("hip 7.0, hiprtc 7.0"));
    [
        (Backend::Cuda, "nvidia", "sm_70", 80, 32, Some("cuda 12.9, nvrtc 12.9")),
        (Backend::Cuda, "nvidia", "sm_80", 108, 32, cuda),
        (Backend::Cuda, "nvidia", "sm_90", 132, 32, cuda),
        (Backend::Cuda, "nvidia", "sm_100a", 148, 32, cuda),
        (Backend::Hip, "amd", "gfx906", 60, 64, hip),
        (Backend::Hip, "amd", "gfx90a", 104, 64, hip),
        (Backend::Hip, "amd", "gfx942", 304, 64, hip),
        (Backend::Hip, "amd", "gfx1030", 60, 32, hip),
        (Backend::Hip, "amd", "gfx1100", 96, 32, hip),
        (Backend::Cpu, "amd", "cpu", 64, 1, None),
        (Backend::Sim, "sim", "sim", 108, 32, None),
    ]
    .map(|(backend, vendor, architecture, compute_units, warp_size, runtime)| DeviceFacts {
        uuid: DeviceId::new(architecture),
        backend,
        vendor: vendor.to_owned(),
        name: architecture.to_owned(),
        architecture: architecture.to_owned(),
        compute_units,
        memory_bytes: 64 << 30,
        memory_clock_khz: None,
        core_clock_khz: None,
        power_limit_mw: None,
        partition_mode: None,
        ecc: None,
        sockets: None,
        pci_bdf: None,
        vbios: None,
        driver: None,
        runtime: runtime.map(str::to_owned),
        l2_cache_bytes: None,
        last_level_cache_bytes: None,
        warp_size,
    })
    .to_vec()
}
