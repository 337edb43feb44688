//! Bandwidth of main memory, from stream rows: a demonstrated floor, and the asymptote of a line.
//!
//! **Footprint.** Only rows whose distinct bytes are at least four times the last-level cache (or more, as
//! [`Options::footprint_factor`] says) speak for main memory.
//! Without that rule the fastest row of a sweep is one that lives in the cache, and the cache is published as memory:
//! on an H200 the scale kernel at 32 MiB beats every row that reaches DRAM.
//!
//! **Floor.** The largest class median over all (point, solution): a rate that the class has shown, with the row that
//! shows it. **Asymptote.** Over the best solution of each size, `time = latency + bytes / bandwidth`.

use std::collections::{BTreeMap, BTreeSet};

use super::class::{Apart, ClassRule, ClassStudy};
use super::interval::{self, Domain, Replicate, Spread};
use super::line::{Line, fit_line};
use super::pool::{Condition, Group, Observation, Pool, RejectReason, Rejected};
use super::record::Record;
use super::sweeps::curve;
use super::{Coverage, NotIdentified, Options, Witness};
use crate::id::DeviceId;
use crate::point::{Dtype, Sweep};
use crate::statistics::Interval;
use crate::units::{Bytes, BytesPerSecond, Seconds};

mod replicates;

/// Points of a line may show so much more than the line tends to, or than its interval holds, relative, as noise makes of
/// points that are large and therefore near to it.
const BELOW_MAX: f64 = 0.01;

/// One fitted quantity under one condition.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted<'a, T> {
    /// Under which condition it holds.
    pub condition: Condition<'a>,
    /// What it rests on.
    pub coverage: Coverage,
    /// The only device behind it, where there is just one: then it is a constant of that device.
    pub only_device: Option<&'a DeviceId>,
    /// The value, or why there is none.
    pub outcome: Result<T, NotIdentified>,
}

/// A demonstrated floor of the bandwidth.
#[derive(Debug, Clone, PartialEq)]
pub struct Floor {
    /// Class median of the best (point, solution).
    pub bandwidth: BytesPerSecond,
    /// The row nearest to it.
    pub witness: Witness,
}

/// The line's two parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Asymptote {
    /// Inverse of the slope.
    pub bandwidth: BytesPerSecond,
    /// How well that is known, bytes per second.
    pub bandwidth_spread: Spread,
    /// The intercept, or why it is no latency.
    pub latency: Result<Seconds, NotIdentified>,
    /// How well that is known, seconds. The lower end may be negative: then the rows do not exclude zero.
    pub latency_spread: Spread,
    /// Largest relative residual of the line.
    pub max_relative_residual: f64,
    /// Bandwidth and latency of each replicate, bytes per second and seconds.
    pub replicates: Vec<(f64, f64)>,
}

/// Everything that stream rows say of one pool.
#[derive(Debug, Clone, PartialEq)]
pub struct BandwidthFit<'a> {
    /// Floors: for each condition one over all kernels, then one for each kernel and number format.
    pub floors: Vec<Fitted<'a, Floor>>,
    /// Asymptotes, for each condition, kernel and number format.
    pub asymptotes: Vec<Fitted<'a, Asymptote>>,
    /// Rows measured for these constants that did not feed them.
    pub rejected: Vec<Rejected<'a>>,
}

impl<'a> BandwidthFit<'a> {
    /// The floors over all kernels by condition, where there is one, bytes per second.
    pub(crate) fn over_kernels(&self) -> BTreeMap<Condition<'a>, f64> {
        let of_memory = |floor: &Fitted<'a, Floor>| Some(floor.outcome.as_ref().ok()?.bandwidth.0);
        let over_kernels = self.floors.iter().filter(|floor| floor.condition.kernel.is_none());
        over_kernels.filter_map(|floor| Some((floor.condition, of_memory(floor)?))).collect()
    }
}

/// Observations that belong together, and the rows beside them that feed nothing.
type Part<'a> = (Vec<Observation<'a>>, Vec<&'a Record>);

/// Fits the bandwidth of main memory.
pub fn fit<'a>(pool: &'a Pool, options: &Options) -> BandwidthFit<'a> {
    fit_studied(pool, options, &ClassStudy::default())
}

/// The same; families that were studied are not judged again.
pub(crate) fn fit_studied<'a>(pool: &'a Pool, options: &Options, study: &ClassStudy<'a>) -> BandwidthFit<'a> {
    let sifted = pool.sift(Sweep::Stream);
    let mut rejected = sifted.rejected;
    let (observations, of_outliers) = without_outliers(sifted.observations, study, options);
    rejected.extend(of_outliers);
    let unfit: Vec<&'a Record> = rejected.iter().map(|rejected| rejected.row).collect();
    rejected.extend(observations.iter().filter_map(|observation| ruled_out(observation, options)));
    rejected.sort_by(|left, right| left.row.key().cmp(right.row.key()));

    // Rows that feed nothing have a place too: what was measured for and not identified must be said.
    let mut conditions: BTreeMap<Condition<'a>, Part<'a>> = BTreeMap::new();
    for observation in observations {
        conditions.entry(observation.condition()).or_default().0.push(observation);
    }
    for row in unfit {
        conditions.entry(Condition::of(row)).or_default().1.push(row);
    }
    if conditions.is_empty() {
        conditions.insert(Condition::default(), Default::default());
    }

    let mut result = BandwidthFit { floors: Vec::new(), asymptotes: Vec::new(), rejected };
    let devices_total = sifted.devices_total;
    for (condition, (observations, unfit)) in conditions {
        let study = Study { options, condition, observations, devices_total, unfit };
        result.floors.push(study.floor());
        for part in study.by_kernel() {
            result.floors.push(part.floor());
            result.asymptotes.push(part.asymptote());
        }
    }
    result
}

/// Parts observations from those of devices and hours that stand apart in the same kernel, as its rows that speak for
/// main memory show. With few devices none is known to.
fn without_outliers<'a>(
    observations: Vec<Observation<'a>>,
    study: &ClassStudy<'a>,
    options: &Options,
) -> (Vec<Observation<'a>>, Vec<Rejected<'a>>) {
    let rows = observations.iter().map(|observation| observation.row);
    let memory: Vec<&'a Record> = rows.filter(|row| row.speaks_for_dram(options.footprint_factor)).collect();
    let apart = Apart::of(&memory, study, ClassRule::default());
    let (mut kept, mut rejected) = (Vec::new(), Vec::new());
    for observation in observations {
        match curve::apart(&apart, observation.row) {
            Some(row) => rejected.push(row),
            None => kept.push(observation),
        }
    }
    (kept, rejected)
}

/// The rule that keeps a row from speaking for main memory, if one does.
fn ruled_out<'a>(observation: &Observation<'a>, options: &Options) -> Option<Rejected<'a>> {
    let row = observation.row;
    let (reason, detail) = if !row.counts().bytes_exact {
        (RejectReason::BytesNotExact, "its byte counts are not exact".to_owned())
    } else if !row.speaks_for_dram(options.footprint_factor) {
        let (found, needed) =
            (Bytes(row.counts().bytes_distinct), Bytes(row.dram_footprint_bytes(options.footprint_factor)));
        (RejectReason::SmallFootprint, format!("it touches {found}, and {needed} are needed"))
    } else {
        return None;
    };
    Some(Rejected { row, reason, detail, residual: None })
}

/// The observations that one condition, and perhaps one kernel, leaves.
struct Study<'a, 'o> {
    options: &'o Options,
    condition: Condition<'a>,
    observations: Vec<Observation<'a>>,
    devices_total: usize,
    /// Rows measured for this that feed nothing.
    unfit: Vec<&'a Record>,
}

impl<'a> Study<'a, '_> {
    /// One study for each kernel and number format.
    fn by_kernel(&self) -> Vec<Self> {
        let kernel_of = |row: &'a Record| (row.work().kernel.as_str(), row.work().dtype);
        let mut kernels: BTreeMap<(&'a str, Dtype), Part<'a>> = BTreeMap::new();
        for observation in &self.observations {
            kernels.entry(kernel_of(observation.row)).or_default().0.push(*observation);
        }
        for row in &self.unfit {
            kernels.entry(kernel_of(row)).or_default().1.push(row);
        }
        kernels
            .into_iter()
            .map(|(kernel, (observations, unfit))| Self {
                condition: Condition { kernel: Some(kernel), ..self.condition },
                observations,
                unfit,
                ..*self
            })
            .collect()
    }

    /// Groups that speak for main memory, or why there are none.
    fn memory_groups(&self) -> Result<Vec<Group<'a>>, NotIdentified> {
        if self.observations.is_empty() {
            return Err(NotIdentified::NoRows { rejected: self.unfit.len() });
        }
        let exact = self.observations.iter().copied().filter(|observation| observation.row.counts().bytes_exact);
        let exact: Vec<Observation<'a>> = exact.collect();
        let size = |observation: &&Observation<'a>| (observation.row.counts().bytes_distinct, observation.row.key());
        let Some(largest) = exact.iter().max_by(|left, right| size(left).cmp(&size(right))) else {
            return Err(NotIdentified::NoExactRows { rows: self.observations.len() });
        };
        let factor = self.options.footprint_factor;
        let memory: Vec<Observation<'a>> =
            exact.iter().copied().filter(|observation| observation.row.speaks_for_dram(factor)).collect();
        if memory.is_empty() {
            let needed = Bytes(largest.row.dram_footprint_bytes(factor));
            return Err(NotIdentified::SmallFootprint {
                largest: Bytes(largest.row.counts().bytes_distinct),
                needed,
                factor,
            });
        }
        Ok(Group::all_of(&memory))
    }

    /// The floor over these observations.
    fn floor(&self) -> Fitted<'a, Floor> {
        let points_total = Group::all_of(&self.observations).len();
        let groups = self.memory_groups().map(Group::shown);
        let points_used = groups.as_ref().map_or(0, Vec::len);
        // Ties go to the first name, so that the answer does not depend on the order of rows.
        let best = groups.map(|groups| {
            groups.into_iter().reduce(|best, next| if next.class_rate > best.class_rate { next } else { best })
        });
        let best = best.and_then(|best| best.ok_or(NotIdentified::NoRows { rejected: self.unfit.len() }));
        let devices = Group::devices_of(&best);
        let outcome = best.and_then(|group| {
            let witness = witness(&group).ok_or(NotIdentified::NoRows { rejected: self.unfit.len() })?;
            Ok(Floor { bandwidth: BytesPerSecond(group.class_rate), witness })
        });
        self.fitted(&devices, points_used, points_total, outcome)
    }

    /// The line over these observations, which are of one kernel and number format.
    fn asymptote(&self) -> Fitted<'a, Asymptote> {
        let sizes: BTreeSet<Bytes> = self.observations.iter().map(|observation| observation.bytes).collect();
        let groups = self.memory_groups().map(Group::with_quorum_by_size).map(Group::leveled);
        let curve = groups.as_ref().map(|groups| best_by_size(groups, |group| Some(group.class_rate)));
        let curve = curve.map_err(|reason| *reason);
        let devices = Group::devices_of(curve.iter().flatten().map(|(group, _)| *group));
        let points_used = curve.as_ref().map_or(0, Vec::len);
        let outcome = curve.and_then(|curve| {
            let groups = groups.as_deref().unwrap_or_default();
            asymptote(groups, &curve, &devices, self.options.sizes_min)
        });
        self.fitted(&devices, points_used, sizes.len(), outcome)
    }

    fn fitted<T>(
        &self,
        devices: &BTreeMap<u32, &'a DeviceId>,
        points_used: usize,
        points_total: usize,
        outcome: Result<T, NotIdentified>,
    ) -> Fitted<'a, T> {
        let (devices_used, devices_total) = (devices.len(), self.devices_total);
        let coverage = Coverage { devices_used, devices_total, points_used, points_total };
        let only_device = devices.first_key_value().map(|(_, device)| *device).filter(|_| devices_used == 1);
        Fitted { condition: self.condition, coverage, only_device, outcome }
    }
}

/// The row nearest to the class median of a group; ties go to the smaller row identity.
fn witness(group: &Group<'_>) -> Option<Witness> {
    let distance = |observation: &Observation<'_>| (observation.rate - group.class_rate).abs();
    let nearest = group.observations.iter().min_by(|left, right| {
        distance(left).total_cmp(&distance(right)).then_with(|| left.row.key().cmp(right.row.key()))
    })?;
    let row = nearest.row;
    let rate_at = |ns: f64| (nearest.bytes / Seconds::from_ns(ns)).0;
    let interval = row.interval_ns().map(|ns| Interval { low: rate_at(ns.high), high: rate_at(ns.low) });
    Some(Witness {
        row_id: row.row_id(),
        device_uuid: row.device().device_uuid.clone(),
        point: row.work().point.clone(),
        solution: row.work().solution.clone(),
        value: nearest.rate,
        interval: interval.filter(|interval| interval.low.is_finite() && interval.high.is_finite()),
    })
}

/// For each size the group of the largest rate, with that rate; groups without a rate are passed over.
fn best_by_size<'g, 'a>(
    groups: &'g [Group<'a>],
    rate: impl Fn(&Group<'a>) -> Option<f64>,
) -> Vec<(&'g Group<'a>, f64)> {
    let mut best: BTreeMap<Bytes, (&Group<'a>, f64)> = BTreeMap::new();
    for group in groups {
        let Some(rate) = rate(group) else { continue };
        let entry = best.entry(group.bytes).or_insert((group, rate));
        if rate > entry.1 {
            *entry = (group, rate);
        }
    }
    best.into_values().collect()
}

/// The line through (bytes, seconds) of a curve of rates.
fn line_of(curve: &[(&Group<'_>, f64)], sizes_min: u64) -> Result<Line, NotIdentified> {
    let times = curve.iter().map(|(group, rate)| (group.bytes, (group.bytes / BytesPerSecond(*rate)).0));
    growing_line(&times.collect::<Vec<_>>(), sizes_min)
}

/// A line whose slope is a bandwidth.
fn growing_line(times: &[(Bytes, f64)], sizes_min: u64) -> Result<Line, NotIdentified> {
    if (times.len() as u64) < sizes_min {
        return Err(NotIdentified::TooFewSizes { sizes: times.len(), needed: sizes_min });
    }
    let points: Vec<(f64, f64)> = times.iter().map(|(bytes, seconds)| (bytes.0 as f64, *seconds)).collect();
    let line = fit_line(&points)?;
    let growing = line.slope > 0.0 && line.slope.recip().is_finite();
    if growing { Ok(line) } else { Err(NotIdentified::NoGrowth { slope: line.slope }) }
}

/// Fits the class curve, and its intervals from the replicates that there are.
fn asymptote(
    groups: &[Group<'_>],
    curve: &[(&Group<'_>, f64)],
    devices: &BTreeMap<u32, &DeviceId>,
    sizes_min: u64,
) -> Result<Asymptote, NotIdentified> {
    let line = line_of(curve, sizes_min)?;
    let bandwidth = line.slope.recip();
    let (replicates, replicate) = if devices.len() == 1 {
        (replicates::of_rounds(curve, sizes_min), Replicate::Round)
    } else {
        (replicates::of_devices(groups, devices, sizes_min), Replicate::Device)
    };
    let (bandwidth_spread, latency_spread, replicates) = match replicates {
        Err(why) => (Spread::none(why), Spread::none(why), Vec::new()),
        Ok(lines) => {
            let pairs: Vec<(f64, f64)> = lines.iter().map(|line| (line.slope.recip(), line.intercept)).collect();
            let (bandwidths, latencies): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
            let of_bandwidth = interval::of(&bandwidths, bandwidth, replicate, Domain::Positive);
            (of_bandwidth, interval::of(&latencies, line.intercept, replicate, Domain::Real), pairs)
        }
    };
    let shown = curve.iter().map(|(_, rate)| *rate).fold(0.0, f64::max);
    let highest = bandwidth_spread.interval.map_or(bandwidth, |interval| interval.high.max(bandwidth));
    if shown > highest * (1.0 + BELOW_MAX) {
        let (shown, bandwidth) = (BytesPerSecond(shown), BytesPerSecond(bandwidth));
        return Err(NotIdentified::BelowItsPoints { shown, bandwidth });
    }
    let latency = match line.intercept {
        seconds if seconds > 0.0 => Ok(Seconds(seconds)),
        seconds => Err(NotIdentified::NoLatency { seconds: Seconds(seconds) }),
    };
    Ok(Asymptote {
        bandwidth: BytesPerSecond(bandwidth),
        bandwidth_spread,
        latency,
        latency_spread,
        max_relative_residual: line.max_relative_residual,
        replicates,
    })
}
