//! Everything that can happen to the core. Closed: nothing else crosses its border.
//!
//! Events are requests or facts. A request (a submission, an idle device, a tick) is decided on what is true at that
//! moment, connections included, so it is never journalled; the facts that it leads to are, by the core's own word
//! ([`crate::action::Action::Journal`]). Facts alone, replayed in order with their times, give the same core again.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{AgentId, ChunkId, ClassId, DeviceId, RunId, TaskId};
use fleetcal_model::selection::Selected;
use serde::{Deserialize, Serialize};

/// Nanoseconds since 1970 UTC, as the shell's clock says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This long after.
    pub fn after_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }
}

/// A lease as its holder names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LeaseKey {
    /// The task.
    pub task: TaskId,
    /// The attempt.
    pub attempt: u64,
    /// The epoch, that fences late answers.
    pub epoch: u64,
}

/// An agent, as it introduced itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgentIdentity {
    /// Its identity.
    pub agent: AgentId,
    /// Node label.
    pub node: String,
    /// Host name.
    pub host: String,
    /// Rack label.
    pub rack: Option<String>,
    /// Version of its binary.
    pub version: String,
    /// Its devices.
    pub devices: Vec<DeviceFacts>,
    /// Why backends found nothing.
    pub backend_notes: std::collections::BTreeMap<String, String>,
}

/// How an agent says that a task ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TaskEnd {
    /// Every row was measured and acknowledged.
    Done {
        /// Points that were dropped, with the reason.
        dropped: Vec<String>,
    },
    /// It failed.
    Failed {
        /// Why.
        reason: String,
        /// Whether another try may help.
        retry: bool,
    },
    /// The agent gives it back unfinished.
    Released {
        /// Why.
        reason: String,
    },
}

/// Rows of one lease inside a chunk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommittedSegment {
    /// Under which lease they were measured.
    pub lease: LeaseKey,
    /// How many.
    pub rows: u64,
}

/// What the constants of a class select, as they are in force when a run begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassSelection {
    /// The class.
    pub class: ClassId,
    /// The solutions, at most one of each kernel and number format.
    pub solutions: Vec<Selected>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// A user asks for a run. Not durable: it is refused, or the core says `RunStarted`.
    RunSubmitted {
        /// Identity given to the run.
        run: RunId,
        /// The plan's TOML text.
        plan: String,
        /// Narrows the plan to devices that match one of these selectors, if any.
        selectors: Vec<String>,
        /// What the constants in force select, by class; only a plan that measures selected solutions looks at it.
        selections: Vec<ClassSelection>,
    },
    /// A run has started on these devices. Said by the core itself, and replayed as it was. It carries the plan's text,
    /// which is parsed and planned again, so that a replay needs nothing else; a replay whose tasks would be others is
    /// refused. Devices that join later are not added.
    RunStarted {
        /// The run.
        run: RunId,
        /// The plan's TOML text.
        plan: String,
        /// The devices it is planned for: those that were connected and meant, in the order of planning.
        devices: Vec<DeviceId>,
        /// What it was planned to, [`crate::plan::Planned::digest`].
        tasks_digest: String,
        /// What the constants in force selected when it began, for the classes of its devices; empty unless the plan
        /// measures selected solutions. All tasks of the run go by it, whatever is published meanwhile.
        #[serde(default)]
        selections: Vec<ClassSelection>,
    },
    /// A user goes on with a run that was cut short: its unfinished tasks are pending again.
    RunResumed {
        /// The run.
        run: RunId,
    },
    /// A user cancelled a run.
    RunCancelled {
        /// The run.
        run: RunId,
        /// Why.
        reason: String,
    },
    /// An agent said hello.
    AgentJoined {
        /// The agent.
        identity: AgentIdentity,
        /// Leases that it believes it holds.
        held: Vec<LeaseKey>,
    },
    /// An agent's stream ended. Its leases run on until they expire. Not durable.
    AgentDetached {
        /// The agent.
        agent: AgentId,
    },
    /// An agent said goodbye: its leases are free at once.
    AgentLeft {
        /// The agent.
        agent: AgentId,
    },
    /// An agent renews its leases. Not durable.
    Heartbeat {
        /// The agent.
        agent: AgentId,
        /// What it holds.
        held: Vec<LeaseKey>,
    },
    /// An agent has idle devices. Not durable; the grant that may follow is.
    WorkRequested {
        /// The agent.
        agent: AgentId,
        /// Its idle devices.
        idle: Vec<DeviceId>,
    },
    /// A lease was granted, or given back to the agent that let it lapse. Said by the core itself, and replayed as it was.
    Granted {
        /// The agent.
        agent: AgentId,
        /// The lease.
        lease: LeaseKey,
        /// Its devices.
        devices: Vec<DeviceId>,
    },
    /// Chunks of rows are durable in a part. Each chunk is said once: the shell acknowledges a repeated one by itself.
    ChunksCommitted {
        /// The part's file name.
        part: String,
        /// Chunks inside.
        chunks: Vec<ChunkId>,
        /// What they hold.
        segments: Vec<CommittedSegment>,
    },
    /// An agent says that a task ended.
    TaskEnded {
        /// The agent.
        agent: AgentId,
        /// The lease.
        lease: LeaseKey,
        /// How.
        end: TaskEnd,
    },
    /// Time passed: deadlines are looked at. Not durable.
    Tick,
    /// Leases expired. Said by the core itself, and replayed as it was.
    Expired {
        /// The leases.
        leases: Vec<LeaseKey>,
    },
    /// Tasks that no device is left for were set aside. Said by the core itself, and replayed as it was.
    Abandoned {
        /// The tasks.
        tasks: Vec<TaskId>,
        /// Why.
        reason: String,
    },
}

impl Event {
    /// Whether the event is journalled, with its time, before its actions are performed.
    pub fn is_durable(&self) -> bool {
        match self {
            Self::RunSubmitted { .. }
            | Self::Heartbeat { .. }
            | Self::WorkRequested { .. }
            | Self::Tick
            | Self::AgentDetached { .. } => false,
            Self::RunStarted { .. }
            | Self::RunResumed { .. }
            | Self::RunCancelled { .. }
            | Self::AgentJoined { .. }
            | Self::AgentLeft { .. }
            | Self::Granted { .. }
            | Self::ChunksCommitted { .. }
            | Self::TaskEnded { .. }
            | Self::Expired { .. }
            | Self::Abandoned { .. } => true,
        }
    }
}
