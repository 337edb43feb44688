//! Which task an idle device gets.

use std::collections::BTreeSet;

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::{AgentId, DeviceId, TaskId};

use super::Core;
use super::fleet::Device;
use super::task::Task;
use crate::action::{Action, Grant};
use crate::event::{Event, LeaseKey, Timestamp};

impl Core {
    /// Gives each idle device a task, where there is one.
    pub(super) fn offer(&mut self, now: Timestamp, agent: &AgentId, idle: &[DeviceId], actions: &mut Vec<Action>) {
        let mut granted = false;
        for device in idle.iter().collect::<BTreeSet<_>>() {
            let Some(task) = self.choose(now, agent, device).map(|task| (task.id.clone(), task.attempt)) else {
                continue;
            };
            let lease = LeaseKey { task: task.0, attempt: task.1 + 1, epoch: self.ledger.epoch + 1 };
            let devices = vec![device.clone()];
            self.say(now, Event::Granted { agent: agent.clone(), lease: lease.clone(), devices }, actions);
            if let Some(grant) = self.grant_of(&lease.task) {
                actions.push(Action::Grant { agent: agent.clone(), grant: Box::new(grant) });
                granted = true;
            }
        }
        if !granted {
            actions.push(Action::NoWork { agent: agent.clone() });
        }
    }

    /// The task for a device: its own first, then those of twins that cannot or should not do them; in the order of
    /// submission and plan. None that would crowd its node: neither its own plan nor those of the tasks that are
    /// measured there already may be.
    fn choose(&self, now: Timestamp, agent: &AgentId, id: &DeviceId) -> Option<&Task> {
        let device = self.ledger.fleet.devices.get(id)?;
        if device.task.is_some() || !self.presence.is_attached(agent) || !self.ledger.fleet.has(agent, device) {
            return None;
        }
        let crowd = self.ledger.crowd(agent);
        if !crowd.has_room(1, u64::MAX) {
            return None;
        }
        let queue = self.ledger.queues.get(&device.class)?;
        let tasks = || queue.values().filter_map(|task| self.ledger.tasks.get(task));
        let fits = |task: &&Task| task.is_ready(now, id) && crowd.has_room(1, self.ledger.devices_per_node(task));
        let ready = || tasks().filter(fits);
        let own = ready().find(|task| task.home == *id && !(task.wants_twin_of(id) && self.has_twin(task, device)));
        own.or_else(|| {
            ready().find(|task| {
                let home_is_out = task.wants_twin_of(&task.home) || !self.is_waited_for(now, task);
                task.home != *id && home_is_out && !(task.wants_twin_of(id) && self.has_twin(task, device))
            })
        })
    }

    /// Whether a connected device of the class, other than this one, has not had its share of tries at the task.
    fn has_twin(&self, task: &Task, but: &Device) -> bool {
        let fleet = &self.ledger.fleet;
        let members = fleet.by_class.get(&task.class).into_iter().flatten();
        members
            .filter(|id| **id != but.facts.uuid && !task.wants_twin_of(id))
            .any(|id| fleet.devices.get(id).is_some_and(|device| self.is_present(device)))
    }

    /// Whether the task's own device is there, or may come back in time.
    fn is_waited_for(&self, now: Timestamp, task: &Task) -> bool {
        let fleet = &self.ledger.fleet;
        let Some(home) = fleet.devices.get(&task.home) else { return false };
        let given_up = self.presence.given_up_at(&home.agent, self.config.grace_ns);
        home.class == task.class && fleet.has(&home.agent, home) && given_up.is_none_or(|at| at > now)
    }

    /// Whether a device can be given work now, or once it is idle.
    pub(super) fn is_present(&self, device: &Device) -> bool {
        self.presence.is_attached(&device.agent) && self.ledger.fleet.has(&device.agent, device)
    }

    /// What the holder of a task's lease needs to know.
    fn grant_of(&self, task: &TaskId) -> Option<Grant> {
        let task = self.ledger.tasks.get(task)?;
        let lease = task.lease()?;
        let run = self.ledger.runs.get(&task.run)?;
        let plan = &run.plan;
        let selected = run.selections.get(&task.class).into_iter().flatten();
        Some(Grant {
            lease: lease.key.clone(),
            run: task.run.clone(),
            plan_digest: plan.digest(),
            devices: lease.devices.clone(),
            points: task.points.clone(),
            policy: plan.measure.clone(),
            seed: seed_of(plan.seed, task),
            label: plan.label.clone(),
            selected: selected.filter(|one| task.points.iter().any(|point| one.is_for(point))).cloned().collect(),
            alone_on_node: plan.limits.devices_per_node.most() == 1 && self.has_host_to_itself(&lease.agent),
        })
    }

    /// Whether no other agent that is here says that it is on the same host. Two that are work side by side, since the
    /// limit is one agent's: then nobody is known to be alone. Hosts that share a name are taken for one, which errs on
    /// the side of not knowing.
    fn has_host_to_itself(&self, agent: &AgentId) -> bool {
        let agents = &self.ledger.fleet.agents;
        let Some(host) = agents.get(agent).map(|identity| &identity.host) else { return false };
        let others = agents.iter().filter(|(other, identity)| *other != agent && identity.host == *host);
        !others.into_iter().any(|(other, _)| self.presence.is_attached(other))
    }
}

/// The seed of a task's random choices: of the plan's seed, and different for each task of a plan. The same plan on the
/// same device makes the same choices, whichever attempt it is, so that an interrupted task can go on.
fn seed_of(plan_seed: u64, task: &Task) -> u64 {
    let digest = Sha256Digest::of(format!("{plan_seed}/{}/{}", task.place.1, task.home).as_bytes()).to_hex();
    u64::from_str_radix(&digest[..16], 16).unwrap_or(plan_seed)
}
