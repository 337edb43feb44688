//! Which devices of this agent are measured at the same time: a condition of every visit.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crate::worker::message::CoRunning;

/// Every device under measurement. Clones see the same ones.
#[derive(Debug, Clone, Default)]
pub(crate) struct Neighbours {
    at_work: Arc<Mutex<AtWork>>,
    /// Devices of this agent.
    pub(crate) devices: u64,
}

#[derive(Debug, Default)]
struct AtWork {
    next: u64,
    members: BTreeMap<u64, Seen>,
}

/// How many others were at work, at least and at most, since somebody last looked.
#[derive(Debug, Clone, Copy)]
struct Seen {
    devices: u64,
    fewest: u64,
    most: u64,
}

impl AtWork {
    /// Everybody sees how many others there are now.
    fn look(&mut self) {
        let all: u64 = self.members.values().map(|seen| seen.devices).sum();
        for seen in self.members.values_mut() {
            let others = all - seen.devices;
            (seen.fewest, seen.most) = (seen.fewest.min(others), seen.most.max(others));
        }
    }
}

/// Devices at work, until it is dropped.
#[derive(Debug)]
pub(crate) struct Presence {
    neighbours: Neighbours,
    member: u64,
}

impl Neighbours {
    /// None at work yet, of so many.
    pub(crate) fn of(devices: usize) -> Self {
        Self { at_work: Arc::default(), devices: devices as u64 }
    }

    /// So many devices go to work.
    pub(crate) fn enter(&self, devices: usize) -> Presence {
        let mut at_work = self.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let member = at_work.next;
        at_work.next += 1;
        at_work.members.insert(member, Seen { devices: devices as u64, fewest: u64::MAX, most: 0 });
        at_work.look();
        Presence { neighbours: self.clone(), member }
    }
}

impl Presence {
    /// What was seen since the last call; from now on it is counted anew.
    pub(crate) fn take(&self) -> Option<CoRunning> {
        let mut at_work = self.neighbours.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = at_work.members.get_mut(&self.member)?;
        let Seen { devices, fewest, most } = *seen;
        (seen.fewest, seen.most) = (u64::MAX, 0);
        at_work.look();
        Some(CoRunning { fewest, most, others: self.neighbours.devices.saturating_sub(devices) })
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut at_work = self.neighbours.at_work.lock().unwrap_or_else(PoisonError::into_inner);
        at_work.members.remove(&self.member);
        at_work.look();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visit_knows_the_fewest_and_the_most_that_ran_beside_it() {
        let neighbours = Neighbours::of(3);
        let first = neighbours.enter(1);
        let alone = first.take().expect("it is at work");
        assert_eq!(alone, CoRunning { fewest: 0, most: 0, others: 2 });
        let second = neighbours.enter(1);
        let third = neighbours.enter(1);
        assert_eq!(first.take(), Some(CoRunning { fewest: 0, most: 2, others: 2 }), "they came meanwhile");
        assert_eq!(first.take(), Some(CoRunning { fewest: 2, most: 2, others: 2 }), "they were there throughout");
        drop(second);
        drop(third);
        assert_eq!(first.take(), Some(CoRunning { fewest: 0, most: 2, others: 2 }), "they left meanwhile");
    }
}
