//! Leases that are given, answered, and broken.

use fleetcal_model::id::{AgentId, DeviceId, TaskId};

use super::Core;
use super::task::{Lease, Mishap, TaskState};
use crate::action::Action;
use crate::event::{CommittedSegment, LeaseKey, TaskEnd, Timestamp};

impl Core {
    /// A lease begins, or goes on under its old key.
    pub(super) fn grant(
        &mut self,
        now: Timestamp,
        agent: &AgentId,
        key: &LeaseKey,
        devices: &[DeviceId],
        actions: &mut Vec<Action>,
    ) {
        self.ledger.epoch = self.ledger.epoch.max(key.epoch);
        let lease = Lease { key: key.clone(), agent: agent.clone(), devices: devices.to_vec() };
        self.change(now, &key.task, actions, |task| {
            if task.lapsed().is_some_and(|lapsed| lapsed.key == lease.key) {
                // It was not lost after all.
                task.strikes.truncate(task.strikes.len().saturating_sub(devices.len()));
            } else if !devices.contains(&task.home) {
                let why = if task.wants_twin_of(&task.home) { "failed it" } else { "was not there" };
                task.note = Some(format!("moved to a device of the same class: {} {why}", task.home));
            }
            task.attempt = task.attempt.max(lease.key.attempt);
            task.state = TaskState::Leased(lease);
        });
    }

    /// An agent says that a task ended. An answer under a lease that is over moves nothing.
    pub(super) fn end_task(
        &mut self,
        now: Timestamp,
        agent: &AgentId,
        key: &LeaseKey,
        end: TaskEnd,
        actions: &mut Vec<Action>,
    ) {
        let present = self.ledger.tasks.get(&key.task).and_then(|task| task.lease());
        let Some(lease) = present.filter(|lease| lease.key == *key && lease.agent == *agent).cloned() else { return };
        let rest_ns = self.config.rest_ns;
        match end {
            TaskEnd::Failed { reason, retry: true } => {
                let mishap = Mishap { reason: &reason, rest_ns: self.config.retry_ns, may_return: false };
                self.strike(now, &key.task, &lease, mishap, actions);
            }
            TaskEnd::Failed { reason, retry: false } => {
                self.change(now, &key.task, actions, |task| task.state = TaskState::Failed { reason });
            }
            TaskEnd::Done { dropped } => self.change(now, &key.task, actions, |task| {
                task.state = TaskState::Done { attempt: lease.key.attempt, dropped };
            }),
            TaskEnd::Released { reason } => self.change(now, &key.task, actions, |task| {
                task.note = Some(format!("given back by {agent}: {reason}"));
                task.wait(now, now.after_ns(rest_ns), None);
            }),
        }
    }

    /// An attempt went wrong.
    pub(super) fn strike(
        &mut self,
        now: Timestamp,
        task: &TaskId,
        lease: &Lease,
        mishap: Mishap<'_>,
        actions: &mut Vec<Action>,
    ) {
        let attempts_max = self.config.attempts_max;
        self.change(now, task, actions, |task| task.strike(now, lease, &mishap, attempts_max));
    }

    /// Leases ran out.
    pub(super) fn expire(&mut self, now: Timestamp, leases: &[LeaseKey], actions: &mut Vec<Action>) {
        for key in leases {
            let present = self.ledger.tasks.get(&key.task).and_then(|task| task.lease());
            let Some(lease) = present.filter(|lease| lease.key == *key).cloned() else { continue };
            let reason = format!("agent {} was not heard of for the time of a lease", lease.agent);
            let mishap = Mishap { reason: &reason, rest_ns: 0, may_return: true };
            self.strike(now, &key.task, &lease, mishap, actions);
        }
    }

    /// Tasks that nobody is left for.
    pub(super) fn abandon(&mut self, now: Timestamp, tasks: &[TaskId], reason: &str, actions: &mut Vec<Action>) {
        for task in tasks {
            if self.ledger.tasks.get(task).is_some_and(|task| task.pending_since().is_some()) {
                self.change(now, task, actions, |task| task.state = TaskState::SetAside { reason: reason.to_owned() });
            }
        }
    }

    /// Rows are durable. They count for the attempt that measured them, whatever became of its lease.
    pub(super) fn commit(&mut self, segments: &[CommittedSegment], actions: &mut Vec<Action>) {
        for CommittedSegment { lease, rows } in segments {
            self.ledger.rows += rows;
            let task = self.ledger.tasks.get_mut(&lease.task);
            match task.filter(|task| (1..=task.attempt).contains(&lease.attempt)) {
                Some(task) => {
                    *task.rows.entry(lease.attempt).or_default() += rows;
                    actions.push(Action::TaskChanged { task: lease.task.clone() });
                }
                None => self.ledger.stray_rows += rows,
            }
        }
    }
}
