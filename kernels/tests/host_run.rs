//! Counts and results, proved by running the device sources themselves on the host, every access counted.
//!
//! The sources are C++ apart from a header; this test gives them another header (`host/prelude.h`) and a C++ compiler.
//! Where there is none it says so, or fails if `FLEETCAL_REQUIRE` names `c++`.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::fmt::Write as _;
use std::fs;

use fleetcal_kernels::data::random_element;
use fleetcal_kernels::{Argument, Family, program_defines, stream, support};
use fleetcal_model::point::{Dtype, Point, Sweep};
use fleetcal_model::policy::DataPattern;

#[path = "host/compiler.rs"]
mod host;

const MAIN: &str = include_str!("host/main.cpp");
/// Enough tiles of every size for a grid-stride loop of several trips on the one compute unit below.
const ELEMENTS: u64 = 4 * stream::ELEMENTS_MULTIPLE;

#[test]
fn every_element_is_touched_as_often_as_the_counts_say() {
    if !host::has_compiler() {
        return;
    }
    std::thread::scope(|scope| {
        for dtype in [Dtype::F32, Dtype::F64] {
            scope.spawn(move || stream::Stream.kernels().iter().for_each(|kernel| check(kernel, dtype)));
        }
    });
}

fn check(kernel: &str, dtype: Dtype) {
    let sizes = [("elements".to_owned(), ELEMENTS)].into();
    let point = Point { sweep: Sweep::Stream, kernel: kernel.to_owned(), dtype, sizes };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let expected = (0..ELEMENTS)
        .flat_map(|index| bytes(dtype, stream::Stream.reference(&point, DataPattern::Random, 0)(index).value));
    fs::write(folder.path().join("expected"), expected.collect::<Vec<u8>>()).expect("results can be written");

    let said = host::run(folder.path(), &program(&point), &point.to_string());
    assert!(said.ends_with("launches are right\n"), "{point}: {said}");

    let filled = fs::read(folder.path().join("inputs")).expect("the program wrote its inputs");
    let wanted = [1, 2].into_iter().flat_map(|seed| (0..ELEMENTS).map(move |index| random_element(seed, index)));
    let wanted: Vec<u8> = wanted.flat_map(|value| bytes(dtype, value)).collect();
    assert!(filled == wanted, "{dtype}: support_fill_random differs from random_element");
}

/// The device sources between the prelude and a table of every launch.
fn program(point: &Point) -> String {
    let device = host::one_unit();
    let mut text = String::new();
    for define in program_defines(&point.kernel, point.dtype) {
        writeln!(text, "#define {define}").expect("strings grow");
    }
    text.push_str(&host::sources(&[stream::Stream.source(), support::source()]));
    let (element, inputs) =
        (if point.dtype == Dtype::F32 { "float" } else { "double" }, stream::Stream.buffers(point).len() - 1);
    let (dtype, bits) = (point.dtype, point.dtype.bytes() * 8);
    let word = if bits == 32 { "u32" } else { "u64" };
    write!(
        text,
        "typedef {element} Element;\nstatic const u64 ELEMENTS = {ELEMENTS};\nstatic const int INPUTS = {inputs};\n\
         static void FILL(Element* to, u64 count, u64 seed) {{ support_fill_random_{dtype}(to, count, 0, seed); }}\n\
         static void POISON(Element* to, u64 count, u64 bits) {{ support_poison_b{bits}(({word}*)to, count, bits, 0, 0); }}\n\
         static void GATHER(double* to, const Element* from, u64 count, u64 stride) {{\n\
             support_gather_{dtype}(to, from, count, 0, stride, 0, 0);\n}}\n\
         struct Row {{ const char* name; void (*entry)(Element*, const Element*, const Element*, u64); \
         u64 blocks, threads, tiles; }};\nstatic const Row TABLE[] = {{\n"
    )
    .expect("strings grow");
    for solution in stream::Stream.solutions(point, &device) {
        let launch = stream::Stream.launches(point, &solution, &device).remove(0);
        let Some(Argument::U64(tiles)) = launch.arguments.last() else { panic!("{solution}: the tiles come last") };
        let (entry, blocks, threads) = (launch.entry, launch.blocks, launch.threads);
        writeln!(text, "{{\"{solution}\", {entry}, {blocks}, {threads}, {tiles}}},").expect("strings grow");
    }
    text.push_str("};\n");
    text.push_str(MAIN);
    text
}

fn bytes(dtype: Dtype, value: f64) -> Vec<u8> {
    if dtype == Dtype::F32 { (value as f32).to_le_bytes().to_vec() } else { value.to_le_bytes().to_vec() }
}
