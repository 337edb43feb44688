//! Every entry of every kernel family, and the support kernels, on one small point each.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use fleetcal_kernels::data::InputData;
use fleetcal_kernels::{
    Argument, BufferRole, BufferSpec, Family, Launch, Rows, family, number, program_defines, support,
};
use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::{Dtype, Point, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_tests::emulator::Emulator;

use crate::setting;

#[test]
fn every_kernel_is_right_and_clean_in_every_solution() {
    let Some(emulator) = Emulator::build() else { return };
    let mut work = Vec::new();
    for family in Sweep::ALL.iter().filter_map(|sweep| family(*sweep)) {
        for dtype in family.dtypes() {
            let kernels = family.kernels().iter().filter(|kernel| family.supports(kernel, *dtype));
            work.extend(kernels.map(|kernel| (family, family.small_point(kernel, *dtype))));
        }
    }
    let next = std::sync::Mutex::new(work.iter().enumerate());
    let worker = || {
        let take = || next.lock().expect("no worker panics with it").next();
        while let Some((index, (family, point))) = take() {
            check_program(emulator, *family, point, index as u64);
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..2).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
    });
}

/// Every solution of a point; waves of 64 and of 32 take turns.
fn check_program(emulator: &Emulator, family: &dyn Family, point: &Point, seed: u64) {
    family.check(point).unwrap_or_else(|error| panic!("{point}: {error}"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (folder, device) = (folder.path(), device(if seed.is_multiple_of(2) { 64 } else { 32 }));
    let specs = family.buffers(point);
    fs::write(folder.join("program.cu"), family.source().text).expect("a file can be written");
    let mut script = "program program.cu".to_owned();
    program_defines(&point.kernel, point.dtype)
        .iter()
        .for_each(|define| write!(script, " -D{define}").expect("strings grow"));
    script.push('\n');
    for (index, spec) in specs.iter().enumerate() {
        match spec.input(DataPattern::Random) {
            Some(data) => {
                write_input(&folder.join(format!("input{index}")), spec, &data);
                writeln!(script, "buffer b{index} {} input{index}", spec.bytes()).expect("strings grow");
            }
            None => writeln!(script, "buffer b{index} {}", spec.bytes()).expect("strings grow"),
        }
    }
    let solutions = family.solutions(point, &device);
    if solutions.is_empty() {
        let why = family.declined(point, &device);
        assert!(why.contains("unsupported"), "{point} is declined without a reason: {why}");
        return;
    }
    for (place, solution) in solutions.iter().enumerate() {
        for (index, spec) in outputs(&specs) {
            writeln!(script, "buffer b{index} {}", spec.bytes()).expect("strings grow");
        }
        family.launches(point, solution, &device).iter().for_each(|step| launch(&mut script, step, "b"));
        for (index, _) in outputs(&specs) {
            writeln!(script, "save b{index} output{index}-{place}").expect("strings grow");
        }
    }
    let (answers, said) = emulator.drive(folder, &script, &setting(seed, device.warp_size));
    for (line, answer) in script.lines().zip(&answers) {
        assert_eq!(answer, "ok", "{point}: {line}: {said}");
    }
    for (place, solution) in solutions.iter().enumerate() {
        for (index, spec) in outputs(&specs) {
            let found = read_output(&folder.join(format!("output{index}-{place}")), spec);
            let expected = family.reference(point, DataPattern::Random, index);
            let checked = usize::try_from(family.checked_elements_max(point)).unwrap_or(usize::MAX);
            let wrong = found.iter().zip(0..).step_by(found.len().div_ceil(checked.max(1))).find(|(value, element)| {
                let right = expected(*element);
                right.error(**value) > right.relative_tolerance
            });
            assert_eq!(wrong, None, "{point} {solution}, buffer {index}: (value, element) differs from the reference");
        }
    }
}

#[test]
fn support_kernels_fill_poison_and_gather_as_the_host_does() {
    const ELEMENTS: u64 = 3_001;
    let Some(emulator) = Emulator::build() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (folder, device) = (folder.path(), device(64));
    fs::write(folder.join("program.cu"), support::source().text).expect("a file can be written");
    let mut script = "program program.cu\n".to_owned();
    let mut expected = Vec::new();
    for dtype in [Dtype::F32, Dtype::F64] {
        let spec = BufferSpec {
            name: "a",
            role: BufferRole::Output,
            dtype,
            elements: ELEMENTS,
            rows: Some(Rows { elements: 10, pitch_elements: 16 }),
        };
        let data =
            InputData { pattern: DataPattern::Random, seed: 7, dtype, row_elements: ELEMENTS, first_element: 11 };
        let values: Vec<f64> = (0..ELEMENTS).map(|index| data.rounded_element(index)).collect();
        writeln!(script, "buffer b0 {}", spec.bytes()).expect("strings grow");
        launch(&mut script, &support::fill_random(&device, ELEMENTS, &data).expect("it is filled"), "b");
        writeln!(script, "save b0 filled-{dtype}").expect("strings grow");
        expected.push((format!("filled-{dtype}"), dtype, values.clone()));
        writeln!(script, "buffer g0 800").expect("strings grow");
        let gather = support::gather(&device, &spec, 5, 100, 11).expect("it is read");
        script.push_str("launch ");
        write!(script, "{} {} {} g0 b0", gather.entry, gather.blocks, gather.threads).expect("strings grow");
        numbers(&mut script, &gather);
        writeln!(script, "save g0 gathered-{dtype}").expect("strings grow");
        let gathered = (0..100).map(|index| values[spec.position(5 + 11 * index) as usize]).collect();
        expected.push((format!("gathered-{dtype}"), Dtype::F64, gathered));
        launch(&mut script, &support::poison(&device, &spec, number::bits(1.5, dtype).expect("it has bits")), "b");
        writeln!(script, "save b0 poisoned-{dtype}").expect("strings grow");
        let poisoned = |index: usize| if index % 16 < 10 { 1.5 } else { values[index] };
        expected.push((format!("poisoned-{dtype}"), dtype, (0..ELEMENTS as usize).map(poisoned).collect()));
    }
    launch(&mut script, &support::flush(&device, 16_000), "b");
    launch(&mut script, &support::lead(100_000), "b");
    launch(&mut script, &support::empty(), "b");
    let (answers, said) = emulator.drive(folder, &script, &setting(1, 64));
    for (line, answer) in script.lines().zip(&answers) {
        assert_eq!(answer, "ok", "{line}: {said}");
    }
    for (name, dtype, values) in expected {
        let bytes = fs::read(folder.join(&name)).expect("the buffer was saved");
        assert_eq!(decoded(&bytes, dtype), values, "{name}");
    }
}

fn outputs(specs: &[BufferSpec]) -> impl Iterator<Item = (usize, &BufferSpec)> {
    specs.iter().enumerate().filter(|(_, spec)| spec.role == BufferRole::Output)
}

/// A line that launches, its buffers named by their place.
fn launch(script: &mut String, launch: &Launch, buffers: &str) {
    write!(script, "launch {} {} {}", launch.entry, launch.blocks, launch.threads).expect("strings grow");
    for argument in &launch.arguments {
        if let Argument::Buffer(index) = argument {
            write!(script, " {buffers}{index}").expect("strings grow");
        } else if let Argument::U64(value) = argument {
            write!(script, " u64:{value}").expect("strings grow");
        }
    }
    script.push('\n');
}

/// The rest of a line that launches, behind its buffers.
fn numbers(script: &mut String, launch: &Launch) {
    for argument in &launch.arguments {
        if let Argument::U64(value) = argument {
            write!(script, " u64:{value}").expect("strings grow");
        }
    }
    script.push('\n');
}

fn write_input(path: &Path, spec: &BufferSpec, data: &InputData) {
    let width = spec.dtype.bytes() as usize;
    let element = |index| number::bits(data.element(index), spec.dtype).expect("it has bits").to_le_bytes();
    let bytes: Vec<u8> = (0..spec.elements).flat_map(|index| element(index).into_iter().take(width)).collect();
    fs::write(path, bytes).expect("a file can be written");
}

fn read_output(path: &Path, spec: &BufferSpec) -> Vec<f64> {
    decoded(&fs::read(path).expect("the buffer was saved"), spec.dtype)
}

fn decoded(bytes: &[u8], dtype: Dtype) -> Vec<f64> {
    if dtype == Dtype::F32 {
        let words = bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("4 bytes")));
        return words.map(f64::from).collect();
    }
    if dtype == Dtype::I32 {
        let words = bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().expect("4 bytes")));
        return words.map(f64::from).collect();
    }
    assert_eq!(dtype, Dtype::F64, "{dtype} has no decoder here yet");
    bytes.chunks_exact(8).map(|word| f64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}

/// A device like the emulated one.
fn device(warp_size: u64) -> DeviceFacts {
    DeviceFacts {
        uuid: DeviceId::new("none"),
        backend: Backend::Hip,
        vendor: "none".to_owned(),
        name: "none".to_owned(),
        architecture: "none".to_owned(),
        compute_units: 4,
        memory_bytes: 1 << 32,
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
        warp_size,
    }
}
