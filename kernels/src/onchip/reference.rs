//! What is right in the output.

use fleetcal_model::point::{Dtype, Point};
use fleetcal_model::policy::DataPattern;

use super::kernel::{INPUT_SEED, Kernel, PACKS, STEP, Special};
use super::{block, iterations};
use crate::data::InputData;
use crate::family::{Expected, Reference};

/// Error that passes where functions are approximate: their last bits, and what is left of them in the next steps.
const SPECIAL_TOLERANCE: f64 = 1e-5;
/// Steps after which a chain is at its end, whatever it began with: the slowest map halves errors.
const STEPS_TO_END: u64 = 128;

/// The right value of each element.
pub(super) fn of(point: &Point, pattern: DataPattern) -> Reference {
    let Some(kernel) = Kernel::of(&point.kernel) else { return Box::new(|_| exact(f64::NAN)) };
    let (work, block) = (kernel.work(iterations(point), 1), block(point));
    match kernel {
        Kernel::SharedRead => reads(work, |word| (word as u32).wrapping_mul(2_654_435_761)),
        Kernel::L1Read => {
            let (dtype, row_elements) = (Dtype::F32, 4 * PACKS);
            let input = InputData { pattern, seed: INPUT_SEED, dtype, row_elements, first_element: 0 };
            reads(work, move |word| (input.rounded_element(word) as f32).to_bits())
        }
        Kernel::AtomicGlobalSame | Kernel::AtomicGlobalSpread => Box::new(|counter| whole(counter as u32)),
        Kernel::AtomicSharedSame | Kernel::AtomicSharedSpread => {
            let threads = block / kernel.counters(block).max(1);
            Box::new(move |counter| whole((counter + threads * work) as u32))
        }
        Kernel::Barrier => Box::new(move |thread| whole((thread + work) as u32)),
        Kernel::Shuffle => Box::new(move |thread| whole((thread / 32 * 32 + (thread + work) % 32) as u32)),
        Kernel::Special(function) => {
            let value = (0..work.min(STEPS_TO_END)).fold(1.25, |value, _| step(function, value));
            Box::new(move |_| Expected { value, relative_tolerance: SPECIAL_TOLERANCE })
        }
    }
}

/// Sums of the words that each thread reads, and of its number.
fn reads(reads: u64, word: impl Fn(u64) -> u32) -> Reference {
    let pack = |pack: u64| (0..4).fold(0_u32, |sum, lane| sum.wrapping_add(word(4 * pack + lane)));
    let packs: Vec<u32> = (0..PACKS).map(pack).collect();
    let all = packs.iter().fold(0_u32, |sum, pack| sum.wrapping_add(*pack));
    let (rounds, rest) = (reads / PACKS, reads % PACKS);
    Box::new(move |thread| {
        let read = |index: u64| packs[((thread + index * STEP) % PACKS) as usize];
        let first = (thread as u32).wrapping_add(all.wrapping_mul(rounds as u32));
        whole((0..rest).map(read).fold(first, u32::wrapping_add))
    })
}

/// One step of the map that a special function is in: it draws every number from 1 to 2 to one number.
fn step(function: Special, value: f64) -> f64 {
    match function {
        Special::Rsqrt => 1.0 / libm::sqrt(value),
        Special::Rcp => 1.0 / (1.0 + value),
        Special::Exp2 => libm::exp2(-value),
        Special::Log2 => libm::log2(3.0 + value),
        Special::Sin => libm::sin(1.0 + value),
    }
}

/// A word as arrays of 32-bit whole numbers are read.
fn whole(word: u32) -> Expected {
    exact(f64::from(word.cast_signed()))
}

fn exact(value: f64) -> Expected {
    Expected { value, relative_tolerance: 0.0 }
}
