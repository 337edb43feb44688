//! Listeners: everything the loop does beyond looping.

use std::collections::BTreeMap;

use super::HarnessError;
use super::bench::Bench;
use crate::device::{Device, RawSample};
use crate::worker::message::Vote;

/// What a hook returns. A [`crate::device::DeviceError`] that spares the context costs the solution at hand, where there
/// is one; anything else ends the task.
pub type HookResult = Result<(), HarnessError>;

/// Something that takes part in the loop. Every method has a default that does nothing.
///
/// A fault that costs the solution in hand skips the rest of its visit and no `post_*` hook: these run even where a
/// `pre_*` hook of their level failed, so they take nothing for granted. After an error that ends the task no hook runs
/// any more: nothing that it could find out would hold, and a row cut short must stay open for the agent to finish.
pub trait Listener<D: Device> {
    /// Its name in logs.
    fn name(&self) -> &'static str;

    /// Untimed launches that it wants before the timed ones of a visit.
    fn warmups(&self, _bench: &Bench<'_, D>) -> Option<u64> {
        None
    }

    /// Batches of timed launches that it wants at least.
    fn syncs(&self, _bench: &Bench<'_, D>) -> Option<u64> {
        None
    }

    /// Timed launches that it wants in the next batch.
    fn enqueues_per_sync(&self, _bench: &Bench<'_, D>) -> Option<u64> {
        None
    }

    /// Hears how many warm-ups there will be.
    fn set_warmups(&mut self, _count: u64) {}

    /// Hears how many batches there will be at least.
    fn set_syncs(&mut self, _count: u64) {}

    /// Hears how many launches the next batch has.
    fn set_enqueues_per_sync(&mut self, _count: u64) {}

    /// Whether it wants another round.
    fn needs_more_rounds(&mut self, _bench: &Bench<'_, D>) -> bool {
        false
    }

    /// Whether it wants another warm-up in this visit, beyond the count asked for.
    fn needs_more_warmups(&mut self, _bench: &Bench<'_, D>) -> bool {
        false
    }

    /// Whether it wants another batch of samples in this visit.
    fn needs_more_samples(&mut self, _bench: &mut Bench<'_, D>) -> bool {
        false
    }

    /// A round begins.
    fn pre_round(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// A round is over.
    fn post_round(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// Solutions of the point in hand come next.
    fn pre_problem(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// The next visit is to another point.
    fn post_problem(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// The solution in hand comes next.
    fn pre_solution(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// The solution in hand is done with for this round.
    fn post_solution(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// A visit begins.
    fn pre_visit(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// A visit is over.
    fn post_visit(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// The first warm-up of a visit has run and nothing was timed yet: the place to judge results. Forward order.
    fn validate_warmup(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// A batch of samples comes next. Forward order.
    fn pre_sync(&mut self, _bench: &mut Bench<'_, D>) -> HookResult {
        Ok(())
    }

    /// A batch of samples is complete. Forward order.
    fn post_sync(&mut self, _bench: &mut Bench<'_, D>, _samples: &[RawSample]) -> HookResult {
        Ok(())
    }
}

/// The listeners of a task, in order of registration, asked and told together.
pub struct Listeners<'a, D: Device> {
    members: Vec<Box<dyn Listener<D> + 'a>>,
    ballots: Ballots,
}

/// How often a listener said yes to a question.
type Ballots = BTreeMap<(&'static str, &'static str), u64>;

/// Declares hooks that run forward, or in reverse.
macro_rules! hooks {
    ($($(#[$doc:meta])* $hook:ident $($reverse:ident)?;)+) => {
        $($(#[$doc])*
        ///
        /// # Errors
        /// The first error of any listener.
        pub fn $hook(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
            hooks!(@run self, bench, $hook $($reverse)?)
        })+
    };
    (@run $self:ident, $bench:ident, $hook:ident) => {
        $self.members.iter_mut().try_for_each(|listener| listener.$hook($bench))
    };
    // Every post hook runs, whatever the others said: each may have something to put back.
    (@run $self:ident, $bench:ident, $hook:ident reverse) => {
        $self.members.iter_mut().rev().fold(Ok(()), |outcome, listener| outcome.and(listener.$hook($bench)))
    };
}

impl<'a, D: Device> Listeners<'a, D> {
    /// Registers listeners.
    pub fn new(members: Vec<Box<dyn Listener<D> + 'a>>) -> Self {
        Self { members, ballots: Ballots::new() }
    }

    hooks! {
        /// Before a round, forward.
        pre_round;
        /// After a round, in reverse.
        post_round reverse;
        /// Before a point, forward.
        pre_problem;
        /// After a point, in reverse.
        post_problem reverse;
        /// Before a solution, forward.
        pre_solution;
        /// After a solution, in reverse.
        post_solution reverse;
        /// Before a visit, forward.
        pre_visit;
        /// After a visit, in reverse.
        post_visit reverse;
        /// After the first warm-up, forward.
        validate_warmup;
        /// Before a batch of samples, forward.
        pre_sync;
    }

    /// After a batch of samples, forward.
    ///
    /// # Errors
    /// The first error of any listener.
    pub fn post_sync(&mut self, bench: &mut Bench<'_, D>, samples: &[RawSample]) -> HookResult {
        self.members.iter_mut().try_for_each(|listener| listener.post_sync(bench, samples))
    }

    /// Warm-ups of the next visit: the largest count asked for, told to all.
    pub fn warmups(&mut self, bench: &Bench<'_, D>) -> u64 {
        let count = self.members.iter().filter_map(|listener| listener.warmups(bench)).max().unwrap_or(0);
        self.members.iter_mut().for_each(|listener| listener.set_warmups(count));
        count
    }

    /// Batches of the next visit: the largest count asked for, told to all.
    pub fn syncs(&mut self, bench: &Bench<'_, D>) -> u64 {
        let count = self.members.iter().filter_map(|listener| listener.syncs(bench)).max().unwrap_or(0);
        self.members.iter_mut().for_each(|listener| listener.set_syncs(count));
        count
    }

    /// Launches of the next batch: the largest count asked for, told to all. At least one.
    pub fn enqueues_per_sync(&mut self, bench: &Bench<'_, D>) -> u64 {
        let count =
            self.members.iter().filter_map(|listener| listener.enqueues_per_sync(bench)).max().unwrap_or(1).max(1);
        self.members.iter_mut().for_each(|listener| listener.set_enqueues_per_sync(count));
        count
    }

    /// Whether any listener wants another round. All are asked.
    pub fn needs_more_rounds(&mut self, bench: &Bench<'_, D>) -> bool {
        let votes: Vec<_> =
            self.members.iter_mut().map(|listener| (listener.name(), listener.needs_more_rounds(bench))).collect();
        carried(&mut self.ballots, "another round", &votes)
    }

    /// Whether any listener wants another warm-up of this visit. All are asked.
    pub fn needs_more_warmups(&mut self, bench: &Bench<'_, D>) -> bool {
        let votes: Vec<_> =
            self.members.iter_mut().map(|listener| (listener.name(), listener.needs_more_warmups(bench))).collect();
        carried(&mut self.ballots, "another warm-up", &votes)
    }

    /// Whether any listener wants more samples of this visit. All are asked.
    pub fn needs_more_samples(&mut self, bench: &mut Bench<'_, D>) -> bool {
        let votes: Vec<_> =
            self.members.iter_mut().map(|listener| (listener.name(), listener.needs_more_samples(bench))).collect();
        carried(&mut self.ballots, "more samples", &votes)
    }

    /// Who said yes since this was last asked, and how often: an adaptive stop that nobody can explain is none.
    pub fn take_votes(&mut self) -> Vec<Vote> {
        let ballots = std::mem::take(&mut self.ballots);
        let vote = |((question, listener), yes): ((&str, &str), u64)| Vote {
            question: question.to_owned(),
            listener: listener.to_owned(),
            yes,
        };
        ballots.into_iter().map(vote).collect()
    }
}

/// Counts who said yes; whether anybody did.
fn carried(kept: &mut Ballots, question: &'static str, votes: &[(&'static str, bool)]) -> bool {
    let yes = votes.iter().filter(|(_, yes)| *yes);
    yes.clone().for_each(|(name, _)| *kept.entry((question, name)).or_default() += 1);
    yes.count() > 0
}
