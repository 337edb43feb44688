//! What the session says, as messages.

use fleetcal_proto::convert::Lease;
use fleetcal_proto::v1::{self, agent_message::Body};
use fleetcal_proto::version::supported;

use super::Setup;
use super::leases::DueEnding;
use crate::runner::{Progress, TaskOutcome};

/// The hello, with leases still held from before.
pub(super) fn hello(setup: &Setup, held: &[Lease]) -> v1::HelloRequest {
    let labels = &setup.labels;
    v1::HelloRequest {
        versions: Some(supported()),
        roles: vec![v1::Role::Agent.into()],
        agent_id: labels.agent_id.clone(),
        node: labels.node.clone(),
        host: labels.host.clone(),
        rack: labels.rack.clone(),
        agent_version: env!("CARGO_PKG_VERSION").to_owned(),
        devices: setup.devices.iter().map(v1::DeviceFacts::from).collect(),
        held: held.iter().map(v1::HeldLease::from).collect(),
        backend_notes: setup.backend_notes.clone(),
    }
}

pub(super) fn heartbeat(held: &[Lease]) -> Body {
    Body::Heartbeat(v1::Heartbeat { held: held.iter().map(v1::HeldLease::from).collect() })
}

pub(super) fn progress(lease: &Lease, progress: Progress) -> Body {
    Body::Progress(v1::TaskProgress {
        lease: Some(lease.into()),
        visits_done: progress.visits_done,
        visits_planned: progress.visits_planned,
        round: progress.round,
        rounds_planned: progress.rounds_planned,
        point: progress.point,
        solution: progress.solution,
        median_ns: progress.median_ns,
        bytes_per_second: progress.bytes_per_second,
        note: progress.note,
    })
}

/// The end of a task. A stopped one is released: it is whole for the next holder.
pub(super) fn ended(due: DueEnding) -> Body {
    let (outcome, reason, retry) = match due.ending.outcome {
        TaskOutcome::Done => (v1::TaskOutcome::Done, String::new(), false),
        TaskOutcome::Failed { reason, retry } => (v1::TaskOutcome::Failed, reason, retry),
        TaskOutcome::Stopped => (v1::TaskOutcome::Released, due.stop_reason, true),
    };
    Body::Ended(v1::TaskEnded {
        lease: Some((&due.lease).into()),
        outcome: outcome.into(),
        reason,
        retry,
        dropped: due.ending.dropped,
    })
}

/// The answer to a grant that is not taken.
pub(super) fn not_taken(lease: v1::HeldLease, outcome: v1::TaskOutcome, reason: String, retry: bool) -> Body {
    Body::Ended(v1::TaskEnded { lease: Some(lease), outcome: outcome.into(), reason, retry, dropped: Vec::new() })
}
