//! Leases, as their holders name them.

use fleetcal_model::id::TaskId;

use super::{ConvertError, text};
use crate::v1;

/// A lease as its holder names it: a task, the attempt at it, and the epoch that fences late answers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    /// The task.
    pub task_id: TaskId,
    /// Attempt at the task, from 1.
    pub attempt: u64,
    /// Epoch of the lease.
    pub epoch: u64,
}

impl From<&Lease> for v1::HeldLease {
    fn from(lease: &Lease) -> Self {
        Self { task_id: lease.task_id.as_str().to_owned(), attempt: lease.attempt, epoch: lease.epoch }
    }
}

impl TryFrom<v1::HeldLease> for Lease {
    type Error = ConvertError;

    fn try_from(wire: v1::HeldLease) -> Result<Self, ConvertError> {
        if wire.attempt == 0 {
            return Err(ConvertError::missing("HeldLease.attempt"));
        }
        Ok(Self {
            task_id: TaskId::new(text(wire.task_id, "HeldLease.task_id")?),
            attempt: wire.attempt,
            epoch: wire.epoch,
        })
    }
}

impl Lease {
    /// The lease that a message must carry. `field` is the field's path for the error, `Message.field`.
    ///
    /// # Errors
    /// The field is absent, or a part of it is.
    pub fn required(wire: Option<v1::HeldLease>, field: &str) -> Result<Self, ConvertError> {
        Self::try_from(wire.ok_or_else(|| ConvertError::missing(field))?).map_err(|error| error.within(field))
    }
}
