//! Agents that come, stay, and go.

use fleetcal_model::id::{AgentId, TaskId};

use super::Core;
use super::run::RunState;
use super::task::{Lease, Mishap, Task};
use crate::action::Action;
use crate::event::{AgentIdentity, Event, LeaseKey, Timestamp};

/// What the core makes of a lease that an agent says it holds.
enum Claim {
    /// It is the agent's.
    Present,
    /// It is the agent's, and its run was cancelled: it should be given up.
    Cancelled,
    /// It expired, and nobody has taken the task, its devices or its place on the node: the agent can have it back.
    Lapsed(Lease),
    /// It is no longer the agent's.
    Lost,
}

impl Core {
    /// An agent says hello. Leases of its own that it does not name are lost; those that it names are kept where nobody
    /// else has taken them.
    pub(super) fn join(
        &mut self,
        now: Timestamp,
        identity: AgentIdentity,
        held: &[LeaseKey],
        actions: &mut Vec<Action>,
    ) {
        let agent = identity.agent.clone();
        self.ledger.fleet.join(identity);
        self.presence.connect(&agent);
        for task in self.ledger.held_by(&agent) {
            let lease = self.ledger.tasks.get(&task).and_then(|task| task.lease()).cloned();
            if let Some(lease) = lease.filter(|lease| !held.contains(&lease.key)) {
                let mishap = Mishap { reason: "its agent came back without it", rest_ns: 0, may_return: false };
                self.strike(now, &task, &lease, mishap, actions);
            }
        }
        for key in held {
            match self.claim(&agent, key) {
                // Told with its next heartbeat if its run was cancelled: a lease that is lost is not given up in order.
                Claim::Present | Claim::Cancelled => {
                    self.presence.set_deadline(&key.task, now.after_ns(self.config.lease_ns));
                }
                // Decided on the ledger alone, so a replay of the hello decides it again: no fact of its own is said.
                Claim::Lapsed(lease) => self.grant(now, &agent, key, &lease.devices, actions),
                Claim::Lost => self.revoke(&agent, key, actions),
            }
        }
    }

    /// An agent says goodbye: what it held waits for others.
    pub(super) fn leave(&mut self, now: Timestamp, agent: &AgentId, actions: &mut Vec<Action>) {
        self.presence.disconnect(agent, now, true);
        for task in self.ledger.held_by(agent) {
            self.change(now, &task, actions, |task| {
                task.note = Some(format!("agent {agent} left before it was done"));
                task.wait(now, now, None);
            });
        }
    }

    /// Renews what the agent holds.
    pub(super) fn heartbeat(&mut self, now: Timestamp, agent: &AgentId, held: &[LeaseKey], actions: &mut Vec<Action>) {
        if !self.presence.is_attached(agent) {
            return;
        }
        for key in held {
            match self.claim(agent, key) {
                Claim::Present => self.presence.set_deadline(&key.task, now.after_ns(self.config.lease_ns)),
                // Not renewed: a holder that goes on measuring must not keep the run from ending.
                Claim::Cancelled => self.revoke(agent, key, actions),
                Claim::Lapsed(lease) => {
                    let fact = Event::Granted { agent: agent.clone(), lease: key.clone(), devices: lease.devices };
                    self.say(now, fact, actions);
                }
                Claim::Lost => self.revoke(agent, key, actions),
            }
        }
    }

    fn claim(&self, agent: &AgentId, key: &LeaseKey) -> Claim {
        let Some(task) = self.ledger.tasks.get(&key.task) else { return Claim::Lost };
        let is_it = |lease: &&Lease| lease.key == *key && lease.agent == *agent;
        if task.lease().filter(is_it).is_some() {
            return if self.cancel_reason(task).is_some() { Claim::Cancelled } else { Claim::Present };
        }
        match task.lapsed().filter(is_it) {
            Some(lease) if self.are_free(lease) && self.has_room(task, lease) => Claim::Lapsed(lease.clone()),
            Some(_) | None => Claim::Lost,
        }
    }

    fn has_room(&self, task: &Task, lease: &Lease) -> bool {
        let devices_per_node = self.ledger.devices_per_node(task);
        self.ledger.crowd(&lease.agent).has_room(lease.devices.len() as u64, devices_per_node)
    }

    fn are_free(&self, lease: &Lease) -> bool {
        let devices = &self.ledger.fleet.devices;
        lease.devices.iter().all(|device| devices.get(device).is_some_and(|device| device.task.is_none()))
    }

    /// Why the task's run was cancelled, if it was.
    fn cancel_reason(&self, task: &Task) -> Option<&str> {
        let run = self.ledger.runs.get(&task.run)?;
        (run.state == RunState::Cancelled).then_some(run.cancel_reason.as_str())
    }

    pub(super) fn revoke(&self, agent: &AgentId, key: &LeaseKey, actions: &mut Vec<Action>) {
        let reason = self.why_lost(&key.task);
        actions.push(Action::Revoke { agent: agent.clone(), lease: key.clone(), reason });
    }

    fn why_lost(&self, task: &TaskId) -> String {
        match self.ledger.tasks.get(task) {
            None => format!("task {task} is not known here"),
            Some(task) if self.cancel_reason(task).is_some() => {
                format!("the run was cancelled: {}", self.cancel_reason(task).unwrap_or_default())
            }
            Some(task) => match task.lease() {
                Some(lease) => format!("task {} was given to agent {} meanwhile", task.id, lease.agent),
                None if task.state.is_ended() => format!("task {} has ended", task.id),
                None => format!("the lease of task {} is over", task.id),
            },
        }
    }
}
