//! How often intervals and sets of constants hold the truth, on simulated fleets.
//!
//! ```text
//! cargo run --release -p fleetcal-model --example coverage
//! ```

use std::collections::BTreeMap;
use std::io::{self, Write};

use fleetcal_model::fit::bandwidth::{self, Asymptote};
use fleetcal_model::fit::class::ClassStudy;
use fleetcal_model::fit::estimated::Outcome;
use fleetcal_model::fit::interval::{self, Domain, Replicate};
use fleetcal_model::fit::pool::Pool;
use fleetcal_model::fit::workers::Alone;
use fleetcal_model::fit::{self, ConstantInterval, Options, capacity, fill};
use fleetcal_model::row::LaunchContext;
use fleetcal_model::seed::capacity::WorkingSetPoint;
use fleetcal_model::seed::fill::{FillForm, FillModel, LaunchPoint, default_candidates};
use fleetcal_model::statistics::median;
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};
use fleetcal_model::testing::sweeps::SweepSpec;
use fleetcal_model::testing::{self, Random};
use fleetcal_model::units::{Bytes, BytesPerSecond, Seconds};

/// Fleets of a cell.
const FLEETS: u64 = 2_000;

fn main() -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "constants of stream rows, {FLEETS} fleets a cell: intervals that hold the truth (%)")?;
    for devices in [4, 7, 8, 16, 64] {
        cell(&mut out, &format!("{devices} devices"), &FleetSpec { samples: 5, ..FleetSpec::clean(devices) })?;
    }
    for rounds in [3, 5, 7, 8, 10, 30] {
        // One device: its own constant is the truth, and only rounds vary.
        let spec = FleetSpec { samples: 5, rounds, device_sigma: 0.0, point_sigma: 0.0, ..FleetSpec::clean(1) };
        cell(&mut out, &format!("1 device, {rounds} rounds"), &spec)?;
    }
    writeln!(out, "\nconstants of the other sweeps, {FLEETS} classes a cell")?;
    for devices in [4, 16, 64] {
        sweeps(&mut out, &format!("{devices} devices"), &SweepSpec::clean(devices))?;
    }
    let spec = SweepSpec { rounds: 10, device_sigma: 0.0, point_sigma: 0.0, ..SweepSpec::clean(1) };
    sweeps(&mut out, "1 device, 10 rounds", &spec)?;
    shapes(&mut out)?;
    sets(&mut out)
}

fn cell(out: &mut impl Write, name: &str, spec: &FleetSpec) -> io::Result<()> {
    let (mut bandwidths, mut latencies, mut identified) = (0, 0, 0);
    let (mut width, mut method) = (0.0, None);
    for seed in 0..FLEETS {
        let fleet = Fleet::simulate(spec, seed);
        let Some(found) = asymptote(&fleet) else { continue };
        identified += 1;
        method = Some(found.bandwidth_spread.method);
        let interval = found.bandwidth_spread.interval;
        bandwidths += u64::from(interval.is_some_and(|interval| interval.contains(spec.rate)));
        width += interval.map_or(0.0, |interval| (interval.high - interval.low) / 2.0 / spec.rate);
        let latency = found.latency_spread.interval;
        latencies += u64::from(latency.is_some_and(|latency| latency.contains(spec.latency_ns * 1e-9)));
    }
    let percent = |count: u64| count as f64 / identified.max(1) as f64 * 100.0;
    let (of_bandwidth, of_latency, method) =
        (percent(bandwidths), percent(latencies), method.map_or("none", ConstantInterval::name));
    let half = width / identified.max(1) as f64 * 100.0;
    writeln!(
        out,
        "{name:20} bandwidth {of_bandwidth:5.1} (±{half:.3}%)  latency {of_latency:5.1}  of {identified}, {method}"
    )
}

/// Intervals of the winners, which stand under no kernel.
fn sweeps(out: &mut impl Write, name: &str, spec: &SweepSpec) -> io::Result<()> {
    let mut held: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for seed in 0..FLEETS {
        let rows = testing::sweeps::simulate(spec, seed);
        let Ok(pool) = Pool::new(&rows) else { continue };
        let (_, fits) = fit::sweeps::fit(&pool, &Options::default(), &ClassStudy::default(), &Alone);
        for estimated in fits.estimated.iter().filter(|estimated| !estimated.condition.contains_key("kernel")) {
            let Outcome::Measured(value) = &estimated.outcome else { continue };
            let truth = testing::sweeps::truth().get(estimated.name).copied();
            let Some((interval, truth)) = value.spread.interval.zip(truth) else { continue };
            let (of, counted) = held.entry(estimated.name).or_default();
            *of += u64::from(interval.contains(truth));
            *counted += 1;
        }
    }
    let percent = |(of, counted): (u64, u64)| of as f64 / counted.max(1) as f64 * 100.0;
    let cells = held.iter().map(|(name, &of)| format!("{name} {:.1} of {}", percent(of), of.1));
    writeln!(out, "{name:20} {}", cells.collect::<Vec<_>>().join(", "))
}

fn asymptote(fleet: &Fleet) -> Option<Asymptote> {
    let pool = Pool::new(&fleet.rows).ok()?;
    bandwidth::fit(&pool, &Options::default()).asymptotes.into_iter().next()?.outcome.ok()
}

/// Devices that spread in other shapes than the normal one.
fn shapes(out: &mut impl Write) -> io::Result<()> {
    type Draw = fn(&mut Random) -> f64;
    let shapes: [(&str, Draw); 4] = [
        ("normal", |random| 0.005 * random.normal()),
        ("heavy tails (t, 3 degrees)", |random| {
            let squares: f64 = (0..3).map(|_| random.normal()).map(|normal| normal * normal).sum();
            0.005 * random.normal() / (squares / 3.0).sqrt()
        }),
        ("skewed (exponential)", |random| -0.01 * (libm::log(random.uniform()) + std::f64::consts::LN_2)),
        ("a tail of 10%, slower by 10%", |random| {
            let is_slow = random.uniform() < 0.1;
            0.005 * random.normal() + if is_slow { 0.1 } else { 0.0 }
        }),
    ];
    writeln!(out, "\nmedians of a positive constant over devices of other shapes (%)")?;
    for (name, draw) in shapes {
        // The median of many draws is the truth.
        let mut random = Random::new(1);
        let truth = median(&(0..1_000_001).map(|_| draw(&mut random)).collect::<Vec<_>>()).map_or(1.0, libm::exp);
        write!(out, "{name:30}")?;
        for devices in [4, 7, 8, 16, 64, 256] {
            let held = (0..FLEETS).filter(|_| {
                let values: Vec<f64> = (0..devices).map(|_| libm::exp(draw(&mut random))).collect();
                let estimate = median(&values).unwrap_or(1.0);
                let found = interval::of(&values, estimate, Replicate::Device, Domain::Positive).interval;
                found.is_some_and(|interval| interval.contains(truth))
            });
            write!(out, "  {devices}: {:5.1}", held.count() as f64 / FLEETS as f64 * 100.0)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Discrete constants: sets of fill threads, brackets of the cache capacity.
fn sets(out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\ndiscrete constants: sets that hold the truth (%), {FLEETS} sweeps a cell")?;
    for noise in [0.003, 0.01, 0.03] {
        let mut random = Random::new(7);
        let (mut held, mut members, mut claimed) = (0, 0, 0);
        for seed in 0..FLEETS {
            let truth = 96 + 32 * (seed % 20);
            let points = launches(&mut random, noise, truth);
            let Ok(found) = fill::fit(&points, 132, &default_candidates(), fill::FillRule::default()) else { continue };
            claimed += 1;
            held += u64::from(found.fill_threads.contains(&truth));
            members += found.fill_threads.len();
        }
        let (part, size) = (held as f64 / claimed as f64 * 100.0, members as f64 / claimed as f64);
        writeln!(
            out,
            "fill threads, noise {:4.1}%: {part:5.1} of {claimed} claimed, {size:.1} members",
            noise * 100.0
        )?;
    }
    for noise in [0.003, 0.01, 0.03] {
        let mut random = Random::new(8);
        let (mut held, mut claimed) = (0, 0);
        for _ in 0..FLEETS {
            let truth = libm::exp(libm::log(20e6) + random.uniform() * libm::log(10.0));
            let points = working_sets(&mut random, noise, truth);
            let Ok(found) = capacity::fit(&points, Some(BytesPerSecond(4.4e12))) else { continue };
            claimed += 1;
            let above = found.bracket.low.is_none_or(|low| low.0 as f64 <= truth);
            held += u64::from(above && found.bracket.high.is_none_or(|high| truth < high.0 as f64));
        }
        let part = held as f64 / claimed as f64 * 100.0;
        writeln!(out, "cache capacity, noise {:4.1}%: {part:5.1} of {claimed} claimed", noise * 100.0)?;
    }
    Ok(())
}

fn launches(random: &mut Random, noise: f64, fill_threads: u64) -> Vec<LaunchPoint> {
    let model = FillModel { multiprocessors: 132, fill_threads };
    let mut points = Vec::new();
    for (geometry, threads, rate) in [("narrow", 64, 2e12), ("wide", 256, 3e12)] {
        for blocks in std::iter::successors(Some(20_u64), |blocks| Some(blocks * 27 / 20)).take(24) {
            let contexts = vec![LaunchContext { blocks, threads, operations: 1 << 31 }];
            let seconds = model.effective_ops(FillForm::Capped, &contexts) / rate * (1.0 + noise * random.normal());
            let time = Seconds(seconds);
            points.push(LaunchPoint { geometry: geometry.to_owned(), contexts, tensor_ops: 0, time });
        }
    }
    points
}

/// A sweep whose working set grows by a quarter of an octave from 4 MB to 1 GB.
fn working_sets(random: &mut Random, noise: f64, capacity: f64) -> Vec<WorkingSetPoint> {
    let sizes = std::iter::successors(Some(4e6), |bytes| Some(bytes * 1.189_207_115)).take(33);
    sizes
        .map(|bytes: f64| {
            let rate = if bytes <= capacity { 9e12 } else { 4.4e12 };
            let seconds = (6e-6 + bytes * 32.0 / rate) * (1.0 + noise * random.normal());
            let (working_set, requested) = (Bytes(bytes as u64), Bytes((bytes * 32.0) as u64));
            WorkingSetPoint { working_set, requested, time: Seconds(seconds) }
        })
        .collect()
}
