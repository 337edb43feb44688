//! Kernels that use everything that the emulator gives: their results are right in every order, and the order differs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use fleetcal_tests::emulator::Emulator;

use crate::{setting, write_program};

const BLOCKS: usize = 12;
const ELEMENTS: usize = BLOCKS * 256;

/// Elements that look random.
fn elements() -> Vec<u32> {
    (0..ELEMENTS as u32).map(|index| index.wrapping_mul(2_654_435_761).rotate_left(13) & 0x7fff_ffff).collect()
}

fn words(folder: &Path, name: &str) -> Vec<u32> {
    let bytes = fs::read(folder.join(name)).expect("the buffer was saved");
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect()
}

/// Runs them all, and checks what is the same in every order; what `order` gave.
fn run(emulator: &Emulator, seed: u64, wave: usize) -> Vec<u32> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    write_program(folder, "right.cu");
    let from = elements();
    fs::write(folder.join("from"), from.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>())
        .expect("a file");
    fs::write(folder.join("zeros"), [0; 4096]).expect("a file");
    let bytes = 4 * ELEMENTS;
    let script = format!(
        "program right.cu\nbuffer from {bytes} from\nbuffer sum 4\nbuffer partial 4096\nbuffer ticket 4 zeros\n\
         launch sum 7 256 sum partial ticket from u64:{ELEMENTS}\nsave sum sum\n\
         buffer ticket 4 zeros\nbuffer state 4096 zeros\nbuffer scan {bytes}\n\
         launch scan {BLOCKS} 256 scan from state ticket\nsave scan scan\n\
         buffer votes {bytes}\nlaunch votes {BLOCKS} 256 votes from\nsave votes votes\n\
         buffer bins 256 zeros\ngraph 3 histogram {BLOCKS} 256 bins from\nsave bins bins\n\
         buffer bytes {ELEMENTS}\nlaunch bytes {BLOCKS} 256 bytes\nsave bytes bytes\n\
         buffer transpose {bytes}\nlaunch transpose {BLOCKS} 256 transpose from\nsave transpose transpose\n\
         buffer ticket 4 zeros\nbuffer order {bytes}\nlaunch order {BLOCKS} 256 order ticket\nsave order order\n"
    );
    let (answers, said) = emulator.drive(folder, &script, &setting(seed, wave as u64));
    assert!(answers.iter().all(|answer| answer == "ok"), "seed {seed}, waves of {wave}: {answers:?} {said}");

    let scanned: Vec<u32> = from
        .iter()
        .scan(0_u32, |sum, value| {
            *sum = sum.wrapping_add(*value);
            Some(*sum)
        })
        .collect();
    assert_eq!(words(folder, "sum"), scanned[ELEMENTS - 1..], "sum");
    assert_eq!(words(folder, "scan"), scanned, "scan");
    let votes: Vec<u32> = from.chunks(wave).flat_map(|lanes| split(vote(lanes))).collect();
    assert_eq!(words(folder, "votes")[..votes.len()], votes, "votes");
    let mut bins = vec![0; 64];
    from.iter().for_each(|value| bins[(*value % 64) as usize] += 3);
    assert_eq!(words(folder, "bins"), bins, "three histograms");
    let expected: Vec<u8> = (0..ELEMENTS).map(|index| index as u8).collect();
    assert_eq!(fs::read(folder.join("bytes")).expect("it was saved"), expected, "bytes");
    let tile = |index: usize| {
        let (x, y) = (index % 16, index % 256 / 16);
        from[index / 256 * 256 + x * 16 + y].wrapping_mul([1, 2, 4, 8][y % 4])
    };
    assert_eq!(words(folder, "transpose"), (0..ELEMENTS).map(tile).collect::<Vec<_>>(), "transpose");
    words(folder, "order")
}

/// What a wave of `votes` writes.
fn vote(lanes: &[u32]) -> u64 {
    let odd: u64 = lanes.iter().enumerate().map(|(lane, value)| u64::from(value & 1) << lane).sum();
    let (any, all) =
        (lanes.iter().any(|value| *value > 1_000_000_000), lanes.iter().all(|value| *value < 2_000_000_000));
    odd ^ u64::from(lanes[0]) << 1 ^ u64::from(any) ^ u64::from(all) << 63
}

fn split(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[test]
fn seeds_change_the_order_of_threads_and_no_result() {
    let Some(emulator) = Emulator::build() else { return };
    let mut orders = BTreeSet::new();
    for (seed, wave) in [(0, 64), (1, 32), (2, 64), (3, 32)] {
        let mut order = run(emulator, seed, wave);
        assert!(orders.insert(order.clone()), "seed {seed} has an order of its own");
        order.sort_unstable();
        assert_eq!(order, (0..ELEMENTS as u32).collect::<Vec<_>>(), "everybody has one place");
    }
    assert!(!orders.insert(run(emulator, 2, 64)), "a seed has one order");
}
