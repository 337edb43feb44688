//! `fleetcal plan`: look at plans. Nothing here touches a GPU.

use std::path::Path;
use std::process::ExitCode;

use fleetcal_core::plan::{FleetDevice, PLAN_BYTES_MAX, Plan, builtin, builtin_names, estimate_tasks, tasks};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::{DeviceId, RunId};

use toml_edit::{DocumentMut, Item, Table, TomlError};

use crate::args::{PlanArguments, PlanCommand};
use crate::failure::{Failure, Kind};
use crate::files::read_text;
use crate::render;

/// Largest list of devices that is read: some 100,000 of them.
const DEVICES_BYTES_MAX: u64 = 256 << 20;

pub(super) fn run(command: PlanCommand) -> Result<ExitCode, Failure> {
    match command {
        PlanCommand::Check(arguments) => {
            let plan = parse(&arguments.plan)?;
            render::plan_check(&plan, arguments.output.output)?;
        }
        PlanCommand::Show(arguments) => {
            let plan = parse(&arguments.plan)?;
            let devices = devices(&arguments)?;
            let planned = tasks(&plan, &RunId::new("plan"), &devices);
            render::plan_show(&plan, &planned, &devices, arguments.output.output)?;
        }
        PlanCommand::Estimate(arguments) => {
            let plan = parse(&arguments.plan)?;
            let devices = devices(&arguments)?;
            let planned = tasks(&plan, &RunId::new("plan"), &devices);
            let estimates = estimate_tasks(&planned, &devices);
            render::plan_estimate(&estimates, &planned.notes, arguments.output.output)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The text of a plan: a file, or a built-in one of that name. A file wins where both exist. With `exit_on_error` that key
/// of it is set.
///
/// # Errors
/// Neither exists, the file cannot be read, or the plan is wrong: every error with its place.
pub(super) fn read(name: &str, exit_on_error: bool) -> Result<String, Failure> {
    let text = text(name)?;
    parse_text(name, &text)?;
    if exit_on_error { with_exit_on_error(&text) } else { Ok(text) }
}

/// A plan's text with `measure.exit_on_error` set, and nothing else changed. It is the text that is changed, and not the
/// run, so that one digest never stands for two ways to measure.
fn with_exit_on_error(text: &str) -> Result<String, Failure> {
    let mut document: DocumentMut = text.parse().map_err(|error: TomlError| Failure::internal(error))?;
    let measure = document.entry("measure").or_insert(Item::Table(Table::new()));
    let Some(measure) = measure.as_table_like_mut() else {
        return Err(Failure::said(Kind::Internal, "the plan's `measure` is no table, and was taken for one"));
    };
    measure.insert("exit_on_error", toml_edit::value(true));
    Ok(document.to_string())
}

fn parse(name: &str) -> Result<Plan, Failure> {
    parse_text(name, &text(name)?)
}

fn parse_text(name: &str, text: &str) -> Result<Plan, Failure> {
    Plan::parse(text).map_err(|errors| {
        let lines: Vec<_> = errors.errors().iter().map(|error| format!("{name}:{error}")).collect();
        Failure::said(Kind::Plan, format!("the plan is wrong:\n{}", lines.join("\n")))
    })
}

fn text(name: &str) -> Result<String, Failure> {
    let path = Path::new(name);
    if !path.exists() {
        return builtin(name).map(str::to_owned).ok_or_else(|| {
            let known: Vec<_> = builtin_names().collect();
            let sentence =
                format!("there is no plan file `{name}`, and no built-in plan of that name ({})", known.join(", "));
            Failure::said(Kind::Plan, sentence)
        });
    }
    read_text(path, PLAN_BYTES_MAX as u64).map_err(|error| {
        Failure::new(Kind::Plan, anyhow::Error::new(error).context(format!("the plan file `{name}` cannot be read")))
    })
}

/// The devices to plan for: those of a file, or the host processor.
fn devices(arguments: &PlanArguments) -> Result<Vec<FleetDevice>, Failure> {
    let facts = match &arguments.devices {
        Some(path) => facts_of_file(path)?,
        None => {
            render::note("planned for this machine's processor; give --devices FILE to plan for others");
            fleetcal_agent::device::cpu::discover(DeviceId::new("CPU-local")).map_err(Failure::internal)?
        }
    };
    Ok(facts
        .into_iter()
        .map(|facts| FleetDevice { facts, node: "local".to_owned(), host: "local".to_owned(), rack: None })
        .collect())
}

/// Reads what `fleetcal devices --output json` writes, with `--local` or without.
fn facts_of_file(path: &Path) -> Result<Vec<DeviceFacts>, Failure> {
    let wrong = |reason: String| {
        let sentence =
            format!("{} is no list of devices as `fleetcal devices --output json` writes it: {reason}", path.display());
        Failure::said(Kind::NotFound, sentence)
    };
    let text = read_text(path, DEVICES_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let entries: Vec<serde_json::Value> = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    let mut facts = Vec::new();
    for entry in entries {
        // A fleet's entry holds one device as `facts`, a machine's holds those of one backend as `devices`.
        let found = match (entry.get("facts"), entry.get("devices")) {
            (Some(one), _) => serde_json::Value::Array(vec![one.clone()]),
            (None, Some(several)) => several.clone(),
            (None, None) => return Err(wrong("an entry holds neither `facts` nor `devices`".to_owned())),
        };
        facts.extend(serde_json::from_value::<Vec<DeviceFacts>>(found).map_err(|error| wrong(error.to_string()))?);
    }
    Ok(facts)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However the section was written, or not at all: the key is set, and all else means what it meant.
    #[test]
    fn a_plan_whose_error_is_to_end_the_task_is_changed_in_that_alone() {
        let sweep = "[[sweep]]\nfamily = \"stream\" # why\nelements = \"2^20\"\n";
        for section in [
            "",
            "[measure]\n",
            "[measure]\nrounds = 3 # three\n",
            "[measure]\nexit_on_error = false\n",
            "measure = { rounds = 3 }\n",
            "measure.rounds = 3\n",
        ] {
            let text = format!("name = \"a\"\n{section}{sweep}");
            let changed =
                with_exit_on_error(&text).unwrap_or_else(|failure| panic!("{section}: {}", failure.sentence()));
            let (before, after) = (parse_text("p", &text).expect("a plan"), parse_text("p", &changed));
            let after = after.unwrap_or_else(|failure| panic!("{changed}: {}", failure.sentence()));
            assert!(after.measure.exit_on_error, "{changed}");
            let mut expected = before.measure.clone();
            expected.exit_on_error = true;
            assert_eq!((after.measure, after.sweeps), (expected, before.sweeps), "{changed}");
            assert!(changed.contains("# why"), "comments are a person's: {changed}");
        }
    }
}
