//! Everything the core may ask of its shell. Closed: nothing else crosses its border.

use fleetcal_model::id::{AgentId, DeviceId, RunId, TaskId};
use fleetcal_model::point::Point;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_model::selection::Selected;

use crate::event::{Event, LeaseKey};

/// A lease, with all that its agent needs.
#[derive(Debug, Clone, PartialEq)]
pub struct Grant {
    /// The lease.
    pub lease: LeaseKey,
    /// The run.
    pub run: RunId,
    /// SHA-256 of the plan's text.
    pub plan_digest: String,
    /// The devices it holds.
    pub devices: Vec<DeviceId>,
    /// Points of one sweep.
    pub points: Vec<Point>,
    /// How to measure.
    pub policy: MeasuringPolicy,
    /// Seed of every random choice.
    pub seed: u64,
    /// Free text from the plan.
    pub label: Option<String>,
    /// Solutions that the constants in force select; empty unless the plan measures selected solutions.
    pub selected: Vec<Selected>,
    /// Whether no other device of the node is measured meanwhile.
    pub alone_on_node: bool,
}

/// What the shell does. In the order given; a `Journal` is durable before what stands behind it is performed.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Append an event of the core's own to the journal, with the `now` of the step.
    Journal(Event),
    /// Hand a lease to an agent.
    Grant {
        /// The agent.
        agent: AgentId,
        /// The lease.
        grant: Box<Grant>,
    },
    /// Tell an agent that there is nothing for it now.
    NoWork {
        /// The agent.
        agent: AgentId,
    },
    /// Tell an agent that a lease is over.
    Revoke {
        /// The agent.
        agent: AgentId,
        /// The lease.
        lease: LeaseKey,
        /// Why.
        reason: String,
    },
    /// Agents with idle devices may find work now.
    WorkAvailable,
    /// A device of the agent is free again: its other idle devices may find work now.
    NodeFreed {
        /// The agent.
        agent: AgentId,
    },
    /// A task changed: tell who watches.
    TaskChanged {
        /// The task.
        task: TaskId,
    },
    /// A run ended: fit it, keep its constants, tell who watches.
    RunEnded {
        /// The run.
        run: RunId,
    },
    /// A user's request cannot be done.
    Refused {
        /// The run it was about.
        run: RunId,
        /// What was wrong with it.
        refusal: Refused,
        /// Why.
        reason: String,
    },
}

/// What was wrong with a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// It is wrong as it is: a plan or a selector that says nothing, or a plan that its own limits or the memory of the
    /// devices forbid.
    Request,
    /// There is no run of that name.
    NotFound,
    /// It cannot be done as things stand: no device that it means is connected, or the run has ended.
    State,
}
