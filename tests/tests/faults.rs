//! Kernels and workers at their worst, as real processes: each costs what it must, and nothing else.

#![allow(clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use fleetcal_coordinator::rows::{RowFilter, read_parts};
use fleetcal_model::row::{Row, Status};
use fleetcal_tests::processes::{Background, fleetcal, output, wait_until};
use tempfile::TempDir;

/// One point with every solution that a simulated device has for it, in one task.
const PLAN: &str = "name = \"faults\"\n[measure]\nrounds = 3\nrounds_max = 3\nsamples_min = 3\nsamples_max = 3\n\
                    screening_samples = 1\nfinalists = 2\nvalidate = 64\n[[sweep]]\nfamily = \"stream\"\n\
                    kernels = [\"copy\"]\ndtypes = [\"f32\"]\nelements = \"2^26\"\n";

/// Two of these solutions.
const SOLUTION: &str = "w4_v1_b256_tile";
const ANOTHER: &str = "w4_v2_b512_tile";

fn plan(folder: &Path) -> String {
    let path = folder.join("faults.toml");
    std::fs::write(&path, PLAN).expect("a plan can be written");
    path.display().to_string()
}

/// Calibrates with simulated devices that have this fault; its rows, and what was said.
fn calibrated(sim: &str, further: &[&str]) -> (Vec<Row>, String) {
    let data = TempDir::new().expect("a temporary folder");
    let (plan, folder) = (plan(data.path()), data.path().display().to_string());
    let mut arguments = vec!["calibrate", "--plan", &plan, "--backend", "sim", "--sim", sim, "--data", &folder];
    arguments.extend(further);
    let ended = output(&arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    (read_parts(data.path(), &RowFilter::All).rows, said)
}

/// Every row but those of one solution was measured as planned, with each round once.
fn assert_others_are_whole(rows: &[Row], but: &str, said: &str) {
    assert!(rows.len() > 2, "{} rows; said was:\n{said}", rows.len());
    for row in rows.iter().filter(|row| row.work.solution != but) {
        assert_eq!(row.outcome.status, Status::Passed, "{}: {:?}", row.work.solution, row.outcome.reason);
        let rounds: Vec<u64> = row.timing.rounds.iter().map(|round| round.round).collect();
        let once: BTreeSet<u64> = rounds.iter().copied().collect();
        assert_eq!(rounds.len(), once.len(), "{}: a round stands twice: {rounds:?}", row.work.solution);
        assert_eq!(row.timing.rounds_done, if rounds.len() > 1 { 3 } else { 1 }, "{}", row.work.solution);
    }
    let finalists = rows.iter().filter(|row| row.timing.rounds.len() == 4).count();
    assert_eq!(finalists, 2, "both finalists were screened and measured in three rounds; said was:\n{said}");
}

/// The reason of the one row that could not be measured.
fn reason(rows: &[Row], said: &str) -> String {
    reason_of(SOLUTION, rows, said)
}

/// The reason of the one row of a solution that could not be measured.
fn reason_of(solution: &str, rows: &[Row], said: &str) -> String {
    let row = rows.iter().find(|row| row.work.solution == solution);
    let row = row.unwrap_or_else(|| panic!("no row of {solution} among {}; said was:\n{said}", rows.len()));
    assert_eq!(row.outcome.status, Status::Invalid);
    row.outcome.reason.clone().unwrap_or_default()
}

#[test]
fn solutions_that_do_not_compile_or_load_are_invalid_and_the_others_are_measured() {
    let (broken, unloadable) = (SOLUTION, ANOTHER);
    let (mut rows, said) = calibrated(&format!("1,fault=compile:{broken},fault=unloadable:{unloadable}"), &[]);
    for (solution, words) in [(broken, "does not compile"), (unloadable, "cannot be loaded")] {
        let reason = reason_of(solution, &rows, &said);
        assert!(reason.contains("injected fault") && reason.contains(words), "{solution}: {reason}");
    }
    rows.retain(|row| row.work.solution != unloadable);
    assert_others_are_whole(&rows, broken, &said);
}

/// Memory that was said to be free and is not.
#[test]
fn memory_that_cannot_be_had_ends_as_a_status_on_every_row_and_the_run_ends() {
    let (rows, said) = calibrated("1,fault=oom", &[]);
    assert!(rows.len() > 2, "{} rows; said was:\n{said}", rows.len());
    for row in &rows {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert_eq!(row.outcome.status, Status::Skipped, "{}: {reason}", row.work.solution);
        assert!(reason.contains("bytes were wanted, 0 are free"), "{reason}");
        assert_eq!((row.timing.estimate_ns, row.timing.rounds.len()), (None, 0), "nothing was measured");
    }
    assert!(said.contains("no constant was measured"), "{said}");
}

#[test]
fn a_solution_that_ends_its_worker_with_139_is_set_aside_and_the_others_are_measured() {
    let (rows, said) = calibrated(&format!("1,fault=exit:{SOLUTION}"), &[]);
    assert_others_are_whole(&rows, SOLUTION, &said);
    let reason = reason(&rows, &said);
    assert!(reason.contains("3 workers") && reason.contains("exit code 139"), "{reason}");
}

#[test]
fn a_kernel_that_spins_for_ever_is_killed_at_its_deadline_and_set_aside() {
    let (rows, said) = calibrated(&format!("1,fault=spin:{SOLUTION}"), &["--launch-deadline", "2"]);
    assert_others_are_whole(&rows, SOLUTION, &said);
    let reason = reason(&rows, &said);
    assert!(reason.contains("3 workers") && reason.contains("took longer than"), "{reason}");
}

#[test]
fn a_context_that_is_lost_again_and_again_costs_no_visit_that_ended() {
    let (rows, said) = calibrated("2,fault=lost:12", &[]);
    for device in rows.iter().map(|row| &row.device.device_uuid).collect::<BTreeSet<_>>() {
        let rows: Vec<Row> = rows.iter().filter(|row| row.device.device_uuid == *device).cloned().collect();
        assert_others_are_whole(&rows, "", &said);
    }
}

#[test]
fn an_interrupted_task_goes_on_at_the_next_visit() {
    let data = TempDir::new().expect("a temporary folder");
    let (plan, folder) = (plan(data.path()), data.path().display().to_string());
    let slow = ["calibrate", "--plan", &plan, "--backend", "sim", "--sim", "1,visit_ms=100", "--data", &folder];
    let first = Background::start(fleetcal(&slow));
    let visits = data.path().join("agent/spool/visits");
    wait_until("a few visits end", || (lines(&visits, "{\"Visited\"") >= 3).then_some(()));
    first.signal("INT");
    let (_, _, said) = first.wait();
    let run = said.split("--resume ").nth(1).and_then(|rest| rest.split_whitespace().next());
    let run = run.unwrap_or_else(|| panic!("how to go on was not said:\n{said}")).to_owned();
    let before = read_parts(data.path(), &RowFilter::All).rows;
    let interrupted_utc_ns = before.iter().map(|row| row.outcome.ended_utc_ns).max().expect("rows were kept");

    let second = output(&["calibrate", "--resume", &run, "--backend", "sim", "--sim", "1", "--data", &folder]);
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(second.status.success(), "{said}");
    let rows = read_parts(data.path(), &RowFilter::All).rows;
    let last = rows.iter().map(|row| row.identity.attempt).max().expect("there are rows");
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.identity.attempt == last).collect();
    assert_others_are_whole(&rows, "", &said);
    let resumed = rows.iter().filter(|row| row.outcome.started_utc_ns < interrupted_utc_ns).count();
    assert!(resumed >= 3, "{resumed} rows hold visits of the first attempt, three ended in it");
    assert!(rows.len() > resumed, "the first attempt was not interrupted");
}

/// Lines of the files of a folder that begin with a text.
fn lines(folder: &Path, text: &str) -> usize {
    let files = std::fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect());
    let files: Vec<PathBuf> = files.unwrap_or_default();
    let count = |path: &PathBuf| {
        let content = std::fs::read_to_string(path).unwrap_or_default();
        content.lines().filter(|line| line.starts_with(text)).count()
    };
    files.iter().map(count).sum()
}

/// The worker hangs where a driver would, and does not even look for the end of its agent.
#[test]
fn a_worker_that_hangs_ends_with_its_agent_however_that_dies() {
    let data = TempDir::new().expect("a temporary folder");
    let (plan, folder) = (plan(data.path()), data.path().display().to_string());
    let hanging = ["calibrate", "--plan", &plan, "--backend", "sim", "--sim", "1,fault=hang", "--data", &folder];
    let agent = Background::start(fleetcal(&hanging));
    let visits = data.path().join("agent/spool/visits");
    wait_until("a launch hangs", || (lines(&visits, "{\"Decided\"") >= 1).then_some(()));
    let worker = wait_until("the worker is seen", || children(agent.id()).into_iter().next());
    agent.signal("KILL");
    agent.wait();
    wait_until("the worker is gone", || (!is_alive(worker)).then_some(()));
}

/// The host processor through the whole binary: one worker is killed, as by a system that is out of memory, the next one
/// stands still. What kernels can do by themselves is in `agent/src/runner/tests/processor.rs`.
#[test]
fn workers_of_the_host_processor_that_are_killed_or_stand_still_are_followed_by_others() {
    let data = TempDir::new().expect("a temporary folder");
    let plan = data.path().join("faults.toml");
    // Visits long enough to be met in the middle.
    let text = PLAN
        .replace("2^26", "2^20")
        .replace("samples_min = 3", "samples_min = 400")
        .replace("samples_max = 3", "samples_max = 400");
    std::fs::write(&plan, text).expect("a plan can be written");
    let (plan, folder) = (plan.display().to_string(), data.path().display().to_string());
    let arguments = ["calibrate", "--plan", &plan, "--backend", "cpu", "--data", &folder, "--no-monitor"];
    let agent = Background::start(fleetcal(&[&arguments[..], &["--launch-deadline", "2"]].concat()));
    let visits = data.path().join("agent/spool/visits");
    let mut shot = Vec::new();
    for (signal, more) in [("KILL", 1), ("STOP", 2)] {
        let before = lines(&visits, "{\"Visited\"");
        wait_until("visits end", || (lines(&visits, "{\"Visited\"") >= before + more).then_some(()));
        let fresh = || children(agent.id()).into_iter().find(|worker| !shot.contains(worker) && is_alive(*worker));
        let worker = wait_until("a worker is at work", fresh);
        let sent = std::process::Command::new("kill").args([&format!("-{signal}"), &worker.to_string()]).status();
        assert!(sent.expect("kill runs").success(), "{signal} could not be sent to {worker}");
        shot.push(worker);
    }
    let (_, _, said) = agent.wait();
    assert!(said.contains("1 of 1 task done"), "the task was not done:\n{said}");
    for death in ["worker died of signal 9 (SIGKILL); a fresh worker goes on", "took longer than"] {
        assert!(said.contains(death), "`{death}` was not said:\n{said}");
    }
    let rows = read_parts(data.path(), &RowFilter::All).rows;
    assert_others_are_whole(&rows, "", &said);
    assert!(shot.iter().all(|worker| !is_alive(*worker)), "no worker is left behind");
}

/// Processes that any thread of a process started.
fn children(process: u32) -> Vec<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_task = |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
    let listed: Vec<String> = tasks.flatten().map(of_task).collect();
    listed.iter().flat_map(|text| text.split_whitespace()).filter_map(|id| id.parse().ok()).collect()
}

/// Whether a process is there and no zombie: its parent is gone, and whoever inherits it may not look.
fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next().map(str::to_owned));
    state.is_some_and(|state| state != "Z" && state != "X")
}
