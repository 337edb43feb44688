//! Which rows of a heap of files may be fitted at all: each once, of the attempt that counts, of one origin, and of one
//! source for each kernel.
//!
//! A coordinator knows which attempts won and hands over those rows alone. Files say less: of several attempts at a
//! task the latest counts, since it goes on from what the earlier ones measured.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Context, Record, Recorder, once};
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

/// The same of records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordIntake {
    /// The records.
    pub records: Vec<Record>,
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
    let mut recorder = Recorder::default();
    let records: Vec<Record> = rows.iter().map(|row| recorder.record(row)).collect();
    let Sorted { kept, duplicates, superseded } = sort_out(&records, mixed_sources)?;
    Ok(Intake { rows: kept.into_iter().map(|at| &rows[at]).collect(), duplicates, superseded })
}

/// The same of records, which stay in their order.
///
/// # Errors
/// [`IntakeError`].
pub fn intake_records(mut records: Vec<Record>, mixed_sources: bool) -> Result<RecordIntake, IntakeError> {
    let Sorted { kept, duplicates, superseded } = sort_out(&records, mixed_sources)?;
    if kept.len() < records.len() {
        let mut keep = vec![false; records.len()];
        kept.into_iter().for_each(|at| keep[at] = true);
        let mut keep = keep.into_iter();
        records.retain(|_| keep.next().unwrap_or(false));
    }
    Ok(RecordIntake { records, duplicates, superseded })
}

/// Which records may be fitted.
struct Sorted {
    /// Their places, by identity.
    kept: Vec<usize>,
    duplicates: usize,
    superseded: usize,
}

fn sort_out(records: &[Record], mixed_sources: bool) -> Result<Sorted, IntakeError> {
    let mut order: Vec<(u64, usize)> = records.iter().enumerate().map(|(at, row)| (row.key().prefix(), at)).collect();
    order.sort_unstable_by(|left, right| {
        let by_key = || records[left.1].key().cmp(records[right.1].key());
        left.0.cmp(&right.0).then_with(by_key).then(left.1.cmp(&right.1))
    });
    let is_copy = |first: &(u64, usize), next: &(u64, usize)| {
        first.0 == next.0 && records[first.1].key() == records[next.1].key()
    };
    for copies in order.chunk_by(is_copy) {
        let first = &records[copies[0].1];
        if copies.iter().any(|(_, at)| records[*at].digest() != first.digest()) {
            return Err(IntakeError::Contradiction { row: first.row_id() });
        }
    }
    order.dedup_by(|next, first| is_copy(first, next));
    let duplicates = records.len() - order.len();
    let unique = order.len();
    let replaced = replaced(records);
    let counts = |row: &Record| replaced.is_empty() || !replaced.contains(&row.context_address());
    let kept: Vec<usize> = order.into_iter().map(|(_, at)| at).filter(|at| counts(&records[*at])).collect();
    let is_whole = kept.len() == unique;
    // In their own order where all of them count: it is that of memory.
    let all = records.iter().filter(|row| is_whole || counts(row));
    one_origin(all.clone())?;
    if !mixed_sources {
        one_source_each(all)?;
    }
    Ok(Sorted { superseded: unique - kept.len(), kept, duplicates })
}

/// Addresses of contexts of attempts that a later one replaced.
fn replaced(records: &[Record]) -> BTreeSet<usize> {
    let contexts = once(records, Record::shared_context);
    let mut latest: BTreeMap<(&RunId, &TaskId), u64> = BTreeMap::new();
    for context in contexts.values() {
        let attempt = latest.entry((&context.run_id, &context.task_id)).or_default();
        *attempt = context.attempt.max(*attempt);
    }
    let is_replaced = |context: &Context| latest.get(&(&context.run_id, &context.task_id)) != Some(&context.attempt);
    contexts.into_iter().filter(|(_, context)| is_replaced(context)).map(|(address, _)| address).collect()
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

fn one_origin<'a>(mut rows: impl Iterator<Item = &'a Record>) -> Result<(), IntakeError> {
    let origin = |row: &Record| row.context().origin;
    let Some(first) = rows.next().map(origin) else { return Ok(()) };
    match rows.map(origin).find(|origin| *origin != first) {
        Some(second) => Err(IntakeError::MixedOrigins { first: first.min(second), second: first.max(second) }),
        None => Ok(()),
    }
}

fn one_source_each<'a>(rows: impl Iterator<Item = &'a Record>) -> Result<(), IntakeError> {
    type Family<'a> = (&'a ClassId, Sweep, &'a str, Dtype);
    // Many rows share what ran: each is looked at once for each class.
    let mut seen: BTreeMap<usize, BTreeSet<&ClassId>> = BTreeMap::new();
    let mut sources: BTreeMap<Family<'a>, &str> = BTreeMap::new();
    for row in rows {
        let (work, class) = (row.work(), &row.device().class_id);
        if !seen.entry(row.subject_address()).or_default().insert(class) {
            continue;
        }
        let Some(digest) = work.source_digest.as_deref() else { continue };
        let first = *sources.entry((class, work.sweep, work.kernel.as_str(), work.dtype)).or_insert(digest);
        if first != digest {
            return Err(IntakeError::MixedSources {
                class: class.clone(),
                sweep: work.sweep,
                kernel: work.kernel.clone(),
                dtype: work.dtype,
                first: first.min(digest).to_owned(),
                second: first.max(digest).to_owned(),
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
