//! The core as the wire shows it. Looks only.

use fleetcal_core::core::{AgentView, Core, DeviceView, Run, RunState, Task, TaskState};
use fleetcal_core::event::LeaseKey;
use fleetcal_core::plan::{Planned, PlannedTask, estimate_tasks};
use fleetcal_model::id::{AgentId, RunId, TaskId};
use fleetcal_proto::v1;

use crate::constants::Study;
use crate::journal::{Journal, JournalError};

/// Every agent that ever said hello.
pub(crate) fn agents(core: &Core) -> Vec<AgentId> {
    core.agents().map(|view| view.identity.agent.clone()).collect()
}

/// Runs that have ended. A cancelled one has not: it may go on.
pub(crate) fn ended_runs(core: &Core) -> Vec<RunId> {
    core.runs().filter(|run| run.state == RunState::Ended).map(|run| run.id.clone()).collect()
}

/// What a fit of a run goes by; nothing for a run that is not known.
///
/// # Errors
/// The journal cannot be read.
pub(crate) fn study(core: &Core, journal: &Journal, run: &RunId) -> Result<Option<Study>, JournalError> {
    let Some(Run { state, plan, .. }) = core.run(run) else { return Ok(None) };
    let winners = core.winning_attempts(run);
    let parts = journal.part_names(Some(run))?;
    Ok(Some(Study { winners, parts, options: plan.fit, is_final: *state == RunState::Ended }))
}

/// Whether a run is over, as its status says: it has ended, or was cancelled and its leases are back.
pub(crate) fn is_over(status: &v1::RunStatus) -> bool {
    status.state() != v1::RunState::Active && status.pending + status.leased == 0
}

/// What a submission came to.
pub(crate) fn submitted(core: &Core, run: &RunId) -> Option<v1::SubmitResponse> {
    let run = core.run(run)?;
    let planned = |task: &Task| PlannedTask {
        id: task.id.clone(),
        device: task.home.clone(),
        points: task.points.clone(),
        title: task.title.clone(),
        cost: task.cost,
    };
    // What is done costs nothing more: a resumed run says what is left.
    let left = core.tasks(&run.id).filter(|task| !task.state.is_ended());
    let planned = Planned { tasks: left.map(planned).collect(), notes: Vec::new() };
    let estimates = estimate_tasks(&planned, &core.connected_devices());
    Some(v1::SubmitResponse {
        run_id: run.id.as_str().to_owned(),
        tasks: planned.tasks.len() as u64,
        estimates: estimates
            .into_iter()
            .map(|estimate| v1::ClassEstimate {
                class_slug: estimate.class_slug,
                devices: estimate.devices,
                tasks: estimate.tasks,
                device_minutes: estimate.device_minutes,
                device_minutes_max: estimate.device_minutes_max,
            })
            .collect(),
        notes: run.notes.clone(),
    })
}

/// Where a run stands.
pub(crate) fn run_status(core: &Core, run: &RunId) -> Option<v1::RunStatus> {
    core.run(run).map(|run| status_of(core, run))
}

fn status_of(core: &Core, run: &Run) -> v1::RunStatus {
    let counts = core.task_counts(&run.id);
    let state = match run.state {
        RunState::Active => v1::RunState::Active,
        RunState::Ended => v1::RunState::Ended,
        RunState::Cancelled => v1::RunState::Cancelled,
    };
    v1::RunStatus {
        run_id: run.id.as_str().to_owned(),
        plan_name: run.plan.name.clone(),
        state: state.into(),
        tasks: counts.total(),
        pending: counts.pending,
        leased: counts.leased,
        done: counts.done,
        failed: counts.failed,
        set_aside: counts.set_aside,
        rows: core.rows(&run.id),
        submitted_utc_ns: run.submitted.0,
    }
}

/// A task that changed, its run, and where the run stands.
pub(crate) fn task_news(core: &Core, task: &TaskId) -> Option<(RunId, v1::TaskChanged, v1::RunStatus)> {
    let task = core.task(task)?;
    Some((task.run.clone(), task_of(task), run_status(core, &task.run)?))
}

fn task_of(task: &Task) -> v1::TaskChanged {
    let state = match &task.state {
        TaskState::Pending { .. } => v1::TaskState::Pending,
        TaskState::Leased(_) => v1::TaskState::Leased,
        TaskState::Done { .. } => v1::TaskState::Done,
        TaskState::Failed { .. } => v1::TaskState::Failed,
        TaskState::SetAside { .. } => v1::TaskState::SetAside,
    };
    let lease = task.lease();
    let device = lease.and_then(|lease| lease.devices.first()).unwrap_or(&task.home);
    v1::TaskChanged {
        task_id: task.id.as_str().to_owned(),
        state: state.into(),
        agent_id: lease.map(|lease| lease.agent.as_str().to_owned()).unwrap_or_default(),
        attempt: task.attempt,
        reason: task.reason().unwrap_or_default(),
        title: task.title.clone(),
        device_uuid: device.as_str().to_owned(),
    }
}

/// How far an agent is, and in which run; nothing if the lease is not its own any more.
pub(crate) fn progress(
    core: &Core,
    agent: &AgentId,
    lease: &LeaseKey,
    progress: v1::TaskProgress,
) -> Option<(RunId, v1::AgentProgress)> {
    let held = core.lease(lease).filter(|held| held.agent == *agent)?;
    let task = core.task(&lease.task)?;
    let news = v1::AgentProgress {
        agent_id: agent.as_str().to_owned(),
        device_uuid: held.devices.first().unwrap_or(&task.home).as_str().to_owned(),
        class_slug: core.class_slug(&task.class).unwrap_or_default(),
        task_id: task.id.as_str().to_owned(),
        visits_done: progress.visits_done,
        visits_planned: progress.visits_planned,
        round: progress.round,
        rounds_planned: progress.rounds_planned,
        point: progress.point,
        solution: progress.solution,
        median_ns: progress.median_ns,
        bytes_per_second: progress.bytes_per_second,
        note: progress.note,
    };
    Some((task.run.clone(), news))
}

/// Every run and agent, and the tasks of runs that are not over.
pub(crate) fn status(core: &Core) -> v1::StatusResponse {
    let going_on = core.runs().filter(|run| !run.is_over());
    v1::StatusResponse {
        coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
        runs: core.runs().map(|run| status_of(core, run)).collect(),
        agents: core.agents().map(agent_of).collect(),
        tasks: going_on.flat_map(|run| core.tasks(&run.id)).map(task_of).collect(),
    }
}

fn agent_of(view: AgentView<'_>) -> v1::AgentStatus {
    let AgentView { identity, connected, busy_devices } = view;
    v1::AgentStatus {
        agent_id: identity.agent.as_str().to_owned(),
        node: identity.node.clone(),
        host: identity.host.clone(),
        connected,
        agent_version: identity.version.clone(),
        devices: identity.devices.len() as u64,
        busy_devices,
        backend_notes: identity.backend_notes.clone(),
    }
}

/// Every device that an agent ever named.
pub(crate) fn devices(core: &Core) -> Vec<v1::FleetDevice> {
    core.devices().map(device_of).collect()
}

fn device_of(view: DeviceView<'_>) -> v1::FleetDevice {
    let DeviceView { device, node, connected } = view;
    v1::FleetDevice {
        facts: Some((&device.facts).into()),
        class_id: device.class.as_str().to_owned(),
        class_slug: device.facts.class_key().slug(),
        agent_id: device.agent.as_str().to_owned(),
        node: node.to_owned(),
        connected,
        task_id: device.task.as_ref().map(|task| task.as_str().to_owned()),
    }
}
