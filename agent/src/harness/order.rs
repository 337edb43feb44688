//! Seeded randomness: the order of visits and the offset of buffers.
//!
//! Every round draws from its own stream of the task's seed, so that a round's order does not depend on how much
//! randomness the rounds before it used.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Buffers start at a multiple of this, bytes: what device allocators align to.
pub const OFFSET_STEP_BYTES: u64 = 256;

/// Offsets stay below this, bytes: one large page, so that every offset within a page can come up.
pub const OFFSET_RANGE_BYTES: u64 = 2 << 20;

/// Visits of one point that follow each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// Index of the point.
    pub point: usize,
    /// Indices of its records, in the order of their visits.
    pub records: Vec<usize>,
}

/// The randomness of one round.
#[derive(Debug)]
pub struct RoundRandom(ChaCha8Rng);

impl RoundRandom {
    /// The stream of a round.
    pub fn new(seed: u64, round: u64) -> Self {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(round);
        Self(generator)
    }

    /// Where the round's buffers start within their allocations, bytes; elsewhere after each restart of the task, as
    /// the buffers are fresh ones too.
    pub fn offset_bytes(seed: u64, round: u64, restarts: u64) -> u64 {
        /// Keeps the streams of offsets apart from those of orders.
        const OFFSET_STREAM: u64 = 1 << 63;
        /// A task has fewer rounds than this.
        const ROUND_BITS: u32 = 32;
        Self::new(seed, round | (restarts << ROUND_BITS) | OFFSET_STREAM).below(OFFSET_RANGE_BYTES / OFFSET_STEP_BYTES)
            * OFFSET_STEP_BYTES
    }

    /// Bytes that an allocation which is freed again takes in front of the round's buffers, up to `most_bytes`.
    ///
    /// An allocator that gets its pages back hands them out again, so that fresh buffers of the same sizes lie on the same
    /// physical pages in every round of a process, and on others in the next process. On an H200 that was worth 0.25% of
    /// the times of arrays near the size of its cache: rounds agreed with each other, and processes did not.
    pub fn displacement_bytes(seed: u64, round: u64, restarts: u64, most_bytes: u64) -> u64 {
        /// Keeps the streams of displacements apart from those of orders, offsets and checks.
        const DISPLACEMENT_STREAM: u64 = 3 << 62;
        const ROUND_BITS: u32 = 32;
        let pages = most_bytes / OFFSET_RANGE_BYTES;
        if pages == 0 {
            return 0;
        }
        Self::new(seed, round | (restarts << ROUND_BITS) | DISPLACEMENT_STREAM).below(pages) * OFFSET_RANGE_BYTES
    }

    /// The randomness of one check of one record, apart from that of orders and offsets.
    pub fn for_check(seed: u64, check: u64, record: u64) -> Self {
        /// Keeps these streams apart from those of orders, and of offsets.
        const CHECK_STREAM: u64 = 1 << 62;
        Self::new(seed, CHECK_STREAM | (record << 24) | check)
    }

    /// Order of the screening round: points shuffled, and the solutions within each. A point stays in one piece, so
    /// that its reference is computed once for all its solutions.
    pub fn screening(&mut self, mut stops: Vec<Stop>) -> Vec<Stop> {
        self.shuffle(&mut stops);
        for stop in &mut stops {
            self.shuffle(&mut stop.records);
        }
        stops
    }

    /// Order of a measuring round: every (point, record) shuffled alone, so that no solution always follows the same
    /// other one. Neighbours of one point share a stop.
    pub fn measuring(&mut self, stops: &[Stop]) -> Vec<Stop> {
        let mut pairs: Vec<(usize, usize)> =
            stops.iter().flat_map(|stop| stop.records.iter().map(|&record| (stop.point, record))).collect();
        self.shuffle(&mut pairs);
        let mut order: Vec<Stop> = Vec::new();
        for (point, record) in pairs {
            match order.last_mut() {
                Some(last) if last.point == point => last.records.push(record),
                _ => order.push(Stop { point, records: vec![record] }),
            }
        }
        order
    }

    /// Fisher and Yates.
    fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.below(last as u64 + 1) as usize;
            items.swap(last, chosen);
        }
    }

    /// A number below `bound`, each equally likely (Lemire: Fast random integer generation in an interval, 2019).
    pub fn below(&mut self, bound: u64) -> u64 {
        let rejected = bound.wrapping_neg() % bound.max(1);
        loop {
            let wide = u128::from(self.0.next_u64()) * u128::from(bound);
            let (high, low) = ((wide >> 64) as u64, wide as u64);
            if low >= rejected {
                return high;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stops() -> Vec<Stop> {
        (0..6).map(|point| Stop { point, records: (point * 10..point * 10 + 4).collect() }).collect()
    }

    fn visits(order: &[Stop]) -> Vec<(usize, usize)> {
        order.iter().flat_map(|stop| stop.records.iter().map(|&record| (stop.point, record))).collect()
    }

    #[test]
    fn the_same_seed_and_round_give_the_same_order_and_others_do_not() {
        let order = |seed, round| RoundRandom::new(seed, round).measuring(&stops());
        assert_eq!(order(7, 1), order(7, 1));
        assert_ne!(order(7, 1), order(7, 2), "each round has an order of its own");
        assert_ne!(order(7, 1), order(8, 1), "each seed has an order of its own");
    }

    #[test]
    fn every_pair_comes_once_and_neighbours_of_a_point_share_a_stop() {
        let order = RoundRandom::new(3, 1).measuring(&stops());
        let mut seen = visits(&order);
        seen.sort_unstable();
        assert_eq!(seen, visits(&stops()));
        assert!(order.windows(2).all(|pair| pair[0].point != pair[1].point), "two stops of one point touch: {order:?}");
    }

    #[test]
    fn screening_keeps_a_point_in_one_piece() {
        let order = RoundRandom::new(3, 0).screening(stops());
        assert_eq!(order.len(), stops().len());
        assert_ne!(visits(&order), visits(&stops()), "the order must be shuffled");
    }

    #[test]
    fn offsets_are_aligned_and_in_range_and_vary() {
        let offsets: Vec<u64> = (0..64).map(|round| RoundRandom::offset_bytes(1, round, 0)).collect();
        assert!(offsets.iter().all(|offset| offset.is_multiple_of(OFFSET_STEP_BYTES) && *offset < OFFSET_RANGE_BYTES));
        assert!(offsets.iter().any(|offset| offset != &offsets[0]), "fresh buffers must move");
        assert_ne!(
            RoundRandom::offset_bytes(1, 5, 0),
            RoundRandom::offset_bytes(1, 5, 1),
            "a restart has fresh buffers"
        );
    }
}
