//! Rows as `tests/oracle` states them, made rows of ours.

use std::error::Error;

use fleetcal_model::estimate::finish;
use fleetcal_model::id::{DeviceId, RowId};
use fleetcal_model::point::Sweep;
use fleetcal_model::row::{LaunchContext, Role, Round, Row};
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};
use serde::Deserialize;

/// A row of a class of H200: 60 MiB of last-level cache, 132 multiprocessors. What a sweep has not is zero or absent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StatedRow {
    sweep: Sweep,
    device: String,
    kernel: String,
    solution: String,
    /// Tells the points of a sweep apart; no number is read from it.
    point: String,
    /// The sizes m and n, where the kernel has a shape.
    #[serde(default)]
    shape: Option<(u64, u64)>,
    /// Bytes moved.
    #[serde(default)]
    bytes: u64,
    /// Bytes requested, and those of the working set.
    #[serde(default)]
    requested: u64,
    #[serde(default)]
    working_set: Option<u64>,
    #[serde(default)]
    flops: u64,
    #[serde(default)]
    scalar_ops: u64,
    /// Blocks, threads a block, operations.
    #[serde(default)]
    contexts: Vec<(u64, u64, u64)>,
    /// The device's firmware.
    #[serde(default)]
    vbios: Option<String>,
    /// Medians of rounds 1, 2, …, nanoseconds.
    rounds_ns: Vec<f64>,
}

/// The rows, each like one that the simulation makes, with what was stated put in.
pub(crate) fn rows(stated: &[StatedRow]) -> Result<Vec<Row>, Box<dyn Error>> {
    let simulated = Fleet::simulate(&FleetSpec { samples: 1, rounds: 1, ..FleetSpec::clean(1) }, 1);
    let like = simulated.rows.first().ok_or("a simulated class has rows")?;
    Ok(stated.iter().map(|stated| row(like, stated)).collect())
}

fn row(like: &Row, stated: &StatedRow) -> Row {
    let mut row = like.clone();
    let identity = format!("{}/{}/{}", stated.device, stated.point, stated.solution);
    row.identity.row_id = RowId::new(identity);
    row.device.device_uuid = DeviceId::new(stated.device.clone());
    row.device.vbios.clone_from(&stated.vbios);
    row.work.sweep = stated.sweep;
    row.work.kernel.clone_from(&stated.kernel);
    row.work.point.clone_from(&stated.point);
    row.work.solution.clone_from(&stated.solution);
    row.work.elements = None;
    (row.work.m, row.work.n) = stated.shape.unzip();
    row.counts.bytes_read = stated.bytes;
    row.counts.bytes_written = 0;
    row.counts.bytes_distinct = stated.bytes;
    row.counts.bytes_requested = stated.requested;
    row.counts.working_set_bytes = stated.working_set;
    row.counts.flops = stated.flops;
    row.counts.scalar_ops = stated.scalar_ops;
    let context = |&(blocks, threads, operations)| LaunchContext { blocks, threads, operations };
    row.counts.launch_contexts = stated.contexts.iter().map(context).collect();
    let round = |(round, median_ns): (u64, &f64)| {
        let like = row.timing.rounds.iter().find(|round| round.round > 0)?;
        Some(Round { round, median_ns: *median_ns, ..like.clone() })
    };
    row.timing.rounds = (1..).zip(&stated.rounds_ns).filter_map(round).collect();
    row.timing.samples.clear();
    finish(&mut row.timing, Role::Fit);
    row
}
