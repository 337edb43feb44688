//! What the harness said in a test.

use std::collections::BTreeMap;

use fleetcal_model::row::Row;

use crate::worker::message::{Event, Visit};

/// What the harness said.
#[derive(Debug, PartialEq)]
pub(crate) struct Said(pub(crate) Vec<Event>);

impl Said {
    /// Rows as they closed, by index.
    pub(crate) fn closed(&self) -> BTreeMap<u64, &Row> {
        let closed = |event| {
            let Event::RowClosed { row, template }: &Event = event else { return None };
            Some((*row, template.as_ref()))
        };
        self.0.iter().filter_map(closed).collect()
    }

    /// The closed row of a solution; there must be one only.
    pub(crate) fn row(&self, solution: &str) -> (u64, &Row) {
        let mut rows = self.closed().into_iter().filter(|(_, row)| row.work.solution == solution).collect::<Vec<_>>();
        assert_eq!(rows.len(), 1, "rows of {solution}");
        rows.remove(0)
    }

    /// The closed row of a point of so many elements; there must be one only.
    pub(crate) fn row_of(&self, elements: u64) -> &Row {
        let mut rows: Vec<_> = self.closed().into_values().filter(|row| row.work.elements == Some(elements)).collect();
        assert_eq!(rows.len(), 1, "rows of {elements} elements");
        rows.remove(0)
    }

    /// Visits of a row.
    pub(crate) fn visits(&self, row: u64) -> Vec<&Visit> {
        let visit = |event| {
            let Event::Visited(visit): &Event = event else { return None };
            (visit.row == row).then_some(visit)
        };
        self.0.iter().filter_map(visit).collect()
    }

    /// Sentences of notes and of dropped points.
    pub(crate) fn sentences(&self) -> Vec<&str> {
        let sentence = |event| {
            let (Event::Note(text) | Event::PointDropped { reason: text, .. }): &Event = event else { return None };
            Some(text.as_str())
        };
        self.0.iter().filter_map(sentence).collect()
    }
}
