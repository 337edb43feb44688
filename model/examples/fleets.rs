//! Writes simulated fleets and our fits beside them as CSV, for comparison with other people's estimators.
//!
//! ```text
//! cargo run --release -p fleetcal-model --example fleets -- POINTS.csv FITS.csv [FLEETS]
//! ```
//!
//! `POINTS.csv` has one line for each fleet, device and size: bytes and the row's estimate in nanoseconds. `FITS.csv` has
//! one line for each fleet: the truth, the line through the class's medians fitted by [`fit_line`] alone, and the
//! asymptote of the whole pipeline with its interval. Fleets are, in turn, clean ones of 4, 16 and 64 devices and hard
//! ones of 16 and 64.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};

use fleetcal_model::fit::Options;
use fleetcal_model::fit::bandwidth::{self, Asymptote};
use fleetcal_model::fit::line::fit_line;
use fleetcal_model::fit::pool::Pool;
use fleetcal_model::statistics::median;
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};

const USAGE: &str = "usage: fleets POINTS.csv FITS.csv [FLEETS]";

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut points = BufWriter::new(File::create(arguments.next().ok_or(USAGE)?)?);
    let mut fits = BufWriter::new(File::create(arguments.next().ok_or(USAGE)?)?);
    let fleets: u64 = arguments.next().map_or(Ok(500), |count| count.parse())?;
    writeln!(points, "fleet,kind,device,slow,bytes,estimate_ns")?;
    writeln!(
        fits,
        "fleet,kind,true_rate,true_latency_ns,line_rate,line_latency_ns,rate,latency_ns,rate_low,rate_high"
    )?;
    let kinds: [(&str, FleetSpec); 5] = [
        ("clean-4", FleetSpec::clean(4)),
        ("clean-16", FleetSpec::clean(16)),
        ("clean-64", FleetSpec::clean(64)),
        ("hard-16", FleetSpec::hard(16)),
        ("hard-64", FleetSpec::hard(64)),
    ];
    for (number, (kind, spec)) in (0..fleets).zip(kinds.iter().cycle()) {
        let fleet = Fleet::simulate(spec, number);
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for row in &fleet.rows {
            let Some(ns) = row.timing.estimate_ns else { continue };
            let (device, bytes) = (&row.device.device_uuid, row.counts.bytes_moved());
            let slow = fleet.slow.get(device).copied().unwrap_or(0.0);
            writeln!(points, "{number},{kind},{device},{slow},{bytes},{ns}")?;
            by_size.entry(bytes).or_default().push(ns);
        }
        let medians = by_size.into_iter().filter_map(|(bytes, ns)| Some((bytes as f64, median(&ns)? * 1e-9)));
        let line = fit_line(&medians.collect::<Vec<_>>())?;
        let found = asymptote(&fleet).ok_or("a simulated fleet has an asymptote")?;
        let latency_ns = found.latency.map_or(0.0, |latency| latency.0 * 1e9);
        let (low, high) = found.bandwidth_spread.interval.map_or((None, None), |i| (Some(i.low), Some(i.high)));
        let text = |number: Option<f64>| number.map_or_else(String::new, |number| number.to_string());
        writeln!(
            fits,
            "{number},{kind},{},{},{},{},{},{latency_ns},{},{}",
            spec.rate,
            spec.latency_ns,
            line.slope.recip(),
            line.intercept * 1e9,
            found.bandwidth.0,
            text(low),
            text(high)
        )?;
    }
    points.flush()?;
    fits.flush()?;
    Ok(())
}

fn asymptote(fleet: &Fleet) -> Option<Asymptote> {
    let pool = Pool::new(&fleet.rows).ok()?;
    bandwidth::fit(&pool, &Options::default()).asymptotes.into_iter().next()?.outcome.ok()
}
