//! The rows of a sweep as works: what was timed, on which devices, and how long it takes on each and in the class.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::sync::Arc;

use crate::fit::class::{Apart, SmallerGroup};
use crate::fit::devices::{LEVELED_MIN, Outlier, point_levels};
use crate::fit::interval::{self, Domain, Replicate, Spread};
use crate::fit::pool::{RejectReason, Rejected};
use crate::fit::record::Record;
use crate::fit::{ConstantInterval, Coverage, Witness};
use crate::id::DeviceId;
use crate::point::Dtype;
use crate::statistics::{Interval, median};
use crate::units::Seconds;

/// One (point, solution), over devices.
#[derive(Debug, Clone)]
pub(crate) struct Work<'a> {
    /// A row of it: names and counts are those of all.
    pub(crate) row: &'a Record,
    /// Its rows, those of one device together. Works are copied from part to part, their rows are not.
    pub(crate) rows: Rc<[&'a Record]>,
    /// The time of each device by number, seconds.
    times: Rc<[(u32, f64)]>,
    /// Time as a device at the centre of the class shows it, seconds.
    class_s: f64,
}

/// Whose time is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Of {
    /// The class's.
    Class,
    /// One device's, by number.
    Device(u32),
    /// One round's, of a single device.
    Round(u64),
    /// The shortest sample of all, which is what the original fits.
    Best,
}

impl<'a> Work<'a> {
    /// Groups rows that feed fits, which are in the order of their pool, by what they timed, in the order of names. Rows
    /// that disagree about the counts of one point are different works.
    pub(crate) fn all_of(rows: &[&'a Record]) -> Vec<Self> {
        let mut works: Vec<(WorkKey<'a>, Vec<&'a Record>)> = Vec::new();
        for of_point in rows.chunk_by(|left, right| left.point_number == right.point_number) {
            let mut alike: BTreeMap<WorkKey<'a>, Vec<&'a Record>> = BTreeMap::new();
            for of_subject in of_point.chunk_by(|left, right| Arc::ptr_eq(left.subject(), right.subject())) {
                let fit = of_subject.iter().copied().filter(|row| row.feeds_fits());
                alike.entry(work_key(of_subject[0])).or_default().extend(fit);
            }
            works.extend(alike.into_iter().filter(|(_, rows)| !rows.is_empty()));
        }
        works.sort_by_key(|(key, _)| *key);
        works.into_iter().filter_map(|(_, rows)| Self::of(rows)).collect()
    }

    fn of(rows: Vec<&'a Record>) -> Option<Self> {
        let of_devices = rows.chunk_by(|left, right| left.device_number == right.device_number);
        let time = |rows: &[&'a Record]| Some((rows.first()?.device_number, device_s(rows)?));
        let times: Vec<(u32, f64)> = of_devices.map(time).collect::<Option<_>>()?;
        let class_s = median(&times.iter().map(|(_, seconds)| *seconds).collect::<Vec<_>>())?;
        Some(Self { row: rows.first()?, rows: rows.into(), times: times.into(), class_s })
    }

    /// The same works with class times as a device at the centre shows them, where devices share enough to tell.
    pub(crate) fn leveled(mut works: Vec<Self>) -> Vec<Self> {
        if devices_of(&works).len() < LEVELED_MIN {
            return works;
        }
        let levels = point_levels(&works.iter().map(|work| &*work.times).collect::<Vec<_>>());
        for (work, level) in works.iter_mut().zip(levels) {
            work.class_s = level.unwrap_or(work.class_s);
        }
        works
    }

    /// How many devices measured it.
    pub(crate) fn devices(&self) -> usize {
        self.times.len()
    }

    /// Its time, seconds: positive and finite.
    pub(crate) fn seconds(&self, of: Of) -> Option<f64> {
        let seconds = match of {
            Of::Class => Some(self.class_s),
            Of::Device(device) => {
                let at = self.times.binary_search_by_key(&device, |(number, _)| *number).ok();
                at.and_then(|at| self.times.get(at)).map(|(_, seconds)| *seconds)
            }
            Of::Round(round) => {
                let rounds = self.rows.iter().flat_map(|row| row.rounds()).filter(|(found, _)| *found == round);
                let times: Vec<f64> = rounds.map(|(_, median_ns)| median_ns).collect();
                median(&times).map(|ns| Seconds::from_ns(ns).0)
            }
            Of::Best => {
                let times = self.rows.iter().filter_map(|row| row.best_sample_ns());
                times.reduce(f64::min).map(|ns| Seconds::from_ns(ns).0).or(Some(self.class_s))
            }
        };
        seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }

    /// The row nearest to its class time, with `value` of seconds as the rate that it shows.
    pub(crate) fn witness(&self, value: impl Fn(f64) -> f64) -> Option<Witness> {
        let at = |ns: f64| value(Seconds::from_ns(ns).0);
        let distance = |row: &Record| (row.estimate_ns().unwrap_or(f64::INFINITY) * 1e-9 - self.class_s).abs();
        // A time that is next to nothing shows no rate.
        let shows = |row: &&Record| row.estimate_ns().is_some_and(|ns| at(ns).is_finite());
        let nearest = self.rows.iter().copied().filter(shows).min_by(|left, right| {
            let by_distance = distance(left).total_cmp(&distance(right));
            by_distance.then_with(|| left.key().cmp(right.key()))
        })?;
        let ends = nearest.interval_ns();
        let interval = ends.and_then(|ns| Interval { low: at(ns.high), high: at(ns.low) }.finite());
        Some(Witness {
            row_id: nearest.row_id(),
            device_uuid: nearest.device().device_uuid.clone(),
            point: nearest.work().point.clone(),
            solution: nearest.work().solution.clone(),
            value: at(nearest.estimate_ns()?),
            interval,
        })
    }

    /// Each of its rows, as left out for a reason.
    pub(crate) fn rejected(&self, reason: RejectReason, residual: Option<f64>, detail: &str) -> Vec<Rejected<'a>> {
        self.rows.iter().map(|row| Rejected { row, reason, detail: detail.to_owned(), residual }).collect()
    }
}

/// What makes rows one work: names, and counts.
type WorkKey<'a> = (&'a str, Dtype, &'a str, &'a str, (u64, u64, Option<u64>), (u64, u64, u64));

fn work_key<'a>(row: &'a Record) -> WorkKey<'a> {
    let (work, counts) = (row.work(), row.counts());
    let amounts = (counts.bytes_requested, counts.bytes_distinct, counts.working_set_bytes);
    let operations = (counts.flops, counts.scalar_ops, counts.tensor_ops);
    (&work.kernel, work.dtype, &work.point, &work.solution, amounts, operations)
}

/// Several rows of one device for the same work: their median, seconds.
fn device_s(rows: &[&Record]) -> Option<f64> {
    let times: Option<Vec<f64>> = rows.iter().map(|row| row.estimate_ns()).collect();
    median(&times?).map(|ns| Seconds::from_ns(ns).0)
}

/// The devices that measured any of these, by number.
pub(crate) fn devices_of<'a, 'w>(works: impl IntoIterator<Item = &'w Work<'a>>) -> BTreeMap<u32, &'a DeviceId>
where
    'a: 'w,
{
    let mut devices = BTreeMap::new();
    for row in works.into_iter().flat_map(|work| work.rows.iter()) {
        devices.entry(row.device_number).or_insert_with(|| &row.device().device_uuid);
    }
    devices
}

/// What a constant over `used` of the works of a part rests on, and its only device.
pub(crate) fn coverage<'a>(
    used: &[&Work<'a>],
    points_total: usize,
    devices_total: usize,
) -> (Coverage, Option<&'a DeviceId>) {
    let devices = devices_of(used.iter().copied());
    let (devices_used, points_used) = (devices.len(), used.len());
    let only_device = devices.into_values().next().filter(|_| devices_used == 1);
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
    let (replicate, replicates): (Replicate, Vec<Of>) = if devices.len() == 1 {
        let rows = works.iter().flat_map(|work| work.rows.iter());
        let rounds: BTreeSet<u64> =
            rows.flat_map(|row| row.rounds().map(|(round, _)| round)).filter(|round| *round >= 1).collect();
        (Replicate::Round, rounds.into_iter().map(Of::Round).collect())
    } else {
        (Replicate::Device, devices.into_keys().map(Of::Device).collect())
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
pub(crate) fn apart<'a>(apart: &Apart<'a>, row: &'a Record) -> Option<Rejected<'a>> {
    let (device, kernel) = (&row.device().device_uuid, &row.work().kernel);
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
