//! The constants document: what is published of one device class.
//!
//! A document is a **body**, which the same rows and options give byte for byte on any machine, and an **envelope**,
//! which says when and by whom it was made. The digest of the body is what a signature signs and what a consumer pins.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use crate::device::ClassKey;
use crate::estimate::rows_digest;
use crate::fit::bandwidth::{Asymptote, BandwidthFit, Fitted, Floor};
use crate::fit::pool::{Pool, RejectReason, Rejected};
use crate::fit::{ConstantInterval, Coverage, MODEL_VERSION, Options, Witness, bandwidth};
use crate::id::{ClassId, DeviceId, RowId, RunId};
use crate::row::{Origin, Row};
use crate::score::SCORE_VERSION;
use crate::statistics::Interval;
use crate::units::Unit;
use crate::vocabulary;

mod held_out;
mod select;

#[cfg(feature = "serde")]
mod json;
#[cfg(test)]
mod tests;

pub use held_out::{ExcludedRow, HeldOut};
#[cfg(feature = "serde")]
pub use json::DocumentError;
pub use select::{Missing, Wanted};

/// Version of the document's form.
pub const DOCUMENT_SCHEMA_VERSION: u64 = 0;

/// Name of the demonstrated floor of main memory's bandwidth, B/s.
pub const MEMORY_BANDWIDTH: &str = "memory_bandwidth";

/// Name of the bandwidth that a stream kernel tends to as its arrays grow, B/s.
pub const MEMORY_BANDWIDTH_ASYMPTOTE: &str = "memory_bandwidth_asymptote";

/// Name of the time that a stream kernel takes before it moves its first byte, s.
pub const STREAM_LATENCY: &str = "stream_latency";

/// Name of the working set up to which re-reads are served by the cache, B: a constant of the ranking score, not the
/// size of a cache.
pub const CACHE_CAPACITY: &str = "cache_capacity";

/// Name of the rate at which re-reads within [`CACHE_CAPACITY`] are served, B/s.
pub const CACHE_BANDWIDTH: &str = "cache_bandwidth";

/// Name of the scalar operations per second that the register-blocktiled kernel issues as it was launched, op/s.
pub const ISSUE_RATE: &str = "issue_rate";

/// Name of the scalar operations per second of a launch that fills the device, op/s: [`ISSUE_RATE`] with each point's
/// operations divided by its launch fill. It holds together with [`FILL_THREADS`]; the ranking score divides by it.
pub const FULL_ISSUE_RATE: &str = "full_issue_rate";

/// Name of the threads that fill a multiprocessor, threads; the multiprocessors are those of the class.
pub const FILL_THREADS: &str = "fill_threads";

/// Name of the operations per second that a kernel made for it shows, flop/s; the condition says `dtype` and [`PIPE`].
pub const PEAK_FLOPS: &str = "peak_flops";

/// Name of the time of a launch that does nothing, s.
pub const LAUNCH_LATENCY: &str = "launch_latency";

/// Name of the condition that tells scalar units (`scalar`) from tensor units (`tensor`).
pub const PIPE: &str = "pipe";

/// Constants of one device class, from rows of one origin.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Document {
    /// What the rows say.
    pub body: Body,
    /// Who says so, and when.
    pub envelope: Envelope,
}

/// The part of a document that the rows determine.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Body {
    /// [`DOCUMENT_SCHEMA_VERSION`].
    pub schema_version: u64,
    /// [`MODEL_VERSION`].
    pub model_version: u64,
    /// [`SCORE_VERSION`]; none in a document older than the score.
    #[cfg_attr(feature = "serde", serde(default))]
    pub score_version: Option<u64>,
    /// The class.
    pub class_id: ClassId,
    /// Its short name, for people.
    pub class_slug: String,
    /// What makes devices alike.
    pub class_key: ClassKey,
    /// What was decided of the fits.
    pub fit_options: Options,
    /// Where the numbers come from: only `measured` ones were timed on the device they name.
    pub origin: Origin,
    /// The constants.
    pub constants: Vec<Constant>,
    /// How far off they are for points that they were not fitted to, under each condition that such points were measured
    /// under; empty where there are none.
    #[cfg_attr(feature = "serde", serde(default))]
    pub held_out: Vec<HeldOut>,
    /// Rows measured for these constants that did not feed them, by identity.
    pub rejected_rows: Vec<RejectedRow>,
    /// Rows of the class and origin, of every role.
    pub rows_total: u64,
    /// Those measured for fits that end with fewer rounds than were planned. They feed fits as far as they have an
    /// estimate.
    pub rows_cut_short: u64,
    /// Digest of all of them, whatever their order.
    pub rows_digest: String,
    /// Digests of the plans that they were measured for.
    pub plan_digests: BTreeSet<String>,
    /// Runs that they come from.
    pub run_ids: BTreeSet<RunId>,
    /// Versions of the agents that measured them.
    pub agent_versions: BTreeSet<String>,
}

/// The part of a document that the rows do not determine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Envelope {
    /// When it was made, nanoseconds since 1970 UTC.
    pub created_utc_ns: u64,
    /// Who or what made it, for example `fleetcal calibrate`.
    pub created_by: String,
    /// The run that it was made for.
    pub run_id: RunId,
    /// Version of the coordinator that made it.
    pub coordinator_version: String,
}

vocabulary! {
    /// How a fit ended.
    Verdict, "verdict" {
        /// There is a value, and its rows show it.
        Measured => "measured",
        /// The rows do not determine it; the reason says why.
        NotIdentified => "not_identified",
    }
}

/// A named number with everything that one must know to use it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Constant {
    /// Its name, for example [`MEMORY_BANDWIDTH`].
    pub name: String,
    /// Under which condition it holds, for example `kernel` = `triad`. A name that is absent does not restrict it.
    pub condition: BTreeMap<String, String>,
    /// The value; none unless measured.
    pub value: Option<f64>,
    /// Unit of value, interval and witness.
    pub unit: Unit,
    /// 95% interval.
    pub interval: Option<Interval>,
    /// How the interval was computed, or why there is none; none where there is no value either.
    pub interval_method: Option<ConstantInterval>,
    /// How the fit ended.
    pub verdict: Verdict,
    /// Why there is no value.
    pub reason: Option<String>,
    /// Of what it is a constant.
    pub scope: Scope,
    /// Devices behind the value.
    pub devices_used: u64,
    /// Devices that measured for it.
    pub devices_total: u64,
    /// Points behind the value.
    pub points_used: u64,
    /// Points that fed the fit, those that rules took out included.
    pub points_total: u64,
    /// Largest relative residual of the fitted form.
    pub max_residual: Option<f64>,
    /// The row that shows a demonstrated maximum.
    pub witness: Option<Witness>,
    /// [`SCORE_VERSION`] when it was fitted; none in a document older than the score. A constant that only the score
    /// gives a meaning is not used under another version.
    #[cfg_attr(feature = "serde", serde(default))]
    pub score_version: Option<u64>,
}

/// Of what a constant is one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", try_from = "String")
)]
pub enum Scope {
    /// Of the class: several devices stand behind it.
    Class,
    /// Of the one device that stands behind it.
    Device(DeviceId),
}

/// A row that fed no constant it was measured for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RejectedRow {
    /// The row.
    pub row_id: RowId,
    /// Why.
    pub reason: RejectReason,
    /// The particulars, for people.
    pub detail: String,
}

impl Document {
    /// Fits every class and origin among `rows`, in that order; one document for each, none for no rows.
    pub fn fit<'a>(rows: impl IntoIterator<Item = &'a Row>, options: &Options, envelope: &Envelope) -> Vec<Self> {
        let pools = Pool::split(rows);
        let document = |pool| Some(Self { body: Body::fit(pool, options)?, envelope: envelope.clone() });
        pools.iter().filter_map(document).collect()
    }
}

impl Body {
    /// Fits one pool; `None` for a pool of no rows, which cannot be made.
    fn fit(pool: &Pool<'_>, options: &Options) -> Option<Self> {
        let rows = pool.rows();
        let device = &rows.first()?.device;
        let BandwidthFit { floors, asymptotes, rejected } = bandwidth::fit(pool, options);
        let constants = floors.iter().map(Constant::of_floor).chain(asymptotes.iter().flat_map(Constant::of_asymptote));
        let mut body = Self {
            schema_version: DOCUMENT_SCHEMA_VERSION,
            model_version: MODEL_VERSION,
            score_version: Some(SCORE_VERSION),
            class_id: pool.class_id().clone(),
            class_slug: device.class_slug.clone(),
            class_key: device.class_key(),
            fit_options: *options,
            origin: pool.origin(),
            constants: constants.collect(),
            held_out: Vec::new(),
            rejected_rows: rejected.into_iter().map(RejectedRow::from).collect(),
            rows_total: rows.len() as u64,
            rows_cut_short: rows.iter().filter(|row| cut_short(row)).count() as u64,
            rows_digest: rows_digest(rows.iter().copied()).to_string(),
            plan_digests: rows.iter().map(|row| row.identity.plan_digest.clone()).collect(),
            run_ids: rows.iter().map(|row| row.identity.run_id.clone()).collect(),
            agent_versions: rows.iter().map(|row| row.identity.agent_version.clone()).collect(),
        };
        body.held_out = HeldOut::of(pool, &body);
        Some(body)
    }

    /// The constant of that name whose condition is exactly `condition`.
    pub fn constant(&self, name: &str, condition: &[(&str, &str)]) -> Option<&Constant> {
        let wanted = |constant: &&Constant| {
            constant.name == name
                && constant.condition.len() == condition.len()
                && condition.iter().all(|(key, value)| constant.condition.get(*key).is_some_and(|found| found == value))
        };
        self.constants.iter().find(wanted)
    }
}

/// Whether a row that feeds fits ended before its rounds did. One that was given up for its result feeds none.
fn cut_short(row: &Row) -> bool {
    row.feeds_fits() && row.timing.rounds_done < row.timing.rounds_planned
}

impl Constant {
    fn of_floor(fitted: &Fitted<'_, Floor>) -> Self {
        let constant = Self::unfitted(MEMORY_BANDWIDTH, Unit::BytesPerSecond, fitted);
        match &fitted.outcome {
            Err(reason) => constant.not_identified(reason.to_string()),
            Ok(floor) => Self {
                value: Some(floor.bandwidth.0),
                interval_method: Some(ConstantInterval::Witness),
                witness: Some(floor.witness.clone()),
                ..constant
            },
        }
    }

    fn of_asymptote(fitted: &Fitted<'_, Asymptote>) -> [Self; 2] {
        let bandwidth = Self::unfitted(MEMORY_BANDWIDTH_ASYMPTOTE, Unit::BytesPerSecond, fitted);
        let latency = Self::unfitted(STREAM_LATENCY, Unit::Seconds, fitted);
        let asymptote = match &fitted.outcome {
            Err(reason) => return [bandwidth, latency].map(|constant| constant.not_identified(reason.to_string())),
            Ok(asymptote) => asymptote,
        };
        let max_residual = Some(asymptote.max_relative_residual);
        let bandwidth = Self {
            value: Some(asymptote.bandwidth.0),
            interval: asymptote.bandwidth_spread.interval,
            interval_method: Some(asymptote.bandwidth_spread.method),
            max_residual,
            ..bandwidth
        };
        let latency = match &asymptote.latency {
            Err(reason) => Self { max_residual, ..latency.not_identified(reason.to_string()) },
            Ok(seconds) => Self {
                value: Some(seconds.0),
                interval: asymptote.latency_spread.interval,
                interval_method: Some(asymptote.latency_spread.method),
                max_residual,
                ..latency
            },
        };
        [bandwidth, latency]
    }

    /// Everything but the value.
    fn unfitted<T>(name: &str, unit: Unit, fitted: &Fitted<'_, T>) -> Self {
        let Coverage { devices_used, devices_total, points_used, points_total } = fitted.coverage;
        Self {
            name: name.to_owned(),
            condition: fitted.condition.to_map(),
            value: None,
            unit,
            interval: None,
            interval_method: None,
            verdict: Verdict::Measured,
            reason: None,
            scope: fitted.only_device.map_or(Scope::Class, |device| Scope::Device(device.clone())),
            devices_used: devices_used as u64,
            devices_total: devices_total as u64,
            points_used: points_used as u64,
            points_total: points_total as u64,
            max_residual: None,
            witness: None,
            score_version: Some(SCORE_VERSION),
        }
    }

    fn not_identified(self, reason: String) -> Self {
        Self { verdict: Verdict::NotIdentified, reason: Some(reason), ..self }
    }
}

impl From<Rejected<'_>> for RejectedRow {
    fn from(rejected: Rejected<'_>) -> Self {
        Self { row_id: rejected.row.identity.row_id.clone(), reason: rejected.reason, detail: rejected.detail }
    }
}

impl fmt::Display for Scope {
    /// `class`, or `device UUID`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class => f.write_str("class"),
            Self::Device(device) => write!(f, "device {device}"),
        }
    }
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no scope: `class` or `device UUID` was expected")]
pub struct NotAScope {
    /// The text found.
    pub text: String,
}

impl FromStr for Scope {
    type Err = NotAScope;

    /// Reads what [`Scope`]'s `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotAScope> {
        match (text, text.strip_prefix("device ")) {
            ("class", _) => Ok(Self::Class),
            (_, Some(device)) if !device.is_empty() => Ok(Self::Device(DeviceId::new(device))),
            _ => Err(NotAScope { text: text.to_owned() }),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = NotAScope;
    fn try_from(text: String) -> Result<Self, NotAScope> {
        text.parse()
    }
}
