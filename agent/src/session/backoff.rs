//! How long to wait before the next try.

use std::time::Duration;

use fleetcal_model::digest::Sha256Digest;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

/// Shortest wait.
pub(crate) const SHORTEST: Duration = Duration::from_millis(200);

/// Longest wait.
pub(crate) const LONGEST: Duration = Duration::from_secs(10);

/// Waits that double up to a limit, each shortened at random by up to a half, so that a thousand agents that lost
/// one coordinator do not come back at the same moment.
#[derive(Debug)]
pub(crate) struct Backoff {
    random: ChaCha8Rng,
    failures: u32,
}

impl Backoff {
    /// Waits seeded by who waits: two agents differ, and one agent's waits can be repeated.
    pub(crate) fn new(identity: &str) -> Self {
        let mut seed = [0_u8; 32];
        let digest = Sha256Digest::of(identity.as_bytes()).to_hex();
        seed.iter_mut().zip(digest.bytes()).for_each(|(byte, digit)| *byte = digit);
        Self { random: ChaCha8Rng::from_seed(seed), failures: 0 }
    }

    /// How long to wait after one more failure: between [`SHORTEST`] and [`LONGEST`].
    pub(crate) fn next_wait(&mut self) -> Duration {
        let doublings = self.failures.min(16);
        self.failures = self.failures.saturating_add(1);
        let most = (SHORTEST * 2).saturating_mul(1 << doublings).min(LONGEST);
        let fraction = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        most.mul_f64(0.5 + 0.5 * fraction).clamp(SHORTEST, LONGEST)
    }

    /// Begins anew, after a success.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(identity: &str) -> Vec<Duration> {
        let mut backoff = Backoff::new(identity);
        (0..40).map(|_| backoff.next_wait()).collect()
    }

    #[test]
    fn waits_are_bounded_and_grow_to_the_longest() {
        for identity in ["agent-1", "agent-2", "agent-3"] {
            let waits = waits(identity);
            assert!(waits.iter().all(|wait| (SHORTEST..=LONGEST).contains(wait)), "{identity}: {waits:?}");
            assert!(waits[0] <= SHORTEST * 2, "the first wait is short: {:?}", waits[0]);
            assert!(waits[20..].iter().all(|wait| *wait >= LONGEST / 2), "later waits are long: {waits:?}");
        }
    }

    #[test]
    fn an_agent_repeats_itself_and_differs_from_others() {
        assert_eq!(waits("agent-1"), waits("agent-1"));
        assert_ne!(waits("agent-1"), waits("agent-2"));
    }

    #[test]
    fn a_success_makes_waits_short_again() {
        let mut backoff = Backoff::new("agent-1");
        for _ in 0..10 {
            let _ = backoff.next_wait();
        }
        backoff.reset();
        let wait = backoff.next_wait();
        assert!(wait <= SHORTEST * 2, "{wait:?}");
    }
}
