//! What constants in force would select: for a kernel and number format, the solution that shows its constant.

use std::collections::BTreeMap;

use crate::constants::{Document, MEMORY_BANDWIDTH};
use crate::point::{Dtype, Point, Sweep};

/// A solution that constants in force would select.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Selected {
    /// The family.
    pub sweep: Sweep,
    /// The kernel.
    pub kernel: String,
    /// The number format.
    pub dtype: Dtype,
    /// Name of the solution.
    pub solution: String,
}

impl Selected {
    /// Whether it is meant for a point.
    pub fn is_for(&self, point: &Point) -> bool {
        self.sweep == point.sweep && self.kernel == point.kernel && self.dtype == point.dtype
    }
}

/// What a document selects: of each kernel and number format with a demonstrated constant, the solution of the row that
/// shows it. Where several conditions have one each, that of the largest value; of equal ones the document's first. In the
/// order of families, kernels and formats.
pub fn selected(document: &Document) -> Vec<Selected> {
    let mut best: BTreeMap<(Sweep, String, Dtype), (f64, &str)> = BTreeMap::new();
    for constant in &document.body.constants {
        // Of other constants the rows behind them were not chosen as the fastest.
        let of_one_kernel = constant.condition.contains_key("kernel") && constant.condition.contains_key("dtype");
        if constant.name != MEMORY_BANDWIDTH || !of_one_kernel {
            continue;
        }
        let (Some(value), Some(witness)) = (constant.value, &constant.witness) else { continue };
        let Ok(point) = witness.point.parse::<Point>() else { continue };
        let key = (point.sweep, point.kernel, point.dtype);
        if best.get(&key).is_none_or(|(largest, _)| value > *largest) {
            best.insert(key, (value, &witness.solution));
        }
    }
    let all = best.into_iter().map(|((sweep, kernel, dtype), (_, solution))| Selected {
        sweep,
        kernel,
        dtype,
        solution: solution.to_owned(),
    });
    all.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::constants::Envelope;
    use crate::fit::Options;
    use crate::row::{Row, Status};
    use crate::testing::RowSpec;

    /// Beyond four last-level caches of the class.
    const ELEMENTS: u64 = 1 << 28;

    fn row(kernel: &'static str, solution: &'static str, ns: f64) -> Row {
        RowSpec { solution, ..RowSpec::new(kernel, ELEMENTS, &[ns, ns * 1.001, ns * 0.999]) }.row()
    }

    fn selected_of(rows: &[Row]) -> Vec<String> {
        let envelope = Envelope {
            created_utc_ns: 0,
            created_by: "test".to_owned(),
            run_id: "run".into(),
            coordinator_version: "0".to_owned(),
        };
        let documents = Document::fit(rows, &Options::default(), &envelope);
        assert_eq!(documents.len(), 1, "one class and origin");
        let name = |one: &Selected| format!("{} {} {} {}", one.sweep, one.kernel, one.dtype, one.solution);
        selected(&documents[0]).iter().map(name).collect()
    }

    #[test]
    fn each_kernel_gets_the_solution_that_shows_its_constant() {
        let rows = [row("copy", "slow", 2e6), row("copy", "fast", 1e6), row("triad", "only", 3e6)];
        assert_eq!(selected_of(&rows), ["stream copy f32 fast", "stream triad f32 only"]);
    }

    /// However fast it was: what is wrong, throttled, contended or could not run is nobody's choice.
    #[test]
    fn a_solution_that_did_not_pass_is_never_selected() {
        for status in [Status::Failed, Status::Invalid, Status::Skipped, Status::Throttled, Status::Contended] {
            let mut wrong = row("copy", "wrong", 1e3);
            wrong.outcome.status = status;
            assert_eq!(selected_of(&[wrong, row("copy", "right", 1e6)]), ["stream copy f32 right"], "{status}");
        }
    }
}
