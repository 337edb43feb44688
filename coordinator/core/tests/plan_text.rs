//! Whatever stands in a plan file, reading it ends in a plan or in errors that point into the text.

use fleetcal_core::plan::{Plan, builtin, builtin_names};
use proptest::prelude::*;

/// A built-in plan with one stretch of it replaced.
fn damaged() -> impl Strategy<Value = String> {
    let texts: Vec<&'static str> = builtin_names().filter_map(builtin).collect();
    let pieces = prop_oneof![
        Just(String::new()),
        "[\\[\\]{}=\"'#,.\n a-z0-9^-]{0,12}",
        Just("9223372036854775808".to_owned()),
        Just("\"2^64\"".to_owned()),
        Just("nan".to_owned()),
        Just("1979-05-27".to_owned()),
        "\\PC{0,6}",
    ];
    (prop::sample::select(texts), any::<prop::sample::Index>(), 0..40_usize, pieces).prop_map(
        |(text, start, length, piece)| {
            let letters: Vec<char> = text.chars().collect();
            let start = start.index(letters.len());
            let end = (start + length).min(letters.len());
            letters[..start].iter().copied().chain(piece.chars()).chain(letters[end..].iter().copied()).collect()
        },
    )
}

proptest! {
    #[test]
    fn a_damaged_plan_is_read_or_refused_with_places_in_its_text(text in damaged()) {
        if let Err(errors) = Plan::parse(&text) {
            prop_assert!(!errors.errors().is_empty());
            let lines: Vec<&str> = text.split('\n').collect();
            for error in errors.errors() {
                prop_assert!(error.line <= lines.len(), "{error} is below the text");
                let columns = lines[error.line - 1].chars().count() + 1;
                prop_assert!(error.column <= columns, "{error} is right of its line");
                let place = format!("{}:{}: ", error.line, error.column);
                let message = error.to_string();
                prop_assert!(message.starts_with(&place), "{message} does not begin with its place");
            }
        }
    }

    #[test]
    fn a_plan_that_is_read_is_sane(text in damaged()) {
        if let Ok(plan) = Plan::parse(&text) {
            prop_assert!(plan.measure.samples_min <= plan.measure.samples_max);
            prop_assert!(plan.measure.rounds <= plan.measure.rounds_max);
            prop_assert!(plan.measure.interval_target > 0.0 && plan.measure.interval_target < 1.0);
            prop_assert!(plan.measure.noise_target > 0.0 && plan.measure.noise_target < 1.0);
            prop_assert!(plan.sweeps.iter().all(|sweep| !sweep.kernels.is_empty() && sweep.sizes.iter().all(|(_, sizes)| !sizes.is_empty())));
            prop_assert_eq!(Plan::parse(&text), Ok(plan));
        }
    }
}
