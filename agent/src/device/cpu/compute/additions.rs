//! Threads that add to counters in memory: to one, or each to its own.

#![allow(unsafe_code)]

use std::sync::atomic::Ordering;

use crate::device::cpu::memory::View;

/// Elements from one thread's counter to the next one's: two cache lines, which some processors fetch together.
const SPREAD: usize = 32;

/// The counter of a thread.
fn place(thread: usize, counters: usize) -> usize {
    thread * SPREAD % counters.max(1)
}

/// Gives each counter its number less what will be added to it. One thread alone.
pub(super) fn begin(of_thread: u64, threads: usize, arrays: &[View]) {
    let Some(output) = arrays.first() else { return };
    // SAFETY: one thread acts alone while the others wait for it.
    let counters = unsafe { output.write::<u32>(0..output.elements()) };
    for (counter, index) in counters.iter_mut().zip(0..) {
        *counter = index;
    }
    for thread in 0..threads {
        let at = place(thread, counters.len());
        if let Some(counter) = counters.get_mut(at) {
            *counter = counter.wrapping_sub(of_thread as u32);
        }
    }
}

/// Adds so many times to the thread's counter.
pub(super) fn add(of_thread: u64, thread: usize, arrays: &[View]) {
    let Some(output) = arrays.first() else { return };
    // SAFETY: between the meetings of the team, its threads use counters in this way only.
    let Some(counter) = (unsafe { output.counter(place(thread, output.elements())) }) else { return };
    for _ in 0..of_thread {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
