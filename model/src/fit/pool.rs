//! The rows that may be fitted together, and what becomes of each of them.

use std::collections::BTreeMap;

use super::record::{Record, Recorder};
use crate::id::{ClassId, DeviceId};
use crate::point::{Dtype, Sweep};
use crate::row::{Origin, Role, Row, Status};
use crate::units::{Bytes, Seconds};
use crate::vocabulary;

mod group;
mod order;

pub(crate) use group::Group;

/// Rows of one device class and one origin, in an order that does not depend on where they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool {
    class_id: ClassId,
    origin: Origin,
    rows: Vec<Record>,
    devices: Vec<DeviceId>,
}

/// Rows that must not be fitted together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// There are none.
    #[error("there are no rows to fit")]
    Empty,
    /// Their numbers come from different sources.
    #[error("rows of origin {first} and {second} are never pooled: fit them apart")]
    MixedOrigins {
        /// One origin.
        first: Origin,
        /// Another.
        second: Origin,
    },
    /// Their devices are not alike.
    #[error("rows of class {first} and {second} are never pooled: fit them apart")]
    MixedClasses {
        /// One class.
        first: ClassId,
        /// Another.
        second: ClassId,
    },
}

impl Pool {
    /// Pools rows.
    ///
    /// # Errors
    /// [`PoolError`], where the rows are none, or of several origins or classes.
    pub fn new<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Result<Self, PoolError> {
        let mut recorder = Recorder::default();
        let rows: Vec<Record> = rows.into_iter().map(|row| recorder.record(row)).collect();
        let (class_id, origin) = rows.first().map(pool_of).ok_or(PoolError::Empty)?;
        for row in &rows {
            let (other_class, other) = pool_of(row);
            if other != origin {
                return Err(PoolError::MixedOrigins { first: origin, second: other });
            }
            if other_class != class_id {
                return Err(PoolError::MixedClasses { first: class_id.clone(), second: other_class.clone() });
            }
        }
        Ok(Self::sorted(class_id.clone(), origin, rows))
    }

    /// Sorts any rows into their pools, by class and then by origin.
    pub fn split<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Self> {
        let mut recorder = Recorder::default();
        Self::split_records(rows.into_iter().map(|row| recorder.record(row)).collect())
    }

    /// The same of records.
    pub fn split_records(rows: Vec<Record>) -> Vec<Self> {
        let Some((class_id, origin)) = rows.first().map(pool_of).map(|(class, origin)| (class.clone(), origin)) else {
            return Vec::new();
        };
        // What is usual is not moved: it may be most of the memory that there is.
        if rows.iter().all(|row| pool_of(row) == (&class_id, origin)) {
            return vec![Self::sorted(class_id, origin, rows)];
        }
        let mut pools: BTreeMap<(ClassId, Origin), Vec<Record>> = BTreeMap::new();
        for row in rows {
            let (class_id, origin) = pool_of(&row);
            pools.entry((class_id.clone(), origin)).or_default().push(row);
        }
        pools.into_iter().map(|((class_id, origin), rows)| Self::sorted(class_id, origin, rows)).collect()
    }

    fn sorted(class_id: ClassId, origin: Origin, mut rows: Vec<Record>) -> Self {
        let devices = order::sort(&mut rows);
        Self { class_id, origin, rows, devices }
    }

    /// The class of every row.
    pub fn class_id(&self) -> &ClassId {
        &self.class_id
    }

    /// The origin of every row.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The rows, by point, solution, device and identity. Never empty.
    pub fn rows(&self) -> &[Record] {
        &self.rows
    }

    /// The devices of all rows, by identity: each one's place is its number in its rows.
    pub fn devices(&self) -> &[DeviceId] {
        &self.devices
    }

    /// What a fit of `sweep` makes of the rows: observations, and rejected rows with their reasons.
    pub fn sift(&self, sweep: Sweep) -> Sifted<'_> {
        let SiftedRows { rows, mut rejected, devices_total } = self.sift_rows(sweep);
        let mut observations = Vec::with_capacity(rows.len());
        for (row, estimate_ns) in rows {
            match Observation::of(row, estimate_ns) {
                Ok(observation) => observations.push(observation),
                Err((reason, detail)) => rejected.push(Rejected { row, reason, detail, residual: None }),
            }
        }
        Sifted { observations, rejected, devices_total }
    }

    /// The same for sweeps that move no bytes: rows with their estimates, nanoseconds.
    pub(crate) fn sift_rows(&self, sweep: Sweep) -> SiftedRows<'_> {
        let mut sifted = SiftedRows { rows: Vec::new(), rejected: Vec::new(), devices_total: 0 };
        let mut measured = vec![false; self.devices.len()];
        for row in self.rows.iter().filter(|row| row.work().sweep == sweep) {
            if !matches!(row.context().role, Role::Fit | Role::Anchor) {
                continue;
            }
            measured[row.device_number as usize] = true;
            match estimate_ns(row) {
                Ok(estimate_ns) => sifted.rows.push((row, estimate_ns)),
                Err((reason, detail)) => sifted.rejected.push(Rejected { row, reason, detail, residual: None }),
            }
        }
        sifted.devices_total = measured.into_iter().filter(|measured| *measured).count();
        sifted
    }
}

fn pool_of(row: &Record) -> (&ClassId, Origin) {
    (&row.device().class_id, row.context().origin)
}

vocabulary! {
    /// Why a row that was measured for a fit feeds none.
    RejectReason, "reject reason" {
        /// The device computed a wrong result.
        WrongResult => "wrong_result",
        /// It could not run.
        Invalid => "invalid",
        /// It was not tried.
        Skipped => "skipped",
        /// The device was held back meanwhile.
        Throttled => "throttled",
        /// Another process used the device.
        Contended => "contended",
        /// Its counts may be too low.
        Opaque => "opaque",
        /// It has no estimate, or none that is a positive time.
        NoEstimate => "no_estimate",
        /// It moves no bytes, or so many in so short a time that the rate is no number.
        NoRate => "no_rate",
        /// Its byte counts are not exact.
        BytesNotExact => "bytes_not_exact",
        /// Its distinct bytes are too few to speak for main memory.
        SmallFootprint => "small_footprint",
        /// Its device stands apart from its class in this kernel.
        OutlierDevice => "outlier_device",
        /// In its hour the whole fleet was slower or faster in this kernel.
        OutlierHour => "outlier_hour",
        /// The devices are two groups, and its device is one of the smaller.
        SmallerGroup => "smaller_group",
        /// It is far off the line of the others.
        Residual => "residual",
        /// Past the knee of its sweep another resource binds: it belongs to another leg.
        BeyondKnee => "beyond_knee",
        /// It is mostly launch, and says nothing of rates.
        LaunchBound => "launch_bound",
        /// It is slow at a working set below those that the cache serves, so that it is no capacity that binds it.
        SlowBelowCache => "slow_below_cache",
        /// It has too few warps to say how full the device is.
        Starved => "starved",
    }
}

/// What stands between a row and how it ended, in the particulars of one that did not pass.
const OUTCOME_MARK: &str = ", it ended as ";

/// Why a row ended as it did, of the particulars of one that did not pass: without the row's own name, so that rows that
/// ended for one reason can be counted together.
pub fn cause(detail: &str) -> &str {
    let Some((row, outcome)) = detail.split_once(OUTCOME_MARK) else { return detail };
    let Some((_, cause)) = outcome.split_once(": ") else { return detail };
    // A reason may name its point and solution again.
    let named = row.rsplit_once(" on ").map_or(row, |(named, _)| named);
    cause.strip_prefix(named).map_or(cause, str::trim_start)
}

/// A row that a fit did not use.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejected<'a> {
    /// The row.
    pub row: &'a Record,
    /// Why.
    pub reason: RejectReason,
    /// The particulars, for people.
    pub detail: String,
    /// How much slower than its fit it is: 0.25 is 25%, negative is faster; none where it was judged by another thing.
    pub residual: Option<f64>,
}

/// The rows of one sweep that feed fits, with their estimates in nanoseconds, and those that do not.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SiftedRows<'a> {
    pub(crate) rows: Vec<(&'a Record, f64)>,
    pub(crate) rejected: Vec<Rejected<'a>>,
    /// Devices with any row measured for fits.
    pub(crate) devices_total: usize,
}

/// The rows of one sweep, sorted out.
#[derive(Debug, Clone, PartialEq)]
pub struct Sifted<'a> {
    /// Rows that feed fits.
    pub observations: Vec<Observation<'a>>,
    /// Rows that were measured for fits and feed none.
    pub rejected: Vec<Rejected<'a>>,
    /// Devices with any row measured for fits.
    pub devices_total: usize,
}

/// A row that feeds fits, with its bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<'a> {
    /// The row.
    pub row: &'a Record,
    /// Bytes moved by one launch.
    pub bytes: Bytes,
    /// Bytes per second at the row's estimate: positive and finite.
    pub rate: f64,
}

/// The estimate of a row that feeds fits, nanoseconds, or why it feeds none.
fn estimate_ns(row: &Record) -> Result<f64, (RejectReason, String)> {
    let (work, context, device) = (row.work(), row.context(), &row.device().device_uuid);
    let rejected = match context.status {
        Status::Passed | Status::NoCheck => None,
        Status::Failed => Some(RejectReason::WrongResult),
        Status::Invalid => Some(RejectReason::Invalid),
        Status::Skipped => Some(RejectReason::Skipped),
        Status::Throttled => Some(RejectReason::Throttled),
        Status::Contended => Some(RejectReason::Contended),
    };
    if let Some(rejected) = rejected {
        let reason = context.reason.as_deref().unwrap_or("no reason was given");
        let what = format!("{} {} on {device}", work.point, work.solution);
        return Err((rejected, format!("{what}{OUTCOME_MARK}{}: {reason}", context.status)));
    }
    if row.counts().opaque {
        return Err((RejectReason::Opaque, "its counts may be too low".to_owned()));
    }
    if device.as_str().is_empty() {
        return Err((RejectReason::Invalid, "its device has no name".to_owned()));
    }
    let estimate_ns = row.estimate_ns().filter(|_| row.feeds_fits());
    estimate_ns.ok_or_else(|| (RejectReason::NoEstimate, format!("{} rounds were measured", context.rounds_done)))
}

impl<'a> Observation<'a> {
    fn of(row: &'a Record, estimate_ns: f64) -> Result<Self, (RejectReason, String)> {
        let bytes = Bytes(row.counts().bytes_moved());
        let rate = bytes / Seconds::from_ns(estimate_ns);
        if !(rate.0.is_finite() && rate.0 > 0.0) {
            return Err((RejectReason::NoRate, format!("{} bytes in {estimate_ns} ns", bytes.0)));
        }
        Ok(Self { row, bytes, rate: rate.0 })
    }

    /// The device.
    pub fn device(&self) -> &'a DeviceId {
        &self.row.device().device_uuid
    }

    /// The condition that the row was measured under. Rows of different conditions are never pooled.
    pub(crate) fn condition(&self) -> Condition<'a> {
        Condition::of(self.row)
    }
}

/// Condition of a constant. A part that is absent was not known, or does not restrict it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Condition<'a> {
    /// `alone` or `node_full`.
    pub neighbours: Option<&'a str>,
    /// `burst` or `sustained`.
    pub load: Option<&'a str>,
    /// The kernel and its number format.
    pub kernel: Option<(&'a str, Dtype)>,
}

impl<'a> Condition<'a> {
    /// The condition that a row was measured under.
    pub(crate) fn of(row: &'a Record) -> Self {
        let context = row.context();
        Self { neighbours: context.neighbours.as_deref(), load: context.load.as_deref(), kernel: None }
    }
}

impl Condition<'_> {
    /// The condition as a document states it: names and values.
    pub fn to_map(&self) -> BTreeMap<String, String> {
        let (kernel, dtype) = self.kernel.unzip();
        let parts = [
            ("neighbours", self.neighbours),
            ("load", self.load),
            ("kernel", kernel),
            ("dtype", dtype.map(Dtype::name)),
        ];
        parts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.to_owned()))).collect()
    }
}
