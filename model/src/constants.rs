//! The constants document: what is published of one device class.
//!
//! A document is a **body**, which the same rows and options give byte for byte on any machine, and an **envelope**,
//! which says when and by whom it was made. The digest of the body is what a signature signs and what a consumer pins.

use std::collections::BTreeSet;

use crate::device::ClassKey;
use crate::digest::SetDigest;
use crate::fit::bandwidth::BandwidthFit;
use crate::fit::class::ClassStudy;
use crate::fit::pool::{Pool, RejectReason, Rejected};
use crate::fit::record::{Context, Record, once};
use crate::fit::workers::{Alone, Workers};
use crate::fit::{MODEL_VERSION, Mode, Options, sweeps};
use crate::id::{ClassId, RowId, RunId};
use crate::point::Sweep;
use crate::row::{Origin, Row};
use crate::score::SCORE_VERSION;

mod constant;
mod held_out;
mod names;
mod select;
mod study;

#[cfg(feature = "serde")]
mod json;
#[cfg(test)]
mod tests;

pub use constant::{Constant, NotAScope, Scope, Verdict};
pub use held_out::{ExcludedRow, HeldOut};
#[cfg(feature = "serde")]
pub use json::DocumentError;
pub use names::*;
pub use select::{Missing, Wanted};
pub use study::{
    ClockCause, ExplainedStudy, FamilyEvidenceStudy, FamilyName, FamilyStudy, HourStudy, HumpStudy, HumpsStudy,
    LevelStudy, OutliersStudy, PointStudy, Reading, RejectedDevice, SpreadSource, SpreadStudy,
};

/// Version of the document's form.
pub const DOCUMENT_SCHEMA_VERSION: u64 = 0;

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
    /// Devices that stand apart from the class in any sweep, with the evidence.
    #[cfg_attr(feature = "serde", serde(default))]
    pub rejected_devices: Vec<RejectedDevice>,
    /// What each kernel says of the class's devices: who stands apart, whether they are two groups, where their spread
    /// comes from. Empty for a class of a single device.
    #[cfg_attr(feature = "serde", serde(default))]
    pub class_study: Vec<FamilyStudy>,
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

/// A row that fed no constant it was measured for.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RejectedRow {
    /// The row.
    pub row_id: RowId,
    /// Why.
    pub reason: RejectReason,
    /// The particulars, for people.
    pub detail: String,
    /// How much slower than its fit it is: 0.25 is 25%, negative is faster; none where it was judged by another thing.
    #[cfg_attr(feature = "serde", serde(default))]
    pub residual: Option<f64>,
}

impl Document {
    /// Fits every class and origin among `rows`, in that order; one document for each, none for no rows, and none for
    /// emulated ones: their times mean nothing.
    pub fn fit<'a>(rows: impl IntoIterator<Item = &'a Row>, options: &Options, envelope: &Envelope) -> Vec<Self> {
        Self::of_pools(&Pool::split(rows), options, envelope, &Alone)
    }

    /// The same from records of rows: so many rows can be fitted that they do not fit into memory. Who runs its pieces
    /// changes no byte.
    pub fn fit_records(
        records: Vec<Record>,
        options: &Options,
        envelope: &Envelope,
        workers: &dyn Workers,
    ) -> Vec<Self> {
        Self::of_pools(&Pool::split_records(records), options, envelope, workers)
    }

    fn of_pools(pools: &[Pool], options: &Options, envelope: &Envelope, workers: &dyn Workers) -> Vec<Self> {
        let document = |pool| Some(Self { body: Body::fit(pool, options, workers)?, envelope: envelope.clone() });
        pools.iter().filter(|pool| pool.origin() != Origin::Emulated).filter_map(document).collect()
    }
}

impl Body {
    /// Fits one pool; `None` for a pool of no rows, which cannot be made.
    fn fit(pool: &Pool, options: &Options, workers: &dyn Workers) -> Option<Self> {
        let rows = pool.rows();
        let device = rows.iter().min_by(|left, right| left.key().cmp(right.key()))?.device();
        let study = study::of(pool, workers);
        let (constants, rejected) = fits(pool, options, &study, workers);
        let (class_study, rejected_devices) = study::stated(&study, workers);
        let contexts = contexts(rows);
        let mut digest = SetDigest::default();
        rows.iter().for_each(|row| digest.insert(row.digest()));
        let mut body = Self {
            schema_version: DOCUMENT_SCHEMA_VERSION,
            model_version: MODEL_VERSION,
            score_version: Some(SCORE_VERSION),
            class_id: pool.class_id().clone(),
            class_slug: device.class_slug.clone(),
            class_key: device.class_key(),
            fit_options: *options,
            origin: pool.origin(),
            constants,
            held_out: Vec::new(),
            rejected_rows: rejected,
            class_study,
            rejected_devices,
            rows_total: rows.len() as u64,
            rows_cut_short: rows.iter().filter(|row| row.is_cut_short()).count() as u64,
            rows_digest: digest.to_string(),
            plan_digests: contexts.iter().map(|context| context.plan_digest.clone()).collect(),
            run_ids: contexts.iter().map(|context| context.run_id.clone()).collect(),
            agent_versions: contexts.iter().map(|context| context.agent_version.clone()).collect(),
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

/// Every constant of a pool, and the rows that were measured for them and feed none, by identity.
fn fits<'a>(
    pool: &'a Pool,
    options: &Options,
    study: &ClassStudy<'a>,
    workers: &dyn Workers,
) -> (Vec<Constant>, Vec<RejectedRow>) {
    let (bandwidth, others) = sweeps::fit(pool, options, study, workers);
    let BandwidthFit { floors, asymptotes, mut rejected } = bandwidth;
    // The original knows no asymptote, and its floor is one of the others.
    let robust = options.mode == Mode::Robust;
    let floors = floors.iter().filter(|_| robust).map(Constant::of_floor);
    let constants = floors.chain(asymptotes.iter().filter(|_| robust).flat_map(Constant::of_asymptote));
    let constants = constants.chain(others.estimated.into_iter().map(Constant::of_estimated)).collect();
    rejected.extend(others.rejected.into_iter().filter(|other| robust || other.row.work().sweep != Sweep::Stream));
    rejected.sort_by(|left, right| {
        let by_row = left.row.key().cmp(right.row.key());
        by_row.then(left.reason.cmp(&right.reason)).then_with(|| left.detail.cmp(&right.detail))
    });
    (constants, rejected.into_iter().map(RejectedRow::from).collect())
}

/// What rows share of what they were measured for, each once.
fn contexts(rows: &[Record]) -> Vec<&Context> {
    once(rows, Record::shared_context).into_values().collect()
}

impl From<Rejected<'_>> for RejectedRow {
    fn from(rejected: Rejected<'_>) -> Self {
        let Rejected { row, reason, detail, residual } = rejected;
        Self { row_id: row.row_id(), reason, detail, residual }
    }
}
