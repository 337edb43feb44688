use std::collections::BTreeMap;
use std::path::Path;

use fleetcal_core::action::Refused;
use fleetcal_model::id::RunId;

use super::*;
use crate::clock::{Clock, ManualClock};
use crate::journal::JournalError;

/// A state in a folder of its own, as a start makes it.
pub(crate) fn state(folder: &Path) -> State {
    let held = HeldFolder::take(folder).expect("a free folder");
    let journal = Journal::open(&held.layout().journal()).expect("a journal");
    let (ended, _) = EndedRuns::new();
    State::replay(held, journal, CoreConfig::default(), Watchers::new(), ended).expect("readable")
}

fn identity(agent: &str) -> AgentIdentity {
    AgentIdentity {
        agent: AgentId::new(agent),
        node: "x".repeat(100_000),
        host: "host".to_owned(),
        rack: None,
        version: "0.0.0".to_owned(),
        devices: Vec::new(),
        backend_notes: BTreeMap::new(),
    }
}

/// Lets one agent in, in a batch with a heartbeat of another. What both are answered.
fn join(state: &mut State, now: u64) -> (Result<Welcome, DriverError>, Result<Answer, DriverError>) {
    let (reply, mut welcome) = oneshot::channel();
    let (beat, mut answer) = oneshot::channel();
    let event = Event::Heartbeat { agent: AgentId::new("other"), held: Vec::new() };
    let batch = vec![
        Command::Join { identity: identity("one"), held: Vec::new(), reply },
        Command::Step { event, reply: Some(beat) },
    ];
    assert!(state.work(Timestamp(now), batch).expect("the journal can be read back"), "the driver must go on");
    (welcome.try_recv().expect("answered"), answer.try_recv().expect("answered"))
}

#[test]
fn what_the_journal_does_not_take_has_not_happened_and_space_makes_it_happen() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut state = state(folder.path());
    state.journal.limit_pages(0);
    let (welcome, heartbeat) = join(&mut state, 1);
    let refused = welcome.expect_err("the journal is full");
    assert!(matches!(refused, DriverError::Full(_)), "{refused}");
    assert!(matches!(heartbeat, Err(DriverError::Full(_))), "it shared the batch");
    assert_eq!(views::agents(&state.core), Vec::<AgentId>::new(), "the core must be as the journal says");
    assert!(!state.sessions.is_connected(&AgentId::new("one")), "no session without a hello that is durable");

    state.journal.limit_pages(10_000);
    let (welcome, heartbeat) = join(&mut state, 2);
    assert_eq!(welcome.expect("there is space again").lost, []);
    assert_eq!(heartbeat.expect("a step"), Answer::default());
    let mut journalled = 0;
    state.journal.replay(|_, _| journalled += 1).expect("readable");
    assert_eq!(journalled, 1, "the hello once, and no heartbeat");
}

#[test]
fn a_clock_that_was_set_back_does_not_reorder_the_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let clock = ManualClock::at(Timestamp(50));
    let mut first = state(folder.path());
    join(&mut first, clock.now().0).0.expect("let in");
    drop(first);
    let mut second = state(folder.path());
    join(&mut second, 20).0.expect("let in");
    let mut times = Vec::new();
    second.journal.replay(|now, _| times.push(now)).expect("readable");
    assert_eq!(times, [Timestamp(50), Timestamp(50)]);
}

#[test]
fn a_request_that_the_core_refuses_is_answered_and_leaves_no_trace() -> Result<(), JournalError> {
    let folder = tempfile::tempdir().expect("a folder");
    let mut state = state(folder.path());
    let (reply, mut answer) = oneshot::channel();
    let event = Event::RunSubmitted {
        run: RunId::new("r"),
        plan: "nonsense".to_owned(),
        selectors: Vec::new(),
        selections: Vec::new(),
    };
    state.work(Timestamp(1), vec![Command::Step { event, reply: Some(reply) }]).expect("readable");
    let refused = answer.try_recv().expect("answered").expect("a step").refused;
    assert!(refused.is_some_and(|(refusal, sentence)| refusal == Refused::Request && !sentence.is_empty()));
    state.journal.replay(|_, event| panic!("{event:?} must not be journalled")).map(drop)
}

#[test]
fn a_journal_whose_runs_mean_something_else_now_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a folder");
    let held = HeldFolder::take(folder.path()).expect("a free folder");
    let mut journal = Journal::open(&held.layout().journal()).expect("a journal");
    let plan = "name = \"of tomorrow\"\n[[sweep]]\nfamily = \"gemm\"\n".to_owned();
    let fact = Event::RunStarted {
        run: "r".into(),
        plan,
        devices: Vec::new(),
        tasks_digest: String::new(),
        selections: Vec::new(),
    };
    journal.append(&[Entry::Event(Timestamp(1), fact)]).expect("appended");
    let (ended, _) = EndedRuns::new();
    let refused = State::replay(held, journal, CoreConfig::default(), Watchers::new(), ended).err().expect("not ours");
    assert!(matches!(refused, CoordinatorError::Replay { .. }), "{refused}");
    let sentence = refused.to_string();
    assert!(sentence.contains("the plan of run r is not understood") && sentence.contains("gemm"), "{sentence}");
}
