//! Which solutions of a point are tried.

use fleetcal_model::policy::SolutionChoice;
use fleetcal_model::row::Status;
use fleetcal_model::selection::Selected;

use super::fake::{FakeDevice, Said, point, task};

/// Measures a point of four solutions, of which the constants in force select what is given.
fn measured(selected: Option<&str>) -> (FakeDevice, Said) {
    let point = point(64, 4);
    let mut task = task(vec![point.clone()]);
    task.policy.solutions = SolutionChoice::Best;
    task.selected.extend(selected.map(|solution| Selected {
        sweep: point.sweep,
        kernel: point.kernel,
        dtype: point.dtype,
        solution: solution.to_owned(),
    }));
    let mut device = FakeDevice::new();
    let (outcome, said) = device.measure(&task);
    outcome.expect("what is not selected is no fault");
    (device, said)
}

#[test]
fn only_the_selected_solution_is_prepared_and_measured_and_nothing_is_screened() {
    let (device, said) = measured(Some("s2"));
    let closed = said.closed();
    assert_eq!(closed.len(), 1, "one row, that of the selected solution");
    let (index, row) = said.row("s2");
    assert_eq!(row.outcome.status, Status::Passed);
    assert!(said.visits(index).iter().all(|visit| visit.round > 0), "a choice of one needs no screening");
    assert!(!device.log.iter().any(|line| line.contains("s0")), "another solution ran: {:?}", device.log);
}

#[test]
fn without_a_selection_or_with_one_that_does_not_exist_the_row_is_skipped_and_says_why() {
    for (selected, name, reason) in [
        (None, "none", "no constants in force select a solution for copy in f32"),
        (Some("s9"), "s9", "the constants in force select s9, which is no solution of this point"),
    ] {
        let (device, said) = measured(selected);
        assert_eq!(said.closed().len(), 1, "one row says it");
        let (index, row) = said.row(name);
        assert_eq!(row.outcome.status, Status::Skipped, "{name}");
        assert!(row.outcome.reason.as_ref().is_some_and(|said| said.contains(reason)), "{:?}", row.outcome.reason);
        assert!(
            said.visits(index).is_empty() && device.logged("time").is_empty(),
            "{name}: never another in its place"
        );
    }
}
