//! Leases as the core and the wire name them.

use fleetcal_core::event::LeaseKey;
use fleetcal_proto::convert::Lease;

/// A lease that came over the wire, as the core names it.
pub(crate) fn lease_key(lease: Lease) -> LeaseKey {
    LeaseKey { task: lease.task_id, attempt: lease.attempt, epoch: lease.epoch }
}

/// A lease of the core's, to send.
pub(crate) fn wire_lease(key: LeaseKey) -> Lease {
    Lease { task_id: key.task, attempt: key.attempt, epoch: key.epoch }
}
