//! Held-out rows of a pool, against the constants of its document.

use std::collections::BTreeMap;

use super::{Body, Wanted};
use crate::fit::pool::{Condition, Pool};
use crate::fit::record::Record;
use crate::held_out::{Evaluation, HeldOutRows, Predicted, fitted_shapes};
use crate::id::RowId;
use crate::machine::{Machine, Request};
use crate::row::Role;

/// How well a document's constants predict the held-out points of one condition.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct HeldOut {
    /// The condition of the rows, which the constants were asked for.
    pub condition: BTreeMap<String, String>,
    /// What was compared with measured times.
    pub predicted: Predicted,
    /// Errors, rank correlation and regret.
    pub evaluation: Evaluation,
    /// Held-out rows that were not predicted, by identity.
    pub excluded: Vec<ExcludedRow>,
}

/// A held-out row that was not predicted.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ExcludedRow {
    /// The row.
    pub row_id: RowId,
    /// Why, for people.
    pub detail: String,
}

impl HeldOut {
    /// One for each condition that held-out rows of the pool were measured under, in the order of their texts.
    pub(super) fn of(pool: &Pool, body: &Body) -> Vec<Self> {
        let mut by_condition: BTreeMap<Wanted, Vec<&Record>> = BTreeMap::new();
        for row in pool.rows().iter().filter(|row| row.context().role == Role::HeldOut) {
            by_condition.entry(Condition::of(row).to_map()).or_default().push(row);
        }
        if by_condition.is_empty() {
            return Vec::new();
        }
        let fitted = fitted_shapes(pool);
        let (class_id, origin) = (pool.class_id(), pool.origin());
        let of_condition = |(condition, rows): (Wanted, Vec<&Record>)| {
            let request = Request { class_id: class_id.clone(), origin, condition };
            let machine = Machine::of(body, &request);
            let HeldOutRows { predicted, points, excluded } = HeldOutRows::predict(rows, &fitted, &machine);
            let excluded = excluded.into_iter();
            Self {
                condition: request.condition,
                predicted,
                evaluation: Evaluation::of(&points),
                excluded: excluded
                    .map(|row| ExcludedRow { row_id: row.row_id, detail: row.reason.to_string() })
                    .collect(),
            }
        };
        by_condition.into_iter().map(of_condition).collect()
    }
}
