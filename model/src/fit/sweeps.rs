//! Constants of the sweeps beside `stream`: the proxy's cache, the last-level cache, the issue rate, the launch fill,
//! arithmetic peaks and the empty launch.
//!
//! Each is fitted for every solution and shape, under every condition apart; then the winner stands once more under the
//! condition alone, which is what predictions look for. Times are the class's: its centre's, with each device's
//! own effect taken out where devices share points. Intervals come from refits of each device, or of each round of a
//! single one.

use std::collections::BTreeMap;

use super::bandwidth::{self, BandwidthFit};
use super::class::{Apart, ClassRule, ClassStudy};
use super::estimated::{Estimated, Outcome};
use super::pool::{Condition, Pool, Rejected};
use super::record::Record;
use super::workers::{Workers, each};
use super::{Mode, NotIdentified, Options};
use crate::id::DeviceId;
use crate::point::{Dtype, Sweep};
use crate::units::Unit;
use curve::{Work, coverage};

mod capacity;
pub(crate) mod curve;
mod fill;
mod issue;
mod peak;
#[cfg(test)]
mod tests;

/// The kernel of `cache` that measures latency.
const LATENCY_KERNEL: &str = "chase";

/// What these sweeps say of one pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SweepFits<'a> {
    /// Constants, by sweep, condition and solution.
    pub estimated: Vec<Estimated<'a>>,
    /// Rows measured for them that did not feed them.
    pub rejected: Vec<Rejected<'a>>,
}

/// Fits every sweep that has rows, and the bandwidth of main memory before those that need it. Families that `study` holds
/// are not judged again; an empty one is as good.
pub fn fit<'a>(
    pool: &'a Pool,
    options: &Options,
    study: &ClassStudy<'a>,
    workers: &dyn Workers,
) -> (BandwidthFit<'a>, SweepFits<'a>) {
    let first = each(workers, vec![Piece::Memory, Piece::Launches], |piece| match piece {
        Piece::Memory => (Some(bandwidth::fit_studied(pool, options, study)), SweepFits::default()),
        Piece::Launches => (None, launches(pool, options, study)),
    });
    let (mut bandwidth, mut others) = (None, SweepFits::default());
    for (found, fits) in first {
        bandwidth = bandwidth.or(found);
        others.append(fits);
    }
    let bandwidth = bandwidth.unwrap_or_else(|| bandwidth::fit_studied(pool, options, study));
    let memory = bandwidth.over_kernels();
    let mut fits = SweepFits::default();
    if options.mode == Mode::Seed {
        for part in Taken::of(pool, Sweep::Stream, study, &mut fits) {
            peak::seed_memory(&part, options, &mut fits);
        }
    }
    let capacities = vec![(Sweep::WorkingSet, capacity::PROXY), (Sweep::Cache, capacity::LAST_LEVEL)];
    let capacities = each(workers, capacities, |(sweep, names)| {
        let mut fits = SweepFits::default();
        for mut part in Taken::of(pool, sweep, study, &mut fits) {
            // A rate of loads that wait for each other is none of a cache.
            part.works.retain(|work| work.row.work().kernel != LATENCY_KERNEL);
            capacity::fit(&part, names, memory.get(&part.condition).copied(), options.mode, &mut fits);
        }
        fits
    });
    capacities.into_iter().chain([others]).for_each(|found| fits.append(found));
    (bandwidth, fits)
}

/// What can be fitted at the same time.
enum Piece {
    /// The bandwidth of main memory.
    Memory,
    /// Sweeps that need nothing of it.
    Launches,
}

fn launches<'a>(pool: &'a Pool, options: &Options, study: &ClassStudy<'a>) -> SweepFits<'a> {
    let mut fits = SweepFits::default();
    let mut fills = BTreeMap::new();
    for part in Taken::of(pool, Sweep::Launch, study, &mut fits) {
        if let Some(fill) = fill::fit(&part, options.mode, &mut fits) {
            fills.insert(part.condition, fill);
        }
    }
    for part in Taken::of(pool, Sweep::Issue, study, &mut fits) {
        issue::fit(&part, fills.get(&part.condition), options.mode, &mut fits);
    }
    for part in Taken::of(pool, Sweep::Peak, study, &mut fits) {
        peak::peaks(&part, options.mode, &mut fits);
    }
    for part in Taken::of(pool, Sweep::Latency, study, &mut fits) {
        peak::launch_latency(&part, options.mode, &mut fits);
    }
    fits
}

impl<'a> SweepFits<'a> {
    fn append(&mut self, mut more: Self) {
        self.estimated.append(&mut more.estimated);
        self.rejected.append(&mut more.rejected);
    }
}

/// The rows of one sweep under one condition.
struct Taken<'a> {
    condition: Condition<'a>,
    works: Vec<Work<'a>>,
    /// Rows that feed nothing.
    unfit: usize,
    /// Devices that measured the sweep.
    devices_total: usize,
}

impl<'a> Taken<'a> {
    /// One for each condition; rows that feed nothing are noted in `fits`.
    fn of(pool: &'a Pool, sweep: Sweep, study: &ClassStudy<'a>, fits: &mut SweepFits<'a>) -> Vec<Self> {
        let sifted = pool.sift_rows(sweep);
        let rows: Vec<&'a Record> = sifted.rows.into_iter().map(|(row, _)| row).collect();
        let apart = Apart::of(&rows, study, ClassRule::default());
        let mut rejected = sifted.rejected;
        let mut conditions: BTreeMap<Condition<'a>, (Vec<&'a Record>, usize)> = BTreeMap::new();
        for row in rows {
            match curve::apart(&apart, row) {
                Some(outlier) => rejected.push(outlier),
                None => conditions.entry(Condition::of(row)).or_default().0.push(row),
            }
        }
        for rejected in &rejected {
            conditions.entry(Condition::of(rejected.row)).or_default().1 += 1;
        }
        fits.rejected.append(&mut rejected);
        let devices_total = sifted.devices_total;
        let taken = |(condition, (rows, unfit)): (Condition<'a>, (Vec<&'a Record>, usize))| Self {
            condition,
            works: Work::all_of(&rows),
            unfit,
            devices_total,
        };
        conditions.into_iter().map(taken).collect()
    }

    /// One part for each kernel, number format, solution and shape; `shape` names the sizes that are not swept.
    fn parts(&self) -> Vec<Part<'a>> {
        let mut parts: BTreeMap<PartKey<'a>, Vec<Work<'a>>> = BTreeMap::new();
        for work in &self.works {
            parts.entry(PartKey::of(work.row)).or_default().push(work.clone());
        }
        let part = |(key, works): (PartKey<'a>, Vec<Work<'a>>)| Part {
            condition: key.condition(self.condition),
            title: key.title(),
            dtype: key.dtype,
            works: Work::leveled(works),
            devices_total: self.devices_total,
        };
        parts.into_iter().map(part).collect()
    }

    /// All works as one part, under the condition alone.
    fn whole(&self) -> Part<'a> {
        Part {
            condition: self.condition.to_map(),
            title: String::new(),
            dtype: Dtype::F32,
            works: Work::leveled(self.works.clone()),
            devices_total: self.devices_total,
        }
    }

    /// A constant that no row feeds, under the condition alone.
    fn nothing(&self, name: &'static str, unit: Unit) -> Estimated<'a> {
        let reason = NotIdentified::NoRows { rejected: self.unfit }.to_string();
        self.whole().estimated(name, unit, &[], Outcome::NotIdentified(reason))
    }
}

/// What is fitted apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct PartKey<'a> {
    kernel: &'a str,
    dtype: Dtype,
    geometry: String,
    shape: (Option<u64>, Option<u64>),
}

impl<'a> PartKey<'a> {
    fn of(row: &'a Record) -> Self {
        let work = row.work();
        Self { kernel: &work.kernel, dtype: work.dtype, geometry: geometry(row), shape: (work.m, work.n) }
    }

    fn condition(&self, condition: Condition<'_>) -> BTreeMap<String, String> {
        let mut map = Condition { kernel: Some((self.kernel, self.dtype)), ..condition }.to_map();
        map.insert("solution".to_owned(), self.geometry.clone());
        let shape = [("m", self.shape.0), ("n", self.shape.1)];
        map.extend(shape.into_iter().filter_map(|(name, size)| Some((name.to_owned(), size?.to_string()))));
        map
    }

    /// For people: `contraction t32_b64 at m=512, n=512`.
    fn title(&self) -> String {
        let shape = match self.shape {
            (Some(m), Some(n)) => format!(" at m={m}, n={n}"),
            _ => String::new(),
        };
        format!("{} {} {}{shape}", self.kernel, self.dtype, self.geometry)
    }
}

/// The solution without the blocks that it was launched with: these follow from the size.
fn geometry(row: &Record) -> String {
    let name = row.work().solution.as_str();
    let blocks = row.counts().launch_contexts.first().map(|context| format!("_g{}", context.blocks));
    blocks.and_then(|blocks| name.strip_suffix(blocks.as_str())).unwrap_or(name).to_owned()
}

/// Works that are fitted together.
struct Part<'a> {
    condition: BTreeMap<String, String>,
    title: String,
    dtype: Dtype,
    works: Vec<Work<'a>>,
    devices_total: usize,
}

impl<'a> Part<'a> {
    /// A constant of this part that `used` works stand behind.
    fn estimated(&self, name: &'static str, unit: Unit, used: &[&Work<'a>], outcome: Outcome) -> Estimated<'a> {
        let (coverage, only_device) = coverage(used, self.works.len(), self.devices_total);
        Estimated { name, unit, condition: self.condition.clone(), solution: None, coverage, only_device, outcome }
    }

    /// The class's times, or the shortest samples.
    fn times(&self, of: curve::Of) -> Vec<Option<f64>> {
        self.works.iter().map(|work| work.seconds(of)).collect()
    }

    fn devices(&self) -> BTreeMap<u32, &'a DeviceId> {
        curve::devices_of(&self.works)
    }
}

/// The same constant as the winner under a condition.
fn as_winner<'a>(estimated: &Estimated<'a>, title: &str, condition: BTreeMap<String, String>) -> Estimated<'a> {
    Estimated { condition, solution: Some(title.to_owned()), ..estimated.clone() }
}
