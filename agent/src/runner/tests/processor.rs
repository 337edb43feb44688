//! Kernels of the host processor at their worst, in real worker processes: each costs its own solution, and nothing else.
//!
//! The worker is this test program, started anew: its build alone can plant kernels that misbehave
//! (`agent/src/device/cpu/planted.rs`). Everything else is what agents run: the runner, the pipes, the deadlines, the
//! device and its threads. The same faults on simulated devices, through the whole binary, are in `tests/tests/faults.rs`.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fleetcal_kernels::family;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::Sweep;
use fleetcal_model::policy::Batching;
use fleetcal_model::row::{Row, Status};

use super::super::processes::Processes;
use super::*;
use crate::device::cpu;
use crate::device::cpu::planted::VARIABLE;
use crate::testing::rows_of;
use crate::worker::lock::LOCK_FOLDER;
use crate::worker::worker_main;

/// Longest launch, instead of most of a minute.
const LAUNCH_DEADLINE: Duration = Duration::from_secs(2);
/// Longest wait for a task of which three workers die.
const PATIENCE: Duration = Duration::from_secs(120);
/// Why a solution cannot run on some processors.
const NOT_ON_THIS_PROCESSOR: &str = "there are no stores past the caches";
/// The test below.
const NAME: &str = "runner::tests::processor::a_kernel_that_spins_faults_or_exits_costs_its_own_solution_alone";

#[test]
fn a_kernel_that_spins_faults_or_exits_costs_its_own_solution_alone() {
    if std::env::var_os(VARIABLE).is_some() {
        return be_a_worker();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    // Side by side: most of the time they wait, for deadlines and before the next try.
    runtime.block_on(async {
        tokio::join!(
            survive("spin", "took longer than"),
            survive("fault", "signal 11 (SIGSEGV)"),
            survive("exit", "exit code 139")
        )
    });
}

/// The pipe to the agent is open as number 3, because this program's frame of tests writes to standard output.
fn be_a_worker() {
    let pipe = File::options().write(true).open("/proc/self/fd/3").expect("the pipe is open");
    rustix::stdio::dup2_stdout(&pipe).expect("it can take the place of standard output");
    let _ = worker_main();
    std::process::exit(0);
}

/// Starts this program as a worker with a planted kernel.
fn workers(misdeed: &str, solution: &str) -> Processes {
    let program = std::env::current_exe().expect("this program has a path");
    let script = format!(
        "exec 3>&1 >/dev/null; {VARIABLE}={misdeed}:{solution} exec '{}' --exact {NAME} --nocapture",
        program.display()
    );
    Processes { program: PathBuf::from("/bin/sh"), arguments: vec!["-c".to_owned(), script] }
}

/// This machine's processor, under a name that nobody else locks.
fn processor(misdeed: &str) -> DeviceFacts {
    let uuid = DeviceId::new(format!("CPU-test-{misdeed}-{}", std::process::id()));
    cpu::discover(uuid).expect("the affinity can be read").remove(0)
}

fn job_of(facts: &DeviceFacts) -> Job {
    let mut job = job();
    job.task.devices = vec![facts.uuid.clone()];
    job.task.points = vec!["stream/copy/f32/elements=32768".parse().expect("a point")];
    job.task.policy = MeasuringPolicy {
        rounds: 3,
        rounds_max: 3,
        finalists: 2,
        samples_min: 3,
        samples_max: 3,
        validate_elements: 64,
        batching: Batching::Never,
        // What else this machine does is not what is tested.
        monitor: false,
        settle_ns_max: 0,
        ..MeasuringPolicy::default()
    };
    job.devices = vec![facts.clone()];
    job
}

async fn survive(misdeed: &str, manner: &str) {
    let facts = processor(misdeed);
    let job = job_of(&facts);
    let family = family(Sweep::Stream).expect("it has kernels");
    let solutions: Vec<String> =
        family.solutions(&job.task.points[0], &facts).into_iter().map(|solution| solution.name).collect();
    let planted = solutions.get(1).expect("there are several").clone();
    let mut stage = Stage::new(LIMIT_BYTES);
    stage.runner.workers = Arc::new(workers(misdeed, &planted));
    stage.runner.deadlines = Deadlines::with_launches(LAUNCH_DEADLINE);
    stage.begin_with(job);
    let (rows, ending) =
        tokio::time::timeout(PATIENCE, rows_and_ending(&mut stage)).await.expect("the attempt ends in time");
    let lock = Path::new(LOCK_FOLDER).join(format!("{}.lock", facts.uuid));
    std::fs::remove_file(lock).expect("the worker had the device");

    assert_eq!(ending.outcome, TaskOutcome::Done, "{misdeed}: the task goes on");
    assert_eq!(ending.quarantine, None, "{misdeed}: the device can be used");
    let measured: BTreeSet<&str> = rows.iter().map(|row| row.work.solution.as_str()).collect();
    assert_eq!((measured.len(), rows.len()), (solutions.len(), solutions.len()), "{misdeed}: a row for each solution");
    for row in &rows {
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        if row.work.solution == planted {
            assert_eq!(row.outcome.status, Status::Invalid, "{misdeed}: {reason}");
            assert!(reason.contains("3 workers") && reason.contains(manner), "{misdeed}: {reason}");
            assert!(row.timing.rounds.is_empty(), "{misdeed}: no time of it is published");
        } else if !reason.contains(NOT_ON_THIS_PROCESSOR) {
            assert_eq!(row.outcome.status, Status::Passed, "{misdeed}: {} is blamed: {reason}", row.work.solution);
            let mut rounds: Vec<u64> = row.timing.rounds.iter().map(|round| round.round).collect();
            rounds.sort_unstable();
            let finalist = rounds.len() > 1;
            assert_eq!(rounds, if finalist { vec![0, 1, 2, 3] } else { vec![0] }, "{misdeed}: each round once");
        }
    }
    let sound = rows.iter().filter(|row| row.outcome.status == Status::Passed).count();
    let finalists = rows.iter().filter(|row| row.timing.rounds.len() == 4).count();
    assert!(sound > 0 && finalists == sound.min(2), "{misdeed}: of {sound} others {finalists} were measured in full");
}

async fn rows_and_ending(stage: &mut Stage) -> (Vec<Row>, TaskEnding) {
    let spool = Spool::open(stage.data.path(), LIMIT_BYTES).expect("the spool opens");
    let mut rows = Vec::new();
    loop {
        match stage.told.recv().await.expect("a runner tells the end") {
            SessionInput::ChunkReady { id, .. } => rows.extend(rows_of(&spool.chunks.read(&id).expect("it is there"))),
            SessionInput::TaskEnded { ending, .. } => return (rows, ending),
            _ => {}
        }
    }
}
