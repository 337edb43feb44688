//! Plans: what is in them, and what they cost.

use fleetcal_core::plan::{ClassEstimate, FleetDevice, Plan, Planned, PlannedTask, TaskCost, fit_keys, measure_keys};

use fleetcal_model::units::Seconds;

use super::{counted, note, print_json, print_table, table};
use crate::args::Output;
use crate::failure::Failure;

/// A plan that is right.
pub(crate) fn plan_check(plan: &Plan, output: Output) -> Result<(), Failure> {
    match output {
        Output::Table => {
            let sweeps = counted(plan.sweeps.len() as u64, "sweep");
            out_line!("{}: the plan is right ({sweeps}, digest {})", plan.name, plan.digest());
            plan.cautions().iter().for_each(|caution| note(caution));
        }
        Output::Json => {
            let (name, digest, notes) = (&plan.name, plan.digest(), plan.cautions());
            print_json(&serde_json::json!({ "name": name, "digest": digest, "notes": notes }))?;
        }
    }
    Ok(())
}

/// How points are measured, every task, and every point of it.
pub(crate) fn plan_show(
    plan: &Plan,
    planned: &Planned,
    devices: &[FleetDevice],
    output: Output,
) -> Result<(), Failure> {
    let class = |task: &PlannedTask| {
        let device = devices.iter().find(|device| device.facts.uuid == task.device);
        device.map(|device| device.facts.class_key().slug()).unwrap_or_default()
    };
    if output == Output::Json {
        let tasks: Vec<_> = planned
            .tasks
            .iter()
            .map(|task| {
                serde_json::json!({
                    "task_id": task.id, "title": task.title, "device_uuid": task.device, "class": class(task),
                    "estimate_ns": task.cost.expected_ns, "estimate_max_ns": task.cost.most_ns, "points": task.points,
                })
            })
            .collect();
        let (measure, fit) = (&plan.measure, &plan.fit);
        return print_json(&serde_json::json!({
            "measure": measure, "fit": fit, "tasks": tasks, "notes": planned.notes,
        }));
    }
    out_line!("[measure]");
    measure_keys(&plan.measure).iter().for_each(|(key, value)| out_line!("{key} = {value}"));
    out_line!("\n[fit]");
    fit_keys(&plan.fit).iter().for_each(|(key, value)| out_line!("{key} = {value}"));
    out_line!("");
    for task in &planned.tasks {
        out_line!("{} on {} ({}), about {}", task.title, task.device, class(task), times(task.cost));
        task.points.iter().for_each(|point| out_line!("  {point}"));
    }
    if planned.tasks.is_empty() {
        out_line!("no tasks: the plan's selectors mean none of these devices, or nothing fits into their memory");
    }
    planned.notes.iter().for_each(|text| note(text));
    Ok(())
}

/// What a task takes, and what it may grow to.
fn times(cost: TaskCost) -> String {
    let shown = |ns: u64| Seconds::from_ns(ns as f64).to_string();
    let (expected, most) = (shown(cost.expected_ns), shown(cost.most_ns));
    if expected == most { expected } else { format!("{expected}, up to {most} with further rounds") }
}

/// What the plan costs each class.
pub(crate) fn plan_estimate(estimates: &[ClassEstimate], notes: &[String], output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        let classes: Vec<_> = estimates
            .iter()
            .map(|estimate| {
                serde_json::json!({
                    "class_id": estimate.class, "class": estimate.class_slug, "devices": estimate.devices,
                    "tasks": estimate.tasks, "device_minutes": estimate.device_minutes,
                    "device_minutes_max": estimate.device_minutes_max,
                })
            })
            .collect();
        return print_json(&serde_json::json!({ "classes": classes, "notes": notes }));
    }
    let mut shown = table(&["CLASS", "DEVICES", "TASKS", "DEVICE-MINUTES", "AT MOST"]);
    for estimate in estimates {
        shown.add_row([
            estimate.class_slug.clone(),
            estimate.devices.to_string(),
            estimate.tasks.to_string(),
            format!("{:.1}", estimate.device_minutes),
            format!("{:.1}", estimate.device_minutes_max),
        ]);
    }
    print_table(&shown, "nothing: the plan's selectors mean none of these devices, or nothing fits into their memory");
    notes.iter().for_each(|text| note(text));
    Ok(())
}
