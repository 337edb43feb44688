//! A chain through an array: each slot of a cache line names the next, in an order that looks random, and all slots are on
//! one ring. Every link is known by itself, and so is the slot that any number of steps leads to.
//!
//! The ring is 0, 1, 2, … behind a bijection: multiplications and shifts on the least power of two that holds the slots
//! (the finaliser of SplitMix64, as in [`crate::data::random_element`], cut to these bits), applied again while it leads
//! outside of them. `gpu/chain.h` computes the same.

/// Seed of arrays that hold a chain, whatever pattern the others hold.
pub const SEED: u64 = 0x6c69_6e6b_6564;
/// Bytes of a slot: the longest cache line of the devices known, so that no two slots share one.
pub const SLOT_BYTES: u64 = 128;

/// Elements of a slot, 32-bit words.
const SLOT_ELEMENTS: u64 = SLOT_BYTES / 4;
/// Odd factors, and what undoes them modulo 2^64.
const FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const INVERSES: [u64; 2] = [0x96de_1b17_3f11_9089, 0x3196_42b2_d24d_8ec3];
/// Times that both are applied: once leaves few lengths of steps where slots are few.
const ROUNDS: usize = 2;
const SUMMAND: u64 = 0x9e37_79b9_7f4a_7c15;

/// A chain of so many slots.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chain {
    slots: u64,
    /// Bits of the least power of two that holds them.
    bits: u32,
}

impl Chain {
    /// The chain through an array of so many 32-bit words; what does not fill a slot is left alone. At least one slot.
    pub fn of_elements(elements: u64) -> Self {
        let slots = (elements / SLOT_ELEMENTS).max(1);
        Self { slots, bits: u64::BITS - (slots - 1).leading_zeros() }
    }

    /// Slots.
    pub fn slots(self) -> u64 {
        self.slots
    }

    /// Bits of the least power of two that holds the slots.
    pub fn bits(self) -> u32 {
        self.bits
    }

    /// Element `index` of the array: in the first word of a slot where the next slot starts, bytes from the array's first;
    /// 0 elsewhere.
    pub fn element(self, index: u64) -> u64 {
        let slot = index / SLOT_ELEMENTS;
        if !index.is_multiple_of(SLOT_ELEMENTS) || slot >= self.slots {
            return 0;
        }
        SLOT_BYTES * self.after(slot, 1)
    }

    /// The slot so many steps behind a slot.
    pub fn after(self, slot: u64, steps: u64) -> u64 {
        self.slot_of((self.step_of(slot) + steps % self.slots) % self.slots)
    }

    /// The slot of a step of the ring.
    fn slot_of(self, step: u64) -> u64 {
        let mut slot = self.mixed(step);
        while slot >= self.slots {
            slot = self.mixed(slot);
        }
        slot
    }

    /// The step of a slot.
    fn step_of(self, slot: u64) -> u64 {
        let mut step = self.unmixed(slot);
        while step >= self.slots {
            step = self.unmixed(step);
        }
        step
    }

    fn mixed(self, value: u64) -> u64 {
        [FACTORS; ROUNDS].iter().flatten().fold(self.folded(value), |value, factor| {
            self.folded(self.cut(value.wrapping_mul(*factor).wrapping_add(SUMMAND)))
        })
    }

    fn unmixed(self, value: u64) -> u64 {
        [INVERSES; ROUNDS].iter().flatten().rev().fold(self.folded(value), |value, inverse| {
            self.folded(self.cut(value.wrapping_sub(SUMMAND).wrapping_mul(*inverse)))
        })
    }

    /// The upper half of the bits onto the lower: done twice, it is undone.
    fn folded(self, value: u64) -> u64 {
        value ^ (value >> self.bits.div_ceil(2))
    }

    fn cut(self, value: u64) -> u64 {
        value & ((1 << self.bits) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_is_on_one_ring_and_every_step_of_it_is_known() {
        for slots in [1, 2, 3, 32, 96, 1000, 4096, 98_304] {
            let chain = Chain::of_elements(slots * SLOT_ELEMENTS);
            let (mut at, mut seen) = (0, vec![false; slots as usize]);
            for step in 0..slots {
                assert_eq!(chain.after(0, step), at / SLOT_BYTES, "{slots} slots, step {step}");
                assert!(
                    !std::mem::replace(&mut seen[(at / SLOT_BYTES) as usize], true),
                    "{slots}: slot {at} comes twice"
                );
                at = chain.element(at / 4);
            }
            assert_eq!(at, 0, "{slots} slots: the ring closes");
            assert!(seen.iter().all(|seen| *seen), "{slots}");
        }
    }

    /// What a prefetcher could learn: steps of one length, or the line next to the last.
    #[test]
    fn steps_are_of_all_lengths() {
        let chain = Chain::of_elements(4096 * SLOT_ELEMENTS);
        let mut lengths: Vec<u64> = (0..4096).map(|slot| chain.after(slot, 1).wrapping_sub(slot) % 4096).collect();
        lengths.sort_unstable();
        let longest_run = lengths.chunk_by(|left, right| left == right).map(<[u64]>::len).max();
        lengths.dedup();
        assert!(lengths.len() > 2000, "{} lengths: of random steps 1 - 1/e of all are there", lengths.len());
        assert!(longest_run < Some(12), "{longest_run:?} steps are of one length");
    }

    #[test]
    fn only_the_first_word_of_a_slot_leads_on() {
        let chain = Chain::of_elements(3 * SLOT_ELEMENTS + 5);
        assert_eq!(chain.slots(), 3);
        let led = (0..3 * SLOT_ELEMENTS + 5).filter(|index| chain.element(*index) != 0);
        assert!(led.clone().all(|index| index % SLOT_ELEMENTS == 0) && led.count() == 2);
    }
}
