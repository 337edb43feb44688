//! The scheduler: who measures what, until when.
//!
//! [`Core::step`] takes the time and one event, changes the core, and says what the shell has to do. What the core knows
//! is in two parts: the [`Ledger`], which the journal's facts alone decide and [`Core::replay`] restores, and presence
//! (connections, deadlines), which nobody journals.
//!
//! A task belongs to the device that it was planned for. It goes to a twin, which is another device of the same class,
//! when its own device has failed it twice, or when that device's agent said goodbye or was away for the grace time.
//! Tasks of a class that no device is connected of are set aside after the orphan time.

use fleetcal_model::id::{AgentId, RunId, TaskId};

use crate::action::{Action, Refused};
use crate::event::{Event, Timestamp};

mod fleet;
mod lease;
mod ledger;
mod offer;
mod presence;
mod run;
mod session;
mod submit;
mod task;
mod time;
mod view;

pub use fleet::{Device, Fleet};
pub use ledger::Ledger;
pub use run::{Run, RunState, TaskCounts};
pub use submit::ReplayError;
pub use task::{Lease, Strike, Task, TaskState};
pub use time::DeadlineReason;
pub use view::{AgentView, DeviceView};

use presence::Presence;

/// Times and limits of the scheduler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CoreConfig {
    /// A lease that no heartbeat renews ends after this long, nanoseconds.
    pub lease_ns: u64,
    /// A device whose agent is away is waited for this long before twins take its tasks, nanoseconds.
    pub grace_ns: u64,
    /// Tasks wait this long for a class without any connected device before they are set aside, nanoseconds.
    pub orphan_ns: u64,
    /// A task that an agent gave back rests this long, nanoseconds.
    pub rest_ns: u64,
    /// A task that failed on a device is not tried there again before this long after the first failure, nanoseconds;
    /// each further one doubles it. A twin may try at once.
    pub retry_ns: u64,
    /// Attempts that may go wrong before a task is set aside.
    pub attempts_max: usize,
}

impl Default for CoreConfig {
    fn default() -> Self {
        const SECOND_NS: u64 = 1_000_000_000;
        Self {
            lease_ns: 30 * SECOND_NS,
            grace_ns: 60 * SECOND_NS,
            orphan_ns: 900 * SECOND_NS,
            rest_ns: 5 * SECOND_NS,
            retry_ns: 5 * SECOND_NS,
            attempts_max: 3,
        }
    }
}

/// The scheduler's state.
#[derive(Debug, Clone)]
pub struct Core {
    config: CoreConfig,
    ledger: Ledger,
    presence: Presence,
}

impl Core {
    /// A core that knows nobody.
    pub fn new(config: CoreConfig) -> Self {
        Self { config, ledger: Ledger::default(), presence: Presence::default() }
    }

    /// Takes one event, and appends what the shell has to do.
    ///
    /// The first step after a replay that is more than an agent's detachment counts as the restart: every lease then has
    /// a full term, and every absence begins.
    pub fn step(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        if self.presence.stale && !matches!(event, Event::AgentDetached { .. }) {
            self.presence.renew(now, self.config.lease_ns);
        }
        self.take(now, event, actions);
    }

    /// Takes one durable event from the journal, with the time it was journalled with. Nothing is asked of the shell.
    /// Agents count as connected until the shell says that they are detached.
    ///
    /// # Errors
    /// The event means something else to this version than to the one that journalled it: nothing that was replayed is to
    /// be worked with.
    pub fn replay(&mut self, now: Timestamp, event: Event) -> Result<(), ReplayError> {
        self.presence.stale = true;
        if let Event::RunStarted { run, plan, devices, tasks_digest, selections } = event {
            return self.start_run(now, run, (&plan, &tasks_digest), (&devices, selections), &mut Vec::new());
        }
        self.take(now, event, &mut Vec::new());
        Ok(())
    }

    /// Everything durable: two cores that took the same facts have equal ledgers.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    fn take(&mut self, now: Timestamp, event: Event, actions: &mut Vec<Action>) {
        match event {
            Event::RunSubmitted { run, plan, selectors, selections } => {
                self.submit(now, run, (plan, &selectors), selections, actions);
            }
            Event::RunStarted { run, plan, devices, tasks_digest, selections } => {
                let (planned, fleet) = ((plan.as_str(), tasks_digest.as_str()), (devices.as_slice(), selections));
                if let Err(error) = self.start_run(now, run.clone(), planned, fleet, actions) {
                    refuse(&run, Refused::Request, error, actions);
                }
            }
            Event::RunResumed { run } => self.resume_run(now, &run, actions),
            Event::RunCancelled { run, reason } => self.cancel_run(now, &run, &reason, actions),
            Event::AgentJoined { identity, held } => self.join(now, identity, &held, actions),
            Event::AgentDetached { agent } => self.presence.disconnect(&agent, now, false),
            Event::AgentLeft { agent } => self.leave(now, &agent, actions),
            Event::Heartbeat { agent, held } => self.heartbeat(now, &agent, &held, actions),
            Event::WorkRequested { agent, idle } => self.offer(now, &agent, &idle, actions),
            Event::Granted { agent, lease, devices } => self.grant(now, &agent, &lease, &devices, actions),
            Event::ChunksCommitted { segments, .. } => self.commit(&segments, actions),
            Event::TaskEnded { agent, lease, end } => self.end_task(now, &agent, &lease, end, actions),
            Event::Tick => self.look(now, actions),
            Event::Expired { leases } => self.expire(now, &leases, actions),
            Event::Abandoned { tasks, reason } => self.abandon(now, &tasks, &reason, actions),
        }
    }

    /// Says a fact of the core's own: it is journalled, and then taken as a replay will take it.
    fn say(&mut self, now: Timestamp, fact: Event, actions: &mut Vec<Action>) {
        actions.push(Action::Journal(fact.clone()));
        self.take(now, fact, actions);
    }

    /// Changes a task, keeps its deadline, and says what follows.
    fn change(&mut self, now: Timestamp, id: &TaskId, actions: &mut Vec<Action>, change: impl FnOnce(&mut Task)) {
        let Some(changed) = self.ledger.change(id, change) else { return };
        let Some(task) = self.ledger.tasks.get(id) else { return };
        match &task.state {
            TaskState::Leased(_) => self.presence.set_deadline(id, now.after_ns(self.config.lease_ns)),
            TaskState::Pending { .. } => {
                self.presence.clear_deadline(id);
                let rests = task.rests().filter(|until| *until > now).map(|until| (until, id.clone()));
                self.presence.resting.extend(rests);
            }
            TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::SetAside { .. } => {
                self.presence.clear_deadline(id);
            }
        }
        actions.push(Action::TaskChanged { task: id.clone() });
        if changed.waits {
            work_available(actions);
        }
        // Others of its devices may have found nothing because too many were measured.
        let of_several = |agent: &AgentId| self.ledger.fleet.agents.get(agent).is_some_and(|it| it.devices.len() > 1);
        if let Some(agent) = changed.freed.filter(of_several) {
            actions.push(Action::NodeFreed { agent });
        }
        if changed.run_ended {
            actions.push(Action::RunEnded { run: task.run.clone() });
        }
    }
}

/// Says once that there may be work.
fn work_available(actions: &mut Vec<Action>) {
    if !actions.iter().any(|action| matches!(action, Action::WorkAvailable)) {
        actions.push(Action::WorkAvailable);
    }
}

/// Says that a user's request cannot be done.
fn refuse(run: &RunId, refusal: Refused, reason: impl ToString, actions: &mut Vec<Action>) {
    actions.push(Action::Refused { run: run.clone(), refusal, reason: reason.to_string() });
}

#[cfg(test)]
mod tests;
