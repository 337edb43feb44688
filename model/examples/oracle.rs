//! Fits of the points it is asked about: what `tests/oracle` compares with fits computed from the formulas alone.
//!
//! ```sh
//! cargo run --package fleetcal-model --features testing --example oracle < QUESTIONS > ANSWERS
//! ```
//!
//! A line of JSON in, a line of JSON out. Numbers are SI; times of rows are nanoseconds. What was not identified answers
//! `{"refused": REASON}`, whose first word is the variant's name.

use std::error::Error;
use std::fmt::Debug;
use std::io::{BufRead, Write};

use fleetcal_model::constants::{Document, Envelope};
use fleetcal_model::fit::devices::{Cell, OutlierRule, Outliers, effects, outliers};
use fleetcal_model::fit::line::{Line, NoLine, fit_line};
use fleetcal_model::fit::residual::{Dropped, Refit, ResidualRule, filter};
use fleetcal_model::fit::{Options, capacity, fill, regime};
use fleetcal_model::id::RunId;
use fleetcal_model::row::LaunchContext;
use fleetcal_model::seed;
use fleetcal_model::seed::capacity::WorkingSetPoint;
use fleetcal_model::seed::envelope::EnvelopeRow;
use fleetcal_model::seed::fill::{FillFit, FillModel, LaunchPoint};
use fleetcal_model::seed::issue::IssuePoint;
use fleetcal_model::statistics::{log_t_interval, median, median_half_width, median_interval, t_interval};
use fleetcal_model::units::{Bytes, BytesPerSecond, Seconds};
use serde::Deserialize;
use serde_json::{Value, json};

#[path = "oracle/rows.rs"]
mod rows;

/// A parallel context: blocks, threads a block, operations.
type Context = (u64, u64, u64);

/// What is asked, by the name of the fit.
#[derive(Deserialize)]
#[serde(tag = "fit", rename_all = "snake_case", deny_unknown_fields)]
enum Question {
    /// The envelope's legs.
    Envelope { rows: Vec<Timed> },
    /// The capacity as the original defines it; points are (working set, requested bytes, seconds).
    SeedCapacity { points: Vec<(u64, u64, f64)>, dram_rate: Option<f64> },
    /// The capacity as documents state it.
    Capacity { points: Vec<(u64, u64, f64)>, dram_rate: Option<f64> },
    /// Brackets of several devices made one: (low, high) of each.
    Merge { brackets: Vec<(Option<u64>, Option<u64>)> },
    /// The issue rate; points are (operations, seconds, contexts), `fill` is (multiprocessors, threads).
    SeedIssue { points: Vec<(u64, f64, Vec<Context>)>, fill: Option<(u64, u64)> },
    /// The launch fill as the original defines it.
    SeedFill(Launches),
    /// The launch fill as documents state it.
    Fill(Launches),
    /// A robust line.
    Line { points: Vec<(f64, f64)> },
    /// A robust line whose points are filtered by their residuals.
    Filter { points: Vec<(f64, f64)>, sigmas: f64, floor: f64, points_min: usize, share_max: f64 },
    /// A line that holds up to a knee.
    Regime { points: Vec<(f64, f64)> },
    /// Median and intervals of numbers.
    Statistics { values: Vec<f64> },
    /// Effects of devices and points: (device, point, logarithm).
    Effects { cells: Vec<(usize, usize, f64)> },
    /// Constants of the rows of a class.
    Documents { rows: Vec<rows::StatedRow> },
}

/// A timed routine.
#[derive(Deserialize)]
struct Timed {
    seconds: f64,
    bound: Option<f64>,
    kernels: u64,
    flops: u64,
    bytes: u64,
    flops_exact: bool,
    bytes_exact: bool,
    opaque: bool,
}

/// A launch sweep.
#[derive(Deserialize)]
struct Launches {
    /// Geometry, contexts, tensor operations, seconds.
    points: Vec<(String, Vec<Context>, u64, f64)>,
    multiprocessors: u64,
    candidates: Vec<u64>,
    starved: f64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        writeln!(output, "{}", answer(serde_json::from_str(&line?)?)?)?;
    }
    Ok(())
}

fn answer(question: Question) -> Result<Value, Box<dyn Error>> {
    Ok(match question {
        Question::Envelope { rows } => envelope(&rows),
        Question::SeedCapacity { points, dram_rate } => {
            seed_capacity(&seed::capacity::fit(&working_sets(&points), dram_rate.map(BytesPerSecond)))
        }
        Question::Capacity { points, dram_rate } => capacity::fit(
            &working_sets(&points),
            dram_rate.map(BytesPerSecond),
        )
        .map_or_else(refused, |fit| {
            json!({
                "bracket": ends(fit.bracket), "latency": fit.latency.0, "cache_rate": fit.cache_rate.map(|rate| rate.0),
                "monotone": fit.monotone, "launch_bound": fit.launch_bound, "short": fit.short, "cached_points": fit.cached_points,
                "spilled_points": fit.spilled_points,
            })
        }),
        Question::Merge { brackets } => {
            let bracket = |&(low, high): &(Option<u64>, Option<u64>)| capacity::Bracket {
                low: low.map(Bytes),
                high: high.map(Bytes),
            };
            let merged = capacity::merge(&brackets.iter().map(bracket).collect::<Vec<_>>());
            json!({"bracket": ends(merged.bracket), "consistent": merged.consistent})
        }
        Question::SeedIssue { points, fill } => seed_issue(&points, fill),
        Question::SeedFill(launches) => {
            let Launches { multiprocessors, candidates, starved, .. } = &launches;
            seed::fill::fit(&launches.points(), *multiprocessors, candidates, *starved).map_or_else(refused, seed_fill)
        }
        Question::Fill(launches) => robust_fill(&launches),
        Question::Line { points } => fit_line(&points).map_or_else(refused, line),
        Question::Filter { points, sigmas, floor, points_min, share_max } => {
            filtered(&Points(points), ResidualRule { sigmas, floor, points_min, share_max })
        }
        Question::Regime { points } => {
            regime::find(&points, regime::RegimeRule::default()).map_or_else(refused, |regime| {
                json!({
                    "line": line(regime.line), "used": regime.used, "dropped": all(&regime.dropped),
                    "beyond": all(&regime.beyond), "residual_max": regime.residual_max,
                })
            })
        }
        Question::Statistics { mut values } => {
            let ends = |interval: Option<fleetcal_model::statistics::Interval>| interval.map(|i| (i.low, i.high));
            let (order, logarithm, plain) = (median_interval(&values), log_t_interval(&values), t_interval(&values));
            let median = median(&values);
            values.sort_by(f64::total_cmp);
            json!({
                "median": median, "order_statistics": ends(order), "student_t_log": ends(logarithm),
                "student_t": ends(plain), "half_width": median_half_width(&values),
            })
        }
        Question::Effects { cells } => device_effects(&cells),
        Question::Documents { rows } => documents(&rows)?,
    })
}

/// The variant's name and what it says.
fn refused(reason: impl Debug) -> Value {
    json!({"refused": format!("{reason:?}")})
}

fn envelope(rows: &[Timed]) -> Value {
    let row = |(index, row): (usize, &Timed)| EnvelopeRow {
        label: index.to_string(),
        time: Seconds(row.seconds),
        bound: row.bound.map(Seconds),
        kernels: row.kernels,
        flops: row.flops,
        bytes: row.bytes,
        flops_exact: row.flops_exact,
        bytes_exact: row.bytes_exact,
        opaque: row.opaque,
    };
    let found = seed::envelope::fit(&rows.iter().enumerate().map(row).collect::<Vec<_>>());
    let leg = |leg: seed::envelope::Leg| json!({"peak": leg.peak, "witness": leg.witness});
    json!({
        "compute": found.compute.map(leg), "memory": found.memory.map(leg),
        "slack": found.slack.map(|slack| json!({"factor": slack.factor, "witness": slack.witness})),
        "violations": found.violations, "opaque_rows": found.opaque_rows, "approximate_rows": found.approximate_rows,
    })
}

fn working_sets(points: &[(u64, u64, f64)]) -> Vec<WorkingSetPoint> {
    let point = |&(working_set, requested, seconds): &(u64, u64, f64)| WorkingSetPoint {
        working_set: Bytes(working_set),
        requested: Bytes(requested),
        time: Seconds(seconds),
    };
    points.iter().map(point).collect()
}

fn seed_capacity(fit: &seed::capacity::CapacityFit) -> Value {
    use seed::capacity::CapacityFit as Fit;
    match *fit {
        Fit::Transition { cached, spilled, capacity, monotone, cache_rate } => json!({
            "transition": {"cached": cached.0, "spilled": spilled.0, "capacity": capacity.0, "monotone": monotone,
            "cache_rate": cache_rate.0},
        }),
        Fit::AllCached { largest, cache_rate } => {
            json!({"all_cached": {"largest": largest.0, "cache_rate": cache_rate.0}})
        }
        Fit::AllSpilled { smallest } => json!({"all_spilled": {"smallest": smallest.0}}),
        Fit::NoTransition { contrast } => json!({"no_transition": {"contrast": contrast}}),
        Fit::TooFewPoints => json!({"too_few_points": {}}),
    }
}

fn ends(bracket: capacity::Bracket) -> Value {
    json!([bracket.low.map(|end| end.0), bracket.high.map(|end| end.0)])
}

fn contexts(contexts: &[Context]) -> Vec<LaunchContext> {
    contexts.iter().map(|&(blocks, threads, operations)| LaunchContext { blocks, threads, operations }).collect()
}

fn seed_issue(points: &[(u64, f64, Vec<Context>)], fill: Option<(u64, u64)>) -> Value {
    let point = |(scalar_ops, seconds, of): &(u64, f64, Vec<Context>)| IssuePoint {
        scalar_ops: *scalar_ops,
        time: Seconds(*seconds),
        contexts: contexts(of),
    };
    let fill = fill.map(|(multiprocessors, fill_threads)| FillModel { multiprocessors, fill_threads });
    seed::issue::fit(&points.iter().map(point).collect::<Vec<_>>(), fill).map_or_else(refused, |fit| {
        json!({"rate": fit.rate, "latency": fit.latency.0, "residual_max": fit.residual_max, "points": fit.points})
    })
}

impl Launches {
    fn points(&self) -> Vec<LaunchPoint> {
        let point = |(geometry, of, tensor_ops, seconds): &(String, Vec<Context>, u64, f64)| LaunchPoint {
            geometry: geometry.clone(),
            contexts: contexts(of),
            tensor_ops: *tensor_ops,
            time: Seconds(*seconds),
        };
        self.points.iter().map(point).collect()
    }
}

fn seed_fill(fit: FillFit) -> Value {
    json!({
        "fill_threads": fit.model.fill_threads, "tied": fit.tied, "rate": fit.rate, "squares": fit.squares,
        "residual_max": fit.residual_max, "geometries": fit.geometries, "partial_points": fit.partial_points,
        "points": fit.points, "starved_points": fit.starved_points, "raw_rate": fit.raw_rate,
        "raw_residual": fit.raw_residual, "uncapped": fit.uncapped,
    })
}

fn robust_fill(launches: &Launches) -> Value {
    let rule = fill::FillRule { starved: launches.starved, ..fill::FillRule::default() };
    fill::fit(&launches.points(), launches.multiprocessors, &launches.candidates, rule).map_or_else(refused, |set| {
        json!({
            "fill_threads": set.fill_threads, "device_threads": set.device_threads, "rate_range": set.rate_range,
            "best": seed_fill(set.best),
        })
    })
}

fn line(line: Line) -> Value {
    json!({"intercept": line.intercept, "slope": line.slope, "residual_max": line.max_relative_residual})
}

fn all(dropped: &[Dropped]) -> Vec<(usize, f64)> {
    dropped.iter().map(|dropped| (dropped.index, dropped.residual)).collect()
}

struct Points(Vec<(f64, f64)>);

impl Refit for Points {
    type Fit = Line;
    type Error = NoLine;

    fn fit(&self, kept: &[usize]) -> Result<Line, NoLine> {
        fit_line(&kept.iter().map(|&index| self.0[index]).collect::<Vec<_>>())
    }

    fn residuals(&self, line: &Line) -> Vec<f64> {
        self.0.iter().map(|(x, y)| (y - line.intercept - line.slope * x) / y).collect()
    }
}

fn filtered(points: &Points, rule: ResidualRule) -> Value {
    filter(points, points.0.len(), rule).map_or_else(refused, |filtered| {
        json!({
            "line": line(filtered.fit), "kept": filtered.kept, "dropped": all(&filtered.dropped),
            "limit": filtered.limit, "settled": filtered.settled,
        })
    })
}

fn device_effects(cells: &[(usize, usize, f64)]) -> Value {
    let cell = |&(device, point, logarithm): &(usize, usize, f64)| Cell { device, point, logarithm };
    effects(&cells.iter().map(cell).collect::<Vec<_>>()).map_or_else(refused, |effects| {
        let outliers = match outliers(&effects.devices, OutlierRule::default()) {
            Outliers::Found(found) => json!(found.iter().map(|one| (one.device, one.z)).collect::<Vec<_>>()),
            Outliers::TooFewDevices { devices, .. } => json!({"too_few_devices": devices}),
        };
        json!({"points": effects.points, "devices": effects.devices, "outliers": outliers})
    })
}

/// The documents of the rows as they are published, whole.
fn documents(rows: &[rows::StatedRow]) -> Result<Value, Box<dyn Error>> {
    let rows = rows::rows(rows)?;
    let envelope = Envelope {
        created_utc_ns: 0,
        created_by: "oracle".to_owned(),
        run_id: RunId::new("oracle"),
        coordinator_version: String::new(),
    };
    let documents = Document::fit(&rows, &Options::default(), &envelope);
    let documents: Result<Vec<String>, _> = documents.iter().map(Document::to_json).collect();
    Ok(json!({"documents": documents?}))
}
