//! Threads for the pieces of a fit.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use fleetcal_model::fit::workers::Workers;

/// As many threads as there are processors.
pub(super) struct Threads;

impl Workers for Threads {
    fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        let threads = thread::available_parallelism().map_or(1, NonZero::get).min(count);
        let next = AtomicUsize::new(0);
        let take = || {
            loop {
                let piece = next.fetch_add(1, Ordering::Relaxed);
                if piece >= count {
                    return;
                }
                work(piece);
            }
        };
        thread::scope(|scope| {
            // The thread that asks works too.
            (1..threads).for_each(|_| drop(scope.spawn(take)));
            take();
        });
    }
}
