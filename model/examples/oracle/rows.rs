//! Stream rows as `tests/oracle` states them, made rows of ours.

use std::error::Error;

use fleetcal_model::estimate::finish;
use fleetcal_model::id::{DeviceId, RowId};
use fleetcal_model::row::{Role, Round, Row};
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};
use serde::Deserialize;

/// A row of a class of H200, 60 MiB of last-level cache.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StreamRow {
    device: String,
    kernel: String,
    solution: String,
    elements: u64,
    bytes: u64,
    /// Medians of rounds 1, 2, …, nanoseconds.
    rounds_ns: Vec<f64>,
}

/// The rows, each like one that the simulation makes, with what was stated put in.
pub(crate) fn rows(stated: &[StreamRow]) -> Result<Vec<Row>, Box<dyn Error>> {
    let simulated = Fleet::simulate(&FleetSpec { samples: 1, rounds: 1, ..FleetSpec::clean(1) }, 1);
    let like = simulated.rows.first().ok_or("a simulated class has rows")?;
    Ok(stated.iter().map(|stated| row(like, stated)).collect())
}

fn row(like: &Row, stated: &StreamRow) -> Row {
    let mut row = like.clone();
    row.identity.row_id =
        RowId::new(format!("{}/{}/{}/{}", stated.device, stated.kernel, stated.solution, stated.elements));
    row.device.device_uuid = DeviceId::new(stated.device.clone());
    row.work.kernel.clone_from(&stated.kernel);
    row.work.point = format!("stream/{}/f32/elements={}", stated.kernel, stated.elements);
    row.work.solution.clone_from(&stated.solution);
    row.work.elements = Some(stated.elements);
    row.counts.bytes_read = stated.bytes;
    row.counts.bytes_written = 0;
    row.counts.bytes_distinct = stated.bytes;
    let round = |(round, median_ns): (u64, &f64)| {
        let like = row.timing.rounds.iter().find(|round| round.round > 0)?;
        Some(Round { round, median_ns: *median_ns, ..like.clone() })
    };
    row.timing.rounds = (1..).zip(&stated.rounds_ns).filter_map(round).collect();
    row.timing.samples.clear();
    finish(&mut row.timing, Role::Fit);
    row
}
