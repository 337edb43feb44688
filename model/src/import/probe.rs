//! The CSV of a plain probe: one line a sample, milliseconds, with bytes and operations counted by the probe.
//!
//! | probe's sweep | here | bytes | operations |
//! |---|---|---|---|
//! | `latency` | `latency` | none | none |
//! | `stream` | `stream`: copy, scale, add, triad | moved, by the rules of STREAM | none |
//! | `ladder` | `cache`: read | requested: the footprint as often as it is read | none |
//! | `fmapeak` | `peak`: fma | none | floating-point |
//! | `working_set` | `working_set`: contraction | requested by all blocks | floating-point |
//! | `issue`, `launch` | `issue`, `launch`: contraction | none | of scalar units |
//! | `reduce` | `reduce`: sum | read | none |

use std::collections::BTreeMap;

use super::{ImportError, Measured, Source};
use crate::point::{Dtype, Point, Solution, Sweep};
use crate::row::{Counts, LaunchContext, Row};

/// The first line.
pub const HEADER: &str = "sweep,kernel,params,bytes,ops,blocks,threads,sample,ms";

/// Threads that a multiprocessor holds, for how many blocks are resident at once.
const RESIDENT_THREADS: u64 = 2048;

/// A line, its sample left out.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Series<'a> {
    sweep: &'a str,
    kernel: &'a str,
    parameters: &'a str,
    bytes: u64,
    operations: u64,
    blocks: u64,
    threads: u64,
}

/// Reads the rows of one device: a row for each series of samples that differ in nothing but their number.
///
/// # Errors
/// [`ImportError`], at the first line that is not the probe's.
pub fn rows(text: &str, source: &Source) -> Result<Vec<Row>, ImportError> {
    let mut lines = text.lines().enumerate();
    let found = lines.next().map_or("", |(_, line)| line.trim());
    if found != HEADER {
        return Err(ImportError::Header { found: found.chars().take(HEADER.len()).collect(), expected: HEADER });
    }
    let mut measured: Vec<(usize, Series<'_>, Vec<u64>)> = Vec::new();
    for (index, line) in lines.filter(|(_, line)| !line.trim().is_empty()) {
        let (series, ns) = parse(line).map_err(|problem| ImportError::line(index, problem))?;
        match measured.iter_mut().rfind(|(_, known, _)| *known == series) {
            Some((_, _, times_ns)) => times_ns.push(ns),
            None => measured.push((index, series, vec![ns])),
        }
    }
    if measured.is_empty() {
        return Err(ImportError::Empty);
    }
    let row = |(index, series, times_ns)| {
        let measured: Result<Measured, String> = measured_of(&series, times_ns, source);
        measured.map(|measured| measured.row(source)).map_err(|problem| ImportError::line(index, problem))
    };
    measured.into_iter().map(row).collect()
}

fn parse(line: &str) -> Result<(Series<'_>, u64), String> {
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    let [sweep, kernel, parameters, bytes, operations, blocks, threads, sample, ms] = fields[..] else {
        return Err(format!("{} fields, not 9", fields.len()));
    };
    let number = |name: &str, text: &str| text.parse::<u64>().map_err(|_| format!("{name} is `{text}`, not a number"));
    number("sample", sample)?;
    let series = Series {
        sweep,
        kernel,
        parameters,
        bytes: number("bytes", bytes)?,
        operations: number("ops", operations)?,
        blocks: number("blocks", blocks)?,
        threads: number("threads", threads)?,
    };
    let ms: f64 = ms.parse().map_err(|_| format!("ms is `{ms}`, not a number"))?;
    // Rows hold whole nanoseconds; a clock that shows less is none of a device.
    let ns = (ms * 1e6).round();
    if !(ns >= 0.0 && ns < u64::MAX as f64) {
        return Err(format!("ms is {ms}, not a time"));
    }
    Ok((series, ns as u64))
}

fn measured_of(series: &Series<'_>, times_ns: Vec<u64>, source: &Source) -> Result<Measured, String> {
    let sizes = sizes(series.parameters)?;
    let (sweep, kernel, variant) = kind(series)?;
    let (blocks, threads) = (series.blocks, series.threads);
    let parameters = BTreeMap::from([("blocks".to_owned(), blocks), ("block".to_owned(), threads)]);
    let solution = Solution { name: format!("{variant}_b{threads}_g{blocks}"), parameters };
    let counts = counts(series, (sweep, kernel), &sizes, source.device.compute_units)?;
    let point = Point { sweep, kernel: kernel.to_owned(), dtype: Dtype::F32, sizes };
    Ok(Measured { point, solution, counts, times_ns })
}

/// Sweep and kernel here, and what is left of the probe's kernel: its variant.
fn kind<'a>(series: &Series<'a>) -> Result<(Sweep, &'a str, &'a str), String> {
    let (name, width) = series.kernel.split_at(series.kernel.len() - usize::from(!series.kernel.is_empty()));
    Ok(match (series.sweep, series.kernel) {
        ("latency", "empty") => (Sweep::Latency, "empty", "plain"),
        ("stream", _) if matches!(name, "copy" | "scale" | "add" | "triad") => (Sweep::Stream, name, width),
        ("ladder", "read4") => (Sweep::Cache, "read", width),
        ("fmapeak", "fma8") => (Sweep::Peak, "fma", width),
        ("working_set", "wgrad") => (Sweep::WorkingSet, "contraction", "untiled"),
        ("issue", tile @ ("t32" | "t64")) => (Sweep::Issue, "contraction", tile),
        ("launch", tile @ ("t32" | "t64")) => (Sweep::Launch, "contraction", tile),
        ("reduce", "sum4") => (Sweep::Reduce, "sum", width),
        (sweep, kernel) => return Err(format!("no sweep `{sweep}` has a kernel `{kernel}`")),
    })
}

/// `m=256;n=1024` as sizes; `elems` is what the probe calls elements.
fn sizes(text: &str) -> Result<BTreeMap<String, u64>, String> {
    let size = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let name = if name == "elems" { "elements" } else { name };
        Some((name.to_owned(), value.parse().ok()?))
    };
    let parts = text.split(';').filter(|part| !part.is_empty());
    parts.map(|part| size(part).ok_or_else(|| format!("`{part}` is no size"))).collect()
}

fn counts(
    series: &Series<'_>,
    (sweep, kernel): (Sweep, &str),
    sizes: &BTreeMap<String, u64>,
    compute_units: u64,
) -> Result<Counts, String> {
    let &Series { bytes, operations, blocks, threads, .. } = series;
    let size = |name: &str| sizes.get(name).copied().ok_or_else(|| format!("`{name}` is missing"));
    let launch_contexts = vec![LaunchContext { blocks, threads, operations }];
    let exact = Counts { bytes_exact: true, ops_exact: true, kernels: 1, launch_contexts, ..Counts::default() };
    let counts = match sweep {
        Sweep::Stream => {
            let written = size("elements")?.saturating_mul(Dtype::F32.bytes());
            let bytes_read = bytes.checked_sub(written).ok_or("fewer bytes than are written")?;
            Counts { bytes_read, bytes_written: written, bytes_distinct: bytes, bytes_requested: bytes_read, ..exact }
        }
        Sweep::Cache => {
            let footprint = size("footprint")?;
            let read = Counts { bytes_read: bytes, bytes_requested: bytes, bytes_distinct: footprint, ..exact };
            Counts { working_set_bytes: Some(footprint), ..read }
        }
        Sweep::WorkingSet => {
            let (m, n, k) = (size("m")?, size("n")?, size("k")?);
            let distinct = [m.saturating_mul(k), n.saturating_mul(k), m.saturating_mul(n)];
            let distinct = distinct.into_iter().fold(0_u64, u64::saturating_add).saturating_mul(Dtype::F32.bytes());
            let written = m.saturating_mul(n).saturating_mul(Dtype::F32.bytes());
            let resident = blocks.min(compute_units.saturating_mul(RESIDENT_THREADS / threads.max(1)));
            let working_set = (u128::from(bytes) * u128::from(resident) / u128::from(blocks.max(1))) as u64;
            Counts {
                // What the caches do not hold is not known: what must be read at least is.
                bytes_read: distinct.saturating_sub(written),
                bytes_written: written,
                bytes_distinct: distinct,
                bytes_requested: bytes,
                working_set_bytes: Some(working_set),
                flops: operations,
                scalar_ops: operations,
                ..exact
            }
        }
        Sweep::Reduce => Counts { bytes_read: bytes, bytes_requested: bytes, bytes_distinct: bytes, ..exact },
        Sweep::Issue | Sweep::Launch | Sweep::Peak => Counts { flops: operations, scalar_ops: operations, ..exact },
        Sweep::Latency => exact,
        Sweep::Onchip | Sweep::Scan | Sweep::Transfer => return Err(format!("{sweep}/{kernel} is not the probe's")),
    };
    Ok(counts)
}

#[cfg(test)]
mod tests;
