//! Who is connected: one live session an agent, and the stream that its work goes out on.

use std::collections::BTreeMap;

use fleetcal_model::id::AgentId;
use fleetcal_proto::v1;
use tokio::sync::mpsc;
use tokio_util::sync::{CancellationToken, DropGuard};
use tonic::Status;
use uuid::Uuid;

/// Messages for an agent that wait in its stream. An agent that lets more pile up reads none of them: it is detached.
const OUTBOX_MESSAGES: usize = 256;

/// The coordinator's half of an agent's stream.
pub(crate) type Outbox = mpsc::Sender<Result<v1::CoordinatorMessage, Status>>;

/// What an agent's stream reads from.
pub(crate) type Inbox = mpsc::Receiver<Result<v1::CoordinatorMessage, Status>>;

/// A stream's two ends.
pub(crate) fn outbox() -> (Outbox, Inbox) {
    mpsc::channel(OUTBOX_MESSAGES)
}

/// Every live session.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_agent: BTreeMap<AgentId, Session>,
}

#[derive(Debug)]
struct Session {
    id: String,
    outbox: Option<Outbox>,
    /// Whether it was told that there is no work, and nothing since.
    waits_for_work: bool,
    ended: CancellationToken,
    /// Ends what runs for the session once it is replaced or closed.
    _ends: DropGuard,
}

impl Sessions {
    /// Opens a session; an older one of the same agent ends. Answers its id.
    pub(crate) fn open(&mut self, agent: AgentId) -> String {
        let id = Uuid::new_v4().to_string();
        let ended = CancellationToken::new();
        let _ends = ended.clone().drop_guard();
        self.by_agent.insert(agent, Session { id: id.clone(), outbox: None, waits_for_work: false, ended, _ends });
        id
    }

    /// The agent of a live session.
    pub(crate) fn agent(&self, id: &str) -> Option<&AgentId> {
        self.by_agent.iter().find(|(_, session)| session.id == id).map(|(agent, _)| agent)
    }

    /// Puts a stream under a live session. Answers its agent, and what is cancelled when the session ends.
    pub(crate) fn attach(&mut self, id: &str, outbox: Outbox) -> Option<(AgentId, CancellationToken)> {
        let (agent, session) = self.by_agent.iter_mut().find(|(_, session)| session.id == id)?;
        session.outbox = Some(outbox);
        Some((agent.clone(), session.ended.clone()))
    }

    /// Ends a session. Answers its agent, or nothing if it had ended, or was replaced, before.
    pub(crate) fn close(&mut self, id: &str) -> Option<AgentId> {
        let agent = self.agent(id)?.clone();
        self.by_agent.remove(&agent);
        Some(agent)
    }

    /// Sends to an agent, if it is attached. An agent that reads nothing is detached.
    pub(crate) fn send(&mut self, agent: &AgentId, body: v1::coordinator_message::Body) {
        let Some(session) = self.by_agent.get_mut(agent) else { return };
        match body {
            v1::coordinator_message::Body::NoWork(_) => session.waits_for_work = true,
            v1::coordinator_message::Body::Grant(_) => session.waits_for_work = false,
            v1::coordinator_message::Body::Revoke(_) => {}
        }
        let Some(outbox) = &session.outbox else { return };
        if outbox.try_send(Ok(v1::CoordinatorMessage { body: Some(body) })).is_err() {
            tracing::warn!(%agent, "agent reads nothing from its stream, closing it");
            session.outbox = None;
            session.ended.cancel();
        }
    }

    /// Tells every agent that waits for work to ask again now.
    pub(crate) fn nudge(&mut self) {
        let agents: Vec<AgentId> = self.by_agent.keys().cloned().collect();
        agents.iter().for_each(|agent| self.nudge_one(agent));
    }

    /// Tells an agent to ask again now, if it waits for work.
    pub(crate) fn nudge_one(&mut self, agent: &AgentId) {
        if self.by_agent.get(agent).is_some_and(|session| session.waits_for_work) {
            self.send(agent, v1::coordinator_message::Body::NoWork(v1::NoWork { retry_ms: 0 }));
            if let Some(session) = self.by_agent.get_mut(agent) {
                session.waits_for_work = false;
            }
        }
    }

    /// Whether the agent has a live session.
    pub(crate) fn is_connected(&self, agent: &AgentId) -> bool {
        self.by_agent.contains_key(agent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_session_of_an_agent_ends_the_first() {
        let mut sessions = Sessions::default();
        let agent = AgentId::new("agent-1");
        let first = sessions.open(agent.clone());
        let (outbox, mut inbox) = outbox();
        let (_, ended) = sessions.attach(&first, outbox).expect("the session is live");
        assert!(!ended.is_cancelled());

        let second = sessions.open(agent.clone());
        assert!(ended.is_cancelled(), "what runs for the first session must end");
        assert!(matches!(inbox.try_recv(), Err(mpsc::error::TryRecvError::Disconnected)), "its stream must end");
        assert_eq!(sessions.agent(&first), None);
        assert_eq!(sessions.close(&first), None, "the end of the first stream must not close the second session");
        assert_eq!(sessions.agent(&second), Some(&agent));
    }

    #[test]
    fn only_agents_that_wait_are_nudged_and_once() {
        let mut sessions = Sessions::default();
        let mut inboxes = BTreeMap::new();
        for name in ["waiting", "busy"] {
            let id = sessions.open(AgentId::new(name));
            let (outbox, inbox) = outbox();
            sessions.attach(&id, outbox).expect("live");
            inboxes.insert(name, inbox);
        }
        let waiting = AgentId::new("waiting");
        sessions.send(&waiting, v1::coordinator_message::Body::NoWork(v1::NoWork { retry_ms: 500 }));
        // A revoke changes nothing: it still waits.
        sessions.send(&waiting, v1::coordinator_message::Body::Revoke(v1::Revoke::default()));
        sessions.nudge();
        sessions.nudge();
        let mut received = |name: &str| std::iter::from_fn(|| inboxes.get_mut(name)?.try_recv().ok()).count();
        assert_eq!(received("waiting"), 3, "one NoWork, one Revoke and one nudge");
        assert_eq!(received("busy"), 0);
    }

    #[test]
    fn an_agent_that_reads_nothing_is_detached_and_delays_nobody() {
        let mut sessions = Sessions::default();
        let agent = AgentId::new("deaf");
        let id = sessions.open(agent.clone());
        let (outbox, _inbox) = outbox();
        let (_, ended) = sessions.attach(&id, outbox).expect("live");
        for _ in 0..=OUTBOX_MESSAGES {
            sessions.send(&agent, v1::coordinator_message::Body::NoWork(v1::NoWork { retry_ms: 1 }));
        }
        assert!(ended.is_cancelled());
    }
}
