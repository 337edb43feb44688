//! The device sources compile for every architecture that matters, by the real compilers, with no device there.
//!
//! NVRTC comes from PyPI (`nvidia-cuda-nvrtc-cu12`, its file named in `FLEETCAL_NVRTC`) or a CUDA toolkit, hiprtc from
//! `libamdhip64-dev` or ROCm. A compiler that is missing is said, or is a failure if `FLEETCAL_REQUIRE` names it.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

#[cfg(feature = "hip")]
use std::path::Path;

use fleetcal_agent::device::cuda::nvrtc::Nvrtc;
use fleetcal_agent::device::gpu::Compiler;
#[cfg(feature = "hip")]
use fleetcal_agent::device::hip::hiprtc::Hiprtc;
use fleetcal_kernels::{DeviceSource, Family, family, program_defines, stream, support};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Dtype, Point, Sweep};

/// The runtime that had hiprtc in it, where hiprtc is no library of its own.
#[cfg(feature = "hip")]
const OLD_RUNTIME: &str = "libamdhip64.so.5";
/// Newest CUDA release whose compiler is looked for.
const NEWEST_CUDA: i32 = 13;

#[test]
fn nvrtc_compiles_every_entry_of_every_program() {
    let Some(nvrtc) = present("nvrtc", Nvrtc::load(NEWEST_CUDA)) else { return };
    for (point, source, defines) in programs() {
        let ptx = nvrtc.compile_to_ptx(&source, &defines, "compute_90").unwrap_or_else(|log| panic!("{point}: {log}"));
        for entry in entries(&point, Backend::Cuda) {
            assert!(ptx.contains(&format!(".entry {entry}(")), "{point}: {entry} is not in the program");
        }
    }
    let ptx = nvrtc.compile_to_ptx(&support::source(), &[], "compute_90").unwrap_or_else(|log| panic!("{log}"));
    for entry in support::ENTRIES {
        assert!(ptx.contains(&format!(".entry {entry}(")), "{entry} is not in the support program");
    }
}

#[test]
fn nvrtc_makes_machine_code_for_each_architecture_it_knows() {
    let Some(nvrtc) = present("nvrtc", Nvrtc::load(NEWEST_CUDA)) else { return };
    let point = triad();
    let defines = program_defines(&point.kernel, point.dtype);
    let mut compiled = 0;
    for architecture in
        [70, 75, 80, 86, 89, 90, 100, 120].into_iter().filter(|known| nvrtc.architectures().contains(known))
    {
        for (source, defines) in [(stream::Stream.source(), &defines[..]), (support::source(), &[])] {
            let object = nvrtc.compile(&source, defines, &format!("sm_{architecture}"));
            let object = object.unwrap_or_else(|log| panic!("{} for sm_{architecture}: {log}", source.name));
            assert!(object.image.starts_with(b"\x7fELF"), "{} for sm_{architecture} is no machine code", source.name);
            assert!(object.options.contains(&format!("sm_{architecture}")), "{}", object.options);
        }
        compiled += 1;
    }
    assert!(compiled >= 3, "NVRTC knows {:?}, too few of ours", nvrtc.architectures());
    let newer = nvrtc.compile(&stream::Stream.source(), &defines, "sm_999").expect("a newer device gets PTX");
    assert!(newer.image.windows(6).any(|text| text == b".entry"), "a newer device gets PTX: {}", newer.options);
}

#[test]
fn wide_variants_use_wide_loads_all_before_the_stores() {
    let Some(nvrtc) = present("nvrtc", Nvrtc::load(NEWEST_CUDA)) else { return };
    let point = triad();
    let defines = program_defines(&point.kernel, point.dtype);
    let ptx = nvrtc.compile_to_ptx(&stream::Stream.source(), &defines, "compute_90").expect("it compiles");
    for (entry, load, store) in [
        ("stream_triad_f32_w4_v4_tile", ".v4.", ".v4."),
        ("stream_triad_f32_w2_v4_tile", ".v2.", ".v2."),
        ("stream_triad_f32_w4_v4_tile_streaming", ".cs.v4.", ".cs.v4."),
    ] {
        let start = ptx.find(&format!(".entry {entry}(")).unwrap_or_else(|| panic!("{entry} is missing"));
        let body = &ptx[start..start + ptx[start..].find("\n}").expect("a body ends")];
        let at = |what: &str| body.match_indices(what).map(|(at, _)| at).collect::<Vec<_>>();
        let (loads, stores) = (at("ld.global"), at("st.global"));
        assert_eq!((loads.len(), stores.len()), (8, 4), "{entry}: one access a vector, array and direction\n{body}");
        assert!(loads.iter().max() < stores.iter().min(), "{entry}: a store comes before a load\n{body}");
        let line = |at: &usize| body[*at..].lines().next().unwrap_or_default();
        assert!(loads.iter().all(|at| line(at).contains(load)), "{entry}: narrow loads\n{body}");
        assert!(stores.iter().all(|at| line(at).contains(store)), "{entry}: narrow stores\n{body}");
    }
}

#[cfg(feature = "hip")]
#[test]
fn hiprtc_compiles_every_entry_of_every_program() {
    let Some(hiprtc) = present("hiprtc", Hiprtc::load(Path::new(OLD_RUNTIME), false)) else { return };
    for architecture in ["gfx90a", "gfx1030"] {
        for (point, source, defines) in programs() {
            let code = hiprtc.compile(&source, &defines, architecture);
            let code = code.unwrap_or_else(|log| panic!("{point} for {architecture}: {log}"));
            for entry in entries(&point, Backend::Hip) {
                let named = code.image.windows(entry.len()).any(|text| text == entry.as_bytes());
                assert!(named, "{point} for {architecture}: {entry} is not in the program");
            }
        }
        let code = hiprtc.compile(&support::source(), &[], architecture).unwrap_or_else(|log| panic!("{log}"));
        for entry in support::ENTRIES {
            let named = code.image.windows(entry.len()).any(|text| text == entry.as_bytes());
            assert!(named, "{entry} is not in the support program for {architecture}");
        }
    }
}

/// The compiler, or `None` after saying why there is none.
fn present<Compiler, Error: std::fmt::Display>(name: &str, loaded: Result<Compiler, Error>) -> Option<Compiler> {
    let required = std::env::var("FLEETCAL_REQUIRE").unwrap_or_default();
    match loaded {
        Ok(compiler) => Some(compiler),
        Err(error) => {
            assert!(!required.split(',').any(|tool| tool == name), "FLEETCAL_REQUIRE names {name}: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// A point of the kernel, large enough for every variant of it.
fn point(family: &dyn Family, kernel: &str, dtype: Dtype) -> Point {
    let small = family.small_point(kernel, dtype);
    if family.sweep() != Sweep::Stream {
        return small;
    }
    Point { sizes: [("elements".to_owned(), 1 << 30)].into(), ..small }
}

fn triad() -> Point {
    point(&stream::Stream, "triad", Dtype::F32)
}

/// Every program of every family, by a point that needs it.
fn programs() -> Vec<(Point, DeviceSource, [String; 2])> {
    let mut programs = Vec::new();
    for family in Sweep::ALL.iter().filter_map(|sweep| family(*sweep)) {
        for kernel in family.kernels() {
            for dtype in family.dtypes().iter().filter(|dtype| family.supports(kernel, **dtype)) {
                programs.push((point(family, kernel, *dtype), family.source(), program_defines(kernel, *dtype)));
            }
        }
    }
    programs
}

/// Entries that launches of the point name.
fn entries(point: &Point, backend: Backend) -> Vec<String> {
    let (family, device) = (family(point.sweep).expect("it has a program"), device(backend));
    let solutions = family.solutions(point, &device);
    let launches = solutions.iter().flat_map(|solution| family.launches(point, solution, &device));
    let mut entries: Vec<String> = launches.map(|launch| launch.entry).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

fn device(backend: Backend) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("none"),
        backend,
        vendor: "none".to_owned(),
        name: "none".to_owned(),
        architecture: "none".to_owned(),
        compute_units: 132,
        memory_bytes: 1 << 37,
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
