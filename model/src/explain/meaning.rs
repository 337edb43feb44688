//! What constants mean, and which rows speak for them.

use crate::constants::{
    CACHE_BANDWIDTH, CACHE_CAPACITY, Constant, DEVICE_FILL_THREADS, FILL_THREADS, FULL_ISSUE_RATE, ISSUE_LATENCY,
    ISSUE_RATE, LAST_LEVEL_CACHE_BANDWIDTH, LAST_LEVEL_CACHE_CAPACITY, LAUNCH_LATENCY, MEMORY_BANDWIDTH,
    MEMORY_BANDWIDTH_ASYMPTOTE, PEAK_FLOPS, STREAM_LATENCY,
};
use crate::point::Sweep;
use crate::row::{Counts, Row};

/// What a point does in its time, as far as the constant goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Amount {
    /// Bytes moved.
    Moved,
    /// Bytes requested.
    Requested,
    /// Scalar operations.
    Operations,
    /// Floating-point operations.
    Flops,
    /// Nothing.
    Nothing,
}

impl Amount {
    /// How much of it a launch does.
    pub(super) fn of(self, counts: &Counts) -> u64 {
        match self {
            Self::Moved => counts.bytes_moved(),
            Self::Requested => counts.bytes_requested,
            Self::Operations => counts.scalar_ops,
            Self::Flops => counts.flops,
            Self::Nothing => 0,
        }
    }
}

/// What a constant means.
pub(super) struct Meaning {
    /// In a sentence.
    pub(super) what: &'static str,
    /// How it is found, in a sentence.
    pub(super) how: &'static str,
    sweeps: &'static [Sweep],
    pub(super) amount: Amount,
    /// Names of the latency and the rate of its line, if it is one of a line's.
    pub(super) line: Option<(&'static str, &'static str)>,
}

impl Meaning {
    /// Whether a row was measured for the constant under its condition.
    pub(super) fn concerns(&self, constant: &Constant, row: &Row) -> bool {
        let work = &row.work;
        let number = |own: Option<u64>, value: &str| own.is_some_and(|own| own.to_string() == value);
        // Where a condition names no state, rows in which one was seen are under another condition.
        let is_stateless = |key: &str, own: &Option<String>| constant.condition.contains_key(key) || own.is_none();
        self.sweeps.contains(&work.sweep)
            && is_stateless("neighbours", &row.conditions.neighbours)
            && is_stateless("load", &row.conditions.load)
            && constant.condition.iter().all(|(key, value)| match key.as_str() {
                "kernel" => work.kernel == *value,
                "dtype" => work.dtype.name() == value,
                "m" => number(work.m, value),
                "n" => number(work.n, value),
                // Grids of one solution are points of it.
                "solution" => work
                    .solution
                    .strip_prefix(value.as_str())
                    .is_some_and(|grid| grid.is_empty() || grid.starts_with('_')),
                "neighbours" => row.conditions.neighbours.as_deref() == Some(value),
                "load" => row.conditions.load.as_deref() == Some(value),
                // Told by the kernel.
                _ => true,
            })
    }
}

/// What the constant of a name means.
pub(super) fn meaning(name: &str) -> Meaning {
    let stream: &[Sweep] = &[Sweep::Stream];
    let issue: &[Sweep] = &[Sweep::Issue];
    match name {
        MEMORY_BANDWIDTH => plain(
            "the bandwidth of main memory that this class has shown: a floor, not a ceiling.",
            "the largest class median over arrays of at least four last-level caches whose bytes are exact.",
            stream,
            Amount::Moved,
        ),
        MEMORY_BANDWIDTH_ASYMPTOTE | STREAM_LATENCY => Meaning {
            what: "the bandwidth that a stream kernel tends to as its arrays grow, and the time before its first byte.",
            how: "time = latency + bytes / bandwidth over the best solution of each size, relative residuals weighted by Huber.",
            sweeps: stream,
            amount: Amount::Moved,
            line: Some((STREAM_LATENCY, MEMORY_BANDWIDTH_ASYMPTOTE)),
        },
        ISSUE_RATE | ISSUE_LATENCY => Meaning {
            what: "scalar operations a second of a register-blocktiled kernel, its staging included, and what a launch costs beside.",
            how: "time = latency + operations / rate over the longest run of points, from the shortest on, that one line holds.",
            sweeps: issue,
            amount: Amount::Operations,
            line: Some((ISSUE_LATENCY, ISSUE_RATE)),
        },
        FULL_ISSUE_RATE => plain(
            "the issue rate of a launch that fills the device.",
            "as the issue rate, with each point's operations divided by its launch fill.",
            issue,
            Amount::Operations,
        ),
        FILL_THREADS | DEVICE_FILL_THREADS => plain(
            "the threads at which a multiprocessor is full (t), and those at which the device is (P times t).",
            "for each candidate t, time = effective operations / rate by geometry; the candidate with the least relative squares.",
            &[Sweep::Launch],
            Amount::Operations,
        ),
        PEAK_FLOPS => plain(
            "floating-point operations a second that a kernel made for it has shown.",
            "the largest class median.",
            &[Sweep::Peak],
            Amount::Flops,
        ),
        LAUNCH_LATENCY => plain(
            "the time of a launch that does nothing.",
            "the class median of the empty kernel.",
            &[Sweep::Latency],
            Amount::Nothing,
        ),
        _ => of_caches(name),
    }
}

fn plain(what: &'static str, how: &'static str, sweeps: &'static [Sweep], amount: Amount) -> Meaning {
    Meaning { what, how, sweeps, amount, line: None }
}

fn of_caches(name: &str) -> Meaning {
    match name {
        CACHE_CAPACITY | CACHE_BANDWIDTH => plain(
            "the working set up to which re-reads come at the cache's rate, and that rate: constants of the score, not of a cache.",
            "a point is cached if its requested rate, the launch taken out, is at least the geometric mean of cache and memory.",
            &[Sweep::WorkingSet],
            Amount::Requested,
        ),
        LAST_LEVEL_CACHE_CAPACITY | LAST_LEVEL_CACHE_BANDWIDTH => plain(
            "the footprint up to which the last-level cache serves reads, and its rate.",
            "the same rule over footprints that are read again and again.",
            &[Sweep::Cache],
            Amount::Requested,
        ),
        _ => plain("a constant that this version has no words for.", "see its rows.", Sweep::ALL, Amount::Nothing),
    }
}
