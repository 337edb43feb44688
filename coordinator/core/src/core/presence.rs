//! What is true only now, and never journalled: who is connected, and until when leases run.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_model::id::{AgentId, TaskId};

use crate::event::Timestamp;

/// Whether an agent can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Connection {
    /// Its stream is open.
    Attached,
    /// Its stream ended.
    Away {
        /// When.
        since: Timestamp,
        /// Whether it said goodbye: it is not waited for.
        left: bool,
    },
}

/// Connections and deadlines.
#[derive(Debug, Clone, Default)]
pub(super) struct Presence {
    connections: BTreeMap<AgentId, Connection>,
    deadlines: BTreeMap<TaskId, Timestamp>,
    by_time: BTreeSet<(Timestamp, TaskId)>,
    /// Tasks that were given back or failed, and when they may be handed out again.
    pub(super) resting: BTreeSet<(Timestamp, TaskId)>,
    /// The latest look at the deadlines.
    pub(super) looked: Timestamp,
    /// Whether all of this stems from a replay, whose times are long past.
    pub(super) stale: bool,
}

impl Presence {
    pub(super) fn connect(&mut self, agent: &AgentId) {
        self.connections.insert(agent.clone(), Connection::Attached);
    }

    /// Does nothing to an agent that is away already: the first time counts.
    pub(super) fn disconnect(&mut self, agent: &AgentId, now: Timestamp, left: bool) {
        let before = self.connections.get(agent).copied();
        let connection = match before {
            Some(Connection::Away { since, left: left_before }) => {
                Connection::Away { since, left: left || left_before }
            }
            Some(Connection::Attached) | None => Connection::Away { since: now, left },
        };
        self.connections.insert(agent.clone(), connection);
    }

    pub(super) fn is_attached(&self, agent: &AgentId) -> bool {
        self.connections.get(agent) == Some(&Connection::Attached)
    }

    /// Since when an agent is away; the beginning of time for one that was never here.
    pub(super) fn away_since(&self, agent: &AgentId) -> Option<Timestamp> {
        match self.connections.get(agent) {
            Some(Connection::Attached) => None,
            Some(Connection::Away { since, .. }) => Some(*since),
            None => Some(Timestamp::default()),
        }
    }

    /// When an agent is no longer waited for. `None` while it is attached.
    pub(super) fn given_up_at(&self, agent: &AgentId, grace_ns: u64) -> Option<Timestamp> {
        match self.connections.get(agent) {
            Some(Connection::Attached) => None,
            Some(Connection::Away { since, left: false }) => Some(since.after_ns(grace_ns)),
            Some(Connection::Away { since, left: true }) => Some(*since),
            None => Some(Timestamp::default()),
        }
    }

    /// All agents that are away and were not looked for since: when they are no longer waited for.
    pub(super) fn give_up_times(&self, grace_ns: u64) -> impl Iterator<Item = (Timestamp, &AgentId)> {
        let agents = self.connections.keys();
        agents.filter_map(move |agent| Some((self.given_up_at(agent, grace_ns)?, agent)))
    }

    pub(super) fn set_deadline(&mut self, task: &TaskId, deadline: Timestamp) {
        self.clear_deadline(task);
        self.deadlines.insert(task.clone(), deadline);
        self.by_time.insert((deadline, task.clone()));
    }

    pub(super) fn clear_deadline(&mut self, task: &TaskId) {
        if let Some(deadline) = self.deadlines.remove(task) {
            self.by_time.remove(&(deadline, task.clone()));
        }
    }

    pub(super) fn deadline(&self, task: &TaskId) -> Option<Timestamp> {
        self.deadlines.get(task).copied()
    }

    pub(super) fn first_deadline(&self) -> Option<&(Timestamp, TaskId)> {
        self.by_time.first()
    }

    /// Tasks whose leases have run out.
    pub(super) fn expired(&self, now: Timestamp) -> Vec<TaskId> {
        self.by_time.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, task)| task.clone()).collect()
    }

    /// After a replay: nobody could renew a lease or come back while the coordinator was not there, so every lease has
    /// a full term and every absence begins now.
    pub(super) fn renew(&mut self, now: Timestamp, lease_ns: u64) {
        let tasks: Vec<TaskId> = self.deadlines.keys().cloned().collect();
        for task in tasks {
            self.set_deadline(&task, now.after_ns(lease_ns));
        }
        for connection in self.connections.values_mut() {
            if let Connection::Away { since, .. } = connection {
                *since = now;
            }
        }
        self.looked = now;
        self.stale = false;
    }
}
