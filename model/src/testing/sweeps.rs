//! Simulated classes measured in the sweeps beside `stream`, whose constants are known.

use std::collections::BTreeMap;

use super::{Random, RowSpec};
use crate::constants::{
    CACHE_BANDWIDTH, FULL_ISSUE_RATE, ISSUE_LATENCY, ISSUE_RATE, LAST_LEVEL_CACHE_BANDWIDTH, LAUNCH_LATENCY, PEAK_FLOPS,
};
use crate::id::RowId;
use crate::point::Sweep;
use crate::row::{Counts, LaunchContext, Origin, Row};
use crate::seed::fill::{FillForm, FillModel};

/// Multiprocessors and the threads that fill one.
const FILL: FillModel = FillModel { multiprocessors: 132, fill_threads: 480 };

/// What a class is simulated from. Spreads are standard deviations of logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SweepSpec {
    /// Devices.
    pub devices: usize,
    /// Rounds of a row.
    pub rounds: usize,
    /// Spread of devices.
    pub device_sigma: f64,
    /// Spread of a device's points.
    pub point_sigma: f64,
    /// Spread of a row's rounds.
    pub round_sigma: f64,
}

impl SweepSpec {
    /// 0.5% between devices, 0.05% between points of a device, 0.1% between rounds.
    pub fn clean(devices: usize) -> Self {
        Self { devices, rounds: 5, device_sigma: 0.005, point_sigma: 0.0005, round_sigma: 0.001 }
    }
}

/// The constants that every simulated class has, by name.
pub fn truth() -> BTreeMap<&'static str, f64> {
    BTreeMap::from([
        (ISSUE_RATE, 3.6e12),
        (FULL_ISSUE_RATE, 3.6e12),
        (ISSUE_LATENCY, 20e-6),
        (CACHE_BANDWIDTH, 9e12),
        (LAST_LEVEL_CACHE_BANDWIDTH, 8.4e12),
        (PEAK_FLOPS, 5e13),
        (LAUNCH_LATENCY, 2.1e-6),
    ])
}

/// One point: what it is, what it counts, and how long the class takes, seconds.
struct Point {
    sweep: Sweep,
    kernel: &'static str,
    solution: String,
    size: u64,
    counts: Counts,
    seconds: f64,
}

/// Rows of every device at every point, the same for the same seed.
pub fn simulate(spec: &SweepSpec, seed: u64) -> Vec<Row> {
    let mut random = Random::new(seed);
    let factors: Vec<f64> = (0..spec.devices).map(|_| libm::exp(spec.device_sigma * random.normal())).collect();
    let mut rows = Vec::new();
    for point in points() {
        for (device, factor) in factors.iter().enumerate() {
            let own = point.seconds * 1e9 * factor * libm::exp(spec.point_sigma * random.normal());
            let rounds = (0..spec.rounds).map(|_| own * libm::exp(spec.round_sigma * random.normal()));
            rows.push(row(&point, device, &rounds.collect::<Vec<f64>>()));
        }
    }
    rows
}

fn row(point: &Point, device: usize, rounds_ns: &[f64]) -> Row {
    let mut row = RowSpec::new("copy", 1 << 20, rounds_ns).device(&format!("GPU-{device:04}")).row();
    row.work.sweep = point.sweep;
    row.work.kernel = point.kernel.to_owned();
    row.work.solution.clone_from(&point.solution);
    row.work.point = format!("{}/{}/{}", point.sweep, point.kernel, point.size);
    row.work.elements = None;
    row.counts = point.counts.clone();
    row.identity.origin = Origin::Simulated;
    row.identity.row_id = RowId::new(format!("{}/{}/{}", row.work.point, point.solution, device));
    row
}

fn points() -> Vec<Point> {
    let exact = Counts { bytes_exact: true, ops_exact: true, kernels: 1, ..Counts::default() };
    let arithmetic = |operations: u64, blocks: u64, threads: u64| Counts {
        flops: operations,
        scalar_ops: operations,
        launch_contexts: vec![LaunchContext { blocks, threads, operations }],
        ..exact.clone()
    };
    let mut points = Vec::new();
    let mut add = |sweep, kernel, solution: String, size, counts, seconds| {
        points.push(Point { sweep, kernel, solution, size, counts, seconds });
    };
    for (sweep, rate) in [(Sweep::WorkingSet, 9e12), (Sweep::Cache, 8.4e12)] {
        for power in 20..29 {
            let (working_set, requested): (u64, u64) = (1 << power, 1 << (power + 7));
            let rate = if working_set <= 1 << 25 { rate } else { 3.9e12 };
            let counts = Counts {
                bytes_requested: requested,
                bytes_distinct: working_set,
                working_set_bytes: Some(working_set),
                ..exact.clone()
            };
            add(sweep, "reread", "t32".to_owned(), working_set, counts, 4e-6 + requested as f64 / rate);
        }
    }
    for operations in (27..34).map(|power| 1 << power) {
        // More than fills the device at any size.
        let counts = arithmetic(operations, 4_000, 64);
        add(
            Sweep::Issue,
            "contraction",
            "t32_b64_g4000".to_owned(),
            operations,
            counts,
            20e-6 + operations as f64 / 3.6e12,
        );
    }
    for (geometry, threads) in [("wide", 256), ("narrow", 64)] {
        for blocks in (4..12).map(|power| 1 << power) {
            let counts = arithmetic(1 << 31, blocks, threads);
            let seconds = FILL.effective_ops(FillForm::Capped, &counts.launch_contexts) / 3e12;
            add(Sweep::Launch, "contraction", format!("{geometry}_g{blocks}"), blocks, counts, seconds);
        }
    }
    for (operations, rate) in [(1 << 32, 4.6e13), (1 << 34, 4.9e13), (1 << 36, 5e13)] {
        let counts = arithmetic(operations, 4_000, 256);
        add(Sweep::Peak, "fma", "u8".to_owned(), operations, counts, operations as f64 / rate);
    }
    add(Sweep::Latency, "empty", "b1".to_owned(), 1, exact, 2.1e-6);
    points
}
