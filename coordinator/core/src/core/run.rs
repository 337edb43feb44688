//! One run.

use std::collections::BTreeMap;

use fleetcal_model::id::{ClassId, RunId, TaskId};
use fleetcal_model::selection::Selected;

use crate::event::Timestamp;
use crate::plan::Plan;

/// Where a run stands.
///
/// ```text
///   RunStarted ─► Active ── its last task ends ─► Ended ──────┐
///                   ▲ └──── RunCancelled ───────► Cancelled ──┤
///                   └──────────── RunResumed, where a task is not done
/// ```
///
/// A cancelled run is over once its leases are: their holders still store what they had measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Some task has not ended.
    Active,
    /// Every task has ended.
    Ended,
    /// A user ended it. Nothing of it is handed out any more; some task may still be leased.
    Cancelled,
}

/// One execution of a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Its identity.
    pub id: RunId,
    /// The plan.
    pub plan: Plan,
    /// Its tasks, in the order of the plan.
    pub tasks: Vec<TaskId>,
    /// Where it stands.
    pub state: RunState,
    /// When it was submitted.
    pub submitted: Timestamp,
    /// What a person should know of its planning: sizes dropped, and where.
    pub notes: Vec<String>,
    /// What the constants in force selected when it began, by class.
    pub selections: BTreeMap<ClassId, Vec<Selected>>,
    /// Tasks that have not ended.
    pub(crate) unfinished: u64,
    /// Why it was cancelled last.
    pub(crate) cancel_reason: String,
}

impl Run {
    /// Whether nothing more happens in it unless it is resumed: every task has ended.
    pub fn is_over(&self) -> bool {
        self.unfinished == 0
    }
}

/// Tasks of a run, counted by where they stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TaskCounts {
    /// Waiting.
    pub pending: u64,
    /// Being measured.
    pub leased: u64,
    /// Done.
    pub done: u64,
    /// Failed for good.
    pub failed: u64,
    /// Set aside.
    pub set_aside: u64,
}

impl TaskCounts {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.pending + self.leased + self.done + self.failed + self.set_aside
    }
}
