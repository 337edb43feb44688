//! Rounds that the pilot asks for.

use fleetcal_model::row::IntervalMethod;

use super::fake::{FakeDevice, Said, point, task};
use crate::assemble::assemble;
use crate::task::TaskSpec;
use crate::worker::message::Event;

/// A device on which the point of 64 elements differs from round to round, and the one of 128 does not.
fn uneven(permille: u64) -> FakeDevice {
    let mut device = FakeDevice::new();
    device.wobble_permille.insert(64, permille);
    device
}

fn points() -> TaskSpec {
    task(vec![point(64, 1), point(128, 1)])
}

/// The row of so many elements, assembled.
fn row(said: &Said, elements: u64) -> fleetcal_model::row::Row {
    let (index, template) =
        said.closed().into_iter().find(|(_, row)| row.work.elements == Some(elements)).expect("its row was closed");
    let visits: Vec<_> = said.visits(index).into_iter().cloned().collect();
    assemble(template.clone(), &visits).expect("JSON holds a row")
}

#[test]
fn only_the_rows_that_are_too_wide_get_further_rounds_and_progress_says_so() {
    let (outcome, said) = uneven(2).measure(&points());
    outcome.expect("nothing fails");
    let (wide, narrow) = (row(&said, 64).timing, row(&said, 128).timing);
    assert_eq!((narrow.rounds_planned, narrow.rounds_done, narrow.pilot_rounds), (3, 3, Some(3)));
    assert_eq!((narrow.converged, narrow.interval_method), (Some(true), IntervalMethod::StudentTLogRounds));
    // Three medians of 1000, 1002 and 1004: (4.3027 · 0.2% / 0.5%)² = 2.95, and any order of them has the same spread.
    assert_eq!((wide.rounds_planned, wide.pilot_rounds), (3, Some(3)));
    let (outcome, said) = uneven(3).measure(&points());
    outcome.expect("nothing fails");
    let wide = row(&said, 64).timing;
    assert_eq!((wide.rounds_planned, wide.rounds_done, wide.pilot_rounds), (7, 7, Some(3)));
    assert_eq!((wide.converged, wide.interval_method), (Some(true), IntervalMethod::StudentTLogTwoStage));
    assert_eq!(row(&said, 128).timing.rounds_done, 3, "a narrow row is not visited again");
    let planned = |event: &Event| {
        let Event::Planned { visits, rounds } = *event else { return None };
        Some((visits, rounds))
    };
    assert_eq!(said.0.iter().filter_map(planned).collect::<Vec<_>>(), [(6, 3), (10, 7)]);
}

#[test]
fn rounds_end_at_the_plans_most_and_the_row_says_that_it_did_not_converge() {
    let (outcome, said) = uneven(20).measure(&points());
    outcome.expect("nothing fails");
    let wide = row(&said, 64).timing;
    assert_eq!((wide.rounds_planned, wide.rounds_done, wide.converged), (15, 15, Some(false)));
    let mut task = points();
    task.policy.rounds_max = 3;
    let (outcome, said) = uneven(20).measure(&task);
    outcome.expect("nothing fails");
    let wide = row(&said, 64).timing;
    assert_eq!((wide.rounds_done, wide.pilot_rounds, wide.converged), (3, None, Some(false)), "no pilot was asked for");
}

#[test]
fn further_rounds_fit_the_time_of_the_task_and_what_is_missing_is_said() {
    let mut task = points();
    task.policy.samples_max = 10;
    // Three rounds of two visits of ten samples, about 1 us each, and about four visits more.
    task.policy.task_ns_max = 3 * 2 * 12_000 + 50_000;
    let mut device = uneven(20);
    let (outcome, said) = device.measure(&task);
    outcome.expect("nothing fails");
    let wide = row(&said, 64).timing;
    assert!((5..=8).contains(&wide.rounds_done), "{} rounds", wide.rounds_done);
    assert_eq!((wide.rounds_planned, wide.converged), (wide.rounds_done, Some(false)));
    assert!(said.sentences()[0].contains("1 of 2 rows need more rounds"), "{:?}", said.sentences());
    // The forecast is the cost of the last visit, and visits differ by 4% here.
    assert!(device.clock.get() <= task.policy.task_ns_max * 104 / 100, "{} ns were used", device.clock.get());
}
