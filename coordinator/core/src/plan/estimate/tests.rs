use fleetcal_model::policy::Load;

use super::*;
use crate::plan::sample_device;

const SECOND_NS: u64 = 1_000_000_000;

/// What one point costs on an H200 under a policy.
fn cost(change: impl FnOnce(&mut MeasuringPolicy)) -> TaskCost {
    let mut policy = MeasuringPolicy { settle_ns_max: 0, ..MeasuringPolicy::default() };
    change(&mut policy);
    let text =
        "name = \"a\"\n[[sweep]]\nfamily = \"stream\"\nkernels = \"copy\"\ndtypes = \"f32\"\nelements = \"2^20\"\n";
    let mut plan = Plan::parse(text).expect("a plan");
    plan.measure = policy;
    let planned = tasks(&plan, &RunId::new("r"), &[sample_device("gpu-1", "a")]);
    planned.tasks[0].cost
}

#[test]
fn further_rounds_are_the_upper_end_and_nothing_is_above_the_tasks_time() {
    let usual = cost(|_| ());
    assert!(usual.most_ns > usual.expected_ns, "15 rounds against 5: {usual:?}");
    let fixed = cost(|policy| policy.rounds_max = policy.rounds);
    assert_eq!(fixed, TaskCost { most_ns: usual.expected_ns, ..usual }, "where no pilot asks, both ends are one");
    let all = cost(|policy| policy.rounds = policy.rounds_max);
    assert_eq!(all.expected_ns, usual.most_ns, "the upper end is what so many planned rounds cost");
    let short = cost(|policy| policy.task_ns_max = SECOND_NS / 100);
    assert_eq!(short.most_ns, WORKER_START_NS as u64 + SECOND_NS / 100);
}

#[test]
fn settling_is_paid_once_a_task_load_once_a_round_and_idleness_once_a_visit() {
    let rounds = 5.0;
    let usual = cost(|_| ()).expected_ns as f64;
    let settled = cost(|policy| policy.settle_ns_max = 3 * SECOND_NS).expected_ns as f64;
    assert_eq!(settled - usual, 3e9);
    let sustained = cost(|policy| (policy.load, policy.load_ns) = (Some(Load::Sustained), 2 * SECOND_NS));
    assert_eq!((sustained.expected_ns as f64 - usual).round(), ((rounds + 1.0) * (2e9 - ROUND_LOAD_NS)).round());
    let burst = |finalists| {
        cost(|policy| {
            policy.finalists = finalists;
            (policy.load, policy.load_ns) = (Some(Load::Burst), SECOND_NS);
        })
    };
    let another = burst(2).expected_ns.saturating_sub(burst(1).expected_ns);
    assert!(another as f64 >= rounds * 1e9, "another finalist rests before each of its visits: {another}");
}

#[test]
fn page_checks_cost_and_a_selection_saves() {
    let values = cost(|policy| policy.bounds = BoundsCheck::Values);
    let none = cost(|policy| policy.bounds = BoundsCheck::None);
    let pages = cost(|policy| policy.bounds = BoundsCheck::Pages);
    assert_eq!(values, none);
    assert!(pages.expected_ns > values.expected_ns, "{pages:?} {values:?}");
    let best = cost(|policy| policy.solutions = SolutionChoice::Best);
    let all = cost(|policy| policy.solutions = SolutionChoice::All);
    assert!(best.expected_ns < all.expected_ns, "{best:?} {all:?}");
}

#[test]
fn short_kernels_take_a_batch_where_they_may() {
    let never = cost(|policy| policy.batching = Batching::Never);
    let auto = cost(|policy| policy.batching = Batching::Auto);
    let cold = cost(|policy| policy.caches = Caches::Cold);
    assert!(cold.expected_ns > never.expected_ns, "a flush takes its time: {cold:?} {never:?}");
    assert!(
        auto.expected_ns > never.expected_ns,
        "a copy of 2^20 elements is shorter than a batch: {auto:?} {never:?}"
    );
}

#[test]
fn simulated_devices_neither_settle_nor_rest() {
    let mut device = sample_device("sim-1", "a");
    device.facts.backend = fleetcal_model::device::Backend::Sim;
    let minutes = |limit: &str| {
        let text = format!(
            "name = \"a\"\n[measure]\nsettle_limit = \"{limit}\"\nload = \"burst\"\nload_time = \"{limit}\"\n[[sweep]]\n\
             family = \"stream\"\nelements = \"2^20\"\n"
        );
        estimate(&Plan::parse(&text).expect("a plan"), std::slice::from_ref(&device))[0].device_minutes
    };
    assert_eq!(minutes("1s"), minutes("1h"));
}
