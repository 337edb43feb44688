//! Everything around the core, under virtual time: a shell that journals, agents, users, and what goes wrong.

use std::collections::{BTreeMap, BTreeSet};

use fleetcal_core::action::Action;
use fleetcal_core::core::{Core, CoreConfig, TaskState};
use fleetcal_core::event::{CommittedSegment, Event, LeaseKey, TaskEnd, Timestamp};
use fleetcal_core::invariant::check;
use fleetcal_model::id::{RunId, TaskId};

use crate::node::{Link, Node};
use crate::random::Random;

pub(crate) const SECOND_NS: u64 = 1_000_000_000;

pub(crate) const PLAN: &str = r#"
name = "simulated"
[[sweep]]
family = "stream"
dtypes = ["f32"]
elements = ["2^20", "2^22"]
points_per_task = 2
"#;

/// The world.
pub(crate) struct World {
    pub(crate) core: Core,
    pub(crate) now: Timestamp,
    pub(crate) nodes: Vec<Node>,
    pub(crate) random: Random,
    /// Facts with their times, as text.
    journal: Vec<(Timestamp, String)>,
    /// What was committed, counted apart from the core.
    rows: BTreeMap<(TaskId, u64), u64>,
    /// What happened at least once.
    pub(crate) reached: BTreeSet<&'static str>,
    runs: usize,
    parts: usize,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            core: Core::new(CoreConfig::default()),
            now: Timestamp(SECOND_NS),
            nodes: (0..3).map(|index| Node::new(index, 2)).collect(),
            random: Random::new(seed),
            journal: Vec::new(),
            rows: BTreeMap::new(),
            reached: BTreeSet::new(),
            runs: 0,
            parts: 0,
        }
    }

    /// One step of the core: journalled as a shell does, performed, and checked.
    pub(crate) fn step(&mut self, event: Event) -> Vec<Action> {
        self.journal(&event);
        let mut actions = Vec::new();
        self.core.step(self.now, event.clone(), &mut actions);
        for action in &actions {
            self.perform(action);
        }
        let violations = check(&self.core);
        assert!(violations.is_empty(), "after {event:?}:\n{violations:#?}");
        actions
    }

    fn journal(&mut self, event: &Event) {
        if event.is_durable() {
            let text = serde_json::to_string(event).expect("events are plain data");
            self.journal.push((self.now, text));
        }
    }

    fn perform(&mut self, action: &Action) {
        match action {
            Action::Journal(event) => {
                assert!(event.is_durable(), "a request was journalled: {event:?}");
                if matches!(event, Event::Expired { .. }) {
                    self.reached.insert("expired");
                }
                if matches!(event, Event::Abandoned { .. }) {
                    self.reached.insert("abandoned");
                }
                self.journal(event);
            }
            Action::Grant { agent, grant } => {
                // One grant of twenty is lost on its way.
                let lost = self.random.percent(5);
                let node = self.nodes.iter_mut().find(|node| node.id() == *agent).expect("known");
                assert!(!grant.points.is_empty() && grant.devices.len() == 1, "a grant of nothing: {grant:?}");
                if !grant.alone_on_node && !node.held.is_empty() {
                    self.reached.insert("measured beside a neighbour");
                }
                if node.is_open() && !lost {
                    node.held.insert(grant.lease.task.clone(), (grant.lease.clone(), grant.devices.clone()));
                }
            }
            Action::Revoke { agent, lease, reason } => {
                assert!(!reason.is_empty(), "a lease was revoked without a reason");
                self.reached.insert("revoked");
                let node = self.nodes.iter_mut().find(|node| node.id() == *agent).expect("known");
                if !self.core.holds(agent, lease) {
                    node.held.retain(|_, (key, _)| key != lease);
                    return;
                }
                // Of a cancelled run: rows are still to come, and then the lease is given up, unless that is lost.
                self.reached.insert("cancelled while leased");
                if node.held.remove(&lease.task).is_some() {
                    let end = TaskEnd::Released { reason: reason.clone() };
                    node.late.push(Event::TaskEnded { agent: agent.clone(), lease: lease.clone(), end });
                }
            }
            Action::Refused { reason, .. } => assert!(!reason.is_empty(), "refused without a reason"),
            Action::NoWork { .. }
            | Action::WorkAvailable
            | Action::NodeFreed { .. }
            | Action::TaskChanged { .. }
            | Action::RunEnded { .. } => {}
        }
    }

    /// Time passes, and the shell ticks.
    pub(crate) fn pass(&mut self, ns: u64) {
        self.now = self.now.after_ns(ns);
        self.step(Event::Tick);
        let next = self.core.next_deadline();
        assert!(
            next.as_ref().is_none_or(|(at, _)| *at > self.now),
            "{next:?} is still due after a tick at {:?}",
            self.now
        );
    }

    pub(crate) fn join(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        let back = !node.held.is_empty() && node.link == Link::Cut;
        node.link = Link::Open;
        let (identity, held) = (node.identity.clone(), node.keys());
        let lapsed = held.iter().any(|key| self.core.lease(key).is_none());
        self.step(Event::AgentJoined { identity, held: held.clone() });
        if back && lapsed && held.iter().any(|key| self.core.lease(key).is_some()) {
            self.reached.insert("lapsed lease kept");
        }
    }

    /// The link breaks; the process may die with it.
    pub(crate) fn cut(&mut self, index: usize, dies: bool) {
        let node = &mut self.nodes[index];
        if dies {
            node.held.clear();
        }
        if node.is_open() {
            let agent = node.id();
            self.step(Event::AgentDetached { agent });
        }
        self.nodes[index].link = if dies { Link::Dead } else { Link::Cut };
    }

    pub(crate) fn leave(&mut self, index: usize) {
        let node = &mut self.nodes[index];
        node.held.clear();
        if node.is_open() {
            node.link = Link::Dead;
            let agent = node.id();
            self.step(Event::AgentLeft { agent });
        }
    }

    pub(crate) fn beat(&mut self, index: usize) {
        let node = &self.nodes[index];
        let (agent, held) = (node.id(), node.keys());
        if node.is_open() {
            self.step(Event::Heartbeat { agent, held });
        }
    }

    pub(crate) fn ask(&mut self, index: usize) {
        // A confused agent now and then takes every device of its own for idle.
        let confused = self.random.percent(10);
        let node = &self.nodes[index];
        let all = node.identity.devices.iter().map(|facts| facts.uuid.clone());
        let (agent, idle) = (node.id(), if confused { all.collect() } else { node.idle() });
        if node.is_open() {
            self.step(Event::WorkRequested { agent, idle });
        }
    }

    /// The agent ends one of its tasks: rows first, then the answer. Unheard, both stay on their way.
    pub(crate) fn finish(&mut self, index: usize, end: TaskEnd) {
        let Some((task, (lease, _))) = self.nodes[index].held.pop_first() else { return };
        let rows = 1 + self.random.below(8) as u64;
        let segments = vec![CommittedSegment { lease: lease.clone(), rows }];
        self.parts += 1;
        let part = format!("part-{}", self.parts);
        *self.rows.entry((task, lease.attempt)).or_default() += rows;
        let commit = Event::ChunksCommitted { chunks: vec![part.as_str().into()], part, segments };
        let ended = Event::TaskEnded { agent: self.nodes[index].id(), lease, end };
        if self.nodes[index].is_open() {
            self.step(commit);
            self.deliver(ended.clone());
            if self.random.percent(10) {
                self.nodes[index].late.push(ended);
            }
        } else {
            self.nodes[index].late.extend([commit, ended]);
        }
    }

    /// The network delivers what it still carried.
    pub(crate) fn deliver_late(&mut self, index: usize) {
        for event in std::mem::take(&mut self.nodes[index].late) {
            self.deliver(event);
        }
    }

    /// An answer under a lease that is not in force has to change nothing.
    fn deliver(&mut self, event: Event) {
        let Event::TaskEnded { agent, lease, .. } = &event else {
            self.step(event);
            return;
        };
        let in_force = self.core.holds(agent, lease);
        let before = (!in_force).then(|| self.core.ledger().clone());
        let lease = lease.clone();
        let actions = self.step(event);
        if let Some(before) = before {
            self.reached.insert("late answer");
            assert_eq!(before, *self.core.ledger(), "a late answer under {lease:?} moved something");
            assert!(actions.is_empty(), "a late answer under {lease:?} led to {actions:?}");
        }
    }

    pub(crate) fn submit(&mut self) {
        self.runs += 1;
        // Every other run lets its neighbours be measured too.
        let limits = if self.runs.is_multiple_of(2) { "[limits]\ndevices_per_node = 2\n" } else { "" };
        let (run, plan) = (self.run_id(self.runs), format!("{PLAN}{limits}"));
        self.step(Event::RunSubmitted { run, plan, selectors: Vec::new(), selections: Vec::new() });
    }

    pub(crate) fn cancel(&mut self) {
        let run = self.any_run();
        self.step(Event::RunCancelled { run, reason: "the user said so".to_owned() });
    }

    pub(crate) fn resume(&mut self) {
        let run = self.any_run();
        self.step(Event::RunResumed { run });
    }

    fn any_run(&mut self) -> RunId {
        let number = self.random.below(self.runs + 1);
        self.run_id(number)
    }

    fn run_id(&self, number: usize) -> RunId {
        RunId::new(format!("run-{number}"))
    }

    /// The coordinator dies and comes back from its journal: nothing durable is lost, and nobody is connected.
    pub(crate) fn restart(&mut self) {
        let restored = self.replayed();
        assert_eq!(restored.ledger(), self.core.ledger(), "the journal restores another ledger");
        self.core = restored;
        for index in 0..self.nodes.len() {
            if self.nodes[index].is_open() {
                self.nodes[index].link = Link::Cut;
            }
            let agent = self.nodes[index].id();
            self.core.step(self.now, Event::AgentDetached { agent }, &mut Vec::new());
        }
        self.reached.insert("restarted");
    }

    pub(crate) fn replayed(&self) -> Core {
        let mut core = Core::new(CoreConfig::default());
        for (now, text) in &self.journal {
            let event = serde_json::from_str(text).expect("what was written is read");
            core.replay(*now, event).expect("what was written means the same");
        }
        core
    }

    /// The core counts every committed row for its attempt, as this world does.
    pub(crate) fn check_rows(&self) {
        let waiting: BTreeSet<&LeaseKey> =
            self.nodes.iter().flat_map(|node| node.late.iter()).flat_map(undelivered).collect();
        assert!(waiting.is_empty(), "some rows are still on their way: {waiting:?}");
        for ((task, attempt), rows) in &self.rows {
            let counted = self.core.task(task).and_then(|task| task.rows.get(attempt));
            assert_eq!(counted, Some(rows), "rows of attempt {attempt} of {task}");
        }
    }

    /// Notes which states tasks have been in.
    pub(crate) fn note_states(&mut self) {
        for task in self.core.runs().flat_map(|run| self.core.tasks(&run.id)) {
            self.reached.insert(match &task.state {
                TaskState::Pending { .. } => "pending",
                TaskState::Leased(_) => "leased",
                TaskState::Done { .. } => "done",
                TaskState::Failed { .. } => "failed",
                TaskState::SetAside { .. } => "set aside",
            });
            if task.lease().is_some_and(|lease| !lease.devices.contains(&task.home)) {
                self.reached.insert("moved to a twin");
            }
        }
    }
}

fn undelivered(event: &Event) -> Vec<&LeaseKey> {
    let Event::ChunksCommitted { segments, .. } = event else { return Vec::new() };
    segments.iter().map(|segment| &segment.lease).collect()
}
