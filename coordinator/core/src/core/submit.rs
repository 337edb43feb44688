//! What users ask for: runs, their end, and their going on.

use std::collections::BTreeMap;

use fleetcal_model::id::{DeviceId, RunId, TaskId};
use fleetcal_model::policy::SolutionChoice;

use super::run::{Run, RunState};
use super::task::{Task, TaskState};
use super::{Core, refuse, work_available};
use crate::action::{Action, Refused};
use crate::event::{ClassSelection, Event, Timestamp};
use crate::plan::{FleetDevice, Plan, PlanErrors, PlannedTask, Refusal, Selector, admit, selected, tasks};

/// A journal that this version would replay to another state than the one that wrote it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// It does not read a plan.
    #[error("the plan of run {run} is not understood: {errors}")]
    Plan {
        /// The run.
        run: RunId,
        /// What is wrong with its plan.
        errors: PlanErrors,
    },
    /// It makes other tasks of a plan.
    #[error("the plan of run {run} would come to other tasks than those that are under way")]
    OtherTasks {
        /// The run.
        run: RunId,
    },
}

/// A run that may begin.
struct Begun {
    devices: Vec<DeviceId>,
    tasks_digest: String,
    wants_selection: bool,
}

impl Core {
    /// Plans a run for the devices connected now, or refuses it.
    pub(super) fn submit(
        &mut self,
        now: Timestamp,
        run: RunId,
        (plan, selectors): (String, &[String]),
        selections: Vec<ClassSelection>,
        actions: &mut Vec<Action>,
    ) {
        match self.plan_for_connected(&run, &plan, selectors) {
            Ok(Begun { devices, tasks_digest, wants_selection }) => {
                let is_meant = |selection: &ClassSelection| {
                    wants_selection
                        && devices.iter().any(|device| self.ledger.fleet.class_of(device) == Some(&selection.class))
                };
                let selections = selections.into_iter().filter(is_meant).collect();
                self.say(now, Event::RunStarted { run, plan, devices, tasks_digest, selections }, actions);
            }
            Err((refusal, reason)) => refuse(&run, refusal, reason, actions),
        }
    }

    /// The devices that a new run is planned for, with the digest of its tasks, or why it cannot start.
    fn plan_for_connected(&self, run: &RunId, text: &str, selectors: &[String]) -> Result<Begun, (Refused, String)> {
        if self.ledger.runs.contains_key(run) {
            return Err((Refused::State, format!("run {run} exists already")));
        }
        let plan = Plan::parse(text).map_err(|errors| (Refused::Request, errors.to_string()))?;
        let selector =
            |text: &String| text.parse().map_err(|problem| (Refused::Request, format!("selector `{text}`: {problem}")));
        let narrowing: Vec<Selector> = selectors.iter().map(selector).collect::<Result<_, _>>()?;
        let connected = self.connected_devices();
        let chosen: Vec<FleetDevice> = connected
            .iter()
            .filter(|device| selected(&plan.selectors, device) && selected(&narrowing, device))
            .cloned()
            .collect();
        let planned = tasks(&plan, run, &chosen);
        admit(&plan, &narrowing, &connected, &planned).map_err(|refusal| (kind_of(&refusal), refusal.to_string()))?;
        Ok(Begun {
            devices: chosen.into_iter().map(|device| device.facts.uuid).collect(),
            tasks_digest: planned.digest(),
            wants_selection: plan.measure.solutions == SolutionChoice::Best,
        })
    }

    /// Makes the tasks of a run.
    ///
    /// # Errors
    /// Only where the fact stems from another version: it is not what this one makes of the plan.
    pub(super) fn start_run(
        &mut self,
        now: Timestamp,
        id: RunId,
        (text, tasks_digest): (&str, &str),
        (devices, selections): (&[DeviceId], Vec<ClassSelection>),
        actions: &mut Vec<Action>,
    ) -> Result<(), ReplayError> {
        let plan = Plan::parse(text).map_err(|errors| ReplayError::Plan { run: id.clone(), errors })?;
        let fleet = &self.ledger.fleet;
        let known = devices.iter().filter_map(|device| fleet.devices.get(device));
        let placed: Vec<FleetDevice> = known.map(|device| fleet.placed(device)).collect();
        let classes: BTreeMap<_, _> =
            placed.iter().map(|device| (device.facts.uuid.clone(), device.facts.class_key().id())).collect();
        let planned = tasks(&plan, &id, &placed);
        if planned.digest() != tasks_digest {
            return Err(ReplayError::OtherTasks { run: id });
        }
        let sequence = self.ledger.order.len() as u64;
        self.ledger.order.push(id.clone());
        let run = Run {
            id: id.clone(),
            tasks: Vec::with_capacity(planned.tasks.len()),
            state: RunState::Active,
            submitted: now,
            notes: notes(planned.notes, &plan, &placed, &selections),
            selections: selections.into_iter().map(|selection| (selection.class, selection.solutions)).collect(),
            unfinished: 0,
            cancel_reason: String::new(),
            plan,
        };
        self.ledger.runs.insert(id.clone(), run);
        for (planned, index) in planned.tasks.into_iter().zip(0..) {
            let class = classes.get(&planned.device).cloned().unwrap_or_default();
            actions.push(Action::TaskChanged { task: planned.id.clone() });
            self.ledger.add(waiting(planned, &id, (sequence, index), class, now));
        }
        work_available(actions);
        Ok(())
    }

    /// Sets aside what waits, and takes leases back. Their holders store what they have measured and give them up: then
    /// the run is over. Holders that do not answer are waited for until their leases run out.
    pub(super) fn cancel_run(&mut self, now: Timestamp, id: &RunId, reason: &str, actions: &mut Vec<Action>) {
        let Some(run) = self.ledger.runs.get_mut(id) else {
            return refuse(id, Refused::NotFound, unknown(id), actions);
        };
        match run.state {
            RunState::Active => {}
            RunState::Ended => return refuse(id, Refused::State, format!("run {id} has ended already"), actions),
            RunState::Cancelled => {
                return refuse(id, Refused::State, format!("run {id} is cancelled already"), actions);
            }
        }
        run.state = RunState::Cancelled;
        reason.clone_into(&mut run.cancel_reason);
        for task in run.tasks.clone() {
            let Some(before) = self.ledger.tasks.get(&task).filter(|task| !task.state.is_ended()) else { continue };
            match before.lease().cloned() {
                Some(lease) => self.revoke(&lease.agent, &lease.key, actions),
                // Where it waits, the ledger sets it aside.
                None => self.change(now, &task, actions, |_| ()),
            }
        }
    }

    /// Lets every task that is neither done nor being measured wait anew, with a clean record.
    pub(super) fn resume_run(&mut self, now: Timestamp, id: &RunId, actions: &mut Vec<Action>) {
        let Some(run) = self.ledger.runs.get_mut(id) else {
            return refuse(id, Refused::NotFound, unknown(id), actions);
        };
        let tasks = run.tasks.clone();
        let unfinished = |id: &&TaskId| {
            let task = self.ledger.tasks.get(*id);
            task.is_some_and(|task| !matches!(task.state, TaskState::Done { .. } | TaskState::Leased(_)))
        };
        let again: Vec<TaskId> = tasks.iter().filter(unfinished).cloned().collect();
        if again.is_empty() && run.is_over() {
            // All of it is done, even if it was cancelled at the last moment.
            run.state = RunState::Ended;
            return actions.push(Action::RunEnded { run: id.clone() });
        }
        run.state = RunState::Active;
        for task in again {
            self.change(now, &task, actions, |task| {
                task.strikes.clear();
                task.note = None;
                task.wait(now, now, None);
            });
        }
    }
}

/// What kind of refusal it is.
fn kind_of(refusal: &Refusal) -> Refused {
    match refusal {
        // Devices come and go.
        Refusal::NoDevice { .. } => Refused::State,
        Refusal::NothingFits { .. } | Refusal::OverBudget { .. } => Refused::Request,
    }
}

/// The notes of planning, and the classes that nothing is selected for.
fn notes(planned: Vec<String>, plan: &Plan, devices: &[FleetDevice], selections: &[ClassSelection]) -> Vec<String> {
    let mut notes = planned;
    if plan.measure.solutions == SolutionChoice::Best {
        let classes: BTreeMap<_, _> =
            devices.iter().map(|device| device.facts.class_key()).map(|key| (key.id(), key.slug())).collect();
        let selected =
            |class| selections.iter().any(|selection| selection.class == class && !selection.solutions.is_empty());
        let unselected = classes.into_iter().filter(|(class, _)| !selected(class.clone()));
        notes.extend(unselected.map(|(_, slug)| {
            format!("no constants in force select a solution for {slug}: its points are skipped, and rows say so")
        }));
    }
    notes
}

fn waiting(
    planned: PlannedTask,
    run: &RunId,
    place: (u64, u64),
    class: fleetcal_model::id::ClassId,
    now: Timestamp,
) -> Task {
    Task {
        id: planned.id,
        run: run.clone(),
        place,
        class,
        home: planned.device,
        points: planned.points,
        title: planned.title,
        cost: planned.cost,
        state: TaskState::Pending { since: now, not_before: now, lapsed: None },
        attempt: 0,
        strikes: Vec::new(),
        rows: BTreeMap::new(),
        note: None,
    }
}

fn unknown(run: &RunId) -> String {
    format!("no run {run} is known here")
}
