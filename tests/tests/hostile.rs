//! A bounded run of what `fuzz/` runs without a bound: bytes as points, chunks and Parquet files of rows, damaged.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;

use fleetcal_coordinator::rows::{read_part, read_paths, write_part};
use fleetcal_model::row::Row;
use fleetcal_proto::rows::{encode_batches, to_batch};
use fleetcal_tests::processes::workspace_root;
use tempfile::TempDir;

// Public to the fuzz targets, which are another crate.
#[allow(unreachable_pub)]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz;

/// Numbers that are the same in every run (Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end.max(1) as u64).expect("it is below a size")
    }

    /// Bytes with up to four of them changed; one time in eight the end is cut off.
    fn damage(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = bytes.to_vec();
        for _ in 0..self.below(5) {
            let at = self.below(damaged.len());
            damaged[at] ^= 1 << self.below(8);
        }
        if self.below(8) == 0 {
            damaged.truncate(self.below(bytes.len()));
        }
        damaged
    }
}

/// Some rows of an H200, of several points and roles.
fn rows() -> Vec<Row> {
    let path = workspace_root().join("tests/fixtures/h200/stream-standard.parquet");
    read_part(&path).expect("the fixture is readable").into_iter().step_by(97).collect()
}

#[test]
fn any_bytes_as_points_give_finite_numbers_or_a_reason() {
    let mut numbers = Numbers(0);
    let mut answered: BTreeMap<&str, usize> = fuzz::FITS.map(|fit| (fit, 0)).into();
    for _ in 0..6_000 {
        let length = numbers.below(256);
        let bytes: Vec<u8> = (0..length).map(|_| numbers.next().to_le_bytes()[0]).collect();
        fuzz::points(&bytes).into_iter().for_each(|fit| *answered.entry(fit).or_default() += 1);
    }
    assert_eq!(answered.len(), fuzz::FITS.len(), "a fit is told by another name: {answered:?}");
    let few: Vec<_> = answered.iter().filter(|(_, inputs)| **inputs < 20).collect();
    assert!(few.is_empty(), "hardly an input gets an answer from {few:?}, of {answered:?}");
}

#[test]
fn damaged_chunks_give_sound_documents_or_none() {
    let chunk = encode_batches(&rows()).expect("rows have a form");
    assert_eq!(fuzz::rows(&chunk), rows().len(), "whole rows are let through");
    let mut numbers = Numbers(1);
    let let_through = (0..200).filter(|_| fuzz::rows(&numbers.damage(&chunk)) > 0).count();
    assert!(let_through > 20, "only {let_through} of 200 reached the fits: this test looks past them");
}

#[test]
fn damaged_parquet_files_give_sound_documents_or_none() {
    let folder = TempDir::new().expect("a temporary folder");
    let batch = to_batch(&rows()).expect("rows have a form");
    write_part(folder.path(), "whole", &[batch], &[]).expect("a part can be written");
    let whole = fs::read(folder.path().join("whole.parquet")).expect("it is there");
    let path = folder.path().join("damaged.parquet");
    let mut numbers = Numbers(2);
    for _ in 0..100 {
        fs::write(&path, numbers.damage(&whole)).expect("it can be written");
        // Without the seals, which would keep most damage from the fits, and with them.
        let unsealed = read_part(&path).unwrap_or_default();
        fuzz::documents(&unsealed);
        fuzz::documents(&read_paths(std::slice::from_ref(&path)).rows);
    }
    assert!(!fuzz::documents(&read_paths(&[folder.path().join("whole.parquet")]).rows).is_empty());
}

#[test]
fn rows_that_contradict_each_other_give_sound_documents() {
    let sound = rows();
    let mut numbers = Numbers(3);
    for _ in 0..60 {
        let mut rows = sound.clone();
        for _ in 0..numbers.below(12) {
            let at = numbers.below(rows.len());
            spoil(&mut rows, at, &mut numbers);
        }
        fuzz::documents(&rows);
    }
    assert!(fuzz::documents(&[]).is_empty(), "no rows are no class");
    assert_eq!(fuzz::documents(&sound[..1]).len(), 1, "one row is a class of which nothing is identified");
}

/// Makes one row wrong in one way.
fn spoil(rows: &mut Vec<Row>, at: usize, numbers: &mut Numbers) {
    const TIMES_NS: [f64; 7] = [0.0, -1.0, f64::NAN, f64::INFINITY, 5e-324, f64::MAX, 1e9];
    const COUNTS: [u64; 4] = [0, 1, 1 << 30, u64::MAX];
    let (time_ns, count) = (TIMES_NS[numbers.below(7)], COUNTS[numbers.below(4)]);
    let copy = rows[at].clone();
    let row = &mut rows[at];
    match numbers.below(8) {
        0 => row.timing.estimate_ns = Some(time_ns),
        1 => row.timing.rounds.iter_mut().for_each(|round| round.median_ns = time_ns),
        2 => (row.timing.interval_low_ns, row.timing.interval_high_ns) = (Some(time_ns), Some(1.0)),
        3 => row.counts.bytes_distinct = count,
        4 => (row.counts.bytes_read, row.counts.bytes_written) = (count, count),
        5 => (row.counts.bytes_exact, row.counts.opaque) = (true, true),
        6 => row.device.last_level_cache_bytes = Some(count),
        _ => rows.push(copy),
    }
}
