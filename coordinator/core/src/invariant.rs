//! What always holds, by name, and a check of it. The numbers are those of the invariants in ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use fleetcal_model::id::{DeviceId, TaskId};

use crate::core::{Core, Run, RunState, Task, TaskState};

/// An invariant of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    /// 1. Every committed row is counted once, for an attempt that was granted.
    RowsOnce,
    /// 2. A device is measured by one task at a time, and no more devices of a node than each of their plans allows.
    DeviceExclusive,
    /// 3. A late answer under an old epoch moves no task: present leases have epochs and attempts of their own.
    EpochFence,
    /// 4. Every task ends: until then it waits in its queue or is leased until a deadline; after that it has a reason.
    TaskEnds,
}

impl Invariant {
    /// Every invariant.
    pub const ALL: [Self; 4] = [Self::RowsOnce, Self::DeviceExclusive, Self::EpochFence, Self::TaskEnds];

    /// Its name in documents, metrics and messages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::RowsOnce => "rows_once",
            Self::DeviceExclusive => "device_exclusive",
            Self::EpochFence => "epoch_fence",
            Self::TaskEnds => "task_ends",
        }
    }
}

/// An invariant that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which.
    pub invariant: Invariant,
    /// What was found.
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.invariant.name(), self.detail)
    }
}

/// Everything that does not hold. Empty, unless the core is wrong.
pub fn check(core: &Core) -> Vec<Violation> {
    let mut found = Findings::default();
    rows_once(core, &mut found);
    device_exclusive(core, &mut found);
    epoch_fence(core, &mut found);
    task_ends(core, &mut found);
    found.violations
}

#[derive(Default)]
struct Findings {
    violations: Vec<Violation>,
}

impl Findings {
    fn require(&mut self, holds: bool, invariant: Invariant, detail: impl FnOnce() -> String) {
        if !holds {
            self.violations.push(Violation { invariant, detail: detail() });
        }
    }
}

fn rows_once(core: &Core, found: &mut Findings) {
    let ledger = core.ledger();
    let counted: u64 = ledger.tasks.values().flat_map(|task| task.rows.values()).sum::<u64>() + ledger.stray_rows;
    found.require(counted == ledger.rows, Invariant::RowsOnce, || {
        format!("{} rows were committed, {counted} are counted for attempts", ledger.rows)
    });
    for task in ledger.tasks.values() {
        let granted = task.rows.keys().all(|attempt| (1..=task.attempt).contains(attempt));
        found.require(granted, Invariant::RowsOnce, || format!("task {} has rows of attempts never granted", task.id));
    }
}

fn device_exclusive(core: &Core, found: &mut Findings) {
    let ledger = core.ledger();
    let mut holders: BTreeMap<&DeviceId, &TaskId> = BTreeMap::new();
    for task in ledger.tasks.values() {
        for device in task.lease().into_iter().flat_map(|lease| &lease.devices) {
            let other = holders.insert(device, &task.id);
            found.require(other.is_none(), Invariant::DeviceExclusive, || {
                format!("device {device} is held by {} and {}", task.id, other.map_or("", |other| other.as_str()))
            });
        }
    }
    for agent in ledger.leases.keys() {
        let crowd = ledger.crowd(agent);
        found.require(crowd.busy <= crowd.most, Invariant::DeviceExclusive, || {
            format!("{} devices of agent {agent} are measured, a plan allows {}", crowd.busy, crowd.most)
        });
    }
    for (id, device) in &ledger.fleet.devices {
        found.require(device.task.as_ref() == holders.get(id).copied(), Invariant::DeviceExclusive, || {
            format!("device {id} is marked as held by {:?}, its lease says {:?}", device.task, holders.get(id))
        });
    }
}

fn epoch_fence(core: &Core, found: &mut Findings) {
    let ledger = core.ledger();
    let mut epochs = BTreeSet::new();
    for task in ledger.tasks.values() {
        let Some(lease) = task.lease().or_else(|| task.lapsed()) else { continue };
        let key = &lease.key;
        found.require(epochs.insert(key.epoch), Invariant::EpochFence, || {
            format!("epoch {} was given twice", key.epoch)
        });
        let latest = key.epoch <= ledger.epoch && key.attempt == task.attempt && key.task == task.id;
        found.require(latest, Invariant::EpochFence, || {
            format!(
                "task {} at attempt {} has the lease {key:?}, epoch {} being the latest",
                task.id, task.attempt, ledger.epoch
            )
        });
        let listed = ledger.leases.get(&lease.agent).is_some_and(|held| held.contains(&task.id));
        found.require(listed == task.lease().is_some(), Invariant::EpochFence, || {
            format!("the leases of agent {} do not tell of task {} as it is", lease.agent, task.id)
        });
    }
}

fn task_ends(core: &Core, found: &mut Findings) {
    let ledger = core.ledger();
    for task in ledger.tasks.values() {
        let queued = ledger.queues.get(&task.class).is_some_and(|queue| queue.get(&task.place) == Some(&task.id));
        let timed = core.lease_deadline(&task.id).is_some();
        let holds = match &task.state {
            TaskState::Pending { .. } => queued && !timed,
            TaskState::Leased(_) => !queued && timed,
            TaskState::Done { .. } => !queued && !timed,
            TaskState::Failed { reason } | TaskState::SetAside { reason } => !queued && !timed && !reason.is_empty(),
        };
        found.require(holds, Invariant::TaskEnds, || {
            format!("task {} is {:?}; queued: {queued}, with a deadline: {timed}", task.id, task.state)
        });
    }
    let queued: usize = ledger.queues.values().map(BTreeMap::len).sum();
    let pending = ledger.tasks.values().filter(|task| task.pending_since().is_some()).count();
    found.require(queued == pending, Invariant::TaskEnds, || format!("{queued} tasks are queued, {pending} wait"));
    for run in ledger.runs.values() {
        run_ends(core, run, found);
    }
}

fn run_ends(core: &Core, run: &Run, found: &mut Findings) {
    let unfinished = core.tasks(&run.id).filter(|task: &&Task| !task.state.is_ended()).count() as u64;
    let waiting = core.tasks(&run.id).any(|task| task.pending_since().is_some());
    let holds = match run.state {
        RunState::Active => unfinished > 0,
        RunState::Ended => unfinished == 0,
        RunState::Cancelled => !waiting,
    };
    found.require(unfinished == run.unfinished && holds, Invariant::TaskEnds, || {
        format!("run {} is {:?} with {unfinished} unfinished tasks, and counts {}", run.id, run.state, run.unfinished)
    });
}
