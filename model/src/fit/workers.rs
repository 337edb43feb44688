//! Pieces of a fit that do not depend on each other, for whoever has threads to run them on.
//!
//! The model has none. What is run where changes no answer: each piece is a function of its own rows, and answers are put
//! together in the order of the pieces.

use std::sync::{Mutex, PoisonError};

/// Runs pieces of work.
pub trait Workers {
    /// Calls `work` once for each number below `count`, in any order and on any thread, and returns once all calls have.
    fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync));
}

/// No workers: the caller does the work itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Alone;

impl Workers for Alone {
    fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
        (0..count).for_each(work);
    }
}

/// What `work` makes of each item, in the order of the items.
pub(crate) fn each<I: Send, T: Send>(workers: &dyn Workers, items: Vec<I>, work: impl Fn(I) -> T + Sync) -> Vec<T> {
    let slots: Vec<Mutex<(Option<I>, Option<T>)>> =
        items.into_iter().map(|item| Mutex::new((Some(item), None))).collect();
    workers.run(slots.len(), &|at| {
        let Some(slot) = slots.get(at) else { return };
        let item = slot.lock().unwrap_or_else(PoisonError::into_inner).0.take();
        let made = item.map(&work);
        if made.is_some() {
            slot.lock().unwrap_or_else(PoisonError::into_inner).1 = made;
        }
    });
    let taken = slots.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner));
    // What nobody ran is run here.
    taken.filter_map(|(item, made)| made.or_else(|| item.map(&work))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the last piece first, and leaves one out.
    struct Odd;

    impl Workers for Odd {
        fn run(&self, count: usize, work: &(dyn Fn(usize) + Sync)) {
            (1..count).rev().for_each(work);
        }
    }

    #[test]
    fn answers_stand_in_the_order_of_items_whoever_ran_them() {
        for workers in [&Alone as &dyn Workers, &Odd] {
            assert_eq!(each(workers, vec![1, 2, 3], |item| item * 10), [10, 20, 30]);
        }
    }
}
