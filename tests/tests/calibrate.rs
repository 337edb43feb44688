//! The whole job on one machine, through the front door.

#![allow(clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::process::Command;

use fleetcal_coordinator::rows::{RowFilter, read_parts};
use fleetcal_tests::processes::{Background, fleetcal, output, workspace_root};
use serde_json::Value;
use tempfile::TempDir;

fn plan(name: &str) -> String {
    workspace_root().join("tests/plans").join(name).display().to_string()
}

fn json(stdout: &[u8]) -> Value {
    serde_json::from_slice(stdout)
        .unwrap_or_else(|error| panic!("{error}: standard output was\n{}", String::from_utf8_lossy(stdout)))
}

fn constant<'a>(document: &'a Value, name: &str, kernel: &str, dtype: &str) -> &'a Value {
    let constants = document["body"]["constants"].as_array().expect("a document has constants");
    constants
        .iter()
        .find(|constant| {
            constant["name"] == name
                && constant["condition"]["kernel"] == kernel
                && constant["condition"]["dtype"] == dtype
        })
        .unwrap_or_else(|| panic!("no {name} of {kernel} {dtype} in {document:#}"))
}

#[test]
fn simulated_devices_give_the_constants_they_were_made_with() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let ended = output(&[
        "calibrate",
        "--plan",
        &plan("smoke.toml"),
        "--backend",
        "sim",
        "--sim",
        "4",
        "--data",
        &folder,
        "--output",
        "json",
    ]);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let documents = json(&ended.stdout);
    assert_eq!(documents.as_array().map(Vec::len), Some(1), "four devices of one class give one document");
    assert_eq!(documents[0]["body"]["origin"], "simulated", "simulated rows must say so");
    let floor = constant(&documents[0], "memory_bandwidth", "triad", "f32");
    assert_eq!(floor["verdict"], "measured");
    let truth = fleetcal_agent::device::sim::SimModel::S1.constants().memory_bandwidth;
    let value = floor["value"].as_f64().expect("a measured constant has a value");
    assert!((value / truth - 1.0).abs() < 0.02, "{value} B/s were found, {truth} B/s are true");
    assert!(has_file(data.path(), "constants", ".json"), "no constants were left as JSON");
    assert!(has_file(data.path(), "rows", ".parquet"), "no rows were left as Parquet");
}

#[test]
fn a_plan_may_ask_for_the_originals_fits_and_is_shown_and_answered_so() {
    let data = TempDir::new().expect("a temporary folder");
    let asking = data.path().join("original.toml");
    let smoke = std::fs::read_to_string(plan("smoke.toml")).expect("the plan is there");
    std::fs::write(&asking, format!("{smoke}\n[fit]\nmode = \"seed\"\n")).expect("a file can be written");
    let (asking, folder) = (asking.display().to_string(), data.path().join("data").display().to_string());
    let shown = output(&["plan", "show", &asking]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("[fit]\n") && text.contains("mode = \"seed\"\n"), "{text}");
    let plan = ["calibrate", "--plan", &asking, "--backend", "sim", "--sim", "2", "--data", &folder];
    let ended = output(&[&plan[..], &["--output", "json"]].concat());
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let body = &json(&ended.stdout)[0]["body"];
    assert_eq!(body["fit_options"]["mode"], "seed");
    let constants = body["constants"].as_array().expect("constants");
    let names: Vec<&str> = constants.iter().filter_map(|constant| constant["name"].as_str()).collect();
    assert_eq!(names, ["memory_bandwidth"], "of stream rows the original knows the largest rate alone");
    assert!(constants[0]["interval"].is_null(), "and states no interval");
}

fn has_file(data: &Path, folder: &str, ending: &str) -> bool {
    fn walk(folder: &Path, ending: &str) -> bool {
        std::fs::read_dir(folder).is_ok_and(|entries| {
            entries.flatten().any(|entry| {
                let path = entry.path();
                if path.is_dir() { walk(&path, ending) } else { path.display().to_string().ends_with(ending) }
            })
        })
    }
    walk(&data.join(folder), ending)
}

#[test]
fn an_interrupted_run_keeps_what_it_measured_and_can_go_on() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let mut first = Background::start(fleetcal(&[
        "calibrate",
        "--plan",
        &plan("slow.toml"),
        "--backend",
        "sim",
        "--sim",
        "1,visit_ms=50",
        "--data",
        &folder,
    ]));
    first.wait_for_line(": done");
    // One task is done, and another has visits of more than the first round.
    first.wait_for_line(": round 2/");
    first.signal("INT");
    let (status, _, stderr) = first.wait();
    assert_eq!(status.code(), Some(130), "Ctrl-C has its own exit code; said was:\n{stderr}");
    let said = stderr.split("Go on with: fleetcal ").nth(1).and_then(|rest| rest.lines().next());
    let pasted: Vec<&str> = said.unwrap_or_else(|| panic!("how to go on was not said:\n{stderr}")).split(' ').collect();
    let run = pasted[2].to_owned();
    let kept = read_parts(data.path(), &RowFilter::All).rows.len();
    assert!(kept > 0, "nothing was kept");

    // Without the options of then nobody offers the run's device, and nobody else ever will.
    let without = output(&["calibrate", "--resume", &run, "--data", &folder]);
    let refused = String::from_utf8_lossy(&without.stderr);
    assert_eq!(without.status.code(), Some(4), "{refused}");
    assert!(refused.contains(&format!("{run} waits for SIM-")) && refused.contains("--sim"), "{refused}");

    let second = output(&pasted);
    assert!(second.status.success(), "{}", String::from_utf8_lossy(&second.stderr));
    let rows = read_parts(data.path(), &RowFilter::All).rows;
    assert!(rows.len() > kept, "going on measured nothing");
    let first_attempts = rows.iter().filter(|row| row.identity.run_id.as_str() == run).count();
    assert_eq!(first_attempts, rows.len(), "going on began another run");

    // What the first attempt left of a task that went on is told once.
    let shown = |more: &[&str]| {
        let ended = output(&[&["rows", "--data", &folder, "--output", "csv", "--columns", "row_id"], more].concat());
        (
            String::from_utf8_lossy(&ended.stdout).lines().count() - 1,
            String::from_utf8_lossy(&ended.stderr).into_owned(),
        )
    };
    let (all, _) = shown(&["--all-attempts"]);
    let (latest, said) = shown(&[]);
    assert_eq!(all, rows.len());
    assert!(latest < all && said.contains(&format!("{} of earlier attempts", counted(all - latest))), "{said}");
}

#[test]
fn constants_without_any_interval_are_pointed_at() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let two = data.path().join("two.toml");
    let text = "name = \"two\"\n[measure]\nrounds = 2\nrounds_max = 2\n[[sweep]]\nfamily = \"stream\"\n\
                kernels = [\"triad\"]\ndtypes = [\"f32\"]\nelements = \"2^28\"\n";
    std::fs::write(&two, text).expect("a plan can be written");
    let ended = output(&[
        "calibrate",
        "--plan",
        &two.display().to_string(),
        "--backend",
        "sim",
        "--sim",
        "1",
        "--data",
        &folder,
    ]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("measured without any interval"), "a value nobody knows the error of: {said}");
}

#[test]
fn a_second_signal_says_how_to_go_on_and_leaves_no_worker() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let smoke = plan("smoke.toml");
    let sim = ["--backend", "sim", "--sim", "1,fault=hang", "--data", &folder];
    let calibrate = fleetcal(&[&["calibrate", "--plan", &smoke][..], &sim].concat());
    let mut run = Background::start(through_env("--default-signal=HUP", &calibrate));
    run.wait_for_line("screening");
    let workers = workers_of(run.id());
    assert!(!workers.is_empty(), "no worker drives the device");
    // Two of a kind may arrive as one. The first is what a terminal sends that is closed.
    run.signal("HUP");
    run.signal("TERM");
    let (status, _, stderr) = run.wait();
    let left: Vec<&u32> = workers.iter().filter(|worker| lives_on(**worker)).collect();
    assert_eq!(status.code(), Some(130), "{stderr}");
    assert!(left.is_empty(), "workers {left:?} were left at their devices");
    assert!(stderr.contains("--resume"), "how to go on was not said:\n{stderr}");
}

/// What the system says of a process, by key.
/// The same command, with signals as a shell may have set them.
fn through_env(signals: &str, command: &Command) -> Command {
    let mut through = Command::new("env");
    through.arg(signals).arg(command.get_program()).args(command.get_args());
    through
}

#[test]
fn a_run_under_nohup_outlives_its_terminal() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let smoke = plan("smoke.toml");
    let sim = ["--backend", "sim", "--sim", "1,visit_ms=20", "--data", &folder];
    let calibrate = fleetcal(&[&["calibrate", "--plan", &smoke][..], &sim].concat());
    let mut run = Background::start(through_env("--ignore-signal=HUP", &calibrate));
    run.wait_for_line("screening");
    run.signal("HUP");
    let (status, _, stderr) = run.wait();
    assert!(status.success(), "it did not go on to its end:\n{stderr}");
}

fn status_of(process: &str, key: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':').map(|value| value.trim().to_owned()))
}

/// Children of a process.
fn workers_of(parent: u32) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let names = processes.filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| status_of(name, "PPid").as_deref() == Some(parent.to_string().as_str()))
        .filter_map(|name| name.parse().ok())
        .collect()
}

/// Whether a process runs, and was not killed either: SIGKILL, once sent, is pending until it takes effect.
fn lives_on(process: u32) -> bool {
    let process = process.to_string();
    let killed = |key| {
        let pending = status_of(&process, key).and_then(|mask| u64::from_str_radix(&mask, 16).ok());
        pending.is_some_and(|mask| mask & (1 << 8) != 0)
    };
    let ended = status_of(&process, "State").is_none_or(|state| state.starts_with(['Z', 'X']));
    !ended && !killed("SigPnd") && !killed("ShdPnd")
}

#[test]
fn a_run_of_which_a_part_is_damaged_says_so_and_is_no_success() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let plan = plan("slow.toml");
    let options = ["--backend", "sim", "--sim", "1,visit_ms=50", "--data", &folder];
    let mut first = Background::start(fleetcal(&[&["calibrate", "--plan", &plan][..], &options].concat()));
    first.wait_for_line(": done");
    first.signal("INT");
    let (_, _, stderr) = first.wait();
    let run = stderr.split("--resume ").nth(1).and_then(|rest| rest.split(' ').next()).expect("how to go on");
    let parts = std::fs::read_dir(data.path().join("rows").join(run)).expect("the run has rows");
    let part = parts.map(|entry| entry.expect("an entry").path()).min().expect("a part");
    std::fs::write(&part, "PAR1 and no more").expect("a part can be damaged");

    let ended = output(&[&["calibrate", "--resume", run][..], &options].concat());
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(8), "rows are missing: {said}");
    assert!(said.contains(&format!("{} was skipped", part.display())), "the part is not named: {said}");
}

#[test]
fn a_wrong_kernel_never_feeds_a_constant() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let ended = output(&[
        "calibrate",
        "--plan",
        &plan("smoke.toml"),
        "--backend",
        "sim",
        "--sim",
        "1,fault=wrong_result:triad",
        "--data",
        &folder,
        "--output",
        "json",
    ]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(8), "a wrong result is no success; said was:\n{said}");
    assert!(said.contains("WRONG RESULTS") && said.contains("stream/triad") && said.contains("SIM-"), "{said}");
    assert!(!said.contains("cut short"), "a row given up for its result was not cut short:\n{said}");
    let documents = json(&ended.stdout);
    assert_eq!(constant(&documents[0], "memory_bandwidth", "copy", "f32")["verdict"], "measured");
    let constants = documents[0]["body"]["constants"].as_array().expect("constants");
    let from_triad = constants
        .iter()
        .find(|constant| constant["witness"]["point"].as_str().is_some_and(|point| point.contains("triad")));
    assert!(from_triad.is_none(), "a constant rests on a kernel whose results are wrong: {from_triad:?}");
}

#[test]
fn solutions_that_could_not_run_are_said_beside_the_constants_of_the_others() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let sim = "1,fault=compile:w4_v2_b256_tile";
    let smoke = plan("smoke.toml");
    let ended = output(&["calibrate", "--plan", &smoke, "--backend", "sim", "--sim", sim, "--data", &folder]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "constants came out: {said}");
    for words in ["solution w4_v2_b256_tile of 16 points could not run (16 rows)", "16 times does not compile"] {
        assert!(said.contains(words), "`{words}` is not said: {said}");
    }
}

#[test]
fn a_run_that_measured_nothing_is_no_success() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let ended = output(&[
        "calibrate",
        "--plan",
        &plan("smoke.toml"),
        "--backend",
        "sim",
        "--sim",
        "1,fault=oom",
        "--data",
        &folder,
    ]);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(8), "every size was dropped for want of memory; said was:\n{said}");
    assert!(said.contains("no constant was measured") && said.contains("dropped"), "{said}");
}

#[test]
fn a_narrower_run_says_which_constants_its_readers_lose() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().display().to_string();
    let narrow = data.path().join("narrow.toml");
    let text = "name = \"narrow\"\n[[sweep]]\nfamily = \"stream\"\nkernels = [\"triad\"]\ndtypes = [\"f32\"]\n\
                elements = \"2^28\"\n";
    std::fs::write(&narrow, text).expect("a plan can be written");
    let calibrate = |plan: &str| {
        let ended = output(&["calibrate", "--plan", plan, "--backend", "sim", "--sim", "1", "--data", &folder]);
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(ended.status.success(), "{said}");
        said
    };
    assert!(!calibrate(&plan("smoke.toml")).contains("measured less"), "nothing was there before");
    assert!(!calibrate(&plan("smoke.toml")).contains("measured less"), "the same plan loses nothing");
    let said = calibrate(&narrow.display().to_string());
    assert!(said.contains("this run measured less"), "losing constants was not said:\n{said}");
}

fn counted(rows: usize) -> String {
    if rows == 1 { "1 row".to_owned() } else { format!("{rows} rows") }
}

#[test]
fn a_terminal_never_obeys_the_name_of_a_folder() {
    let data = TempDir::new().expect("a temporary folder");
    let folder = data.path().join("data\u{1b}[2J\u{9b}1m").display().to_string();
    let smoke = plan("smoke.toml");
    let arguments = ["calibrate", "--plan", &smoke, "--backend", "sim", "--sim", "1", "--data", &folder];
    for arguments in [&arguments[..], &["rows", "--data", &folder]] {
        let ended = output(arguments);
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        let all = [ended.stdout, ended.stderr].concat();
        let text = String::from_utf8(all).expect("output is text");
        let obeyed = text.chars().find(|character| character.is_control() && !matches!(character, '\n' | '\t'));
        assert_eq!(obeyed, None, "{text:?}");
    }
}
