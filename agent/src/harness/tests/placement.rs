//! Where the buffers of a round lie.

use super::fake::FakeDevice;
use crate::harness::arena::{Arena, Guards, Placement};
use crate::harness::order::RoundRandom;

#[test]
fn buffers_are_displaced_by_memory_that_is_given_back() {
    let mut device = FakeDevice::new();
    let placement = Placement { offset_bytes: 0, displacement_bytes: 1 << 30 };
    let mut arena = Arena::default();
    arena.renew(&mut device, &[4096], placement, Guards::None).expect("memory enough");
    assert!(device.peak_bytes > 1 << 30, "{} bytes were held at most", device.peak_bytes);
    assert!(device.held_bytes() < 1 << 30, "{} bytes are held on", device.held_bytes());
}

#[test]
fn displacements_differ_from_round_to_round_and_keep_to_pages_and_memory() {
    let at = |round| RoundRandom::displacement_bytes(7, round, 0, 1 << 30);
    let found: Vec<u64> = (1..=8).map(at).collect();
    assert!(found.iter().all(|bytes| *bytes < 1 << 30 && bytes.is_multiple_of(2 << 20)), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[0] != pair[1]), "{found:?}");
    assert_eq!(RoundRandom::displacement_bytes(7, 1, 0, 1 << 20), 0, "less than a page displaces nothing");
}
