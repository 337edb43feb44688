//! Listeners: order of hooks, counts, votes.

use std::rc::Rc;
use std::sync::atomic::AtomicBool;

use super::fake::{Copies, FakeClock, FakeDevice, SharedLog, labels, point, task};
use crate::device::{Device, DeviceError, RawSample};
use crate::harness::arena::{Guards, Placement};
use crate::harness::bench::Bench;
use crate::harness::listener::{HookResult, Listener, Listeners};
use crate::harness::monitor::HardwareMonitor;
use crate::harness::{Setting, rounds, set_up};
use crate::worker::resume::Resume;

/// Writes down every hook, asks for counts, and votes for a number of rounds and batches.
#[derive(Default)]
struct Recorder {
    name: &'static str,
    log: SharedLog,
    warmups: Option<u64>,
    enqueues: Option<u64>,
    rounds: u64,
    batches: u64,
    rounds_asked: u64,
    batches_asked: u64,
    fails_before_visits: Option<DeviceError>,
}

impl Recorder {
    fn note(&self, what: &str) {
        self.log.borrow_mut().push(format!("{} {what}", self.name));
    }
    fn hook(&self, what: &str) -> HookResult {
        self.note(what);
        Ok(())
    }
}

impl<D: Device> Listener<D> for Recorder {
    fn name(&self) -> &'static str {
        self.name
    }
    fn warmups(&self, _: &Bench<'_, D>) -> Option<u64> {
        self.warmups
    }
    fn enqueues_per_sync(&self, _: &Bench<'_, D>) -> Option<u64> {
        self.enqueues
    }
    fn set_warmups(&mut self, count: u64) {
        self.note(&format!("warmups {count}"));
    }
    fn set_syncs(&mut self, count: u64) {
        self.note(&format!("syncs {count}"));
    }
    fn set_enqueues_per_sync(&mut self, count: u64) {
        self.note(&format!("enqueues {count}"));
    }
    fn needs_more_rounds(&mut self, _: &Bench<'_, D>) -> bool {
        self.rounds_asked += 1;
        self.note(&format!("asked for round {}", self.rounds_asked));
        self.rounds_asked <= self.rounds
    }
    fn needs_more_samples(&mut self, _: &mut Bench<'_, D>) -> bool {
        self.batches_asked += 1;
        self.batches_asked <= self.batches
    }
    fn pre_round(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("pre_round")
    }
    fn post_round(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("post_round")
    }
    fn pre_problem(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("pre_problem")
    }
    fn post_problem(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("post_problem")
    }
    fn pre_solution(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("pre_solution")
    }
    fn post_solution(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("post_solution")
    }
    fn pre_visit(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.note("pre_visit");
        self.fails_before_visits.clone().map_or(Ok(()), |error| Err(error.into()))
    }
    fn post_visit(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("post_visit")
    }
    fn validate_warmup(&mut self, _: &mut Bench<'_, D>) -> HookResult {
        self.hook("validate_warmup")
    }
    fn post_sync(&mut self, _: &mut Bench<'_, D>, samples: &[RawSample]) -> HookResult {
        self.hook(&format!("post_sync {}", samples.len()))
    }
}

/// [`run_to_its_end`] where nothing goes wrong.
fn run(members: Vec<Recorder>) -> (Vec<String>, FakeDevice) {
    let (outcome, log, device) = run_to_its_end(members);
    outcome.expect("good listeners");
    (log, device)
}

/// Runs a task of one point and one solution with only these listeners around it, and an arena of their own.
fn run_to_its_end(members: Vec<Recorder>) -> (HookResult, Vec<String>, FakeDevice) {
    let task = task(vec![point(64, 1)]);
    let (log, mut device) = (Rc::clone(&members[0].log), FakeDevice::new());
    let (labels, interrupt, clock) = (labels(), AtomicBool::new(false), FakeClock(Rc::clone(&device.clock)));
    let resume = Resume::default();
    let setting = Setting { task: &task, labels: &labels, resume: &resume, interrupt: &interrupt, clock: &clock };
    let mut events = Vec::new();
    let mut bench = Bench::new(&mut device, &Copies, setting, &mut events);
    set_up::set_up(&mut bench, &HardwareMonitor::default()).expect("a good device");
    bench.arena.renew(bench.device, &[256, 256], Placement::default(), Guards::None).expect("memory enough");
    let boxed = |member| -> Box<dyn Listener<FakeDevice>> { Box::new(member) };
    let mut listeners = Listeners::new(members.into_iter().map(boxed).collect());
    let outcome = rounds::run(&mut bench, &mut listeners);
    drop(bench);
    let log = log.borrow().clone();
    (outcome, log, device)
}

#[test]
fn pre_hooks_run_forward_and_post_hooks_in_reverse_around_every_level() {
    let log = SharedLog::default();
    let first =
        Recorder { name: "a", log: Rc::clone(&log), rounds: 1, batches: 1, warmups: Some(2), ..Recorder::default() };
    let second = Recorder { name: "b", log, ..Recorder::default() };
    let (log, device) = run(vec![first, second]);
    let hooks: Vec<&str> = log.iter().map(String::as_str).filter(|line| line.contains('_')).collect();
    let expected = "a pre_round,b pre_round,a pre_problem,b pre_problem,a pre_solution,b pre_solution,a pre_visit,\
                    b pre_visit,a validate_warmup,b validate_warmup,a post_sync 1,b post_sync 1,b post_visit,a post_visit,\
                    b post_solution,a post_solution,b post_problem,a post_problem,b post_round,a post_round";
    assert_eq!(hooks, expected.split(',').collect::<Vec<_>>());
    let launches: Vec<&str> = device.log.iter().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(launches, ["prepare", "run", "run", "time"], "two warm-ups, validation after the first, then one batch");
}

#[test]
fn the_largest_count_wins_and_everybody_hears_it() {
    let log = SharedLog::default();
    let with = |name, warmups, enqueues| Recorder {
        name,
        log: Rc::clone(&log),
        warmups,
        enqueues,
        rounds: 1,
        batches: 1,
        ..Recorder::default()
    };
    let (log, device) = run(vec![with("a", Some(1), Some(7)), with("b", Some(3), Some(5)), with("c", None, None)]);
    for name in ["a", "b", "c"] {
        for count in ["warmups 3", "syncs 0", "enqueues 7"] {
            assert!(log.contains(&format!("{name} {count}")), "{name} did not hear {count}: {log:?}");
        }
    }
    assert_eq!(device.logged("run").len(), 3);
    assert_eq!(device.logged("time"), ["s0 x 7"]);
}

#[test]
fn any_yes_wins_and_all_are_asked_even_after_a_yes() {
    let log = SharedLog::default();
    let eager = Recorder { name: "eager", log: Rc::clone(&log), rounds: 2, batches: 3, ..Recorder::default() };
    let idle = Recorder { name: "idle", log, ..Recorder::default() };
    let (log, device) = run(vec![eager, idle]);
    for line in
        ["idle asked for round 1", "idle asked for round 2", "idle asked for round 3", "eager asked for round 3"]
    {
        assert!(log.contains(&line.to_owned()), "`{line}` is missing: a vote was not taken");
    }
    assert_eq!(device.logged("time").len(), 3, "three batches in all, as the eager one asked");
}

#[test]
fn post_hooks_run_after_a_fault_of_the_solution_and_not_after_the_end_of_the_task() {
    let hooks_after = |fault| {
        let log = SharedLog::default();
        let first = Recorder { name: "a", log: Rc::clone(&log), rounds: 1, batches: 1, ..Recorder::default() };
        let second = Recorder { name: "b", log, fails_before_visits: Some(fault), ..Recorder::default() };
        let (outcome, log, _) = run_to_its_end(vec![first, second]);
        let failed = log.iter().position(|line| line == "b pre_visit").expect("it gets that far");
        (outcome.is_ok(), log[failed + 1..].iter().filter(|line| line.contains('_')).cloned().collect::<Vec<_>>())
    };
    let spared = DeviceError::Launch { what: "poisoning".to_owned(), reason: "too many resources".to_owned() };
    let posts = "b post_visit,a post_visit,b post_solution,a post_solution,b post_problem,a post_problem,b post_round,\
                 a post_round";
    assert_eq!(hooks_after(spared), (true, posts.split(',').map(str::to_owned).collect()));
    let lost = DeviceError::Lost { reason: "an illegal address".to_owned() };
    assert_eq!(hooks_after(lost), (false, Vec::new()));
}
