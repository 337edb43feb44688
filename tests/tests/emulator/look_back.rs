//! Look-back on states that no run of a few blocks comes to: predecessors many windows away, or that never publish.

use std::fs;
use std::path::Path;

use fleetcal_kernels::{Family, number, program_defines, scan};
use fleetcal_model::point::Dtype;
use fleetcal_tests::emulator::Emulator;

use crate::setting;

/// Words before those of the tiles: the next tile, and whether a block gave up.
const STATE_WORDS: usize = 32;
const GIVEN_UP: usize = 16;
const OWN: u64 = 1;
const ALL: u64 = 2;
/// Tiles that have published when the blocks start, and blocks.
const BEFORE: usize = 196;
const BLOCKS: usize = 4;
const THREADS: usize = 256;

/// A scan whose elements are all 1, from tile [`BEFORE`] on.
struct Case {
    dtype: Dtype,
    wave: u64,
    words: Vec<u64>,
}

impl Case {
    /// The nearest sum of all is of this tile. It is 1000, each tile behind it has published 3, and none before it anything.
    fn new(dtype: Dtype, wave: u64, nearest: usize) -> Self {
        let mut case = Self { dtype, wave, words: vec![0; STATE_WORDS] };
        case.words[0] = BEFORE as u64;
        case.words.resize(STATE_WORDS + (BEFORE + BLOCKS) * case.parts(), 0);
        case.publish(nearest, ALL, 1000.0);
        (nearest + 1..BEFORE).for_each(|tile| case.publish(tile, OWN, 3.0));
        case
    }

    /// Words of a tile.
    fn parts(&self) -> usize {
        self.dtype.bytes() as usize / 4
    }

    fn publish(&mut self, tile: usize, flag: u64, value: f64) {
        let bits = number::bits(value, self.dtype).expect("it has bits");
        let parts = self.parts();
        for part in 0..parts {
            self.words[STATE_WORDS + tile * parts + part] = flag << 32 | bits >> (32 * part) & 0xffff_ffff;
        }
    }

    /// Elements of a tile: two packs of 16 bytes a thread.
    fn tile(&self) -> usize {
        THREADS * 2 * 16 / self.dtype.bytes() as usize
    }

    /// What the launch leaves: elements of the blocks' tiles, and whether the result says that a block gave up.
    fn run(&self, emulator: &Emulator, polls_max: u64) -> (Vec<f64>, u32) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = |name: &str| folder.path().join(name);
        let width = self.dtype.bytes() as usize;
        let elements = (BEFORE + BLOCKS) * self.tile();
        let one = number::bits(1.0, self.dtype).expect("it has bits").to_le_bytes();
        fs::write(path("ones"), one[..width].repeat(elements)).expect("a file");
        fs::write(path("zeros"), vec![0; width * elements]).expect("a file");
        let state: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
        fs::write(path("state"), &state).expect("a file");
        fs::write(path("program.cu"), scan::Scan.source().text).expect("a file");
        let defines = program_defines("sum", self.dtype).map(|define| format!("-D{define}")).join(" ");
        let (dtype, bytes, state_bytes) = (self.dtype, width * elements, state.len());
        let script = format!(
            "program program.cu {defines}\nbuffer from {bytes} ones\nbuffer to {bytes} zeros\n\
             buffer state {state_bytes} state\nbuffer given_up 4 zeros\n\
             launch scan_look_back_v2_{dtype} {BLOCKS} {THREADS} to from state given_up u64:{polls_max}\n\
             save to to\nsave given_up given_up\n\
             launch scan_clear_{dtype} 2 64 state given_up u64:{}\nsave given_up still\n",
            self.words.len()
        );
        let (answers, said) = emulator.drive(folder.path(), &script, &setting(3, self.wave));
        assert!(answers.iter().all(|answer| answer == "ok"), "{dtype}, waves of {}: {answers:?} {said}", self.wave);
        let given_up = word(&path("given_up"));
        assert_eq!(word(&path("still")), given_up, "that it gave up is to be seen after the next launch too");
        let found = fs::read(path("to")).expect("it was saved");
        (decoded(&found[BEFORE * self.tile() * width..], self.dtype), given_up)
    }
}

fn word(path: &Path) -> u32 {
    let bytes = fs::read(path).expect("it was saved");
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

fn decoded(bytes: &[u8], dtype: Dtype) -> Vec<f64> {
    let value = |bytes: &[u8]| {
        if dtype == Dtype::F64 {
            return f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        }
        let word: [u8; 4] = bytes.try_into().expect("4 bytes");
        if dtype == Dtype::I32 { f64::from(i32::from_le_bytes(word)) } else { f64::from(f32::from_le_bytes(word)) }
    };
    bytes.chunks_exact(dtype.bytes() as usize).map(value).collect()
}

#[test]
fn sums_are_found_however_many_windows_back_and_nobody_waits_for_what_is_not_needed() {
    let Some(emulator) = Emulator::build() else { return };
    for (dtype, wave) in [(Dtype::F32, 32), (Dtype::F64, 64), (Dtype::I32, 64), (Dtype::F64, 32)] {
        let wave_tiles = wave as usize;
        for distance in [1, 2, wave_tiles, wave_tiles + 1, 2 * wave_tiles, 2 * wave_tiles + 1, BEFORE] {
            let nearest = BEFORE - distance;
            let (found, given_up) = Case::new(dtype, wave, nearest).run(emulator, 1 << 20);
            let before = 1000.0 + 3.0 * (distance - 1) as f64;
            let expected: Vec<f64> = (1..=found.len()).map(|count| before + count as f64).collect();
            let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
            assert_eq!(wrong, None, "{dtype}, waves of {wave}, {distance} tiles back");
            assert_eq!(given_up, 0, "{dtype}, waves of {wave}, {distance} tiles back");
        }
    }
}

#[test]
fn whoever_waits_in_vain_gives_up_and_says_so() {
    let Some(emulator) = Emulator::build() else { return };
    for (dtype, wave) in [(Dtype::F32, 32), (Dtype::F64, 64)] {
        let missing = |tile: usize| {
            let mut case = Case::new(dtype, wave, 7);
            case.publish(tile, 0, 0.0);
            case
        };
        let mut cases = vec![("nothing from the nearest", missing(BEFORE - 1)), ("nothing from afar", missing(9))];
        if dtype == Dtype::F64 {
            let mut torn = Case::new(dtype, wave, 7);
            let first = STATE_WORDS + 100 * torn.parts();
            torn.words[first] ^= (OWN ^ ALL) << 32;
            cases.push(("halves of two values", torn));
        }
        for (what, case) in cases {
            let (found, given_up) = case.run(emulator, 100);
            assert_eq!(given_up, 1, "{what}, {dtype}: the result must say so");
            let written = found[..case.tile()].iter().position(|value| *value != 0.0);
            assert_eq!(written, None, "{what}, {dtype}: a block that gave up writes no sums");
        }
        // Where another block gave up, nobody waits for as long again.
        let mut case = missing(BEFORE - 1);
        case.words[GIVEN_UP] = 1;
        let (found, _) = case.run(emulator, u64::MAX);
        assert!(found[..case.tile()].iter().all(|value| *value == 0.0), "{dtype}: it leaves without writing");
    }
}
