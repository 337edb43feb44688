//! The columns that records are made of.

use std::collections::BTreeSet;
use std::str::FromStr;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, BooleanArray, ListArray, PrimitiveArray, RecordBatch, StringArray, StructArray};
use fleetcal_model::fit::record::{Own, Record};
use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{FlushMode, IntervalMethod, StopReason, TimingMode};

use super::SharedOfRow;
use crate::rows::RowsError;
use crate::rows::content::{missing, range};

type Wholes<'b> = &'b PrimitiveArray<UInt64Type>;
type Reals<'b> = &'b PrimitiveArray<Float64Type>;

/// Texts of a context: whose columns they are.
const CONTEXT_TEXTS: [&str; 10] =
    ["run_id", "plan_digest", "task_id", "agent_version", "origin", "role", "neighbours", "load", "status", "reason"];

/// Whole numbers of a context.
const CONTEXT_WHOLES: [&str; 4] = ["attempt", "throttle_reasons", "rounds_planned", "rounds_done"];

/// The columns of one batch.
pub(super) struct Columns<'b> {
    row_id: &'b StringArray,
    content_hash: &'b StringArray,
    context_texts: [&'b StringArray; 10],
    context_wholes: [Wholes<'b>; 4],
    estimate: [Reals<'b>; 3],
    readings: [Wholes<'b>; 3],
    temperature_mc: &'b PrimitiveArray<Int64Type>,
    started_utc_ns: Wholes<'b>,
    enqueues_per_sample: Wholes<'b>,
    samples: &'b ListArray,
    sample_ns: Wholes<'b>,
    sample_round: Wholes<'b>,
    sample_accepted: &'b BooleanArray,
    rounds: &'b ListArray,
    round: Wholes<'b>,
    median_ns: Reals<'b>,
    words: [&'b StringArray; 5],
}

impl<'b> Columns<'b> {
    /// Finds the columns of a batch that has the schema of rows.
    pub(super) fn of(batch: &'b RecordBatch) -> Result<Self, RowsError> {
        let column = |name: &str| batch.column_by_name(name).ok_or_else(|| missing(name));
        let text = |name: &str| column(name)?.as_string_opt::<i32>().ok_or_else(|| missing(name));
        let whole = |name: &str| column(name)?.as_primitive_opt::<UInt64Type>().ok_or_else(|| missing(name));
        let real = |name: &str| column(name)?.as_primitive_opt::<Float64Type>().ok_or_else(|| missing(name));
        let (samples, in_sample) = list(batch, "samples")?;
        let (rounds, in_round) = list(batch, "rounds")?;
        let member = |members: &'b StructArray, name: &str| members.column_by_name(name).ok_or_else(|| missing(name));
        let number = |members: &'b StructArray, name: &str| {
            member(members, name)?.as_primitive_opt::<UInt64Type>().ok_or_else(|| missing(name))
        };
        Ok(Self {
            row_id: text("row_id")?,
            content_hash: text("content_hash")?,
            context_texts: each(CONTEXT_TEXTS, text)?,
            context_wholes: each(CONTEXT_WHOLES, whole)?,
            estimate: each(["estimate_ns", "interval_low_ns", "interval_high_ns"], real)?,
            readings: each(["core_clock_khz", "memory_clock_khz", "power_mw"], whole)?,
            temperature_mc: column("temperature_mc")?.as_primitive_opt().ok_or_else(|| missing("temperature_mc"))?,
            started_utc_ns: whole("started_utc_ns")?,
            enqueues_per_sample: whole("enqueues_per_sample")?,
            samples,
            sample_ns: number(in_sample, "ns")?,
            sample_round: number(in_sample, "round")?,
            sample_accepted: member(in_sample, "accepted")?.as_boolean_opt().ok_or_else(|| missing("accepted"))?,
            rounds,
            round: number(in_round, "round")?,
            median_ns: member(in_round, "median_ns")?.as_primitive_opt().ok_or_else(|| missing("median_ns"))?,
            words: [
                text("timing_mode")?,
                text("flush_mode")?,
                text("interval_method")?,
                text("bounds_check")?,
                member(in_round, "stop_reason")?.as_string_opt().ok_or_else(|| missing("stop_reason"))?,
            ],
        })
    }

    /// The content hash of a row, as text.
    pub(super) fn content_hash(&self, row: usize) -> &'b str {
        self.content_hash.value(row)
    }

    /// Bytes that are the same for rows of one context, and differ for others; in place of what is in `key`.
    pub(super) fn context_key(&self, row: usize, key: &mut Vec<u8>) {
        key.clear();
        for texts in self.context_texts {
            let text = texts.is_valid(row).then(|| texts.value(row));
            // Its length first, so that no two texts run together; one more than any length is none.
            key.extend_from_slice(&text.map_or(u64::MAX, |text| text.len() as u64).to_le_bytes());
            key.extend_from_slice(text.unwrap_or_default().as_bytes());
        }
        for numbers in self.context_wholes {
            key.push(u8::from(numbers.is_valid(row)));
            key.extend_from_slice(&if numbers.is_valid(row) { numbers.value(row) } else { 0 }.to_le_bytes());
        }
        for at in range(self.rounds.value_offsets(), row) {
            key.extend_from_slice(&self.round.value(at).to_le_bytes());
        }
    }

    /// The record of a row that shares these with others.
    pub(super) fn record(&self, row: usize, shared: SharedOfRow) -> Record {
        let SharedOfRow { device, subject, context } = shared;
        let [estimate_ns, interval_low_ns, interval_high_ns] =
            self.estimate.map(|numbers| numbers.is_valid(row).then(|| numbers.value(row)));
        let [core_clock_khz, memory_clock_khz, power_mw] =
            self.readings.map(|numbers| numbers.is_valid(row).then(|| numbers.value(row)));
        let own = Own {
            row_id: self.row_id.value(row),
            content_hash: self.content_hash.value(row),
            estimate_ns,
            interval_low_ns,
            interval_high_ns,
            core_clock_khz,
            memory_clock_khz,
            power_mw,
            temperature_mc: self.temperature_mc.is_valid(row).then(|| self.temperature_mc.value(row)),
            best_sample_ns: self.best_sample_ns(row),
            started_utc_ns: self.started_utc_ns.value(row),
        };
        let medians = range(self.rounds.value_offsets(), row).map(|at| self.median_ns.value(at)).collect();
        Record::new(device, subject, context, &own, medians)
    }

    /// The shortest accepted sample of a measured round, nanoseconds a launch.
    fn best_sample_ns(&self, row: usize) -> Option<f64> {
        let counted = range(self.samples.value_offsets(), row)
            .filter(|at| self.sample_accepted.value(*at) && self.sample_round.value(*at) >= 1);
        let shortest = counted.map(|at| self.sample_ns.value(at)).min()?;
        Some(shortest as f64 / self.enqueues_per_sample.value(row).max(1) as f64)
    }
}

/// What each name finds.
fn each<T, const N: usize>(names: [&str; N], find: impl Fn(&str) -> Result<T, RowsError>) -> Result<[T; N], RowsError> {
    let found: Vec<T> = names.iter().map(|name| find(name)).collect::<Result<_, _>>()?;
    found.try_into().map_err(|_| missing("row_id"))
}

/// A list of structs, and the structs.
fn list<'b>(batch: &'b RecordBatch, name: &str) -> Result<(&'b ListArray, &'b StructArray), RowsError> {
    let lists = batch.column_by_name(name).and_then(|column| column.as_list_opt::<i32>());
    let lists = lists.ok_or_else(|| missing(name))?;
    Ok((lists, lists.values().as_struct_opt().ok_or_else(|| missing(name))?))
}

/// Words of closed vocabularies that stand in no part of a row that is decoded whole, and are known.
#[derive(Debug, Default)]
pub(super) struct Names([BTreeSet<String>; 5]);

impl Names {
    /// Whether every such word of a batch is one of its vocabulary.
    pub(super) fn know(&mut self, columns: &Columns<'_>) -> bool {
        let is_known: [fn(&str) -> bool; 5] =
            [is::<TimingMode>, is::<FlushMode>, is::<IntervalMethod>, is::<BoundsCheck>, is::<StopReason>];
        self.0.iter_mut().zip(columns.words).zip(is_known).all(|((known, words), is_known)| {
            let mut last = None;
            words.iter().flatten().all(|word| {
                if last.replace(word) == Some(word) || known.contains(word) {
                    return true;
                }
                is_known(word) && known.insert(word.to_owned())
            })
        })
    }
}

fn is<T: FromStr>(word: &str) -> bool {
    word.parse::<T>().is_ok()
}
