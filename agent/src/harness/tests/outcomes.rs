//! Solutions and devices that go wrong.

use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{Role, Status, StopReason};

use super::fake::{FakeDevice, Fault, Said, point, task};
use crate::assemble::assemble;
use crate::device::DeviceError;
use crate::harness::HarnessError;
use crate::task::TaskSpec;
use crate::worker::message::Event;

/// Measures one point of four solutions, one of which has the fault.
fn with_fault(solution: &str, fault: Fault) -> Said {
    let (outcome, said) = FakeDevice::new().with_fault(solution, fault).measure(&task(vec![point(64, 4)]));
    outcome.expect("one solution's fault is not the task's");
    said
}

/// The two that were measured after screening.
fn finalists(said: &Said) -> Vec<String> {
    let rows = said.closed();
    let measured = rows.iter().filter(|(index, _)| said.visits(**index).iter().any(|visit| visit.round > 0));
    let mut names: Vec<String> = measured.map(|(_, row)| row.work.solution.clone()).collect();
    names.sort();
    names
}

#[test]
fn a_wrong_solution_is_never_timed_published_or_chosen_however_fast() {
    for fault in [Fault::IsWrong, Fault::WritesNothing] {
        let mut device = FakeDevice::new().with_fault("s0", fault);
        let (outcome, said) = device.measure(&task(vec![point(64, 4)]));
        outcome.expect("one solution's fault is not the task's");
        let (index, row) = said.row("s0");
        assert_eq!((row.outcome.status, row.identity.role), (Status::Failed, Role::Fit), "{fault:?}");
        assert!(row.outcome.reason.as_ref().is_some_and(|reason| reason.contains("c[0]")), "{:?}", row.outcome.reason);
        assert!(said.visits(index).is_empty(), "{fault:?}: a wrong result must not be published");
        assert!(!device.logged("time").iter().any(|line| line.starts_with("s0")), "{fault:?}: timed though wrong");
        assert_eq!(finalists(&said), ["s1", "s2"], "{fault:?}");
    }
}

#[test]
fn a_solution_that_goes_wrong_under_timing_is_found() {
    let said = with_fault("s0", Fault::IsWrongOnceTimed);
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Failed);
    assert_eq!(row.outcome.max_error, Some(64.0 / 65.0), "0 where 64 is right is the worst");
    assert!(said.visits(index).is_empty(), "the times of a wrong launch must not be published");
    assert_eq!(finalists(&said), ["s1", "s2"]);
}

#[test]
fn timed_launches_that_write_nothing_are_found_in_the_very_visit() {
    for elements in [64, 1 << 16] {
        let mut device = FakeDevice::new().with_fault("s0", Fault::WritesNothingOnceTimed);
        let (outcome, said) = device.measure(&task(vec![point(elements, 2)]));
        outcome.expect("one solution's fault is not the task's");
        let (index, row) = said.row("s0");
        let reason = row.outcome.reason.as_deref().unwrap_or_default();
        assert!(row.outcome.status == Status::Failed && reason.contains("is NaN after timed launches"), "{reason}");
        assert!(said.visits(index).is_empty(), "its times must not be published");
        assert_eq!(device.logged("time").iter().filter(|line| line.starts_with("s0")).count(), 1, "once is enough");
    }
}

#[test]
fn the_whole_output_of_one_timed_visit_is_judged_chosen_by_the_seed() {
    const ELEMENTS: u64 = 1 << 16;
    let chosen = |seed| {
        let (mut device, mut task) = (FakeDevice::new(), task(vec![point(ELEMENTS, 1)]));
        (task.seed, task.policy.validate_elements) = (seed, 1000);
        let (outcome, _) = device.measure(&task);
        outcome.expect("nothing is wrong");
        let steps = device.log.iter().filter(|line| line.starts_with("poison") || line.starts_with("time"));
        let steps: Vec<&String> = steps.collect();
        let before_timing =
            steps.windows(2).filter(|pair| pair[1].starts_with("time") && pair[0].starts_with("poison"));
        let whole: Vec<bool> = before_timing.map(|pair| *pair[0] == format!("poison {ELEMENTS}")).collect();
        assert_eq!((whole.len(), whole.iter().filter(|whole| **whole).count()), (3, 1), "one of three: {whole:?}");
        whole
    };
    assert_eq!(chosen(7), chosen(7));
    assert!((0..8).any(|seed| chosen(seed) != chosen(7)), "the seed must choose");
}

#[test]
fn a_solution_that_cannot_run_is_invalid_and_the_others_go_on() {
    for (fault, word) in [
        (Fault::DoesNotCompile, "bracket"),
        (Fault::DoesNotLoad, "cannot be loaded: no kernel image"),
        (Fault::FailsWhenTimed, "too many resources"),
        (Fault::TakesNoTime, "shorter than the clock"),
        (Fault::TakesHardlyAnyTime, "shorter than the clock"),
    ] {
        let said = with_fault("s1", fault);
        let (index, row) = said.row("s1");
        assert_eq!(row.outcome.status, Status::Invalid, "{fault:?}");
        assert!(row.outcome.reason.as_ref().is_some_and(|reason| reason.contains(word)), "{:?}", row.outcome.reason);
        assert!(said.visits(index).is_empty(), "{fault:?}");
        assert_eq!(finalists(&said), ["s0", "s2"], "{fault:?}");
        assert_eq!(said.closed().len(), 4, "{fault:?}: every solution has its row");
    }
}

#[test]
fn intervals_that_took_no_time_do_not_count_and_the_others_do() {
    let said = with_fault("s0", Fault::TakesNoTimeNowAndThen);
    let (index, row) = said.row("s0");
    assert_eq!(row.outcome.status, Status::Passed, "{:?}", row.outcome.reason);
    let visits: Vec<_> = said.visits(index).into_iter().cloned().collect();
    let samples: Vec<_> = visits.iter().flat_map(|visit| &visit.samples).collect();
    let unseen = samples.iter().filter(|sample| sample.ns == 0).count();
    assert!(unseen > 0 && unseen < samples.len() / 2, "{unseen} of {} show no time", samples.len());
    assert!(samples.iter().all(|sample| sample.accepted == (sample.ns > 0)), "what was not seen must not count");
    let row = assemble(row.clone(), &visits).expect("JSON holds a row");
    assert_eq!(row.timing.estimate_ns, Some(1000.0), "the estimate is of the others");
    assert_eq!(finalists(&said), ["s0", "s1"], "and nothing looks faster for it");
}

#[test]
fn a_task_whose_every_solution_is_spoilt_ends_and_says_so_row_by_row() {
    let mut device = FakeDevice::new().with_fault("s0", Fault::DoesNotCompile);
    let mut checked = task(vec![point(64, 1)]);
    checked.policy.bounds = BoundsCheck::Values;
    let (outcome, said) = device.measure(&checked);
    assert!(outcome.is_ok(), "{outcome:?}");
    let outcome = &said.row("s0").1.outcome;
    assert_eq!(outcome.status, Status::Invalid);
    assert_eq!(outcome.bounds_check, BoundsCheck::None, "what never ran was looked at by nobody");
    assert!(device.logged("time").is_empty());
}

#[test]
fn the_first_failure_ends_the_task_where_the_plan_wants_that() {
    for fault in [Fault::IsWrong, Fault::DoesNotCompile] {
        let mut task = task(vec![point(64, 2)]);
        task.policy.exit_on_error = true;
        let (outcome, said) = FakeDevice::new().with_fault("s1", fault).measure(&task);
        let error = outcome.expect_err("the plan says exit_on_error");
        assert!(!error.retry_may_help(), "another try finds the same: {error}");
        assert!(error.to_string().contains("s1"), "{error}");
        assert!(said.row("s1").1.outcome.reason.is_some(), "its row is not lost");
    }
}

#[test]
fn an_early_exit_closes_every_row_and_says_why_the_others_were_not_measured() {
    let mut task = task(vec![point(64, 3), point(128, 3)]);
    task.policy.exit_on_error = true;
    let mut device = FakeDevice::new().with_fault("s1", Fault::IsWrongOnceTimed);
    let (outcome, said) = device.measure(&task);
    assert!(matches!(outcome, Err(HarnessError::FailedSolution { .. })), "{outcome:?}");
    assert_eq!(said.closed().len(), 6, "no row is lost");
    let failed = said.closed().into_values().filter(|row| row.outcome.status == Status::Failed).count();
    assert_eq!(failed, 1, "the first failure is the last thing that was tried");
    for (index, row) in said.closed() {
        match row.outcome.status {
            Status::Skipped => {
                let reason = row.outcome.reason.as_deref().unwrap_or_default();
                assert!(reason.contains("exit_on_error") && reason.contains("s1"), "{reason}");
            }
            Status::Passed => assert_eq!(said.visits(index).len(), 1, "what was measured before is kept"),
            Status::Failed => {}
            status @ (Status::NoCheck | Status::Invalid | Status::Throttled | Status::Contended) => {
                panic!("{status:?} is no row of this task")
            }
        }
    }
}

#[test]
fn a_lost_context_ends_the_task_and_may_be_tried_again() {
    let mut device = FakeDevice::new().with_fault("s1", Fault::LosesTheContext);
    let (outcome, _) = device.measure(&task(vec![point(64, 2)]));
    let error = outcome.expect_err("nothing can be measured on a lost context");
    assert!(matches!(&error, HarnessError::Device(DeviceError::Lost { .. })), "{error}");
    assert!(error.retry_may_help());
}

#[test]
fn without_a_check_nothing_is_read_back_and_rows_say_so() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 1)]));
    task.policy.validate_elements = 0;
    task.policy.warmups = 0;
    let (outcome, said) = device.measure(&task);
    outcome.expect("nothing fails");
    let (_, row) = said.row("s0");
    assert_eq!((row.outcome.status, row.timing.warmups, row.outcome.max_error), (Status::NoCheck, 0, None));
    assert!(device.logged("gather").is_empty());
    assert!(device.logged("run").is_empty(), "nobody asked for a warm-up");
}

#[test]
fn validation_forces_a_warmup() {
    let (mut device, mut task) = (FakeDevice::new(), task(vec![point(64, 1)]));
    task.policy.warmups = 0;
    let (outcome, said) = device.measure(&task);
    outcome.expect("nothing fails");
    assert_eq!(device.logged("run").len(), 3, "one in each of three visits");
    assert_eq!(said.row("s0").1.timing.warmups, 1, "the row says what was done, not what was asked");
}

#[test]
fn an_interrupted_visit_keeps_its_samples_under_that_label() {
    let mut device = FakeDevice::new();
    device.interrupt_after = Some(5);
    device.spread_percent = 10;
    let mut task = task(vec![point(64, 1)]);
    task.policy.samples_max = 20;
    let (outcome, said) = device.measure(&task);
    assert!(matches!(outcome, Err(HarnessError::Interrupted)), "{outcome:?}");
    let visits = said.visits(0);
    let reasons: Vec<StopReason> = visits.iter().map(|visit| visit.stop_reason).collect();
    assert_eq!(reasons, [StopReason::Count, StopReason::Count, StopReason::Interrupted]);
    assert_eq!(visits[2].samples.len(), 10, "one batch was complete");
    assert!(said.closed().is_empty(), "a row cut short stays open, for the agent to assemble");
    assert!(said.0.iter().any(|event| matches!(event, Event::RowOpened(_))));
}

#[test]
fn rows_say_alone_only_where_the_coordinator_saw_to_it() {
    for (alone_on_node, expected) in [(true, (Some("alone"), Some(0))), (false, (None, None))] {
        let task = TaskSpec { alone_on_node, ..task(vec![point(64, 1)]) };
        let (outcome, said) = FakeDevice::new().measure(&task);
        outcome.expect("nothing is wrong");
        let conditions = &said.row("s0").1.conditions;
        assert_eq!((conditions.neighbours.as_deref(), conditions.co_running_devices), expected);
    }
}
