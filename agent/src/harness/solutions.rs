//! Which solutions of a point are tried: every one, or what the constants in force would select.

use std::collections::BTreeMap;

use fleetcal_kernels::Family;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::policy::SolutionChoice;
use fleetcal_model::selection::Selected;

use crate::task::TaskSpec;

/// Name of the solution in a row of a point that nothing is selected for.
const NO_SOLUTION: &str = "none";

/// The solutions of a task's points, in the order in which they are tried.
#[derive(Debug, Clone, Copy)]
pub(super) enum SolutionIterator<'a> {
    /// Every solution of the family.
    All,
    /// Those that the constants in force select: at most one a point, and never another in its place.
    Best(&'a [Selected]),
}

/// What is tried of one point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Choice {
    /// These.
    Try(Vec<Solution>),
    /// Nothing, and the point's row says so.
    Skip {
        /// The solution that the row names. It has no parameters, for it is none of the family's.
        solution: Solution,
        /// Why.
        reason: String,
    },
}

impl<'a> SolutionIterator<'a> {
    /// As the task's plan wants it.
    pub(super) fn of(task: &'a TaskSpec) -> Self {
        match task.policy.solutions {
            SolutionChoice::All => Self::All,
            SolutionChoice::Best => Self::Best(&task.selected),
        }
    }

    /// What is tried of a point.
    pub(super) fn choice(self, family: &dyn Family, point: &Point, facts: &DeviceFacts) -> Choice {
        let every = family.solutions(point, facts);
        let selected = match self {
            Self::All => return Choice::Try(every),
            Self::Best(selected) => selected.iter().find(|one| one.is_for(point)),
        };
        let skip = |name: &str, reason: String| {
            let solution = Solution { name: name.to_owned(), parameters: BTreeMap::new() };
            Choice::Skip { solution, reason }
        };
        let Some(Selected { solution: wanted, .. }) = selected else {
            let (kernel, dtype) = (&point.kernel, point.dtype);
            let reason = format!(
                "no constants in force select a solution for {kernel} in {dtype} on this class: measure it with \
                 solutions = \"all\" first"
            );
            return skip(NO_SOLUTION, reason);
        };
        match every.into_iter().find(|solution| solution.name == *wanted) {
            Some(solution) => Choice::Try(vec![solution]),
            None => skip(wanted, format!("the constants in force select {wanted}, which is no solution of this point")),
        }
    }
}
