//! What the driver owns, and one batch of work on it. Blocking, and free of tokio's tasks.

use fleetcal_core::action::{Action, Grant};
use fleetcal_core::core::{Core, CoreConfig};
use fleetcal_core::event::{AgentIdentity, Event, LeaseKey, Timestamp};
use fleetcal_model::id::AgentId;
use fleetcal_proto::convert::LeasedTask;
use fleetcal_proto::v1;
use fleetcal_proto::v1::coordinator_message::Body;
use tokio::sync::oneshot;

use super::{Answer, Command, DriverError, Sessions, View, Welcome};
use crate::constants::EndedRuns;
use crate::convert::wire_lease;
use crate::error::CoordinatorError;
use crate::folder::HeldFolder;
use crate::journal::{Entry, Journal};
use crate::views;
use crate::watch::{News, ProgressPace, Watchers};

#[cfg(test)]
pub(crate) mod tests;

/// An agent without work is to ask again after this long, unless it is told earlier.
const NO_WORK_RETRY_MS: u64 = 5_000;

/// Core, journal and sessions, with the folder that they live in.
pub(crate) struct State {
    core: Core,
    config: CoreConfig,
    journal: Journal,
    sessions: Sessions,
    watchers: Watchers,
    pace: ProgressPace,
    ended: EndedRuns,
    latest: Timestamp,
    /// Whether the last batch could not be journalled: said once, not with every try.
    journal_refused: bool,
    _folder: HeldFolder,
}

/// A command that has been worked on, and waits for the journal.
enum Pending {
    Stepped {
        actions: Vec<Action>,
        reply: Option<oneshot::Sender<Result<Answer, DriverError>>>,
    },
    Committed {
        actions: Vec<Action>,
        reply: oneshot::Sender<Result<(), DriverError>>,
    },
    Joined {
        agent: AgentId,
        session: String,
        actions: Vec<Action>,
        reply: oneshot::Sender<Result<Welcome, DriverError>>,
    },
    Done(Box<dyn FnOnce() + Send>),
    Read(Box<dyn FnOnce(&View<'_>) + Send>),
    Stop {
        reply: oneshot::Sender<Result<(), DriverError>>,
    },
}

impl State {
    /// Replays the journal into a new core.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(crate) fn replay(
        folder: HeldFolder,
        journal: Journal,
        config: CoreConfig,
        watchers: Watchers,
        ended: EndedRuns,
    ) -> Result<Self, CoordinatorError> {
        let (core, latest) = replayed(&journal, config)?;
        let sessions = Sessions::default();
        let pace = ProgressPace::default();
        let journal_refused = false;
        let mut state =
            Self { core, config, journal, sessions, watchers, pace, ended, latest, journal_refused, _folder: folder };
        state.detach_unconnected();
        Ok(state)
    }

    /// When the core wants to look at its deadlines.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.core.next_deadline().map(|(at, _)| at)
    }

    /// Carries out a batch. Answers whether there is to be another.
    ///
    /// # Errors
    /// The journal took nothing of the batch and cannot be read back either: the core is not to be trusted any more.
    pub(crate) fn work(&mut self, now: Timestamp, batch: Vec<Command>) -> Result<bool, CoordinatorError> {
        // A clock that was set back between two starts must not reorder the journal.
        self.latest = self.latest.max(now);
        let mut entries = Vec::new();
        let pending: Vec<Pending> = batch.into_iter().map(|command| self.take(command, &mut entries)).collect();
        let appended = if entries.is_empty() { Ok(()) } else { self.journal.append(&entries) };
        match appended {
            Ok(()) => {
                self.journal_refused &= entries.is_empty();
                Ok(self.each(pending, Self::finish))
            }
            Err(error) => {
                if !std::mem::replace(&mut self.journal_refused, true) {
                    tracing::error!(%error, "events cannot be journalled: nothing new is begun until they can");
                }
                (self.core, _) = replayed(&self.journal, self.config)?;
                let refusal = DriverError::from(&error);
                let goes_on = self.each(pending, |state, pending| state.refuse(pending, &refusal));
                self.detach_unconnected();
                Ok(goes_on)
            }
        }
    }

    /// Ends every pending command, those behind a stop included. Answers whether the driver goes on.
    fn each(&mut self, pending: Vec<Pending>, end: impl Fn(&mut Self, Pending) -> bool) -> bool {
        let mut goes_on = true;
        for pending in pending {
            goes_on &= end(self, pending);
        }
        goes_on
    }

    /// Steps the core for one command, and collects what must be durable first.
    fn take(&mut self, command: Command, entries: &mut Vec<Entry>) -> Pending {
        match command {
            Command::Step { event, reply } => Pending::Stepped { actions: self.step(event, entries), reply },
            Command::Commit { parts, reply } => {
                let mut actions = Vec::new();
                for (part, event) in parts {
                    entries.push(Entry::Part(part));
                    actions.extend(self.step(event, entries));
                }
                Pending::Committed { actions, reply }
            }
            Command::Join { identity, held, reply } => self.join(identity, held, reply, entries),
            Command::Attach { session, outbox, reply } => {
                let attached = self.sessions.attach(&session, outbox).ok_or(DriverError::UnknownSession);
                Pending::Done(Box::new(move || drop(reply.send(attached))))
            }
            Command::Detach { session } => {
                let closed = self.sessions.close(&session);
                let actions =
                    closed.map(|agent| self.step(Event::AgentDetached { agent }, entries)).unwrap_or_default();
                Pending::Stepped { actions, reply: None }
            }
            Command::Progress { agent, lease, progress } => {
                if let Some((run, news)) = views::progress(&self.core, &agent, &lease, *progress)
                    && self.pace.lets_pass(self.latest, &news)
                {
                    self.watchers.tell(run, News::Progress(news));
                }
                Pending::Done(Box::new(|| ()))
            }
            Command::Read(look) => Pending::Read(look),
            Command::Stop { reply } => Pending::Stop { reply },
        }
    }

    fn join(
        &mut self,
        identity: AgentIdentity,
        held: Vec<LeaseKey>,
        reply: oneshot::Sender<Result<Welcome, DriverError>>,
        entries: &mut Vec<Entry>,
    ) -> Pending {
        let agent = identity.agent.clone();
        let actions = self.step(Event::AgentJoined { identity, held }, entries);
        let session = self.sessions.open(agent.clone());
        Pending::Joined { agent, session, actions, reply }
    }

    fn step(&mut self, event: Event, entries: &mut Vec<Entry>) -> Vec<Action> {
        if event.is_durable() {
            entries.push(Entry::Event(self.latest, event.clone()));
        }
        let mut actions = Vec::new();
        self.core.step(self.latest, event, &mut actions);
        for action in &actions {
            if let Action::Journal(event) = action {
                entries.push(Entry::Event(self.latest, event.clone()));
            }
        }
        actions
    }

    /// Performs what a command led to: all of it is durable now. Answers whether the driver goes on.
    fn finish(&mut self, pending: Pending) -> bool {
        match pending {
            Pending::Stepped { actions, reply } => {
                let answer = self.perform(actions);
                reply.map(|reply| reply.send(Ok(answer)));
            }
            Pending::Committed { actions, reply } => {
                self.perform(actions);
                // An error here and below means that who asked has gone.
                let _ = reply.send(Ok(()));
            }
            Pending::Joined { agent, session, actions, reply } => {
                let (lost, others) = split_lost(&agent, actions);
                self.perform(others);
                let _ = reply.send(Ok(Welcome { session, lost }));
            }
            Pending::Done(answer) => answer(),
            Pending::Read(look) => look(&self.view()),
            Pending::Stop { reply } => {
                let _ = reply.send(self.journal.checkpoint().map_err(|error| DriverError::from(&error)));
                return false;
            }
        }
        true
    }

    /// Answers a command of a batch that the journal did not take. Answers whether the driver goes on.
    fn refuse(&mut self, pending: Pending, refusal: &DriverError) -> bool {
        match pending {
            Pending::Stepped { reply, .. } => drop(reply.map(|reply| reply.send(Err(refusal.clone())))),
            Pending::Committed { reply, .. } => drop(reply.send(Err(refusal.clone()))),
            Pending::Joined { session, reply, .. } => {
                self.sessions.close(&session);
                drop(reply.send(Err(refusal.clone())));
            }
            // These needed no journal.
            Pending::Done(_) | Pending::Read(_) | Pending::Stop { .. } => return self.finish(pending),
        }
        true
    }

    fn perform(&mut self, actions: Vec<Action>) -> Answer {
        let mut answer = Answer::default();
        for action in actions {
            match action {
                // Appended with its batch, before anything is performed.
                Action::Journal(_) => {}
                Action::Grant { agent, grant } => self.sessions.send(&agent, Body::Grant(grant_message(*grant))),
                Action::NoWork { agent } => {
                    self.sessions.send(&agent, Body::NoWork(v1::NoWork { retry_ms: NO_WORK_RETRY_MS }));
                }
                Action::Revoke { agent, lease, reason } => {
                    let lease = Some((&wire_lease(lease)).into());
                    self.sessions.send(&agent, Body::Revoke(v1::Revoke { lease, reason }));
                }
                Action::WorkAvailable => self.sessions.nudge(),
                Action::NodeFreed { agent } => self.sessions.nudge_one(&agent),
                Action::TaskChanged { task } => {
                    if self.core.task(&task).is_none_or(|task| task.lease().is_none()) {
                        self.pace.forget(&task);
                    }
                    if let Some((run, change, status)) = views::task_news(&self.core, &task) {
                        self.watchers.tell(run, News::Task(change, status));
                    }
                }
                Action::RunEnded { run } => {
                    self.ended.add(&run);
                    self.watchers.tell(run, News::Ended);
                }
                Action::Refused { refusal, reason, .. } => answer.refused = Some((refusal, reason)),
            }
        }
        answer
    }

    fn view(&self) -> View<'_> {
        View { core: &self.core, sessions: &self.sessions, journal: &self.journal }
    }

    /// Tells the core which agents have no session: after a replay it knows only that they once said hello.
    fn detach_unconnected(&mut self) {
        for agent in views::agents(&self.core) {
            if !self.sessions.is_connected(&agent) {
                // Not durable, and what it leads to (nothing is granted) needs no performing.
                self.core.step(self.latest, Event::AgentDetached { agent }, &mut Vec::new());
            }
        }
    }
}

/// A core as the journal says it is, and the time of the last event.
pub(crate) fn replayed(journal: &Journal, config: CoreConfig) -> Result<(Core, Timestamp), CoordinatorError> {
    let mut core = Core::new(config);
    let mut latest = Timestamp::default();
    let mut other_version = None;
    let events = journal.replay(|now, event| {
        latest = latest.max(now);
        if other_version.is_none() {
            other_version = core.replay(now, event).err();
        }
    })?;
    if let Some(source) = other_version {
        return Err(CoordinatorError::Replay { source });
    }
    tracing::debug!(events, "replayed the journal");
    Ok((core, latest))
}

/// Parts the leases that a joining agent lost from everything else: it is told of them in the answer to its hello.
fn split_lost(joined: &AgentId, actions: Vec<Action>) -> (Vec<LeaseKey>, Vec<Action>) {
    let is_lost = |action: &Action| matches!(action, Action::Revoke { agent, .. } if agent == joined);
    let (revokes, others): (Vec<_>, Vec<_>) = actions.into_iter().partition(is_lost);
    let lost = revokes
        .into_iter()
        .filter_map(|action| if let Action::Revoke { lease, .. } = action { Some(lease) } else { None });
    (lost.collect(), others)
}

fn grant_message(grant: Grant) -> v1::Task {
    v1::Task::from(&LeasedTask {
        lease: wire_lease(grant.lease),
        run_id: grant.run,
        plan_digest: grant.plan_digest,
        devices: grant.devices,
        points: grant.points,
        policy: grant.policy,
        seed: grant.seed,
        label: grant.label,
        selected: grant.selected,
        alone_on_node: grant.alone_on_node,
    })
}
