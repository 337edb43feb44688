//! The leases that this agent holds, from their grant until the coordinator surely knows how they ended.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fleetcal_model::id::{ChunkId, DeviceId};
use fleetcal_proto::convert::Lease;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::runner::{TaskEnding, TaskOutcome};

/// An ending that was sent this long ago over a stream that still stands has arrived: a dead stream is found out
/// sooner, by its keep-alives.
const DOUBT: Duration = Duration::from_secs(30);

/// Every lease held. Decides nothing about time or wire; says what is due.
#[derive(Debug, Default)]
pub(super) struct Leases {
    held: BTreeMap<Lease, Held>,
}

#[derive(Debug)]
struct Held {
    devices: Vec<DeviceId>,
    stop: CancellationToken,
    /// Why it was stopped, if it was.
    stop_reason: Option<String>,
    /// Chunks with rows of it that are not acknowledged.
    chunks: BTreeSet<ChunkId>,
    /// Why rows of it will never be acknowledged.
    spoiled: Option<String>,
    /// Whether the coordinator said that it is somebody else's: then nobody waits for its end.
    is_lost: bool,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A worker measures.
    Running,
    /// It ended; its end is told once all its rows are acknowledged.
    Ended(TaskEnding),
    /// Its end was told, at this time; whether that arrived is not certain.
    Told(TaskEnding, Instant),
}

/// An end to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DueEnding {
    /// Of which lease.
    pub(super) lease: Lease,
    /// How it ended.
    pub(super) ending: TaskEnding,
    /// Why it was stopped, if it was.
    pub(super) stop_reason: String,
}

impl Leases {
    /// A task begins.
    pub(super) fn start(&mut self, lease: Lease, devices: Vec<DeviceId>, stop: CancellationToken) {
        let held = Held {
            devices,
            stop,
            stop_reason: None,
            chunks: BTreeSet::new(),
            spoiled: None,
            is_lost: false,
            state: State::Running,
        };
        self.held.insert(lease, held);
    }

    /// Whether the lease is held already.
    pub(super) fn contains(&self, lease: &Lease) -> bool {
        self.held.contains_key(lease)
    }

    /// Whether a running task uses the device.
    pub(super) fn is_busy(&self, device: &DeviceId) -> bool {
        self.held.values().any(|held| matches!(held.state, State::Running) && held.devices.contains(device))
    }

    /// The devices of a lease.
    pub(super) fn devices_of(&self, lease: &Lease) -> Vec<DeviceId> {
        self.held.get(lease).map(|held| held.devices.clone()).unwrap_or_default()
    }

    /// Whether any task runs.
    pub(super) fn any_running(&self) -> bool {
        self.held.values().any(|held| matches!(held.state, State::Running))
    }

    /// Whether every end was told.
    pub(super) fn all_told(&self) -> bool {
        self.held.values().all(|held| held.is_lost || matches!(held.state, State::Told(..)))
    }

    /// Leases to renew.
    pub(super) fn to_renew(&self) -> Vec<Lease> {
        let live = |held: &Held| !held.is_lost && !matches!(held.state, State::Told(..));
        self.held.iter().filter(|(_, held)| live(held)).map(|(lease, _)| lease.clone()).collect()
    }

    /// Leases to name in a hello: those to renew, and those whose end may not have arrived.
    pub(super) fn to_claim(&self) -> Vec<Lease> {
        self.held.iter().filter(|(_, held)| !held.is_lost).map(|(lease, _)| lease.clone()).collect()
    }

    /// A chunk holds rows of these leases.
    pub(super) fn chunk_ready(&mut self, chunk: &ChunkId, leases: &[Lease]) {
        for lease in leases {
            if let Some(held) = self.held.get_mut(lease) {
                held.chunks.insert(chunk.clone());
            }
        }
    }

    /// A chunk is durable at the coordinator.
    pub(super) fn acknowledged(&mut self, chunk: &ChunkId) {
        for held in self.held.values_mut() {
            held.chunks.remove(chunk);
        }
    }

    /// A chunk will never be acknowledged: what was done under its leases is not done.
    pub(super) fn spoiled(&mut self, chunk: &ChunkId, reason: &str) {
        for held in self.held.values_mut() {
            if held.chunks.remove(chunk) {
                held.spoiled.get_or_insert_with(|| reason.to_owned());
            }
        }
    }

    /// A task ended.
    pub(super) fn ended(&mut self, lease: &Lease, ending: TaskEnding) {
        match self.held.get_mut(lease) {
            Some(held) if !held.is_lost => held.state = State::Ended(ending),
            Some(_) => drop(self.held.remove(lease)),
            None => {}
        }
    }

    /// Stops a task that the coordinator takes back, or that the agent gives back.
    pub(super) fn stop(&mut self, lease: &Lease, reason: &str) {
        if let Some(held) = self.held.get_mut(lease) {
            held.stop_reason.get_or_insert_with(|| reason.to_owned());
            held.stop.cancel();
        }
    }

    /// Stops every task.
    pub(super) fn stop_all(&mut self, reason: &str) {
        let leases: Vec<Lease> = self.held.keys().cloned().collect();
        leases.iter().for_each(|lease| self.stop(lease, reason));
    }

    /// The coordinator said that a lease is not ours any more. Returns whether that stops a running task; else it
    /// knows of the end already, or does not want to.
    pub(super) fn lost(&mut self, lease: &Lease) -> bool {
        self.stop(lease, "the lease was lost");
        let Some(held) = self.held.get_mut(lease) else { return false };
        held.is_lost = true;
        let is_running = matches!(held.state, State::Running);
        if !is_running {
            self.held.remove(lease);
        }
        is_running
    }

    /// A new stream stands: ends told on the one before may not have arrived, and are told again.
    pub(super) fn tell_again(&mut self) {
        for held in self.held.values_mut() {
            if let State::Told(ending, _) = &held.state {
                held.state = State::Ended(ending.clone());
            }
        }
    }

    /// Ends that can be told now, because no row of theirs waits for an acknowledgement. They count as told.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<DueEnding> {
        self.held.retain(|_, held| !matches!(held.state, State::Told(_, at) if now >= at + DOUBT));
        let mut due = Vec::new();
        for (lease, held) in &mut self.held {
            let State::Ended(ending) = &held.state else { continue };
            if !held.chunks.is_empty() {
                continue;
            }
            let ending = spoil(ending.clone(), held.spoiled.take());
            held.state = State::Told(ending.clone(), now);
            let stop_reason = held.stop_reason.clone().unwrap_or_default();
            due.push(DueEnding { lease: lease.clone(), ending, stop_reason });
        }
        due
    }
}

/// Nothing is done whose rows did not arrive. Another try may help: a chunk holds rows of many tasks, and one of them may
/// be what the others suffer from; whoever suffers every time runs out of tries at the coordinator. A task that was
/// stopped is tried again anyway.
fn spoil(ending: TaskEnding, spoiled: Option<String>) -> TaskEnding {
    match (spoiled, &ending.outcome) {
        (Some(reason), TaskOutcome::Done) => {
            TaskEnding { outcome: TaskOutcome::Failed { reason, retry: true }, ..ending }
        }
        (Some(_) | None, _) => ending,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::lease;

    fn done() -> TaskEnding {
        TaskEnding { outcome: TaskOutcome::Done, dropped: Vec::new(), quarantine: None }
    }

    fn ended() -> (Leases, Lease) {
        let (mut leases, lease) = (Leases::default(), lease("task-1"));
        leases.start(lease.clone(), Vec::new(), CancellationToken::new());
        leases.chunk_ready(&"chunk-1".into(), std::slice::from_ref(&lease));
        leases.chunk_ready(&"chunk-2".into(), std::slice::from_ref(&lease));
        leases.ended(&lease, done());
        (leases, lease)
    }

    #[test]
    fn an_end_is_due_after_its_last_chunk_and_claimed_until_it_surely_arrived() {
        let (mut leases, lease) = ended();
        let now = Instant::now();
        leases.acknowledged(&"chunk-1".into());
        assert_eq!(leases.take_due(now), [], "a chunk is not acknowledged");
        assert_eq!(leases.to_renew(), std::slice::from_ref(&lease));
        leases.acknowledged(&"chunk-2".into());
        let due = leases.take_due(now);
        assert_eq!(due.len(), 1);
        assert_eq!(leases.take_due(now), [], "it is told once");
        assert_eq!((leases.to_renew().len(), leases.to_claim()), (0, vec![lease]));
        leases.tell_again();
        assert_eq!(leases.take_due(now), due, "on a new stream it is told again");
        assert_eq!(leases.take_due(now + DOUBT), []);
        assert!(leases.to_claim().is_empty(), "it arrived");
    }

    #[test]
    fn a_task_whose_rows_were_refused_is_not_done_and_may_be_tried_again() {
        let (mut leases, _) = ended();
        leases.acknowledged(&"chunk-1".into());
        leases.spoiled(&"chunk-2".into(), "rejected");
        let due = leases.take_due(Instant::now());
        assert_eq!(due[0].ending.outcome, TaskOutcome::Failed { reason: "rejected".to_owned(), retry: true });
    }

    #[test]
    fn nobody_waits_for_the_end_of_a_lost_lease() {
        let (mut leases, running) = (Leases::default(), lease("task-1"));
        let stop = CancellationToken::new();
        leases.start(running.clone(), Vec::new(), stop.clone());
        assert!(leases.lost(&running), "it runs");
        assert!(stop.is_cancelled() && leases.to_renew().is_empty() && leases.all_told());
        assert!(leases.any_running(), "its device is not idle before its worker is gone");
        leases.ended(&running, done());
        assert!(!leases.contains(&running) && leases.take_due(Instant::now()).is_empty());
    }
}
