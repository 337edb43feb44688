//! Which rows of a heap of files may be fitted at all: each once, of the attempt that counts, of one origin, and of one
//! source for each kernel.
//!
//! A coordinator knows which attempts won and hands over those rows alone. Files say less: of several attempts at a
//! task the latest counts, since it goes on from what the earlier ones measured.

use std::collections::BTreeMap;

use crate::id::{ClassId, RowId, RunId, TaskId};
use crate::point::{Dtype, Sweep};
use crate::row::{Origin, Row};

/// Rows that may be fitted, and how many were left out without harm.
#[derive(Debug, Clone, PartialEq)]
pub struct Intake<'a> {
    /// The rows.
    pub rows: Vec<&'a Row>,
    /// Further copies of rows among them.
    pub duplicates: usize,
    /// Rows of attempts that a later one replaced.
    pub superseded: usize,
}

/// Rows that must not be fitted together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IntakeError {
    /// Their numbers come from different places.
    #[error("rows of origin {first} and {second} are among them: choose one")]
    MixedOrigins {
        /// One origin.
        first: Origin,
        /// Another.
        second: Origin,
    },
    /// Two rows have one identity and say different things.
    #[error("two different rows have the identity {row}: one of their files was changed")]
    Contradiction {
        /// The identity.
        row: RowId,
    },
    /// Kernels of one name were compiled from different sources.
    #[error(
        "rows of class {class} hold {sweep}/{kernel}/{dtype} from two sources, {first} and {second}: they are different \
         kernels of one name"
    )]
    MixedSources {
        /// The class.
        class: ClassId,
        /// The family.
        sweep: Sweep,
        /// The kernel.
        kernel: String,
        /// The number format.
        dtype: Dtype,
        /// Digest of one source.
        first: String,
        /// Digest of another.
        second: String,
    },
}

/// Sorts rows out. Kernels of several sources under one name are refused unless `mixed_sources` says that they are alike.
///
/// # Errors
/// [`IntakeError`].
pub fn intake<'a>(rows: &'a [Row], mixed_sources: bool) -> Result<Intake<'a>, IntakeError> {
    let mut known: BTreeMap<&RowId, &Row> = BTreeMap::new();
    let mut latest: BTreeMap<(&RunId, &TaskId), u64> = BTreeMap::new();
    for row in rows {
        let first = known.entry(&row.identity.row_id).or_insert(row);
        if first.identity.content_hash != row.identity.content_hash {
            return Err(IntakeError::Contradiction { row: row.identity.row_id.clone() });
        }
        let attempt = latest.entry((&row.identity.run_id, &row.identity.task_id)).or_default();
        *attempt = row.identity.attempt.max(*attempt);
    }
    let duplicates = rows.len() - known.len();
    let counts = |row: &&Row| latest.get(&(&row.identity.run_id, &row.identity.task_id)) == Some(&row.identity.attempt);
    let unique = known.len();
    let kept: Vec<&Row> = known.into_values().filter(counts).collect();
    one_origin(&kept)?;
    if !mixed_sources {
        one_source_each(&kept)?;
    }
    Ok(Intake { superseded: unique - kept.len(), rows: kept, duplicates })
}

/// Of every point and solution of a task on a device, screened or measured, the rows of its latest attempt that has any, in the order given, and how many rows
/// are left out: what people are shown once, though a task that was interrupted has rows of two attempts with the same
/// visits in them.
pub fn latest_of_each(rows: Vec<Row>) -> (Vec<Row>, usize) {
    let key = |row: &Row| {
        let (identity, work) = (&row.identity, &row.work);
        let task = (identity.run_id.clone(), identity.task_id.clone(), row.device.device_uuid.clone());
        (task, identity.role, work.point.clone(), work.solution.clone())
    };
    let mut latest: BTreeMap<_, u64> = BTreeMap::new();
    for row in &rows {
        let attempt = latest.entry(key(row)).or_default();
        *attempt = row.identity.attempt.max(*attempt);
    }
    let all = rows.len();
    let kept: Vec<Row> = rows.into_iter().filter(|row| latest.get(&key(row)) == Some(&row.identity.attempt)).collect();
    let left_out = all - kept.len();
    (kept, left_out)
}

fn one_origin(rows: &[&Row]) -> Result<(), IntakeError> {
    let mut origins = rows.iter().map(|row| row.identity.origin);
    let Some(first) = origins.next() else { return Ok(()) };
    match origins.find(|origin| *origin != first) {
        Some(second) => Err(IntakeError::MixedOrigins { first: first.min(second), second: first.max(second) }),
        None => Ok(()),
    }
}

fn one_source_each(rows: &[&Row]) -> Result<(), IntakeError> {
    let mut sources: BTreeMap<(&ClassId, Sweep, &str, Dtype), &str> = BTreeMap::new();
    for row in rows {
        let Some(digest) = row.work.source_digest.as_deref() else { continue };
        let key = (&row.device.class_id, row.work.sweep, row.work.kernel.as_str(), row.work.dtype);
        let first = *sources.entry(key).or_insert(digest);
        if first != digest {
            return Err(IntakeError::MixedSources {
                class: row.device.class_id.clone(),
                sweep: row.work.sweep,
                kernel: row.work.kernel.clone(),
                dtype: row.work.dtype,
                first: first.to_owned(),
                second: digest.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::DeviceId;
    use crate::row::Role;
    use crate::testing::RowSpec;

    fn row(task: &str, attempt: u64) -> Row {
        let mut row = RowSpec::modelled("copy", 1 << 28, 5e3, 4e12).task(task).row();
        row.identity.attempt = attempt;
        row.identity.row_id = RowId::new(format!("{task}/{attempt}"));
        row
    }

    #[test]
    fn copies_count_once_and_of_attempts_the_latest() {
        let rows = [row("one", 1), row("one", 2), row("two", 1), row("one", 2)];
        let intake = intake(&rows, false).expect("nothing contradicts");
        let ids: Vec<&str> = intake.rows.iter().map(|row| row.identity.row_id.as_str()).collect();
        assert_eq!((ids, intake.duplicates, intake.superseded), (vec!["one/2", "two/1"], 1, 1));
    }

    #[test]
    fn another_run_of_a_task_replaces_nothing() {
        let mut again = row("one", 2);
        again.identity.run_id = RunId::new("run-2");
        let rows = [row("one", 1), again];
        assert_eq!(intake(&rows, false).expect("nothing contradicts").superseded, 0);
    }

    #[test]
    fn people_see_the_latest_of_each_solution_even_where_the_latest_attempt_was_cut_short() {
        let of = |attempt, solution: &'static str| {
            let mut row = row("one", attempt);
            row.work.solution = solution.to_owned();
            row
        };
        let (rows, left_out) = latest_of_each(vec![of(1, "s0"), of(1, "s1"), of(2, "s0")]);
        let shown: Vec<_> = rows.iter().map(|row| (row.identity.attempt, row.work.solution.as_str())).collect();
        assert_eq!((shown, left_out), (vec![(1, "s1"), (2, "s0")], 1));

        // What was measured elsewhere, or for constants, is not in a later row of another device or of screening.
        let (mut elsewhere, mut screened) = (of(2, "s0"), of(2, "s0"));
        elsewhere.device.device_uuid = DeviceId::new("another");
        screened.identity.role = Role::Screening;
        assert_eq!(latest_of_each(vec![of(1, "s0"), elsewhere, screened]).1, 0);
    }

    #[test]
    fn contradictions_origins_and_sources_are_refused() {
        let mut changed = row("one", 1);
        changed.identity.content_hash = "another".to_owned();
        let refused = intake(&[row("one", 1), changed], false).map(|_| ());
        assert_eq!(refused, Err(IntakeError::Contradiction { row: RowId::new("one/1") }));

        let mut simulated = row("two", 1);
        simulated.identity.origin = Origin::Simulated;
        let refused = intake(&[simulated, row("one", 1)], false).map(|_| ());
        let origins = IntakeError::MixedOrigins { first: Origin::Measured, second: Origin::Simulated };
        assert_eq!(refused, Err(origins));

        let of_source = |task: &str, digest: &str| {
            let mut row = row(task, 1);
            row.work.source_digest = Some(digest.to_owned());
            row
        };
        let rows = [of_source("one", "aa"), of_source("two", "bb"), row("three", 1)];
        let refused = intake(&rows, false).map(|_| ()).expect_err("two sources").to_string();
        assert!(refused.contains("stream/copy/f32 from two sources, aa and bb"), "{refused}");
        assert_eq!(intake(&rows, true).expect("it was asked for").rows.len(), 3);
        assert_eq!(intake(&[], false).expect("no rows are no contradiction").rows.len(), 0);
    }
}
