//! Threads pinned to cores, that run one job together and meet at barriers.
//!
//! Between jobs they sleep; during a job they spin, so that an interval between two barriers holds the work and the
//! few hundred nanoseconds of a barrier, never a wake-up.

use std::hint;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::device::DeviceError;

/// Turns of a spinning thread before it offers its core to others: about 0.1 ms, far longer than members of a team
/// differ when they have their cores to themselves.
const SPINS_BEFORE_YIELD: u32 = 1 << 14;

/// A member of the team panicked, so its barrier will never be met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TeamLost;

type Job = dyn Fn(&Member<'_>) -> Result<(), TeamLost> + Send + Sync;

/// The threads. Dropping it ends them.
#[derive(Debug)]
pub(super) struct Pool {
    workers: Vec<Sender<Order>>,
    joins: Vec<thread::JoinHandle<()>>,
}

/// One job for one worker.
struct Order {
    job: Arc<Job>,
    team: Arc<Team>,
    index: usize,
    done: Sender<Result<(), TeamLost>>,
}

impl Pool {
    /// One thread for each of these cores, pinned to it.
    ///
    /// # Errors
    /// [`DeviceError::Launch`] if a thread cannot be made, or not be pinned.
    pub(super) fn new(cores: &[usize]) -> Result<Self, DeviceError> {
        let mut pool = Self { workers: Vec::new(), joins: Vec::new() };
        for &core in cores {
            let (orders, inbox) = mpsc::channel();
            let (ready, pinned) = mpsc::channel();
            let join = thread::Builder::new()
                .name(format!("cpu-{core}"))
                .spawn(move || {
                    let outcome = pin(core);
                    let usable = outcome.is_ok();
                    let listened = ready.send(outcome).is_ok();
                    if usable && listened {
                        serve(&inbox);
                    }
                })
                .map_err(|error| failed("starting a thread", &error.to_string()))?;
            pool.joins.push(join);
            pool.workers.push(orders);
            match pinned.recv() {
                Ok(Ok(())) => {}
                Ok(Err(errno)) => return Err(failed(&format!("pinning a thread to core {core}"), &errno.to_string())),
                Err(_) => return Err(failed(&format!("pinning a thread to core {core}"), "the thread ended")),
            }
        }
        Ok(pool)
    }

    /// How many threads there are.
    pub(super) fn size(&self) -> usize {
        self.workers.len()
    }

    /// Runs a job on the first `threads` threads at once, and waits until all have ended it. The caller sleeps.
    ///
    /// # Errors
    /// [`DeviceError::Lost`] if a thread panicked, or has ended.
    pub(super) fn execute(
        &mut self,
        threads: usize,
        job: impl Fn(&Member<'_>) -> Result<(), TeamLost> + Send + Sync + 'static,
    ) -> Result<(), DeviceError> {
        let job: Arc<Job> = Arc::new(job);
        let threads = threads.clamp(1, self.workers.len().max(1));
        let team = Arc::new(Team::new(threads));
        let (done, outcomes) = mpsc::channel();
        for (index, worker) in self.workers.iter().take(threads).enumerate() {
            let order = Order { job: Arc::clone(&job), team: Arc::clone(&team), index, done: done.clone() };
            if worker.send(order).is_err() {
                // The others must not wait for a thread that has ended.
                team.lost.store(true, Ordering::Relaxed);
            }
        }
        drop(done);
        let ended = outcomes.iter().filter(Result::is_ok).count();
        if ended == threads {
            Ok(())
        } else {
            Err(DeviceError::Lost { reason: format!("{} threads of the cpu backend failed", threads - ended) })
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.workers.clear();
        for join in self.joins.drain(..) {
            // A worker catches the panics of its jobs, so there is nothing to learn from the result.
            let _ = join.join();
        }
    }
}

/// An atomic on cache lines of its own (two, because of adjacent-line prefetch), so that spinning on one disturbs no
/// other.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Alone<T>(T);

/// What the threads of one job share.
#[derive(Debug)]
struct Team {
    size: usize,
    /// Members, the leader left out, that wait at the barrier.
    arrived: Alone<AtomicUsize>,
    /// Barriers met.
    epoch: Alone<AtomicUsize>,
    lost: AtomicBool,
}

impl Team {
    fn new(size: usize) -> Self {
        Self { size, arrived: Alone::default(), epoch: Alone::default(), lost: AtomicBool::new(false) }
    }

    fn wait_until(&self, condition: impl Fn() -> bool) -> Result<(), TeamLost> {
        let mut spins = 0_u32;
        while !condition() {
            if self.lost.load(Ordering::Relaxed) {
                return Err(TeamLost);
            }
            spins = spins.saturating_add(1);
            if spins < SPINS_BEFORE_YIELD {
                hint::spin_loop();
            } else {
                thread::yield_now();
            }
        }
        Ok(())
    }
}

/// One thread within the team of a job.
#[derive(Debug)]
pub(super) struct Member<'a> {
    index: usize,
    team: &'a Team,
}

impl Member<'_> {
    /// Its number, from 0. Number 0 leads.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// Threads of the job.
    pub(super) fn team_size(&self) -> usize {
        self.team.size
    }

    /// Waits for all members. The leader then acts while the others still wait, and gets what its action gave; the
    /// others get `None`.
    ///
    /// # Errors
    /// [`TeamLost`] if a member will never come.
    pub(super) fn meet<T>(&self, action: impl FnOnce() -> T) -> Result<Option<T>, TeamLost> {
        let team = self.team;
        let epoch = team.epoch.0.load(Ordering::Acquire);
        if self.index == 0 {
            team.wait_until(|| team.arrived.0.load(Ordering::Acquire) == team.size - 1)?;
            team.arrived.0.store(0, Ordering::Relaxed);
            let result = action();
            team.epoch.0.store(epoch.wrapping_add(1), Ordering::Release);
            Ok(Some(result))
        } else {
            team.arrived.0.fetch_add(1, Ordering::AcqRel);
            team.wait_until(|| team.epoch.0.load(Ordering::Acquire) != epoch)?;
            Ok(None)
        }
    }
}

fn pin(core: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
}

/// Runs orders until the pool is dropped.
fn serve(inbox: &Receiver<Order>) {
    for Order { job, team, index, done } in inbox {
        let member = Member { index, team: &team };
        let outcome = panic::catch_unwind(AssertUnwindSafe(|| job(&member))).unwrap_or(Err(TeamLost));
        if outcome.is_err() {
            team.lost.store(true, Ordering::Relaxed);
        }
        // Buffers that the job holds are freed before its caller goes on.
        drop(job);
        // Only a caller that has given up already does not listen.
        let _ = done.send(outcome);
    }
}

fn failed(what: &str, reason: &str) -> DeviceError {
    DeviceError::Launch { what: what.to_owned(), reason: reason.to_owned() }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    fn pool_on_this_core(threads: usize) -> Pool {
        let set = rustix::thread::sched_getaffinity(None).expect("the affinity is readable");
        let core = (0..CpuSet::MAX_CPU).find(|core| set.is_set(*core)).expect("some core is usable");
        Pool::new(&vec![core; threads]).expect("threads can be pinned to a usable core")
    }

    #[test]
    fn a_barrier_lets_nobody_pass_before_all_have_come() {
        let mut pool = pool_on_this_core(3);
        let log = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&log);
        let outcome = pool.execute(3, move |member| {
            for step in 0..50 {
                shared.lock().expect("no thread panics here").push(step);
                member.meet(|| ())?;
            }
            Ok(())
        });
        assert_eq!(outcome, Ok(()));
        let log = log.lock().expect("no thread panicked");
        let expected: Vec<usize> = (0..50).flat_map(|step| [step; 3]).collect();
        assert_eq!(*log, expected, "a thread ran ahead of the barrier");
    }

    #[test]
    fn a_smaller_team_leaves_the_other_threads_asleep() {
        let mut pool = pool_on_this_core(3);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&seen);
        let job = move |member: &Member<'_>| {
            shared.lock().expect("no thread panics here").push((member.index(), member.team_size()));
            Ok(())
        };
        assert_eq!(pool.execute(1, job), Ok(()));
        assert_eq!(*seen.lock().expect("no thread panicked"), [(0, 1)]);
    }

    #[test]
    fn a_panic_ends_the_job_for_all_and_spares_the_pool() {
        let mut pool = pool_on_this_core(2);
        let outcome = pool.execute(2, |member| {
            assert_eq!(member.index(), 0, "deliberate: shows that the other thread does not wait for ever");
            member.meet(|| ()).map(|_| ())
        });
        assert!(matches!(outcome, Err(DeviceError::Lost { .. })), "a panic must be reported, got {outcome:?}");
        assert_eq!(pool.execute(2, |_| Ok(())), Ok(()), "the pool must survive a job that panicked");
    }
}
