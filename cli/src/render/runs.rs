//! Runs, agents and tasks.

use fleetcal_proto::v1::{RunState, RunStatus, StatusResponse, SubmitResponse, TaskState};

use super::{clear_screen, counted, note, print_table, say, table};

/// What was submitted, and what it will cost.
pub(crate) fn submitted(response: &SubmitResponse) {
    say(&format!("run {}: {}", response.run_id, counted(response.tasks, "task")));
    for estimate in &response.estimates {
        say(&format!(
            "estimate: {} device-minutes for {} of {}, {}",
            minutes(estimate.device_minutes, estimate.device_minutes_max),
            counted(estimate.devices, "device"),
            estimate.class_slug,
            counted(estimate.tasks, "task")
        ));
    }
    response.notes.iter().for_each(|text| note(text));
}

/// An estimate, and what it may grow to where further rounds may be asked for.
pub(super) fn minutes(expected: f64, most: f64) -> String {
    let (expected, most) = (format!("{expected:.1}"), format!("{most:.1}"));
    if expected == most { expected } else { format!("{expected}, up to {most} with further rounds,") }
}

/// The run's identity alone, for scripts.
pub(crate) fn run_id_json(run: &str) {
    out_line!("{}", serde_json::json!({ "run_id": run }));
}

/// One line about a run that ended.
pub(crate) fn run_summary(status: &RunStatus) {
    let mut sentence = format!("run {}: {} of {} done", status.run_id, status.done, counted(status.tasks, "task"));
    for (count, what) in
        [(status.failed, "failed"), (status.set_aside, "set aside"), (status.pending + status.leased, "not reached")]
    {
        if count > 0 {
            sentence.push_str(&format!(", {count} {what}"));
        }
    }
    say(&format!("{sentence}, {}", counted(status.rows, "row")));
}

/// Everything, on one page; the screen is cleared first where it is shown again and again.
pub(crate) fn status(status: &StatusResponse, clear: bool) {
    if clear {
        clear_screen();
    }
    out_line!("coordinator {}", status.coordinator_version);
    let mut runs = table(&["RUN", "PLAN", "STATE", "DONE", "LEASED", "PENDING", "FAILED", "SET ASIDE", "ROWS"]);
    for run in &status.runs {
        runs.add_row([
            run.run_id.clone(),
            run.plan_name.clone(),
            run_state(run.state()).to_owned(),
            format!("{}/{}", run.done, run.tasks),
            run.leased.to_string(),
            run.pending.to_string(),
            run.failed.to_string(),
            run.set_aside.to_string(),
            run.rows.to_string(),
        ]);
    }
    out_line!("");
    print_table(&runs, "no runs yet");
    let mut agents = table(&["AGENT", "NODE", "HOST", "STATE", "DEVICES", "BUSY", "VERSION"]);
    for agent in &status.agents {
        agents.add_row([
            agent.agent_id.clone(),
            agent.node.clone(),
            agent.host.clone(),
            if agent.connected { "connected" } else { "away" }.to_owned(),
            agent.devices.to_string(),
            agent.busy_devices.to_string(),
            agent.agent_version.clone(),
        ]);
    }
    out_line!("");
    print_table(&agents, "no agents yet");
    let mut tasks = table(&["TASK", "WHAT", "DEVICE", "STATE", "ATTEMPT", "AGENT", "REASON"]);
    for task in &status.tasks {
        tasks.add_row([
            task.task_id.clone(),
            task.title.clone(),
            task.device_uuid.clone(),
            task_state(task.state()).to_owned(),
            task.attempt.to_string(),
            task.agent_id.clone(),
            task.reason.clone(),
        ]);
    }
    out_line!("");
    print_table(&tasks, "no tasks");
}

/// Everything, as one line of JSON.
pub(crate) fn status_json(status: &StatusResponse) {
    let runs: Vec<_> = status
        .runs
        .iter()
        .map(|run| {
            serde_json::json!({
                "run_id": run.run_id, "plan": run.plan_name, "state": run_state(run.state()), "tasks": run.tasks,
                "pending": run.pending, "leased": run.leased, "done": run.done, "failed": run.failed,
                "set_aside": run.set_aside, "rows": run.rows, "submitted_utc_ns": run.submitted_utc_ns,
            })
        })
        .collect();
    let agents: Vec<_> = status
        .agents
        .iter()
        .map(|agent| {
            serde_json::json!({
                "agent_id": agent.agent_id, "node": agent.node, "host": agent.host, "connected": agent.connected,
                "version": agent.agent_version, "devices": agent.devices, "busy_devices": agent.busy_devices,
                "backend_notes": agent.backend_notes,
            })
        })
        .collect();
    let tasks: Vec<_> = status
        .tasks
        .iter()
        .map(|task| {
            serde_json::json!({
                "task_id": task.task_id, "title": task.title, "state": task_state(task.state()),
                "attempt": task.attempt, "agent_id": task.agent_id, "device_uuid": task.device_uuid,
                "reason": task.reason,
            })
        })
        .collect();
    out_line!(
        "{}",
        serde_json::json!({
            "coordinator_version": status.coordinator_version, "runs": runs, "agents": agents, "tasks": tasks,
        })
    );
}

fn run_state(state: RunState) -> &'static str {
    match state {
        RunState::Active => "active",
        RunState::Ended => "ended",
        RunState::Cancelled => "cancelled",
        RunState::Unspecified => "unknown",
    }
}

fn task_state(state: TaskState) -> &'static str {
    match state {
        TaskState::Pending => "pending",
        TaskState::Leased => "leased",
        TaskState::Done => "done",
        TaskState::Failed => "failed",
        TaskState::SetAside => "set aside",
        TaskState::Unspecified => "unknown",
    }
}
