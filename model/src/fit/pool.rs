//! The rows that may be fitted together, and what becomes of each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::devices::{LEVELED_MIN, point_levels};
use crate::id::{ClassId, DeviceId};
use crate::point::{Dtype, Sweep};
use crate::row::{Origin, Role, Row, Status};
use crate::statistics::median;
use crate::units::{Bytes, Seconds};
use crate::vocabulary;

/// Rows of one device class and one origin, in an order that does not depend on where they came from.
#[derive(Debug, Clone, PartialEq)]
pub struct Pool<'a> {
    class_id: &'a ClassId,
    origin: Origin,
    rows: Vec<&'a Row>,
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

impl<'a> Pool<'a> {
    /// Pools rows.
    ///
    /// # Errors
    /// [`PoolError`], where the rows are none, or of several origins or classes.
    pub fn new(rows: impl IntoIterator<Item = &'a Row>) -> Result<Self, PoolError> {
        let rows: Vec<&Row> = rows.into_iter().collect();
        let first = *rows.first().ok_or(PoolError::Empty)?;
        for row in &rows {
            if row.identity.origin != first.identity.origin {
                return Err(PoolError::MixedOrigins { first: first.identity.origin, second: row.identity.origin });
            }
            if row.device.class_id != first.device.class_id {
                let (first, second) = (first.device.class_id.clone(), row.device.class_id.clone());
                return Err(PoolError::MixedClasses { first, second });
            }
        }
        Ok(Self::sorted(&first.device.class_id, first.identity.origin, rows))
    }

    /// Sorts any rows into their pools, by class and then by origin.
    pub fn split(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Self> {
        let mut pools: BTreeMap<(&ClassId, Origin), Vec<&Row>> = BTreeMap::new();
        for row in rows {
            pools.entry((&row.device.class_id, row.identity.origin)).or_default().push(row);
        }
        pools.into_iter().map(|((class_id, origin), rows)| Self::sorted(class_id, origin, rows)).collect()
    }

    fn sorted(class_id: &'a ClassId, origin: Origin, mut rows: Vec<&'a Row>) -> Self {
        // Row identities are unique; the rest of the key only orders rows that were never given one.
        rows.sort_by_cached_key(|row| {
            let estimate_bits = row.timing.estimate_ns.map(f64::to_bits);
            let identity = (&row.identity.row_id, &row.identity.content_hash, &row.device.device_uuid);
            (identity, &row.work.point, &row.work.solution, estimate_bits)
        });
        Self { class_id, origin, rows }
    }

    /// The class of every row.
    pub fn class_id(&self) -> &'a ClassId {
        self.class_id
    }

    /// The origin of every row.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// The rows, by identity. Never empty.
    pub fn rows(&self) -> &[&'a Row] {
        &self.rows
    }

    /// What a fit of `sweep` makes of the rows: observations, and rejected rows with their reasons.
    pub fn sift(&self, sweep: Sweep) -> Sifted<'a> {
        let SiftedRows { rows, mut rejected, devices } = self.sift_rows(sweep);
        let mut observations = Vec::with_capacity(rows.len());
        for (row, estimate_ns) in rows {
            match Observation::of(row, estimate_ns) {
                Ok(observation) => observations.push(observation),
                Err((reason, detail)) => rejected.push(Rejected { row, reason, detail, residual: None }),
            }
        }
        Sifted { observations, rejected, devices }
    }

    /// The same for sweeps that move no bytes: rows with their estimates, nanoseconds.
    pub(crate) fn sift_rows(&self, sweep: Sweep) -> SiftedRows<'a> {
        let mut sifted = SiftedRows { rows: Vec::new(), rejected: Vec::new(), devices: BTreeSet::new() };
        for row in self.rows.iter().copied().filter(|row| row.work.sweep == sweep) {
            if !matches!(row.identity.role, Role::Fit | Role::Anchor) {
                continue;
            }
            sifted.devices.insert(&row.device.device_uuid);
            match estimate_ns(row) {
                Ok(estimate_ns) => sifted.rows.push((row, estimate_ns)),
                Err((reason, detail)) => sifted.rejected.push(Rejected { row, reason, detail, residual: None }),
            }
        }
        sifted
    }
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
    pub row: &'a Row,
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
    pub(crate) rows: Vec<(&'a Row, f64)>,
    pub(crate) rejected: Vec<Rejected<'a>>,
    pub(crate) devices: BTreeSet<&'a DeviceId>,
}

/// The rows of one sweep, sorted out.
#[derive(Debug, Clone, PartialEq)]
pub struct Sifted<'a> {
    /// Rows that feed fits.
    pub observations: Vec<Observation<'a>>,
    /// Rows that were measured for fits and feed none.
    pub rejected: Vec<Rejected<'a>>,
    /// Devices with any row measured for fits.
    pub devices: BTreeSet<&'a DeviceId>,
}

/// A row that feeds fits, with its bandwidth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation<'a> {
    /// The row.
    pub row: &'a Row,
    /// Bytes moved by one launch.
    pub bytes: Bytes,
    /// Bytes per second at the row's estimate: positive and finite.
    pub rate: f64,
}

/// The estimate of a row that feeds fits, nanoseconds, or why it feeds none.
fn estimate_ns(row: &Row) -> Result<f64, (RejectReason, String)> {
    let rejected = match row.outcome.status {
        Status::Passed | Status::NoCheck => None,
        Status::Failed => Some(RejectReason::WrongResult),
        Status::Invalid => Some(RejectReason::Invalid),
        Status::Skipped => Some(RejectReason::Skipped),
        Status::Throttled => Some(RejectReason::Throttled),
        Status::Contended => Some(RejectReason::Contended),
    };
    if let Some(rejected) = rejected {
        let reason = row.outcome.reason.as_deref().unwrap_or("no reason was given");
        let what = format!("{} {} on {}", row.work.point, row.work.solution, row.device.device_uuid);
        return Err((rejected, format!("{what}{OUTCOME_MARK}{}: {reason}", row.outcome.status)));
    }
    if row.counts.opaque {
        return Err((RejectReason::Opaque, "its counts may be too low".to_owned()));
    }
    if row.device.device_uuid.as_str().is_empty() {
        return Err((RejectReason::Invalid, "its device has no name".to_owned()));
    }
    let estimate_ns = row.timing.estimate_ns.filter(|_| row.feeds_fits());
    estimate_ns.ok_or_else(|| (RejectReason::NoEstimate, format!("{} rounds were measured", row.timing.rounds_done)))
}

impl<'a> Observation<'a> {
    fn of(row: &'a Row, estimate_ns: f64) -> Result<Self, (RejectReason, String)> {
        let bytes = Bytes(row.counts.bytes_moved());
        let rate = bytes / Seconds::from_ns(estimate_ns);
        if !(rate.0.is_finite() && rate.0 > 0.0) {
            return Err((RejectReason::NoRate, format!("{} bytes in {estimate_ns} ns", bytes.0)));
        }
        Ok(Self { row, bytes, rate: rate.0 })
    }

    /// The device.
    pub fn device(&self) -> &'a DeviceId {
        &self.row.device.device_uuid
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
    pub(crate) fn of(row: &'a Row) -> Self {
        let conditions = &row.conditions;
        Self { neighbours: conditions.neighbours.as_deref(), load: conditions.load.as_deref(), kernel: None }
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

/// Observations of one (point, solution), over devices.
#[derive(Debug, Clone)]
pub(crate) struct Group<'a> {
    /// Its observations by device.
    pub(crate) devices: BTreeMap<&'a DeviceId, Vec<Observation<'a>>>,
    /// Bytes moved by one launch, the same for all.
    pub(crate) bytes: Bytes,
    /// Median over devices of each device's median rate.
    pub(crate) class_rate: f64,
}

impl<'a> Group<'a> {
    /// Groups observations by (point, solution), in the order of their names. Rows that disagree about the bytes of one
    /// point are different groups: they did not do the same work.
    pub(crate) fn all_of(observations: &[Observation<'a>]) -> Vec<Self> {
        type Devices<'a> = BTreeMap<&'a DeviceId, Vec<Observation<'a>>>;
        let mut groups: BTreeMap<(&str, &str, Bytes), Devices<'a>> = BTreeMap::new();
        for observation in observations {
            let work = &observation.row.work;
            let devices = groups.entry((&work.point, &work.solution, observation.bytes)).or_default();
            devices.entry(observation.device()).or_default().push(*observation);
        }
        groups
            .into_iter()
            .filter_map(|((_, _, bytes), devices)| {
                let rates: Option<Vec<f64>> = devices.values().map(|rows| device_rate(rows)).collect();
                let class_rate = median(&rates?)?;
                Some(Self { devices, bytes, class_rate })
            })
            .collect()
    }

    /// The groups that at least half as many devices measured as any other, so that a solution which only one unusual
    /// device chose does not speak for its class.
    pub(crate) fn with_quorum(groups: Vec<Self>) -> Vec<Self> {
        let most = groups.iter().map(|group| group.devices.len()).max().unwrap_or(0);
        groups.into_iter().filter(|group| group.devices.len() * 2 >= most).collect()
    }

    /// The same rule within each size: in a class measured in shares, few devices have a size and all have some others.
    pub(crate) fn with_quorum_by_size(groups: Vec<Self>) -> Vec<Self> {
        let mut sizes: BTreeMap<Bytes, Vec<Self>> = BTreeMap::new();
        groups.into_iter().for_each(|group| sizes.entry(group.bytes).or_default().push(group));
        sizes.into_values().flat_map(Self::with_quorum).collect()
    }

    /// Groups whose rate the class has shown: of each size those with a quorum. A size that fewer than half as many devices
    /// measured as another, in a class measured in shares, counts from three devices on, with their own effects taken out.
    pub(crate) fn shown(groups: Vec<Self>) -> Vec<Self> {
        let groups = Self::with_quorum_by_size(groups);
        let most = groups.iter().map(|group| group.devices.len()).max().unwrap_or(0);
        let is_share = |group: &Self| group.devices.len() * 2 < most;
        if !groups.iter().any(is_share) {
            return groups;
        }
        let leveled = Self::leveled(groups.clone());
        let pairs = groups.into_iter().zip(leveled);
        let shown = pairs.map(|(group, leveled)| if is_share(&group) { leveled } else { group });
        shown.filter(|group| !is_share(group) || group.devices.len() >= LEVELED_MIN).collect()
    }

    /// The same groups with class rates as a device at the centre shows them, where devices and groups can be told apart: the
    /// device that is the median differs from group to group, and in a class measured in shares so do all devices.
    pub(crate) fn leveled(mut groups: Vec<Self>) -> Vec<Self> {
        let devices: BTreeSet<&DeviceId> = groups.iter().flat_map(|group| group.devices.keys().copied()).collect();
        if devices.len() < LEVELED_MIN {
            return groups;
        }
        let rates = |group: &Self| {
            let rates = group.devices.iter().filter_map(|(device, rows)| Some((*device, device_rate(rows)?)));
            rates.collect::<Vec<(&DeviceId, f64)>>()
        };
        let levels = point_levels(&groups.iter().map(rates).collect::<Vec<_>>());
        for (group, level) in groups.iter_mut().zip(levels) {
            group.class_rate = level.unwrap_or(group.class_rate);
        }
        groups
    }

    /// The rate of one device, if it measured the group.
    pub(crate) fn rate_of(&self, device: &DeviceId) -> Option<f64> {
        self.devices.get(device).and_then(|rows| device_rate(rows))
    }
}

/// Several rows of one device for the same work: their median.
fn device_rate(rows: &[Observation<'_>]) -> Option<f64> {
    let rates: Vec<f64> = rows.iter().map(|row| row.rate).collect();
    median(&rates)
}
