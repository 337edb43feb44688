//! What fits need of a row, and no more: a fleet has millions of rows, and most of a row is the same for many.
//!
//! A row is some six thousand bytes; its record is two hundred. What rows share (their device, what ran, what they were
//! measured for) stands once and is pointed to. Samples are gone; medians of rounds stay, because intervals and the split
//! of the class's spread come from them.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::digest::Sha256Digest;
use crate::estimate::set_member;
use crate::id::{RowId, RunId, TaskId};
use crate::row::{Counts, DeviceColumns, Origin, Role, Row, Status, Work};
use crate::statistics::Interval;

mod recorder;

pub use recorder::Recorder;

/// Nanoseconds of an hour.
const HOUR_NS: u64 = 3_600_000_000_000;

/// One row, as far as fits read it.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    key: RowKey,
    digest: Sha256Digest,
    device: Arc<DeviceColumns>,
    subject: Arc<Subject>,
    context: Arc<Context>,
    /// NaN is none, here and in the two below.
    estimate_ns: f64,
    interval_ns: [f64; 2],
    readings: [f64; 4],
    best_sample_ns: f64,
    round_medians_ns: Box<[f64]>,
    hour: u32,
    /// Rank of its device within its pool.
    pub(crate) device_number: u32,
    /// Rank of its (point, solution) within its pool.
    pub(crate) point_number: u32,
}

/// What ran, and what it moves and computes: the same for all devices.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// What ran.
    pub work: Work,
    /// Its counts.
    pub counts: Counts,
}

/// What a row was measured for, under which condition, and how it ended: the same for most rows of a task.
#[derive(Debug, Clone, PartialEq)]
pub struct Context {
    /// The run.
    pub run_id: RunId,
    /// SHA-256 of the plan's text.
    pub plan_digest: String,
    /// The task.
    pub task_id: TaskId,
    /// Attempt at the task.
    pub attempt: u64,
    /// Version of the agent.
    pub agent_version: String,
    /// Where the numbers come from.
    pub origin: Origin,
    /// What the row is for.
    pub role: Role,
    /// Whether other devices of the node were busy.
    pub neighbours: Option<String>,
    /// The load.
    pub load: Option<String>,
    /// Throttle reasons seen.
    pub throttle_reasons: Option<u64>,
    /// How it ended.
    pub status: Status,
    /// Why.
    pub reason: Option<String>,
    /// Rounds asked for.
    pub rounds_planned: u64,
    /// Rounds measured.
    pub rounds_done: u64,
    /// Numbers of the rounds, in the order of their medians.
    pub rounds: Vec<u64>,
}

/// What differs from row to row.
#[derive(Debug, Clone, Copy)]
pub struct Own<'a> {
    /// The row's identity.
    pub row_id: &'a str,
    /// Its content hash, as text.
    pub content_hash: &'a str,
    /// Its estimate, nanoseconds.
    pub estimate_ns: Option<f64>,
    /// Lower end of the estimate's interval.
    pub interval_low_ns: Option<f64>,
    /// Upper end.
    pub interval_high_ns: Option<f64>,
    /// Core clock, kHz.
    pub core_clock_khz: Option<u64>,
    /// Memory clock, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power, milliwatts.
    pub power_mw: Option<u64>,
    /// Temperature of the die, millidegrees Celsius.
    pub temperature_mc: Option<i64>,
    /// The shortest accepted sample of a measured round, nanoseconds a launch.
    pub best_sample_ns: Option<f64>,
    /// When it was begun, nanoseconds since 1970 UTC.
    pub started_utc_ns: u64,
}

/// A reading of the monitor that a record keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    CoreClockKhz,
    MemoryClockKhz,
    PowerMilliwatts,
    TemperatureMillidegrees,
}

impl Record {
    /// Puts a record together from what rows share and what they do not; `round_medians_ns` are those of the context's
    /// rounds.
    pub fn new(
        device: Arc<DeviceColumns>,
        subject: Arc<Subject>,
        context: Arc<Context>,
        own: &Own<'_>,
        round_medians_ns: Box<[f64]>,
    ) -> Self {
        let number = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let reading = |value: Option<u64>| number(value.map(|value| value as f64));
        Self {
            key: RowKey::of(own.row_id),
            digest: set_member(own.row_id, own.content_hash),
            device,
            subject,
            context,
            estimate_ns: number(own.estimate_ns),
            interval_ns: [number(own.interval_low_ns), number(own.interval_high_ns)],
            readings: [
                reading(own.core_clock_khz),
                reading(own.memory_clock_khz),
                reading(own.power_mw),
                number(own.temperature_mc.map(|value| value as f64)),
            ],
            best_sample_ns: number(own.best_sample_ns),
            round_medians_ns,
            // All of time counted in hours fits.
            hour: u32::try_from(own.started_utc_ns / HOUR_NS).unwrap_or(u32::MAX),
            device_number: 0,
            point_number: 0,
        }
    }

    /// The row's identity.
    pub fn row_id(&self) -> RowId {
        self.key.to_id()
    }

    /// The identity in a form that is compared without making text of it; it orders as the text does.
    pub(crate) fn key(&self) -> &RowKey {
        &self.key
    }

    /// What the row adds to the digest of a set of rows.
    pub(crate) fn digest(&self) -> Sha256Digest {
        self.digest
    }

    /// On what it was measured.
    pub fn device(&self) -> &DeviceColumns {
        &self.device
    }

    /// What ran.
    pub fn work(&self) -> &Work {
        &self.subject.work
    }

    /// What it moves and computes.
    pub fn counts(&self) -> &Counts {
        &self.subject.counts
    }

    /// What it was measured for, and how it ended.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// What runs, whole: records that point to the same one differ in nothing there.
    pub(crate) fn subject(&self) -> &Arc<Subject> {
        &self.subject
    }

    /// Where that stands.
    pub(crate) fn subject_address(&self) -> usize {
        address(&self.subject)
    }

    /// Where the context stands.
    pub(crate) fn context_address(&self) -> usize {
        address(&self.context)
    }

    /// The device, whole, in the same sense.
    pub(crate) fn shared_device(&self) -> &Arc<DeviceColumns> {
        &self.device
    }

    /// The context, whole, in the same sense.
    pub(crate) fn shared_context(&self) -> &Arc<Context> {
        &self.context
    }

    /// The row's estimate, nanoseconds a launch.
    pub fn estimate_ns(&self) -> Option<f64> {
        Some(self.estimate_ns).filter(|ns| !ns.is_nan())
    }

    /// The estimate's interval, where it has both ends.
    pub(crate) fn interval_ns(&self) -> Option<Interval> {
        let [low, high] = self.interval_ns;
        (!low.is_nan() && !high.is_nan()).then_some(Interval { low, high })
    }

    pub(crate) fn reading(&self, reading: Reading) -> Option<f64> {
        Some(self.readings[reading as usize]).filter(|value| !value.is_nan())
    }

    /// The shortest accepted sample of a measured round, nanoseconds a launch.
    pub(crate) fn best_sample_ns(&self) -> Option<f64> {
        Some(self.best_sample_ns).filter(|ns| !ns.is_nan())
    }

    /// Numbers and medians of the rounds, nanoseconds a launch.
    pub(crate) fn rounds(&self) -> impl Iterator<Item = (u64, f64)> {
        self.context.rounds.iter().copied().zip(self.round_medians_ns.iter().copied())
    }

    /// The hour that it was begun in, counted since 1970 UTC.
    pub(crate) fn hour(&self) -> u64 {
        u64::from(self.hour)
    }

    /// As [`Row::feeds_fits`].
    pub fn feeds_fits(&self) -> bool {
        let timed = self.estimate_ns().is_some_and(|ns| ns.is_finite() && ns > 0.0);
        timed && may_feed(&self.context, &self.device, &self.subject.counts)
    }

    /// As [`Row::dram_footprint_bytes`].
    pub(crate) fn dram_footprint_bytes(&self, footprint_factor: u64) -> u64 {
        self.device.dram_footprint_bytes(footprint_factor)
    }

    /// As [`Row::speaks_for_dram`].
    pub(crate) fn speaks_for_dram(&self, footprint_factor: u64) -> bool {
        let counts = self.counts();
        counts.bytes_exact && counts.bytes_distinct >= self.dram_footprint_bytes(footprint_factor)
    }

    /// Whether a row that feeds fits ended before its rounds did.
    pub(crate) fn is_cut_short(&self) -> bool {
        self.context.rounds_done < self.context.rounds_planned && self.feeds_fits()
    }
}

/// Where a shared thing stands: rows that share it have one address.
pub(crate) fn address<T>(shared: &Arc<T>) -> usize {
    Arc::as_ptr(shared).addr()
}

/// What rows share, each once, by its address.
pub(crate) fn once<'a, T: 'a>(
    rows: impl IntoIterator<Item = &'a Record>,
    shared: impl Fn(&'a Record) -> &'a Arc<T>,
) -> BTreeMap<usize, &'a T> {
    let (mut things, mut last) = (BTreeMap::new(), 0);
    for row in rows {
        let thing = shared(row);
        let address = address(thing);
        // Rows that share a thing mostly follow each other.
        if address != last {
            things.entry(address).or_insert(&**thing);
            last = address;
        }
    }
    things
}

fn may_feed(context: &Context, device: &DeviceColumns, counts: &Counts) -> bool {
    let role_fits = matches!(context.role, Role::Fit | Role::Anchor);
    let status_fits = matches!(context.status, Status::Passed | Status::NoCheck);
    role_fits && status_fits && !device.device_uuid.is_empty() && !counts.opaque
}

impl Context {
    /// Of a row.
    pub fn of(row: &Row) -> Self {
        let (identity, conditions, timing) = (&row.identity, &row.conditions, &row.timing);
        Self {
            run_id: identity.run_id.clone(),
            plan_digest: identity.plan_digest.clone(),
            task_id: identity.task_id.clone(),
            attempt: identity.attempt,
            agent_version: identity.agent_version.clone(),
            origin: identity.origin,
            role: identity.role,
            neighbours: conditions.neighbours.clone(),
            load: conditions.load.clone(),
            throttle_reasons: conditions.throttle_reasons,
            status: row.outcome.status,
            reason: row.outcome.reason.clone(),
            rounds_planned: timing.rounds_planned,
            rounds_done: timing.rounds_done,
            rounds: timing.rounds.iter().map(|round| round.round).collect(),
        }
    }
}

/// A row's identity, small where it is what rows of ours have: 32 hexadecimal digits in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowKey {
    /// The digits, two a byte.
    Digits([u8; 16]),
    /// Any other text.
    Text(Box<str>),
}

impl RowKey {
    fn of(text: &str) -> Self {
        Self::digits(text).map_or_else(|| Self::Text(text.into()), Self::Digits)
    }

    fn digits(text: &str) -> Option<[u8; 16]> {
        let digit = |letter: u8| match letter {
            b'0'..=b'9' => Some(letter - b'0'),
            b'a'..=b'f' => Some(letter - b'a' + 10),
            _ => None,
        };
        let text = text.as_bytes();
        let mut bytes = [0; 16];
        if text.len() != 32 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
            *byte = digit(pair[0])? << 4 | digit(pair[1])?;
        }
        Some(bytes)
    }

    /// The first letters as a number, which orders as they do: most identities differ there.
    pub(crate) fn prefix(&self) -> u64 {
        let mut letters = [0; 8];
        match self {
            Self::Digits(bytes) => {
                let nibbles = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
                let letter = |nibble: u8| if nibble < 10 { b'0' + nibble } else { b'a' + nibble - 10 };
                letters.iter_mut().zip(nibbles).for_each(|(place, nibble)| *place = letter(nibble));
            }
            Self::Text(text) => letters.iter_mut().zip(text.bytes()).for_each(|(place, letter)| *place = letter),
        }
        u64::from_be_bytes(letters)
    }

    fn to_id(&self) -> RowId {
        match self {
            Self::Digits(bytes) => RowId::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()),
            Self::Text(text) => RowId::new(&**text),
        }
    }
}

impl Ord for RowKey {
    /// As their texts: digits stand in the order of what they mean.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        match (self, other) {
            (Self::Digits(left), Self::Digits(right)) => left.cmp(right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            _ => self.to_id().cmp(&other.to_id()),
        }
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
