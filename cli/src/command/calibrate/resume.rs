//! Going on with a run: how to say it, and when it cannot be done.

use std::collections::BTreeSet;

use fleetcal_agent::device::sim::SimSpec;
use fleetcal_proto::v1::{CancelRequest, DevicesRequest, StatusRequest, TaskState};

use crate::args::CalibrateArguments;
use crate::client::Control;
use crate::failure::{Failure, Kind};

/// The command that goes on with a run: with every option that decides on what and as whom it measures, so that it can
/// be pasted as it is.
pub(super) fn how_to_go_on(run: &str, arguments: &CalibrateArguments) -> String {
    format!("Go on with: {}", command(run, arguments))
}

fn command(run: &str, arguments: &CalibrateArguments) -> String {
    // Taken apart without `..`, so that a new option is thought of here.
    let CalibrateArguments { plan: _, devices: _, resume: _, exit_on_error: _, output: _, data, node, limits } =
        arguments;
    let data = data.display().to_string();
    let mut words = vec!["fleetcal", "calibrate", "--resume", run, "--data", &data];
    let sim = node.sim.to_string();
    if node.sim != SimSpec::default() {
        words.extend(["--sim", &sim]);
    }
    words.extend(node.backends.iter().flat_map(|backend| ["--backend", backend.name()]));
    words.extend(node.node.iter().flat_map(|label| ["--node", label]));
    words.extend(node.rack.iter().flat_map(|label| ["--rack", label]));
    let deadline = node.launch_deadline.map(|seconds| seconds.to_string());
    words.extend(deadline.iter().flat_map(|seconds| ["--launch-deadline", seconds]));
    words.extend(limits.no_monitor.then_some("--no-monitor"));
    words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word as a POSIX shell reads it back.
fn quoted(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=,:@%+".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Refuses a run that waits for devices which neither this process nor a twin of theirs in it offers: no other agent can
/// come, so it would wait for ever. The run is cut short again, as it was.
///
/// # Errors
/// [`Kind::NotFound`], naming the devices; or the coordinator is lost.
pub(super) async fn refuse_without_devices(control: &mut Control, run: &str) -> Result<(), Failure> {
    let tasks = control.status(StatusRequest {}).await?.into_inner().tasks;
    let devices = control.devices(DevicesRequest {}).await?.into_inner().devices;
    let offered: BTreeSet<&str> =
        devices.iter().filter(|device| device.connected).map(|device| device.class_id.as_str()).collect();
    let waits = tasks.iter().filter(|task| task.task_id.starts_with(run) && task.state() == TaskState::Pending);
    let wanted: BTreeSet<&str> = waits.map(|task| task.device_uuid.as_str()).collect();
    let uuid = |device: &fleetcal_proto::v1::FleetDevice| device.facts.as_ref().map(|facts| facts.uuid.clone());
    let mut lacking = Vec::new();
    for wanted in wanted {
        let known = devices.iter().find(|device| uuid(device).as_deref() == Some(wanted));
        match known {
            Some(device) if offered.contains(device.class_id.as_str()) => {}
            Some(device) => lacking.push(format!("{wanted} ({})", device.class_slug)),
            None => lacking.push(wanted.to_owned()),
        }
    }
    if lacking.is_empty() {
        return Ok(());
    }
    let reason = "its devices are not here".to_owned();
    control.cancel(CancelRequest { run_id: run.to_owned(), reason }).await?;
    let sentence = format!(
        "{run} waits for {}, which this machine does not offer now. Give the options that the run was begun with \
         (`--sim`, `--backend`), or begin another run",
        lacking.join(", ")
    );
    Err(Failure::said(Kind::NotFound, sentence))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::{Arguments, Command};

    fn parsed(words: &[&str]) -> CalibrateArguments {
        let words = [&["fleetcal", "calibrate"], words].concat();
        let command = Arguments::try_parse_from(words).expect("a command line").command;
        let Command::Calibrate(arguments) = command else { panic!("{command:?}") };
        arguments
    }

    #[test]
    fn the_command_says_everything_that_decides_on_what_is_measured() {
        let plain = command("run-1", &parsed(&["--data", "d"]));
        assert_eq!(plain, "fleetcal calibrate --resume run-1 --data d");
        let words = [
            "--plan",
            "standard",
            "--data",
            "my data",
            "--sim",
            "2,seed=7",
            "--backend",
            "sim",
            "--backend",
            "cpu",
            "--node",
            "it's",
            "--rack",
            "r1",
            "--no-monitor",
            "--exit-on-error",
            "--device",
            "backend=sim",
        ];
        let said = command("run-1", &parsed(&words));
        assert_eq!(
            said,
            format!(
                "fleetcal calibrate --resume run-1 --data 'my data' --sim {} --backend sim --backend cpu --node \
                 'it'\\''s' --rack r1 --no-monitor",
                "2,seed=7".parse::<SimSpec>().expect("a specification")
            )
        );
    }

    #[test]
    fn what_was_said_reads_back_as_the_same_options() {
        let first = parsed(&["--sim", "1,fault=lost:3", "--backend", "sim", "--data", "d"]);
        let said = command("run-1", &first);
        let words: Vec<&str> = said.split(' ').skip(2).collect();
        let again = parsed(&words);
        assert_eq!(again.resume.as_deref(), Some("run-1"));
        assert_eq!(
            (again.node.sim, again.node.backends, again.data),
            (first.node.sim, first.node.backends, first.data)
        );
    }
}
