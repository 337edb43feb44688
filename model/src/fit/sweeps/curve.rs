//! The rows of a sweep as works: what was timed, on which devices, and how long it takes on each and in the class.

use std::collections::{BTreeMap, BTreeSet};

use crate::fit::class::{Apart, SmallerGroup};
use crate::fit::devices::{LEVELED_MIN, Outlier, point_levels};
use crate::fit::interval::{self, Domain, Replicate, Spread};
use crate::fit::pool::{RejectReason, Rejected};
use crate::fit::{ConstantInterval, Coverage, Witness};
use crate::id::DeviceId;
use crate::row::Row;
use crate::statistics::{Interval, median};
use crate::units::Seconds;

/// One (point, solution), over devices.
#[derive(Debug, Clone)]
pub(crate) struct Work<'a> {
    /// A row of it: names and counts are those of all.
    pub(crate) row: &'a Row,
    /// Its rows by device.
    pub(crate) devices: BTreeMap<&'a DeviceId, Vec<&'a Row>>,
    /// Time as a device at the centre of the class shows it, seconds.
    class_s: f64,
}

/// Whose time is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of<'a> {
    /// The class's.
    Class,
    /// One device's.
    Device(&'a DeviceId),
    /// One round's, of a single device.
    Round(u64),
    /// The shortest sample of all, which is what the original fits.
    Best,
}

impl<'a> Work<'a> {
    /// Groups rows that feed fits by what they timed, in the order of names. Rows that disagree about the counts of one
    /// point are different works.
    pub(crate) fn all_of(rows: &[&'a Row]) -> Vec<Self> {
        let mut works: BTreeMap<_, BTreeMap<&'a DeviceId, Vec<&'a Row>>> = BTreeMap::new();
        for &row in rows.iter().filter(|row| row.feeds_fits()) {
            let counts = &row.counts;
            let amounts = (counts.bytes_requested, counts.bytes_distinct, counts.working_set_bytes);
            let operations = (counts.flops, counts.scalar_ops, counts.tensor_ops);
            let key = (&row.work.kernel, row.work.dtype, &row.work.point, &row.work.solution, amounts, operations);
            works.entry(key).or_default().entry(&row.device.device_uuid).or_default().push(row);
        }
        let work = |devices: BTreeMap<&'a DeviceId, Vec<&'a Row>>| {
            let times: Option<Vec<f64>> = devices.values().map(|rows| device_s(rows)).collect();
            let class_s = median(&times?)?;
            Some(Self { row: devices.values().next()?.first()?, devices, class_s })
        };
        works.into_values().filter_map(work).collect()
    }

    /// The same works with class times as a device at the centre shows them, where devices share enough to tell.
    pub(crate) fn leveled(mut works: Vec<Self>) -> Vec<Self> {
        if devices_of(&works).len() < LEVELED_MIN {
            return works;
        }
        let times = works.iter().map(|work| {
            work.devices.iter().filter_map(|(device, rows)| Some((*device, device_s(rows)?))).collect::<Vec<_>>()
        });
        let levels = point_levels(&times.collect::<Vec<_>>());
        for (work, level) in works.iter_mut().zip(levels) {
            work.class_s = level.unwrap_or(work.class_s);
        }
        works
    }

    /// Its time, seconds: positive and finite.
    pub(crate) fn seconds(&self, of: Of<'_>) -> Option<f64> {
        let seconds = match of {
            Of::Class => Some(self.class_s),
            Of::Device(device) => self.devices.get(device).and_then(|rows| device_s(rows)),
            Of::Round(round) => {
                let rows = self.devices.values().flatten();
                let rounds = rows.flat_map(|row| &row.timing.rounds).filter(|found| found.round == round);
                let times: Vec<f64> = rounds.map(|found| found.median_ns).collect();
                median(&times).map(|ns| Seconds::from_ns(ns).0)
            }
            Of::Best => {
                let rows = self.devices.values().flatten();
                let samples = rows.flat_map(|row| row.timing.samples.iter().map(move |sample| (row, sample)));
                let counted = samples.filter(|(_, sample)| sample.accepted && sample.round >= 1);
                let enqueues = |row: &Row| row.timing.enqueues_per_sample.max(1) as f64;
                let times = counted.map(|(row, sample)| sample.ns as f64 / enqueues(row));
                times.reduce(f64::min).map(|ns| Seconds::from_ns(ns).0).or(Some(self.class_s))
            }
        };
        seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }

    /// The row nearest to its class time, with `value` of seconds as the rate that it shows.
    pub(crate) fn witness(&self, value: impl Fn(f64) -> f64) -> Option<Witness> {
        let at = |ns: f64| value(Seconds::from_ns(ns).0);
        let distance = |row: &Row| (row.timing.estimate_ns.unwrap_or(f64::INFINITY) * 1e-9 - self.class_s).abs();
        // A time that is next to nothing shows no rate.
        let shows = |row: &&Row| row.timing.estimate_ns.is_some_and(|ns| at(ns).is_finite());
        let nearest = self.devices.values().flatten().copied().filter(shows).min_by(|left, right| {
            let by_distance = distance(left).total_cmp(&distance(right));
            by_distance.then_with(|| left.identity.row_id.cmp(&right.identity.row_id))
        })?;
        let ends = nearest.timing.interval_low_ns.zip(nearest.timing.interval_high_ns);
        let interval = ends.and_then(|(low_ns, high_ns)| Interval { low: at(high_ns), high: at(low_ns) }.finite());
        Some(Witness {
            row_id: nearest.identity.row_id.clone(),
            device_uuid: nearest.device.device_uuid.clone(),
            point: nearest.work.point.clone(),
            solution: nearest.work.solution.clone(),
            value: at(nearest.timing.estimate_ns?),
            interval,
        })
    }

    /// Each of its rows, as left out for a reason.
    pub(crate) fn rejected(&self, reason: RejectReason, residual: Option<f64>, detail: &str) -> Vec<Rejected<'a>> {
        let rows = self.devices.values().flatten();
        rows.map(|row| Rejected { row, reason, detail: detail.to_owned(), residual }).collect()
    }
}

/// Several rows of one device for the same work: their median, seconds.
fn device_s(rows: &[&Row]) -> Option<f64> {
    let times: Option<Vec<f64>> = rows.iter().map(|row| row.timing.estimate_ns).collect();
    median(&times?).map(|ns| Seconds::from_ns(ns).0)
}

/// The devices that measured any of these.
pub(crate) fn devices_of<'a>(works: &[Work<'a>]) -> BTreeSet<&'a DeviceId> {
    works.iter().flat_map(|work| work.devices.keys().copied()).collect()
}

/// What a constant over `used` of the works of a part rests on, and its only device.
pub(crate) fn coverage<'a>(
    used: &[&Work<'a>],
    points_total: usize,
    devices_total: usize,
) -> (Coverage, Option<&'a DeviceId>) {
    let devices: BTreeSet<&'a DeviceId> = used.iter().flat_map(|work| work.devices.keys().copied()).collect();
    let (devices_used, points_used) = (devices.len(), used.len());
    let only_device = devices.first().copied().filter(|_| devices_used == 1);
    (Coverage { devices_used, devices_total, points_used, points_total }, only_device)
}

/// What refitting one replicate gave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Refit<const N: usize> {
    /// Its own values.
    Fitted([f64; N]),
    /// It has too few points to be a replicate.
    TooFew,
    /// Its points contradict the form.
    Failed,
}

/// Refits of each device where there are several, of each round of the single one else.
pub(crate) fn refits<const N: usize>(
    works: &[Work<'_>],
    fit: impl Fn(&[Option<f64>]) -> Refit<N>,
) -> (Replicate, Result<Vec<[f64; N]>, ConstantInterval>) {
    let devices = devices_of(works);
    let (replicate, replicates): (Replicate, Vec<Of<'_>>) = if devices.len() == 1 {
        let rows = works.iter().flat_map(|work| work.devices.values().flatten());
        let rounds: BTreeSet<u64> = rows
            .flat_map(|row| row.timing.rounds.iter().map(|round| round.round))
            .filter(|round| *round >= 1)
            .collect();
        (Replicate::Round, rounds.into_iter().map(Of::Round).collect())
    } else {
        (Replicate::Device, devices.into_iter().map(Of::Device).collect())
    };
    let mut found = Vec::new();
    for of in replicates {
        let times: Vec<Option<f64>> = works.iter().map(|work| work.seconds(of)).collect();
        // A round that not all points have is no replicate of the whole.
        if replicate == Replicate::Round && times.iter().any(Option::is_none) {
            continue;
        }
        match fit(&times) {
            Refit::Fitted(values) => found.push(values),
            Refit::TooFew => {}
            Refit::Failed => return (replicate, Err(ConstantInterval::ReplicateFailed)),
        }
    }
    (replicate, Ok(found))
}

/// The interval of one of the values that were refitted.
pub(crate) fn spread<const N: usize>(
    refitted: &(Replicate, Result<Vec<[f64; N]>, ConstantInterval>),
    which: impl Fn(&[f64; N]) -> f64,
    estimate: f64,
    domain: Domain,
) -> Spread {
    match &refitted.1 {
        Err(why) => Spread::none(*why),
        Ok(values) => interval::of(&values.iter().map(which).collect::<Vec<_>>(), estimate, refitted.0, domain),
    }
}

/// The row as left out, if its device or its hour stands apart in its family.
pub(crate) fn apart<'a>(apart: &Apart<'a>, row: &'a Row) -> Option<Rejected<'a>> {
    let (device, kernel) = (&row.device.device_uuid, &row.work.kernel);
    let (reason, slower, detail) = if let Some(Outlier { effect, z, .. }) = apart.device(row) {
        let (slower, z) = (libm::expm1(*effect), z.abs());
        let percent = slower * 100.0;
        let detail =
            format!("{kernel} on {device} takes {percent:+.1}% of time against its class, {z:.1} spreads away");
        (RejectReason::OutlierDevice, slower, detail)
    } else if let Some(SmallerGroup { devices, larger, slower }) = apart.smaller(row) {
        let percent = slower * 100.0;
        let detail = format!(
            "the devices are two groups in {kernel}: {devices}, of which {device} is one, take {percent:+.1}% of time \
             against the {larger} others"
        );
        (RejectReason::SmallerGroup, *slower, detail)
    } else {
        let hour = apart.hour(row)?;
        let (percent, devices) = (hour.slower * 100.0, hour.devices);
        let detail = format!("{kernel} took {percent:+.1}% of time on all {devices} devices measured in its hour");
        (RejectReason::OutlierHour, hour.slower, detail)
    };
    Some(Rejected { row, reason, detail, residual: Some(slower) })
}
