//! What bad input gets: a sentence that names the thing, and an exit code by kind.

#![allow(clippy::expect_used, clippy::panic)]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Output;

use fleetcal_tests::processes::{Background, fleetcal, output, wait_until, workspace_root};
use tempfile::TempDir;

/// Runs a command that must fail, and checks how.
fn refused(arguments: &[&str], code: i32, words: &[&str]) -> String {
    let ended: Output = output(arguments);
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.code(), Some(code), "{arguments:?} said:\n{said}");
    for word in words {
        assert!(said.contains(word), "{arguments:?} does not name `{word}`:\n{said}");
    }
    assert!(!said.contains("panicked") && !said.contains("backtrace"), "{arguments:?} shows its insides:\n{said}");
    said
}

fn plan_file(folder: &TempDir, text: &str) -> String {
    let path = folder.path().join("plan.toml");
    std::fs::write(&path, text).expect("a plan can be written");
    path.display().to_string()
}

#[test]
fn wrong_plans_are_refused_with_line_and_column() {
    let folder = TempDir::new().expect("a temporary folder");
    let head = "name = \"t\"\n[[sweep]]\nfamily = \"stream\"\n";
    for (text, words) in [
        (format!("{head}elements = \"2^20\"\nkernelz = [\"copy\"]\n"), ["5:1", "`kernels`"]),
        (format!("{head}elements = true\n"), ["4:12", "elements"]),
        (format!("{head}elements = [0]\n"), ["4:13", "0"]),
        (format!("{head}elements = [1000]\n"), ["4:13", "multiple"]),
        (format!("{head}elements = [\n"), ["TOML", "plan.toml:"]),
    ] {
        let plan = plan_file(&folder, &text);
        refused(&["plan", "check", &plan], 3, &words);
    }
    refused(&["plan", "check", "qick"], 3, &["qick", "quick", "standard"]);
}

#[test]
fn arguments_that_cannot_be_meant_are_refused_before_anything_starts() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().join("data").display().to_string();
    let calibrate = |more: &[&str], words: &[&str]| {
        refused(&[&["calibrate", "--data", &data], more].concat(), 2, words);
    };
    calibrate(&["--backend", "sim", "--sim", "99999999999"], &["devices = 99999999999", "1024"]);
    calibrate(&["--node", "a\nerror: all is lost"], &["--node", "one line"]);
    calibrate(&["--rack", ""], &["--rack", "at least one character"]);
    refused(&["run", "quick", "--coordinator", "bogus"], 2, &["bogus", "http://"]);
    refused(&["fit", "rows", "--footprint-factor", "-1"], 2, &["-1", "--footprint-factor"]);
    assert!(!Path::new(&data).exists(), "a refused command made its data folder");

    let long = plan_file(&folder, &format!("name = \"t\"\n{}", "# more\n".repeat(200_000)));
    refused(&["plan", "check", &long], 3, &["plan.toml", "more than 1048576 bytes"]);
}

/// A watch goes on until somebody ends it, or nobody reads it any more.
#[test]
fn a_watch_that_nobody_reads_ends() {
    let folder = TempDir::new().expect("a temporary folder");
    let data = folder.path().display().to_string();
    let mut coordinator = Background::start(fleetcal(&["coordinator", "--listen", "127.0.0.1:0", "--data", &data]));
    let line = coordinator.wait_for_line("listening on ");
    let url = line.rsplit(' ').next().expect("the line ends in the address").to_owned();
    let mut watch = Background::start(fleetcal(&["status", "--watch", "--coordinator", &url]));
    // Closed at once: the first or the second look finds that out.
    watch.close_output();
    let ended = wait_until("a watch that nobody reads ends", || watch.ended());
    assert!(ended.success(), "a reader that leaves is no failure: {ended}");
    coordinator.signal("TERM");
    coordinator.wait();
}

/// A pipe is waited for by whoever reads it: somebody may still write.
#[test]
fn a_pipe_among_the_rows_is_not_waited_for() {
    let folder = TempDir::new().expect("a temporary folder");
    for name in ["rows.parquet", "samples.csv", "calibration.tsv"] {
        let pipe = folder.path().join(name).display().to_string();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo of coreutils runs");
        assert!(made.success(), "mkfifo {pipe}");
        // Not by waiting for its end: a fit that waits for a writer has none.
        let mut fit = Background::start(fleetcal(&["fit", &pipe]));
        let said = fit.wait_for_line("no regular file");
        assert!(said.contains(name), "the file is not named: {said}");
        assert_eq!(fit.wait().0.code(), Some(5), "{pipe}");
    }
}

#[test]
fn built_in_plans_are_right_and_can_be_shown() {
    for plan in ["quick", "standard"] {
        for verb in ["check", "show", "estimate"] {
            let shown = output(&["plan", verb, plan]);
            assert!(shown.status.success(), "plan {verb} {plan}: {}", String::from_utf8_lossy(&shown.stderr));
            assert!(!shown.stdout.is_empty(), "plan {verb} {plan} shows nothing");
        }
    }
}

#[test]
fn an_unknown_device_is_named_beside_those_there_are() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    refused(
        &["calibrate", "--device", "h900", "--backend", "sim", "--sim", "1", "--data", &folder],
        4,
        &["h900", "sim-"],
    );
    refused(
        &["calibrate", "--resume", "nothing", "--backend", "sim", "--sim", "1", "--data", &folder],
        4,
        &["nothing"],
    );
}

#[test]
fn refusals_tell_what_is_wrong_with_the_request_from_what_is_not_there() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let sim = ["--backend", "sim", "--sim", "1", "--data", &folder];
    refused(&[&["calibrate", "--device", "vendr=sim"][..], &sim].concat(), 2, &["vendr", "did you mean `vendor`?"]);
    refused(&["run", "quick", "--device", "vendor=", "--wait", "0"], 2, &["vendor=", "FIELD=PATTERN"]);
    let head = "name = \"t\"\n[[sweep]]\nfamily = \"stream\"\nelements = ";
    for (text, words) in [
        (format!("{head}\"2^20\"\n[limits]\ndevice_time = \"1ms\"\n"), ["limits.device_time", "rounds_max"]),
        (format!("{head}\"2^48\"\n"), ["nothing is left to measure", "GiB"]),
    ] {
        let plan = plan_file(&data, &text);
        refused(&[&["calibrate", "--plan", &plan][..], &sim].concat(), 3, &words);
    }
    let runs = std::fs::read_dir(data.path().join("rows")).map_or(0, Iterator::count);
    assert_eq!(runs, 0, "a refused plan measured something");
}

#[test]
fn looking_at_this_machine_writes_nothing() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().join("fleetcal-data");
    let path = folder.display().to_string();
    let shown = output(&["devices", "--local", "--backend", "sim", "--sim", "1", "--data", &path]);
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(shown.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&shown.stdout).contains("SIM-") && said.contains("made up"), "{said}");
    assert!(!folder.exists(), "looking made a folder");
}

/// The agent reads a worker's standard error for the reason of its end: there is no logger in between.
#[test]
fn a_worker_that_cannot_work_says_why_in_one_line() {
    let said = refused(&["worker"], 1, &["standard input ended before any request"]);
    assert_eq!(said.lines().count(), 1, "{said}");
}

#[test]
fn data_folders_that_cannot_be_used_are_named() {
    let data = TempDir::new().expect("a temporary folder");
    let file = data.path().join("file");
    std::fs::write(&file, "not a folder").expect("a file can be written");
    let path = file.display().to_string();
    refused(&["calibrate", "--data", &path], 5, &[&path, "not a folder"]);
    // Root may write anywhere; what it may not is a folder of /proc.
    refused(&["coordinator", "--listen", "127.0.0.1:0", "--data", "/proc/fleetcal"], 5, &["/proc/fleetcal"]);
    let locked = data.path().join("locked");
    std::fs::create_dir(&locked).expect("a folder can be made");
    std::fs::set_permissions(&locked, std::fs::Permissions::from_mode(0o500)).expect("permissions can be set");
}

#[test]
fn networks_that_cannot_be_had_are_named() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("it has an address").to_string();
    refused(&["coordinator", "--listen", &address, "--data", &folder], 6, &[&address, "in use"]);
    refused(&["coordinator", "--listen", "0.0.0.0:0", "--data", &folder], 6, &["0.0.0.0", "loopback"]);
    drop(taken);
    let url = format!("http://{address}");
    refused(&["status", "--coordinator", &url, "--wait", "0"], 6, &[&url]);
    refused(&["status", "--coordinator", "not a url"], 2, &["not a url"]);
    refused(&["status", "--coordinator", "127.0.0.1:7600", "--wait", "9999"], 2, &["127.0.0.1:7600", "http://"]);
    refused(&["status", "--coordinator", "https://127.0.0.1:7600", "--wait", "9999"], 2, &["https", "http://"]);
    refused(&["calibrate", "--sim", "two"], 2, &["two"]);
    refused(&["calibrate", "--backend", "metal"], 2, &["metal", "cuda"]);
}

#[test]
fn damaged_and_foreign_files_among_the_rows_are_named_and_skipped() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let rows = data.path().join("rows/older");
    std::fs::create_dir_all(&rows).expect("a folder can be made");
    std::fs::write(rows.join("foreign.parquet"), "PAR1 is not all there is to it").expect("a file can be written");
    let plan = workspace_root().join("tests/plans/smoke.toml").display().to_string();
    let ended = output(&["calibrate", "--plan", &plan, "--backend", "sim", "--sim", "1", "--data", &folder]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "a foreign file must not be fatal:\n{said}");
    assert!(said.contains("foreign.parquet"), "the foreign file is not named:\n{said}");
}

#[test]
fn every_command_shows_an_example() {
    let top = output(&["--help"]);
    let text = String::from_utf8_lossy(&top.stdout).into_owned();
    assert!(text.contains("Example") && text.contains("Exit codes"), "{text}");
    assert!(!text.contains("worker"), "the worker is for agents only:\n{text}");
    for command in ["calibrate", "coordinator", "agent", "run", "status", "devices", "rows"] {
        let help = output(&[command, "--help"]);
        assert!(String::from_utf8_lossy(&help.stdout).contains("Example"), "{command} --help shows no example");
    }
}

#[test]
fn a_reader_that_leaves_early_is_no_fault() {
    let mut child = fleetcal(&["plan", "show", "standard"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("fleetcal starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success() && !said.contains("panicked"), "{:?}: {said}", ended.status);
}

#[test]
fn results_that_cannot_be_written_are_a_failure() {
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there is a full device");
    let ended = fleetcal(&["plan", "show", "standard"]).stdout(full).output().expect("fleetcal starts");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(9), "{said}");
    assert!(said.contains("could not be written") && !said.contains("panicked"), "{said}");
}
