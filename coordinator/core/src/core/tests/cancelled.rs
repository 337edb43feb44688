//! Runs that a user cancels.

use super::*;

pub(super) fn cancel() -> Event {
    Event::RunCancelled { run: run(), reason: "wrong plan".to_owned() }
}

fn is_over(actions: &[Action]) -> bool {
    actions.contains(&Action::RunEnded { run: run() })
}

#[test]
fn a_cancelled_run_takes_its_leases_back_and_ends_when_they_are_given_up() {
    let mut night = Night::new();
    let lease = night.grant("a");
    let actions = night.step(cancel());
    let revoked = |actions: &[Action]| {
        let of_it = |action: &Action| matches!(action, Action::Revoke { lease: over, .. } if *over == lease);
        actions.iter().any(of_it)
    };
    assert!(revoked(&actions) && !is_over(&actions), "its holder has rows to store: {actions:?}");
    assert_eq!(night.core.run(&run()).map(|run| (run.state, run.is_over())), Some((RunState::Cancelled, false)));
    assert_eq!(night.core.task_counts(&run()).set_aside, 3);
    assert!(night.ask("b").is_none(), "a task of a cancelled run was handed out");
    assert!(revoked(&night.beat("a", &lease)), "an agent that did not hear of it is told again");
    let segment = CommittedSegment { lease: lease.clone(), rows: 3 };
    night.step(Event::ChunksCommitted { part: "part".to_owned(), chunks: Vec::new(), segments: vec![segment] });
    let actions = night.end("a", &lease, TaskEnd::Released { reason: "revoked".to_owned() });
    assert!(is_over(&actions), "{actions:?}");
    let reason = night.core.task(&task(0)).and_then(Task::reason);
    assert_eq!(reason.as_deref(), Some("the run was cancelled: wrong plan"));
    assert_eq!(night.core.rows(&run()), 3);
    assert_eq!(refusal(&night.step(cancel())), "run r is cancelled already");
    assert_eq!(refusal(&night.step(Event::RunResumed { run: "x".into() })), "no run x is known here");
}

#[test]
fn a_cancelled_run_ends_at_once_without_leases_and_with_them_when_they_run_out() {
    assert!(is_over(&Night::new().step(cancel())));
    let mut night = Night::new();
    let lease = night.grant("a");
    night.step(cancel());
    night.now = night.now.after_ns(20 * SECOND_NS);
    night.beat("a", &lease);
    assert!(is_over(&night.pass(10)), "a holder that measures on keeps the run from ending");
}

#[test]
fn a_cancelled_run_goes_on_when_it_is_resumed_and_has_ended_if_all_of_it_is_done() {
    let mut night = Night::new();
    let lease = night.grant("a");
    night.step(cancel());
    // Resumed before its holder has given it up.
    night.step(Event::RunResumed { run: run() });
    assert_eq!((night.grant("b").task, night.core.task_counts(&run()).pending), (task(2), 2));
    night.end("a", &lease, TaskEnd::Done { dropped: Vec::new() });
    night.step(cancel());
    let held = night.core.task(&task(2)).and_then(Task::lease).expect("leased").key.clone();
    night.end("b", &held, TaskEnd::Released { reason: "revoked".to_owned() });
    night.step(Event::RunResumed { run: run() });
    for agent in ["a", "b"] {
        night.finish(agent);
    }
    let last = night.grant("b");
    night.step(cancel());
    assert!(is_over(&night.end("b", &last, TaskEnd::Done { dropped: Vec::new() })));
    assert_eq!(night.core.run(&run()).map(|run| run.state), Some(RunState::Cancelled));
    assert!(is_over(&night.step(Event::RunResumed { run: run() })));
    assert_eq!(night.core.run(&run()).map(|run| run.state), Some(RunState::Ended));
}
