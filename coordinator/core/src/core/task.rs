//! One task and its machine.

use std::collections::BTreeMap;

use fleetcal_model::id::{AgentId, ClassId, DeviceId, RunId, TaskId};
use fleetcal_model::point::Point;

use crate::event::{LeaseKey, Timestamp};
use crate::plan::TaskCost;

/// Strikes on its own device after which a task should go to a twin.
const STRIKES_BEFORE_TWIN: usize = 2;

/// A task held by an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// As its holder names it.
    pub key: LeaseKey,
    /// The holder.
    pub agent: AgentId,
    /// Its devices: nobody else measures on them meanwhile.
    pub devices: Vec<DeviceId>,
}

/// Where a task stands.
///
/// ```text
///                    Granted                   TaskEnded: done
///   RunStarted ─► Pending ────────────► Leased ────────────────────────────► Done
///                  │   ▲                │ │ │
///                  │   ├── released ◄───┘ │ │  TaskEnded: failed for good
///                  │   └── strike ◄───────┤ └──────────────────────────────► Failed ─┐
///                  │      (expired, lost, │                                          │ RunResumed:
///                  │       failed)        └─ the last strike ─────────────► SetAside ─┤ Pending again
///                  └─ abandoned, cancelled ───────────────────────────────► SetAside ─┘
/// ```
///
/// A lease that expired can be given back (`Granted` under the same key) while the task waits and nobody has taken it.
/// A leased task of a cancelled run stays leased until its holder gives it up or the lease runs out, and is set aside
/// where it would wait again. Nothing else moves a task: an answer under another key than the present lease's is dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TaskState {
    /// It waits for a device.
    Pending {
        /// Since when.
        since: Timestamp,
        /// It is not handed out before: an agent has just given it back.
        not_before: Timestamp,
        /// The lease that expired last, if its holder may still come back to it.
        lapsed: Option<Lease>,
    },
    /// An agent measures it.
    Leased(Lease),
    /// Every row is there.
    Done {
        /// The attempt that brought them.
        attempt: u64,
        /// Points that were dropped, with the reason.
        dropped: Vec<String>,
    },
    /// It failed for good.
    Failed {
        /// Why.
        reason: String,
    },
    /// Nobody tries it any more.
    SetAside {
        /// Why.
        reason: String,
    },
}

impl TaskState {
    /// Whether the task has ended.
    pub fn is_ended(&self) -> bool {
        match self {
            Self::Pending { .. } | Self::Leased(_) => false,
            Self::Done { .. } | Self::Failed { .. } | Self::SetAside { .. } => true,
        }
    }
}

/// One attempt that went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Strike {
    /// On which device.
    pub device: DeviceId,
    /// How.
    pub reason: String,
    /// The device does not try the task again before.
    pub rests_until: Timestamp,
}

/// How an attempt goes wrong.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mishap<'r> {
    /// In words.
    pub(super) reason: &'r str,
    /// How long the device should rest before it tries again, at the first time, nanoseconds.
    pub(super) rest_ns: u64,
    /// Whether the holder may come back to the lease.
    pub(super) may_return: bool,
}

/// One unit of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its identity.
    pub id: TaskId,
    /// Its run.
    pub run: RunId,
    /// Its place among all tasks: submission of the run, then order of the plan.
    pub place: (u64, u64),
    /// The class whose devices can do it.
    pub class: ClassId,
    /// The device it was planned for.
    pub home: DeviceId,
    /// What to measure.
    pub points: Vec<Point>,
    /// For people.
    pub title: String,
    /// What it should take.
    pub cost: TaskCost,
    /// Where it stands.
    pub state: TaskState,
    /// The latest attempt; 0 before the first. Never reused.
    pub attempt: u64,
    /// What went wrong since it was submitted or resumed.
    pub strikes: Vec<Strike>,
    /// Rows committed by each attempt.
    pub rows: BTreeMap<u64, u64>,
    /// What else a person should know: why it left its home device, or was given back.
    pub note: Option<String>,
}

impl Task {
    /// The present lease.
    pub fn lease(&self) -> Option<&Lease> {
        match &self.state {
            TaskState::Leased(lease) => Some(lease),
            TaskState::Pending { .. }
            | TaskState::Done { .. }
            | TaskState::Failed { .. }
            | TaskState::SetAside { .. } => None,
        }
    }

    /// The expired lease that can be given back.
    pub fn lapsed(&self) -> Option<&Lease> {
        match &self.state {
            TaskState::Pending { lapsed, .. } => lapsed.as_ref(),
            TaskState::Leased(_) | TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::SetAside { .. } => {
                None
            }
        }
    }

    /// Since when it waits.
    pub fn pending_since(&self) -> Option<Timestamp> {
        match &self.state {
            TaskState::Pending { since, .. } => Some(*since),
            TaskState::Leased(_) | TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::SetAside { .. } => {
                None
            }
        }
    }

    /// Whether it waits and may be handed out to the device at that time.
    pub fn is_ready(&self, now: Timestamp, device: &DeviceId) -> bool {
        let rests = |strike: &Strike| strike.device == *device && strike.rests_until > now;
        match &self.state {
            TaskState::Pending { not_before, .. } => *not_before <= now && !self.strikes.iter().any(rests),
            TaskState::Leased(_) | TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::SetAside { .. } => {
                false
            }
        }
    }

    /// Times, past ones too, at which more devices may have it than before. For a task that waits.
    pub(super) fn rests(&self) -> impl Iterator<Item = Timestamp> {
        let given_back = match &self.state {
            TaskState::Pending { not_before, .. } => Some(*not_before),
            TaskState::Leased(_) | TaskState::Done { .. } | TaskState::Failed { .. } | TaskState::SetAside { .. } => {
                None
            }
        };
        given_back.into_iter().chain(self.strikes.iter().map(|strike| strike.rests_until))
    }

    /// How often it went wrong on a device.
    fn strikes_on(&self, device: &DeviceId) -> usize {
        self.strikes.iter().filter(|strike| strike.device == *device).count()
    }

    /// Whether a device had its fair share of tries: a twin should have the next.
    pub fn wants_twin_of(&self, device: &DeviceId) -> bool {
        self.strikes_on(device) >= STRIKES_BEFORE_TWIN
    }

    /// Why it ended without being done, or what of it was dropped.
    pub fn reason(&self) -> Option<String> {
        match &self.state {
            TaskState::Failed { reason } | TaskState::SetAside { reason } => Some(reason.clone()),
            TaskState::Done { dropped, .. } if !dropped.is_empty() => Some(format!("dropped {}", dropped.join("; "))),
            TaskState::Done { .. } | TaskState::Leased(_) | TaskState::Pending { .. } => {
                let strike = self.strikes.last();
                strike
                    .map(|strike| format!("tried on {}: {}", strike.device, strike.reason))
                    .or_else(|| self.note.clone())
            }
        }
    }

    /// It waits again.
    pub(super) fn wait(&mut self, now: Timestamp, not_before: Timestamp, lapsed: Option<Lease>) {
        self.state = TaskState::Pending { since: now, not_before, lapsed };
    }

    /// An attempt went wrong: it waits again, or is set aside after the last of `strikes_max`. The device has it again
    /// after `rest_ns`, doubled by each strike before.
    pub(super) fn strike(&mut self, now: Timestamp, lease: &Lease, strike: &Mishap<'_>, strikes_max: usize) {
        for device in &lease.devices {
            let doublings = u32::try_from(self.strikes_on(device)).unwrap_or(u32::MAX);
            let rest_ns = strike.rest_ns.saturating_mul(2_u64.saturating_pow(doublings));
            let reason = strike.reason.to_owned();
            self.strikes.push(Strike { device: device.clone(), reason, rests_until: now.after_ns(rest_ns) });
        }
        if self.strikes.len() >= strikes_max {
            let (count, reason) = (self.strikes.len(), strike.reason);
            self.state = TaskState::SetAside { reason: format!("given up after {count} attempts, the last: {reason}") };
        } else {
            self.wait(now, now, strike.may_return.then(|| lease.clone()));
        }
    }
}
