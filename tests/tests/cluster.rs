//! A fleet of real processes on one machine: a coordinator, agents with simulated devices, and what kills them.

#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use fleetcal_coordinator::rows::{RowFilter, read_parts};
use fleetcal_tests::processes::{Background, fleetcal, output, wait_until, workspace_root};
use serde_json::Value;
use tempfile::TempDir;

/// Takes about 20 ms of real time for each visit, so that a run can be disturbed half-way.
const SLOW_SIM: &str = "1,visit_ms=20";

struct Fleet {
    folder: TempDir,
    coordinator: Option<Background>,
    url: String,
}

impl Fleet {
    /// A coordinator on a port of its own, with leases of two seconds.
    fn start() -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let (coordinator, url) = coordinator(folder.path(), "127.0.0.1:0");
        Self { folder, coordinator: Some(coordinator), url }
    }

    fn agent(&self, name: &str) -> Background {
        agent(&self.url, &self.folder.path().join(name), name)
    }

    fn status(&self) -> Option<Value> {
        let shown = output(&["status", "--coordinator", &self.url, "--output", "json", "--wait", "1"]);
        serde_json::from_slice(&shown.stdout).ok()
    }

    fn connected_agents(&self) -> usize {
        let status = self.status().unwrap_or_default();
        status["agents"].as_array().map_or(0, |agents| agents.iter().filter(|agent| agent["connected"] == true).count())
    }

    fn run(&self, plan: &str) -> Command {
        let plan = workspace_root().join("tests/plans").join(plan);
        fleetcal(&["run", &plan.display().to_string(), "--coordinator", &self.url, "--output", "json"])
    }

    /// Rows in all parts of the folder, as DuckDB or pyarrow would count them.
    fn stored_rows(&self) -> Vec<fleetcal_model::row::Row> {
        let report = read_parts(&self.folder.path().join("data"), &RowFilter::All);
        assert!(report.skipped.is_empty(), "parts were skipped: {:?}", report.skipped);
        report.rows
    }
}

fn coordinator(folder: &Path, listen: &str) -> (Background, String) {
    let data = folder.join("data").display().to_string();
    let mut process = Background::start(fleetcal(&[
        "coordinator",
        "--listen",
        listen,
        "--data",
        &data,
        "--lease",
        "2",
        "--grace",
        "3",
    ]));
    let line = process.wait_for_line("listening on http://");
    let url = line.split_whitespace().find(|word| word.starts_with("http://")).expect("the line names the address");
    (process, url.to_owned())
}

fn agent(url: &str, data: &Path, name: &str) -> Background {
    let data = data.display().to_string();
    Background::start(fleetcal(&[
        "agent",
        "--coordinator",
        url,
        "--data",
        &data,
        "--node",
        name,
        "--backend",
        "sim",
        "--sim",
        SLOW_SIM,
    ]))
}

fn documents(stdout: &str) -> Vec<Value> {
    serde_json::from_str(stdout).unwrap_or_else(|error| panic!("{error}: standard output was\n{stdout}"))
}

/// No row is stored twice: its identity is unique.
fn assert_no_row_twice(rows: &[fleetcal_model::row::Row]) {
    let mut ids: Vec<_> = rows.iter().map(|row| row.identity.row_id.as_str()).collect();
    ids.sort_unstable();
    let before = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), before, "{} rows stand twice", before - ids.len());
}

#[test]
fn a_killed_agents_tasks_go_to_its_twin() {
    let fleet = Fleet::start();
    let _first = fleet.agent("first");
    let second = fleet.agent("second");
    wait_until("both agents connect", || (fleet.connected_agents() == 2).then_some(()));
    let run = Background::start(fleet.run("slow.toml"));
    let task = wait_until("both agents work", || {
        let status = fleet.status()?;
        let leased = status["tasks"].as_array()?.iter().filter(|task| task["state"] == "leased").count();
        let done = status["tasks"].as_array()?.iter().filter(|task| task["state"] == "done").count();
        (leased == 2 && done >= 1).then(|| status["tasks"][0].clone())
    });
    let page = String::from_utf8(output(&["status", "--coordinator", &fleet.url]).stdout).expect("output is text");
    for key in ["task_id", "title", "device_uuid"] {
        let word = task[key].as_str().unwrap_or_else(|| panic!("a task has its {key}: {task}"));
        assert!(page.contains(word), "the page for people lacks the {key} {word}:\n{page}");
    }
    second.signal("KILL");
    let (status, stdout, stderr) = run.wait();
    assert!(status.success(), "the run ended with {status}:\n{stderr}");
    let documents = documents(&stdout);
    assert_eq!(documents.len(), 1, "two devices of one class give one document");
    assert_eq!(documents[0]["body"]["origin"], "simulated");
    assert_no_row_twice(&fleet.stored_rows());
}

#[test]
fn agents_start_before_the_coordinator_and_outlive_its_death() {
    let folder = TempDir::new().expect("a temporary folder");
    // A port that was free a moment ago, so that the agent knows where the coordinator will be.
    let port = std::net::TcpListener::bind("127.0.0.1:0").and_then(|socket| socket.local_addr()).expect("a free port");
    let url = format!("http://{port}");
    let mut early = agent(&url, &folder.path().join("early"), "early");
    early.wait_for_line("no coordinator");
    let (first, _) = coordinator(folder.path(), &port.to_string());
    let mut fleet = Fleet { folder, coordinator: Some(first), url };
    wait_until("the early agent connects", || (fleet.connected_agents() == 1).then_some(()));
    let plan = workspace_root().join("tests/plans/slow.toml").display().to_string();
    let submitted = output(&["run", &plan, "--coordinator", &fleet.url, "--detach", "--output", "json"]);
    assert!(submitted.status.success(), "{}", String::from_utf8_lossy(&submitted.stderr));
    wait_until("a task is done", || fleet.status()?["runs"][0]["done"].as_u64().filter(|done| *done >= 1));
    if let Some(first) = fleet.coordinator.take() {
        first.signal("KILL");
        first.wait();
    }
    let (second, _) = coordinator(fleet.folder.path(), &port.to_string());
    fleet.coordinator = Some(second);
    let run = wait_until("the run ends after the restart", || {
        let status = fleet.status()?;
        (status["runs"][0]["state"] == "ended").then(|| status["runs"][0].clone())
    });
    assert_eq!(run["done"], run["tasks"], "some tasks were not done: {run}");
    let rows = fleet.stored_rows();
    assert_no_row_twice(&rows);
    assert_eq!(Some(rows.len() as u64), run["rows"].as_u64(), "the coordinator counts other rows than the parts hold");
}
