//! Tasks as the session sees them: asked for, granted, revoked, ended.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_proto::convert::{Lease, LeasedTask};
use fleetcal_proto::v1::{self, agent_message, coordinator_message};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::{Session, wire};
use crate::runner::{Job, TaskEnding};
use crate::task::TaskSpec;

/// A request that is not answered is made again after this long.
const UNANSWERED: Duration = Duration::from_secs(30);

/// Work is asked for again this long after it was found that its rows could not be kept.
const SPOOL_RETRY: Duration = Duration::from_secs(5);

/// Shortest wait between two requests that found nothing, whatever the coordinator says.
const RETRY_MIN: Duration = Duration::from_millis(20);

impl Session {
    /// What the coordinator said.
    pub(super) fn take_order(&mut self, body: coordinator_message::Body, now: Instant) {
        match body {
            coordinator_message::Body::Grant(task) => self.take_grant(task, now),
            coordinator_message::Body::NoWork(v1::NoWork { retry_ms }) => {
                self.ask_at = now + Duration::from_millis(retry_ms).max(RETRY_MIN);
            }
            coordinator_message::Body::Revoke(v1::Revoke { lease, reason }) => {
                match Lease::required(lease, "Revoke.lease") {
                    Ok(lease) => {
                        tracing::info!(task = lease.task_id.as_str(), reason, "a task was revoked");
                        self.leases.stop(&lease, &reason);
                    }
                    Err(error) => tracing::warn!(%error, "the coordinator revoked a lease that it did not name"),
                }
            }
        }
    }

    fn take_grant(&mut self, wire: v1::Task, now: Instant) {
        let held = v1::HeldLease { task_id: wire.task_id.clone(), attempt: wire.attempt, epoch: wire.epoch };
        // Other devices may be idle still.
        self.ask_at = now;
        let task = match LeasedTask::try_from(wire) {
            Ok(task) => task,
            Err(error) => {
                let body = wire::not_taken(held, v1::TaskOutcome::Failed, error.to_string(), false);
                return self.send(body, now);
            }
        };
        if self.leases.contains(&task.lease) {
            return;
        }
        match self.usable_devices(&task.devices) {
            Ok(devices) => self.start_task(task, devices),
            Err(reason) => self.send(wire::not_taken(held, v1::TaskOutcome::Released, reason, true), now),
        }
    }

    /// The devices of a grant, or why it cannot be taken.
    fn usable_devices(&self, wanted: &[DeviceId]) -> Result<Vec<DeviceFacts>, String> {
        if self.stopping.is_some() {
            return Err("the agent is stopping".to_owned());
        }
        let usable = |uuid: &DeviceId| {
            let device = self.setup.devices.iter().find(|device| device.uuid == *uuid);
            let device = device.ok_or_else(|| format!("this agent has no device {uuid}"))?;
            if self.is_idle(device) { Ok(device.clone()) } else { Err(format!("device {uuid} is not idle")) }
        };
        wanted.iter().map(usable).collect()
    }

    fn start_task(&mut self, leased: LeasedTask, devices: Vec<DeviceFacts>) {
        let LeasedTask {
            lease,
            run_id,
            plan_digest,
            devices: uuids,
            points,
            policy,
            seed,
            label,
            selected,
            alone_on_node,
        } = leased;
        tracing::info!(task = lease.task_id.as_str(), attempt = lease.attempt, points = points.len(), "a task begins");
        let task = TaskSpec {
            task_id: lease.task_id.clone(),
            run_id,
            plan_digest,
            attempt: lease.attempt,
            epoch: lease.epoch,
            devices: uuids.clone(),
            points,
            // Off on this node is off: what it reads of its devices is its owner's matter, not a plan's.
            policy: MeasuringPolicy { monitor: policy.monitor && self.setup.monitor, ..policy },
            seed,
            label,
            selected,
            alone_on_node,
        };
        let job = Job { task, devices, sim: self.setup.sim.clone(), labels: self.setup.labels.clone() };
        let stop = CancellationToken::new();
        self.leases.start(lease, uuids, stop.clone());
        self.runners.spawn(self.runner.clone().run(job, stop));
    }

    /// A task is over here; its end is told once its rows are acknowledged.
    pub(super) fn task_ended(&mut self, lease: &Lease, ending: TaskEnding, now: Instant) {
        tracing::info!(task = lease.task_id.as_str(), outcome = ?ending.outcome, "a task ended");
        if let Some(reason) = &ending.quarantine {
            let devices = self.leases.devices_of(lease);
            tracing::error!(?devices, reason, "devices are set apart until the agent starts anew");
            self.quarantined.extend(devices);
        }
        self.leases.ended(lease, ending);
        self.ask_at = now;
    }

    /// Asks for work when it is time, devices are idle, and rows can be kept.
    pub(super) fn ask_for_work(&mut self, now: Instant) {
        if now < self.ask_at || self.connection.up().is_none() || !self.may_ask() {
            return;
        }
        if !self.can_keep_rows() {
            self.ask_at = now + SPOOL_RETRY;
            return;
        }
        self.ask_at = now + UNANSWERED;
        let idle = self.idle_devices().map(|device| device.uuid.as_str().to_owned()).collect();
        self.send(agent_message::Body::WorkRequest(v1::WorkRequest { idle_device_uuids: idle }), now);
    }

    /// Whether there is anything to ask for.
    pub(super) fn may_ask(&self) -> bool {
        self.stopping.is_none() && self.idle_devices().next().is_some()
    }

    fn idle_devices(&self) -> impl Iterator<Item = &DeviceFacts> {
        self.setup.devices.iter().filter(|device| self.is_idle(device))
    }

    fn is_idle(&self, device: &DeviceFacts) -> bool {
        !self.leases.is_busy(&device.uuid) && !self.quarantined.contains(&device.uuid)
    }

    /// Whether rows of a further task could be kept. Says so when that changes.
    fn can_keep_rows(&mut self) -> bool {
        let chunks = &self.setup.spool.chunks;
        let room = chunks.check_room_for_a_task();
        // A file is written to find out only after one could not be.
        let checked = if self.spool_fault { room.and_then(|()| chunks.check_writable()) } else { room };
        match (&checked, self.spool_fault) {
            (Err(error), false) => tracing::error!(%error, "no further task is taken until rows can be kept"),
            (Ok(()), true) => tracing::info!("rows can be kept again"),
            (Ok(()), false) | (Err(_), true) => {}
        }
        self.spool_fault = checked.is_err();
        checked.is_ok()
    }
}
