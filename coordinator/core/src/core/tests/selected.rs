use fleetcal_model::point::{Dtype, Sweep};
use fleetcal_model::selection::Selected;

use super::*;
use crate::event::ClassSelection;

fn selection(class: &str, kernels: &[&str]) -> ClassSelection {
    let one = |kernel: &&str| Selected {
        sweep: Sweep::Stream,
        kernel: (*kernel).to_owned(),
        dtype: Dtype::F32,
        solution: format!("best of {kernel}"),
    };
    ClassSelection { class: class.into(), solutions: kernels.iter().map(one).collect() }
}

/// The class of every device of a night.
fn class() -> String {
    sample_device("gpu-a", "").facts.class_key().id().as_str().to_owned()
}

/// A night with a run `s` of selected solutions beside the first.
fn begin(plan: String, selections: Vec<ClassSelection>) -> (Night, Vec<Action>) {
    let mut night = Night::new();
    night.step(cancel());
    let actions = night.step(Event::RunSubmitted { run: "s".into(), plan, selectors: Vec::new(), selections });
    (night, actions)
}

fn best() -> String {
    format!("{PLAN}[measure]\nsolutions = \"best\"\n")
}

#[test]
fn a_task_carries_what_is_selected_for_its_points_and_class_and_a_replay_the_same() {
    let selections = vec![selection("another-class", &["copy"]), selection(&class(), &["copy", "triad"])];
    let (mut night, said) = begin(best(), selections);
    let names = |grant: Grant| grant.selected.into_iter().map(|one| one.solution).collect::<Vec<_>>();
    assert_eq!(names(night.ask("a").expect("a task")), ["best of copy"]);
    let started: Vec<_> =
        said.iter().filter(|action| matches!(action, Action::Journal(Event::RunStarted { .. }))).collect();
    let [Action::Journal(Event::RunStarted { selections, .. })] = started[..] else { panic!("not started: {said:?}") };
    assert_eq!(selections[..], [selection(&class(), &["copy", "triad"])], "no class but those of its devices");
    assert!(night.core.run(&"s".into()).is_some_and(|run| run.notes.is_empty()));
}

#[test]
fn a_class_without_constants_is_noted_and_a_plan_of_all_solutions_carries_no_selection() {
    let (mut night, _) = begin(best(), vec![selection(&class(), &[])]);
    let run = night.core.run(&"s".into()).expect("it began");
    assert!(run.notes[0].contains("no constants in force select a solution for nvidia-h200-"), "{:?}", run.notes);
    assert!(night.ask("a").is_some_and(|grant| grant.selected.is_empty()));

    let (mut night, _) = begin(PLAN.to_owned(), vec![selection(&class(), &["copy"])]);
    assert!(night.ask("a").is_some_and(|grant| grant.selected.is_empty()), "nobody asked for the best");
}

#[test]
fn nodes_in_full_use_have_all_their_devices_measured_at_a_time_and_none_is_alone() {
    let mut night = Night::new();
    night.step(cancel());
    let devices = ["gpu-c", "gpu-d", "gpu-e", "gpu-f"];
    night.join_with("c", &devices, &[]);
    night.step(Event::RunSubmitted {
        run: "full".into(),
        plan: format!("{PLAN}[limits]\ndevices_per_node = \"all\"\n"),
        selectors: vec!["node=node-c".to_owned()],
        selections: Vec::new(),
    });
    let idle = devices.iter().map(|device| (*device).into()).collect();
    let granted = night.step(Event::WorkRequested { agent: "c".into(), idle });
    let alone: Vec<bool> = granted
        .iter()
        .filter_map(|action| if let Action::Grant { grant, .. } = action { Some(grant.alone_on_node) } else { None })
        .collect();
    assert_eq!(alone, [false; 4], "every device works, and no row may say that it was alone");
}
