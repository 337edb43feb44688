//! Writes the rows of a large simulated fleet as parts, for measurements of speed.
//!
//! ```text
//! cargo run --release -p fleetcal-coordinator --example fleet_rows -- FOLDER DEVICES
//! ```
//!
//! Each device has [`ROWS_OF_DEVICE`] rows of 32 samples, over `stream`, `issue`, `launch` and `working_set`; a part has
//! the rows of [`DEVICES_OF_PART`] devices. The same numbers give the same files. Rows are sealed, and say that they are
//! simulated.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use fleetcal_coordinator::rows::write_part;
use fleetcal_model::estimate::seal;
use fleetcal_model::row::Row;
use fleetcal_model::testing::mixed::{Mix, ROWS_OF_DEVICE};
use fleetcal_proto::rows::to_batch;

const USAGE: &str = "usage: fleet_rows FOLDER DEVICES";

/// Devices of one part: ten thousand rows are a few megabytes.
const DEVICES_OF_PART: u64 = 10;

/// Every fleet is drawn from it.
const SEED: u64 = 1;

type Failure = Box<dyn Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or(USAGE)?);
    let devices: u64 = arguments.next().ok_or(USAGE)?.parse()?;
    std::fs::create_dir_all(&folder)?;
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism()?.get();
    let parts = devices.div_ceil(DEVICES_OF_PART);
    thread::scope(|scope| {
        let workers: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| write_parts(&folder, &next, parts, devices))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| Err("a writer gave up".into())))
    })
}

/// Writes parts until none is left.
fn write_parts(folder: &Path, next: &AtomicU64, parts: u64, devices: u64) -> Result<(), Failure> {
    let mix = Mix::new();
    loop {
        let part = next.fetch_add(1, Ordering::Relaxed);
        if part >= parts {
            return Ok(());
        }
        let mut rows: Vec<Row> = Vec::with_capacity(DEVICES_OF_PART as usize * ROWS_OF_DEVICE);
        for device in part * DEVICES_OF_PART..devices.min((part + 1) * DEVICES_OF_PART) {
            rows.extend(mix.rows(SEED, device));
        }
        rows.iter_mut().try_for_each(seal)?;
        write_part(folder, &format!("part-{part:06}"), &[to_batch(&rows)?], &[])?;
    }
}
