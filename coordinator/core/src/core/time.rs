//! What only the passing of time brings.

use std::fmt;

use fleetcal_model::id::{AgentId, ClassId, TaskId};

use super::ledger::Queue;
use super::{Core, work_available};
use crate::action::Action;
use crate::event::{Event, LeaseKey, Timestamp};

/// What a deadline is for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeadlineReason {
    /// The task's lease runs out.
    LeaseEnds(TaskId),
    /// The task, given back or failed before, can be handed out again.
    TaskRested(TaskId),
    /// The agent is no longer waited for: twins of its devices take its tasks.
    AgentGivenUp(AgentId),
    /// Tasks of the class are set aside, because no device of it is connected.
    ClassOrphaned(ClassId),
}

impl fmt::Display for DeadlineReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LeaseEnds(task) => write!(f, "the lease of task {task} runs out"),
            Self::TaskRested(task) => write!(f, "task {task} can be handed out again"),
            Self::AgentGivenUp(agent) => write!(f, "agent {agent} is no longer waited for"),
            Self::ClassOrphaned(class) => write!(f, "no device of class {class} is connected"),
        }
    }
}

impl Core {
    /// When [`Event::Tick`] is due next, and for what. `None` while nothing depends on time.
    pub fn next_deadline(&self) -> Option<(Timestamp, DeadlineReason)> {
        let lease = self.presence.first_deadline().map(|(at, task)| (*at, DeadlineReason::LeaseEnds(task.clone())));
        let resting = self.presence.resting.first();
        let rested = resting.map(|(at, task)| (*at, DeadlineReason::TaskRested(task.clone())));
        let waiting = self.ledger.queues.values().any(|queue| !queue.is_empty());
        let given_up = self
            .presence
            .give_up_times(self.config.grace_ns)
            .filter(|(at, _)| waiting && *at > self.presence.looked)
            .min()
            .map(|(at, agent)| (at, DeadlineReason::AgentGivenUp(agent.clone())));
        let orphaned = self.ledger.queues.iter().filter_map(|(class, queue)| {
            let first = self.orphan_times(class, queue).map(|(at, _)| at).min()?;
            Some((first, DeadlineReason::ClassOrphaned(class.clone())))
        });
        lease.into_iter().chain(rested).chain(given_up).chain(orphaned).min()
    }

    /// Looks at every deadline that has passed.
    pub(super) fn look(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        let expired: Vec<LeaseKey> = self
            .presence
            .expired(now)
            .iter()
            .filter_map(|task| Some(self.ledger.tasks.get(task)?.lease()?.key.clone()))
            .collect();
        if !expired.is_empty() {
            self.say(now, Event::Expired { leases: expired.clone() }, actions);
            self.tell_holders(&expired, actions);
        }
        for (class, tasks) in self.orphans(now) {
            let waited_s = self.config.orphan_ns / 1_000_000_000;
            let reason = format!("no device of class {class} was connected for {waited_s} s");
            self.say(now, Event::Abandoned { tasks, reason }, actions);
        }
        let looked = self.presence.looked;
        let passed = |at: Timestamp| looked < at && at <= now;
        let given_up = self.presence.give_up_times(self.config.grace_ns).any(|(at, _)| passed(at));
        let rested = self.presence.resting.first().is_some_and(|(at, _)| *at <= now);
        if given_up || rested {
            work_available(actions);
        }
        self.presence.resting.retain(|(at, _)| *at > now);
        self.presence.looked = self.presence.looked.max(now);
    }

    /// A holder that is connected and yet renewed nothing should stop.
    fn tell_holders(&self, expired: &[LeaseKey], actions: &mut Vec<Action>) {
        for key in expired {
            let lapsed = self.ledger.tasks.get(&key.task).and_then(|task| task.lapsed());
            if let Some(lease) = lapsed.filter(|lease| self.presence.is_attached(&lease.agent)) {
                let reason = "its lease was not renewed in time".to_owned();
                actions.push(Action::Revoke { agent: lease.agent.clone(), lease: key.clone(), reason });
            }
        }
    }

    /// Waiting tasks that no device is left for, by the slug of their class.
    fn orphans(&self, now: Timestamp) -> Vec<(String, Vec<TaskId>)> {
        let mut orphans = Vec::new();
        for (class, queue) in &self.ledger.queues {
            let due = self.orphan_times(class, queue).filter(|(at, _)| *at <= now);
            let tasks: Vec<TaskId> = due.map(|(_, task)| task.clone()).collect();
            if !tasks.is_empty() {
                orphans.push((self.class_slug(class).unwrap_or_else(|| class.to_string()), tasks));
            }
        }
        orphans
    }

    /// When the waiting tasks of a class are set aside. Empty while a device of the class is connected.
    fn orphan_times<'a>(
        &'a self,
        class: &ClassId,
        queue: &'a Queue,
    ) -> impl Iterator<Item = (Timestamp, &'a TaskId)> + use<'a> {
        let fleet = &self.ledger.fleet;
        let members = fleet.by_class.get(class).into_iter().flatten();
        let mut devices = members.filter_map(|device| fleet.devices.get(device)).peekable();
        let mut absent_since = Some(Timestamp::default());
        // An empty queue, the usual one, is not worth a look at the devices.
        while let (false, Some(device)) = (queue.is_empty(), devices.next()) {
            if self.is_present(device) {
                absent_since = None;
                break;
            }
            // The device of a connected agent that no longer has it: away since before anybody asked.
            let since = self.presence.away_since(&device.agent).unwrap_or_default();
            absent_since = absent_since.max(Some(since));
        }
        let tasks = absent_since.map(|absent| queue.values().map(move |task| (absent, task)));
        tasks.into_iter().flatten().filter_map(|(absent, id)| {
            let since = self.ledger.tasks.get(id)?.pending_since()?.max(absent);
            Some((since.after_ns(self.config.orphan_ns), id))
        })
    }
}
