//! The support kernels, run on the host: every data pattern, poison and gathering, with gaps between rows and without.

#![allow(clippy::expect_used, clippy::panic, clippy::print_stdout, reason = "helpers of tests are tests")]

use std::fmt::Write as _;
use std::fs;

use fleetcal_kernels::data::{Formula, InputData};
use fleetcal_kernels::{Argument, BufferRole, BufferSpec, Launch, Rows, chain, number, support};
use fleetcal_model::point::Dtype;
use fleetcal_model::policy::DataPattern;

#[path = "host/compiler.rs"]
mod host;

const ELEMENTS: u64 = 10_007;
const ROWS: Rows = Rows { elements: 30, pitch_elements: 37 };
/// What elements hold that nobody has written.
const UNTOUCHED: u8 = 0x5a;

#[test]
fn fills_poison_and_gathers_are_what_the_host_says() {
    if !host::has_compiler() {
        return;
    }
    let mut program = Program::default();
    let mut expected: Vec<(String, Vec<u8>)> = Vec::new();
    for (row_elements, first_element) in [(ELEMENTS, 0), (32 * 300 + 7, 5_003)] {
        let (pattern, seed) = (DataPattern::Random, chain::SEED);
        let data = InputData { pattern, seed, dtype: Dtype::I32, row_elements, first_element };
        program.fill(&data);
        let elements = (0..ELEMENTS).flat_map(|index| bytes(data.element(index), Dtype::I32));
        expected.push((format!("{data:?}"), elements.collect()));
    }
    for dtype in [Dtype::F32, Dtype::F64] {
        for (pattern, first_element) in DataPattern::ALL.iter().flat_map(|pattern| [(*pattern, 0), (*pattern, 5_003)]) {
            let data = InputData { pattern, seed: 7, dtype, row_elements: 37, first_element };
            program.fill(&data);
            let elements = (0..ELEMENTS).flat_map(|index| bytes(data.element(index), dtype));
            expected.push((format!("{data:?}"), elements.collect()));
        }
        for rows in [None, Some(ROWS)] {
            let spec = BufferSpec { name: "a", role: BufferRole::Output, dtype, elements: ELEMENTS, rows };
            program.poison(&spec);
            let mut elements = vec![UNTOUCHED; (ELEMENTS * dtype.bytes()) as usize];
            for index in 0..spec.logical_elements() {
                let at = (spec.position(index) * dtype.bytes()) as usize;
                elements[at..at + dtype.bytes() as usize].copy_from_slice(&bytes(1.5, dtype));
            }
            expected.push((format!("poison of {spec:?}"), elements));
            let data = InputData { pattern: DataPattern::Serial, seed: 0, dtype, row_elements: 1, first_element: 0 };
            program.gather(&data, &spec);
            let gathered = (5..spec.logical_elements()).step_by(11).take(100);
            let gathered = gathered.flat_map(|index| data.element(spec.position(index)).to_le_bytes());
            expected.push((format!("gathering from {spec:?}"), gathered.collect()));
        }
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    host::run(folder.path(), &program.text(), "support");
    let found = fs::read(folder.path().join("found")).expect("the program wrote what it found");
    let mut start = 0;
    for (what, wanted) in expected {
        let part = &found[start..start + wanted.len()];
        let wrong = part.iter().zip(&wanted).position(|(found, wanted)| found != wanted);
        assert_eq!(wrong, None, "{what}: the first byte that differs");
        start += wanted.len();
    }
    assert_eq!(start, found.len(), "nothing else was written");
}

/// The body of `main`.
#[derive(Default)]
struct Program(String);

impl Program {
    fn fill(&mut self, data: &InputData) {
        let device = host::one_unit();
        let launch = match data.formula() {
            Formula::Random => support::fill_random(&device, ELEMENTS, data).expect("it can be filled"),
            Formula::Identity => support::fill_identity(&device, ELEMENTS, data).expect("it can be filled"),
            Formula::Chain(chain) => support::fill_chain(&device, ELEMENTS, data, chain),
            Formula::Periodic { values, repeat } => {
                self.set_source(&values, data.dtype);
                support::fill_periodic(&device, ELEMENTS, data, values.len() as u64, repeat)
            }
        };
        self.launch(&launch, ELEMENTS * data.dtype.bytes());
    }

    fn poison(&mut self, spec: &BufferSpec) {
        writeln!(self.0, "std::memset(to, {UNTOUCHED}, BYTES);").expect("strings grow");
        let bits = number::bits(1.5, spec.dtype).expect("it has bits");
        self.launch(&support::poison(&host::one_unit(), spec, bits), ELEMENTS * spec.dtype.bytes());
    }

    fn gather(&mut self, data: &InputData, spec: &BufferSpec) {
        let values = (0..ELEMENTS).map(|index| data.element(index)).collect::<Vec<_>>();
        self.set_source(&values, data.dtype);
        let launch = support::gather(&host::one_unit(), spec, 5, 100, 11).expect("it can be read");
        self.launch(&launch, 100 * 8);
    }

    /// Gives the buffer that is read these values.
    fn set_source(&mut self, values: &[f64], dtype: Dtype) {
        let bits = values.iter().map(|value| number::bits(*value, dtype).expect("it has bits"));
        let bits = bits.map(|bits| format!("{bits}ull")).collect::<Vec<_>>().join(",");
        writeln!(self.0, "set(from, {{{bits}}}, {});", dtype.bytes()).expect("strings grow");
    }

    /// Calls an entry with exactly the arguments of its launch, then writes out what buffer 0 holds.
    fn launch(&mut self, launch: &Launch, bytes: u64) {
        let arguments = launch.arguments.iter().map(|argument| match argument {
            Argument::Buffer(0) => "to".to_owned(),
            Argument::Buffer(_) => "from".to_owned(),
            Argument::U64(value) => format!("{value}ull"),
        });
        let (entry, arguments) = (&launch.entry, arguments.collect::<Vec<_>>().join(", "));
        let Launch { blocks, threads, .. } = launch;
        writeln!(self.0, "start({blocks}, {threads}, {entry}, {arguments});\nwrite_out({bytes});")
            .expect("strings grow");
    }

    fn text(&self) -> String {
        let prelude = host::sources(&[support::source()]);
        let support = include_str!("host/support.cpp");
        format!("{prelude}\nstatic const size_t BYTES = {};\n{support}\nint main() {{\n{}}}\n", ELEMENTS * 8, self.0)
    }
}

fn bytes(value: f64, dtype: Dtype) -> Vec<u8> {
    let bits = number::bits(value, dtype).expect("it has bits");
    bits.to_le_bytes()[..dtype.bytes() as usize].to_vec()
}
