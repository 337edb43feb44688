use fleetcal_model::id::{AgentId, RunId, TaskId};

use super::*;
use crate::action::Grant;
use crate::event::{AgentIdentity, CommittedSegment, LeaseKey, TaskEnd};
use crate::plan::sample_device;

mod cancelled;
mod selected;

use cancelled::cancel;

const SECOND_NS: u64 = 1_000_000_000;
/// Two tasks of a device.
const PLAN: &str = r#"
name = "two"
seed = 7
label = "night"
[[sweep]]
family = "stream"
kernels = ["copy", "triad"]
dtypes = ["f32"]
elements = "2^20"
points_per_task = 1
"#;

/// Agents `a` and `b` with one device each, of one class, and run `r` of [`PLAN`] on both: tasks 0 and 1 of `gpu-a`,
/// 2 and 3 of `gpu-b`.
struct Night {
    core: Core,
    now: Timestamp,
}

impl Night {
    fn new() -> Self {
        let mut night = Self { core: Core::new(CoreConfig::default()), now: Timestamp(SECOND_NS) };
        night.join("a", &[]);
        night.join("b", &[]);
        night.step(Event::RunSubmitted {
            run: run(),
            plan: PLAN.to_owned(),
            selectors: Vec::new(),
            selections: Vec::new(),
        });
        night
    }

    fn step(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.core.step(self.now, event, &mut actions);
        assert_eq!(crate::invariant::check(&self.core), []);
        actions
    }

    fn pass(&mut self, seconds: u64) -> Vec<Action> {
        self.now = self.now.after_ns(seconds * SECOND_NS);
        self.step(Event::Tick)
    }

    fn join(&mut self, agent: &str, held: &[&LeaseKey]) -> Vec<Action> {
        self.join_with(agent, &[&format!("gpu-{agent}")], held)
    }

    fn join_with(&mut self, agent: &str, devices: &[&str], held: &[&LeaseKey]) -> Vec<Action> {
        let identity = AgentIdentity {
            agent: agent.into(),
            node: format!("node-{agent}"),
            host: format!("host-{}", agent.trim_end_matches("-beside")),
            rack: None,
            version: "1".to_owned(),
            devices: devices.iter().map(|uuid| sample_device(uuid, "").facts).collect(),
            backend_notes: Default::default(),
        };
        self.step(Event::AgentJoined { identity, held: held.iter().map(|key| (*key).clone()).collect() })
    }

    /// What the agent's device is given.
    fn ask(&mut self, agent: &str) -> Option<Grant> {
        let idle = vec![format!("gpu-{agent}").as_str().into()];
        let actions = self.step(Event::WorkRequested { agent: agent.into(), idle });
        actions
            .into_iter()
            .find_map(|action| if let Action::Grant { grant, .. } = action { Some(*grant) } else { None })
    }

    fn grant(&mut self, agent: &str) -> LeaseKey {
        self.ask(agent).unwrap_or_else(|| panic!("nothing for {agent}")).lease
    }

    fn end(&mut self, agent: &str, lease: &LeaseKey, end: TaskEnd) -> Vec<Action> {
        self.step(Event::TaskEnded { agent: agent.into(), lease: lease.clone(), end })
    }

    fn fail(&mut self, agent: &str, lease: &LeaseKey) {
        self.end(agent, lease, TaskEnd::Failed { reason: "too hot".to_owned(), retry: true });
    }

    fn finish(&mut self, agent: &str) -> Vec<Action> {
        let lease = self.grant(agent);
        self.end(agent, &lease, TaskEnd::Done { dropped: Vec::new() })
    }

    fn beat(&mut self, agent: &str, held: &LeaseKey) -> Vec<Action> {
        self.step(Event::Heartbeat { agent: agent.into(), held: vec![held.clone()] })
    }

    fn detach(&mut self, agent: &str) {
        self.step(Event::AgentDetached { agent: agent.into() });
    }

    fn state(&self, index: usize) -> &TaskState {
        &self.core.task(&task(index)).expect("planned").state
    }

    fn next_reason(&self) -> Option<DeadlineReason> {
        self.core.next_deadline().map(|(_, reason)| reason)
    }
}

fn run() -> RunId {
    "r".into()
}

fn task(index: usize) -> TaskId {
    TaskId::new(format!("r-{index:05}"))
}

fn refusal(actions: &[Action]) -> &str {
    match actions {
        [Action::Refused { reason, .. }] => reason,
        other => panic!("expected a refusal, found {other:?}"),
    }
}

#[test]
fn a_run_that_no_connected_device_fits_is_refused_in_a_sentence() {
    let mut night = Night::new();
    night.detach("a");
    let submit = |run: &str, plan: &str, selector: &str| Event::RunSubmitted {
        run: run.into(),
        plan: plan.to_owned(),
        selectors: vec![selector.to_owned()],
        selections: Vec::new(),
    };
    let actions = night.step(submit("s", PLAN, "gpu-a"));
    let expected = "no device matches `gpu-a`; connected devices: nvidia-h200-140g-700w (gpu-b on node-b)";
    assert_eq!(refusal(&actions), expected);
    let actions = night.step(submit("s", PLAN, "vendr=x"));
    assert!(refusal(&actions).starts_with("selector `vendr=x`: unknown selector"), "{actions:?}");
    let actions = night.step(submit("s", "name = 3", "gpu-b"));
    assert!(refusal(&actions).starts_with("1:1: `sweep` is missing"), "{actions:?}");
    let actions = night.step(submit("r", PLAN, "gpu-b"));
    assert_eq!(refusal(&actions), "run r exists already");
}

#[test]
fn a_device_gets_its_own_tasks_in_the_order_of_the_plan() {
    let mut night = Night::new();
    let grant = night.ask("b").expect("work");
    assert_eq!((&grant.lease.task, grant.lease.attempt, grant.points.len()), (&task(2), 1, 1));
    assert_eq!((grant.label.as_deref(), &grant.run), (Some("night"), &run()));
    assert!(night.ask("b").is_none(), "a device that is measured got a second task");
    night.fail("b", &grant.lease);
    night.pass(5);
    let again = night.ask("b").expect("work");
    assert_eq!((&again.lease.task, again.lease.attempt, again.seed), (&task(2), 2, grant.seed));
    assert!(again.lease.epoch > grant.lease.epoch);
    night.end("b", &again.lease, TaskEnd::Done { dropped: Vec::new() });
    night.finish("b");
    assert!(night.ask("b").is_none(), "the tasks of a device that is there went to a twin");
}

#[test]
fn a_lost_device_is_waited_for_and_then_its_tasks_go_to_a_twin() {
    let mut night = Night::new();
    let lease = night.grant("a");
    night.finish("b");
    night.finish("b");
    night.detach("a");
    assert_eq!(night.next_reason(), Some(DeadlineReason::LeaseEnds(task(0))));
    night.pass(30);
    assert!(night.ask("b").is_none(), "the grace time is not over");
    assert_eq!(night.next_reason(), Some(DeadlineReason::AgentGivenUp("a".into())));
    assert!(night.pass(30).contains(&Action::WorkAvailable), "idle twins are not told");
    let taken = night.grant("b");
    assert_eq!((&taken.task, taken.attempt), (&task(0), 2));
    let note = night.core.task(&task(0)).and_then(|task| task.note.clone());
    assert_eq!(note.as_deref(), Some("moved to a device of the same class: gpu-a was not there"));
    let before = night.core.ledger().clone();
    let late = night.end("a", &lease, TaskEnd::Done { dropped: Vec::new() });
    assert_eq!((late, night.core.ledger()), (Vec::new(), &before), "a late answer moved something");
    let actions = night.join("a", &[&lease]);
    assert!(
        matches!(&actions[..], [Action::Revoke { lease: lost, reason, .. }] if *lost == lease && reason.contains("agent b")),
        "{actions:?}"
    );
}

#[test]
fn an_agent_that_comes_back_keeps_what_nobody_took() {
    let mut night = Night::new();
    let lease = night.grant("a");
    night.detach("a");
    night.pass(40);
    assert!(matches!(night.state(0), TaskState::Pending { .. }));
    night.join("a", &[&lease]);
    assert!(night.core.holds(&"a".into(), &lease), "the lapsed lease was not given back");
    assert_eq!(night.core.task(&task(0)).map(|task| task.strikes.len()), Some(0), "it was not lost after all");
    // The same on a live stream whose heartbeat was late: then it is a fact of its own.
    night.pass(40);
    let actions = night.beat("a", &lease);
    let fact = Event::Granted { agent: "a".into(), lease: lease.clone(), devices: vec!["gpu-a".into()] };
    assert_eq!(actions.first(), Some(&Action::Journal(fact)));
    assert!(night.core.holds(&"a".into(), &lease));
}

#[test]
fn a_lapsed_lease_is_not_given_back_on_a_device_that_is_taken() {
    let mut night = Night::new();
    let lease = night.grant("a");
    night.fail("a", &lease);
    night.pass(5);
    let lease = night.grant("a");
    night.pass(40);
    // Two strikes: the twin should have the task, and the device goes on with its next.
    let next = night.grant("a");
    assert_eq!(next.task, task(1));
    let actions = night.beat("a", &lease);
    assert!(matches!(&actions[..], [Action::Revoke { lease: lost, .. }] if *lost == lease), "{actions:?}");
    assert!(night.core.holds(&"a".into(), &next));
}

#[test]
fn a_task_that_keeps_failing_tries_a_twin_and_is_set_aside() {
    let mut night = Night::new();
    for agent in ["a", "a"] {
        let lease = night.grant(agent);
        assert_eq!(lease.task, task(0));
        night.fail(agent, &lease);
        night.pass(5);
    }
    night.finish("b");
    night.finish("b");
    let lease = night.grant("b");
    assert_eq!(lease.task, task(0), "after two failures a twin should try");
    night.fail("b", &lease);
    let expected = "given up after 3 attempts, the last: too hot".to_owned();
    assert_eq!(*night.state(0), TaskState::SetAside { reason: expected });
    assert!(night.finish("a").contains(&Action::RunEnded { run: run() }));
    let problems = night.core.problems(&run());
    let expected = "task r-00000 (stream f32, 1 point, elements 1048576, on gpu-a) was set aside: given up after 3 \
                    attempts, the last: too hot";
    assert_eq!(problems, [expected]);
    night.step(Event::RunResumed { run: run() });
    assert_eq!(night.grant("a").attempt, 4, "attempts are never reused");
}

#[test]
fn only_the_winning_attempt_speaks_for_a_task() {
    let mut night = Night::new();
    let first = night.grant("a");
    let commit = |lease: &LeaseKey, rows: u64| Event::ChunksCommitted {
        part: "part".to_owned(),
        chunks: Vec::new(),
        segments: vec![CommittedSegment { lease: lease.clone(), rows }],
    };
    night.step(commit(&first, 3));
    let winner = |night: &Night| night.core.winning_attempts(&run()).get(&task(0)).copied();
    assert_eq!(winner(&night), Some(1));
    night.fail("a", &first);
    night.pass(5);
    let second = night.grant("a");
    assert_eq!(winner(&night), Some(1), "attempt 2 has no row yet");
    night.step(commit(&second, 5));
    night.end("a", &second, TaskEnd::Done { dropped: Vec::new() });
    night.step(commit(&first, 1));
    assert_eq!(winner(&night), Some(2));
    assert_eq!(night.core.rows(&run()), 9);
}

#[test]
fn a_task_given_back_rests_and_one_without_devices_is_set_aside() {
    let mut night = Night::new();
    let lease = night.grant("a");
    night.end("a", &lease, TaskEnd::Released { reason: "a foreign process is on it".to_owned() });
    assert_eq!(night.next_reason(), Some(DeadlineReason::TaskRested(task(0))));
    assert_eq!(night.grant("a").task, task(1), "the resting task was handed out");
    night.step(Event::AgentLeft { agent: AgentId::new("a") });
    night.detach("b");
    night.pass(60);
    assert!(matches!(night.next_reason(), Some(DeadlineReason::ClassOrphaned(_))));
    let actions = night.pass(900);
    assert!(actions.contains(&Action::RunEnded { run: run() }), "{actions:?}");
    let reason = night.core.task(&task(3)).and_then(Task::reason);
    assert_eq!(reason.as_deref(), Some("no device of class nvidia-h200-140g-700w was connected for 900 s"));
    assert_eq!(night.next_reason(), None);
}

/// A device that another process holds fails every attempt within milliseconds.
#[test]
fn a_failed_task_rests_on_its_device_longer_each_time_and_a_twin_may_have_it_at_once() {
    let mut night = Night::new();
    for rest in [5, 10] {
        let lease = night.grant("a");
        assert_eq!(lease.task, task(0));
        night.fail("a", &lease);
        let is_ready = |night: &Night, device: &str| {
            night.core.task(&task(0)).is_some_and(|task| task.is_ready(night.now, &device.into()))
        };
        assert!(!is_ready(&night, "gpu-a") && is_ready(&night, "gpu-b"));
        if rest == 5 {
            night.finish("a");
        }
        assert!(night.ask("a").is_none(), "the failed task was tried again at once");
        assert_eq!(night.next_reason(), Some(DeadlineReason::TaskRested(task(0))));
        assert!(night.pass(rest - 1).is_empty() && !is_ready(&night, "gpu-a"));
        assert!(night.pass(1).contains(&Action::WorkAvailable), "nobody is told that it has rested");
        assert!(is_ready(&night, "gpu-a"));
    }
}

#[test]
fn a_restart_gives_every_lease_a_full_term() {
    let mut live = Night::new();
    let said = live.step(Event::WorkRequested { agent: "a".into(), idle: vec!["gpu-a".into()] });
    let lease = live.core.task(&task(0)).and_then(Task::lease).expect("granted").key.clone();
    let mut night = Night::new();
    for action in said {
        if let Action::Journal(fact) = action {
            night.core.replay(night.now, fact).expect("of this version");
        }
    }
    assert_eq!(night.core.ledger(), live.core.ledger());
    night.detach("a");
    night.pass(3600);
    assert!(night.core.holds(&"a".into(), &lease), "the lease ended while nobody could renew it");
    night.pass(30);
    assert!(!night.core.holds(&"a".into(), &lease), "the lease has no end");
}

#[test]
fn a_run_that_this_version_understands_otherwise_is_not_replayed() {
    let night = Night::new();
    let replay = |plan: &str, tasks_digest: &str| {
        let (run, plan, devices) = ("s".into(), plan.to_owned(), vec!["gpu-a".into()]);
        let fact =
            Event::RunStarted { run, plan, devices, tasks_digest: tasks_digest.to_owned(), selections: Vec::new() };
        night.core.clone().replay(night.now, fact).expect_err("another version's").to_string()
    };
    let unread = replay("name = \"of tomorrow\"\n[[sweep]]\nfamily = \"gemm\"\n", "");
    assert!(unread.starts_with("the plan of run s is not understood: 3:10: "), "{unread}");
    let other = replay(PLAN, "0000");
    assert_eq!(other, "the plan of run s would come to other tasks than those that are under way");
}

#[test]
fn nobody_is_said_to_be_alone_whose_host_has_another_agent() {
    let mut night = Night::new();
    assert!(night.ask("a").is_some_and(|grant| grant.alone_on_node), "no other agent is on this host");
    night.join_with("b-beside", &["gpu-b-beside"], &[]);
    assert!(night.ask("b").is_some_and(|grant| !grant.alone_on_node), "the agent beside it may work at any time");
}

#[test]
fn devices_of_a_node_are_measured_alone_unless_every_plan_on_it_allows_more() {
    let mut night = Night::new();
    night.step(cancel());
    let (first, second) = ("gpu-c", "gpu-d");
    night.join_with("c", &[first, second], &[]);
    let submit = |night: &mut Night, name: &str, plan: String| {
        night.step(Event::RunSubmitted {
            run: name.into(),
            plan,
            selectors: vec!["node=node-c".to_owned()],
            selections: Vec::new(),
        });
    };
    submit(&mut night, "alone", PLAN.to_owned());
    let ask = |night: &mut Night, devices: &[&str]| {
        let idle = devices.iter().map(|device| (*device).into()).collect();
        let actions = night.step(Event::WorkRequested { agent: "c".into(), idle });
        let grants = actions.into_iter();
        grants.filter_map(|action| if let Action::Grant { grant, .. } = action { Some(*grant) } else { None }).collect()
    };
    let granted: Vec<Grant> = ask(&mut night, &[first, second]);
    let [alone] = &granted[..] else { panic!("two neighbours are measured at a time: {granted:?}") };
    assert!(alone.alone_on_node);
    submit(&mut night, "crowd", format!("{PLAN}[limits]\ndevices_per_node = 2\n"));
    assert_eq!(ask(&mut night, &[second]), [], "a run that allows neighbours disturbs one that does not");
    let done = || TaskEnd::Done { dropped: Vec::new() };
    let actions = night.end("c", &alone.lease, done());
    assert!(actions.contains(&Action::NodeFreed { agent: "c".into() }), "its other device is not told: {actions:?}");
    while let [next, ..] = &ask(&mut night, &[first, second])[..]
        && next.alone_on_node
    {
        night.end("c", &next.lease, done());
    }
    let busy = night.core.agents().find(|view| view.identity.agent.as_str() == "c").map(|view| view.busy_devices);
    assert_eq!(busy, Some(2), "a plan that allows two has two");
}
