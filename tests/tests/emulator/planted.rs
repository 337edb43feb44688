//! Mistakes of every kind that the emulator looks for, each with a right twin.

use fleetcal_tests::emulator::Emulator;

use crate::{setting, write_program};

/// A launch, and what is said of it; nothing where it is right.
struct Case(&'static str, &'static str, &'static str);

const RACE: &str = "719 unspecified launch failure: race: ";
const DIVERGENCE: &str = "719 unspecified launch failure: divergence: ";
const BOUNDS: &str = "700 an illegal memory access was encountered: out of bounds: ";

const CASES: &[Case] = &[
    Case("global_race", "1 64 a", RACE),
    Case("global_right", "1 64 a", ""),
    Case("block_race", "4 64 a", RACE),
    Case("block_right", "4 64 a", ""),
    Case("missing_barrier", "3 256 a", RACE),
    Case("right_barrier", "3 256 a", ""),
    Case("missing_second_barrier", "2 256 a u64:3", RACE),
    Case("both_barriers", "2 256 a u64:3", ""),
    Case("divergent_barrier", "1 64 a", DIVERGENCE),
    Case("two_barriers", "1 64 a", DIVERGENCE),
    Case("missing_lanes", "1 64 a", DIVERGENCE),
    Case("write_behind", "1 32 a u64:1024", BOUNDS),
    Case("write_behind", "1 32 a u64:1018", ""),
    Case("write_before", "1 32 a", BOUNDS),
    Case("write_before", "1 32 a+4", ""),
    Case("read_behind", "1 1 a u64:1024", BOUNDS),
    Case("read_behind", "1 1 a u64:1023", ""),
    Case("shared_behind", "1 32 a u64:32", BOUNDS),
    Case("shared_behind", "1 32 a u64:0", ""),
    Case("misaligned", "1 1 a", "716 misaligned address: misaligned: 8 bytes at byte 4 of an allocation of 4096"),
    Case("misaligned", "1 1 a+12", ""),
    Case("missing_fence", "4 64 a", RACE),
    Case("right_fence", "4 64 a", ""),
];

#[test]
fn planted_mistakes_are_found_whatever_the_order_and_their_right_twins_are_clean() {
    let Some(emulator) = Emulator::build() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_program(folder.path(), "faults.cu");
    std::fs::write(folder.path().join("zeros"), [0; 4096]).expect("a file can be written");
    let launch = |Case(entry, rest, _): &Case| format!("reset\nbuffer a 4096 zeros\nlaunch {entry} {rest}\n");
    let script: String = std::iter::once("program faults.cu\n".to_owned()).chain(CASES.iter().map(launch)).collect();
    for (seed, wave) in [(0, 64), (1, 32), (2, 64), (3, 32)] {
        let (answers, said) = emulator.drive(folder.path(), &script, &setting(seed, wave));
        assert_eq!(answers[0], "ok", "{said}");
        for (Case(entry, rest, expected), answer) in CASES.iter().zip(answers.iter().skip(3).step_by(3)) {
            let case = format!("{entry} {rest}, seed {seed}, waves of {wave}");
            if expected.is_empty() {
                assert_eq!(answer, "ok", "{case}: nothing is wrong with it");
                continue;
            }
            assert!(answer.starts_with(expected), "{case}: {answer}");
            // Standard error has the same words, with kernel and thread.
            let words = answer.split_once(": ").expect("an error has words").1;
            assert!(said.contains(words), "{case}: {said}");
            assert!(words.contains(&format!("in kernel {entry}, block (")) && words.contains("thread ("), "{words}");
        }
    }
}

#[test]
fn a_fault_ends_every_later_call_until_the_device_is_reset() {
    let Some(emulator) = Emulator::build() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_program(folder.path(), "faults.cu");
    let script = "program faults.cu\nbuffer a 4096\nlaunch write_before 1 32 a\nlaunch global_right 1 64 a\n\
                  buffer b 64\nsave a out\nreset\nbuffer a 4096\nlaunch global_right 1 64 a\nsave a out\n";
    let (answers, said) = emulator.drive(folder.path(), script, &setting(0, 64));
    let lost = |answer: &String| answer.starts_with(BOUNDS);
    assert_eq!(answers.iter().map(lost).collect::<Vec<_>>()[2..6], [true; 4], "{answers:?} {said}");
    assert_eq!(answers[6..], ["ok", "ok", "ok", "ok"], "{answers:?}");
    assert_eq!(said.matches("fleetcal emulator: ").count(), 1, "a fault is said once: {said}");
}

#[test]
fn what_a_device_refuses_is_refused() {
    let Some(emulator) = Emulator::build() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_program(folder.path(), "right.cu");
    std::fs::write(folder.path().join("broken.cu"), "extern \"C\" __global__ void f() { u(); }\n")
        .expect("it can be written");
    let script = "program right.cu\nlaunch none 1 1\nbuffer a 64\nlaunch sum 1 512 a a a a u64:0\nlaunch bytes 1 1025 a\n\
                  launch bytes 0 1 a\nbuffer b 99999999999999\nprogram broken.cu\n";
    let (answers, _) = emulator.drive(folder.path(), script, &setting(0, 64));
    for (answer, start) in answers.iter().zip([
        "ok",
        "500 named symbol",
        "ok",
        "9 invalid conf",
        "9 invalid conf",
        "9 invalid conf",
        "2 out of memory",
    ]) {
        assert!(answer.starts_with(start), "{answers:?}");
    }
    assert!(answers[7].starts_with("does not compile: 6 ") && answers[7].contains("broken.cu:1"), "{}", answers[7]);
}
