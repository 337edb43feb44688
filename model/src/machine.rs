//! A machine as predictions see it: the constants of one device class, under one condition.
//!
//! ```no_run
//! use fleetcal_model::machine::{Machine, Request};
//! use fleetcal_model::score::Kernel;
//! use fleetcal_model::units::Bytes;
//!
//! # #[cfg(feature = "serde")] {
//! let document = fleetcal_model::constants::Document::from_json(&std::fs::read_to_string("current.json")?)?;
//! let machine = Machine::load(&[&document.body], &Request::new(document.body.class_id.clone()))?;
//! let gibibyte = Bytes(1 << 30);
//! let copy = Kernel { read: gibibyte, written: gibibyte, requested: gibibyte, ..Kernel::default() };
//! println!("{} at least, {} expected", machine.bound(&copy)?.time, machine.score(&copy).seconds()?);
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A class that no document is of is an error, and never gets another class's constants. A constant that the document
//! does not identify is [`Missing`] with its reason; what needs it is not priced, and says so.

use std::collections::BTreeMap;

use crate::constants::{
    Body, CACHE_BANDWIDTH, CACHE_CAPACITY, Constant, FILL_THREADS, FULL_ISSUE_RATE, ISSUE_RATE, LAUNCH_LATENCY,
    MEMORY_BANDWIDTH, MEMORY_BANDWIDTH_ASYMPTOTE, Missing, PEAK_FLOPS, PIPE, Wanted,
};
use crate::id::ClassId;
use crate::point::Dtype;
use crate::row::Origin;
use crate::seed::fill::FillModel;
use crate::units::{Bytes, BytesPerSecond, OperationsPerSecond, Seconds, Unit};
use crate::vocabulary;

#[cfg(test)]
mod tests;

vocabulary! {
    /// The units of a multiprocessor that compute.
    Pipe, "pipe" {
        /// One operation a thread.
        Scalar => "scalar",
        /// Tiles of matrices: tensor cores, matrix cores.
        Tensor => "tensor",
    }
}

/// A constant, or why there is none to compute with.
pub type Known<T> = Result<T, Missing>;

/// Whose constants are wanted, and under which condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The class.
    pub class_id: ClassId,
    /// Where the constants come from. Simulated ones predict no real device.
    pub origin: Origin,
    /// The condition: names and values. One that is absent here is not held by a constant that states it.
    pub condition: Wanted,
}

impl Request {
    /// Measured constants of that class, for short work on a device whose neighbours are idle.
    pub fn new(class_id: ClassId) -> Self {
        let condition = [("neighbours", "alone"), ("load", "burst")];
        let condition = condition.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        Self { class_id, origin: Origin::Measured, condition }
    }

    /// The same, of another origin.
    #[must_use]
    pub fn origin(self, origin: Origin) -> Self {
        Self { origin, ..self }
    }

    /// The same, under one more condition: `neighbours` = `node_full`.
    #[must_use]
    pub fn under(mut self, name: &str, value: &str) -> Self {
        self.condition.insert(name.to_owned(), value.to_owned());
        self
    }
}

/// Why there is no machine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoMachine {
    /// No document is of the class and origin. A class never inherits another's constants.
    #[error("no constants of origin {origin} are known of class {class_id}; there are those of: {known}")]
    UnknownClass {
        /// The class asked for.
        class_id: ClassId,
        /// The origin asked for.
        origin: Origin,
        /// Classes and origins of the documents.
        known: String,
    },
    /// Several documents are of the class and origin, and nothing says which is in force.
    #[error("{documents} documents of origin {origin} are of class {class_id}: give the one in force")]
    SeveralDocuments {
        /// The class asked for.
        class_id: ClassId,
        /// The origin asked for.
        origin: Origin,
        /// How many.
        documents: usize,
    },
}

/// What predictions need of a device class.
#[derive(Debug, Clone, PartialEq)]
pub struct Machine {
    /// Whose constants they are, and under which condition.
    pub request: Request,
    /// Rate of main memory: the demonstrated floor over all kernels.
    pub memory_bandwidth: Known<BytesPerSecond>,
    /// Largest rate of main memory that anything says, asymptotes included: what a bound divides by.
    pub memory_ceiling: Known<BytesPerSecond>,
    /// Working set up to which re-reads are served by the cache.
    pub cache_capacity: Known<Bytes>,
    /// Rate at which they are.
    pub cache_bandwidth: Known<BytesPerSecond>,
    /// Scalar operations per second of a full device, by number format. One that is absent is not in the document.
    pub full_issue_rates: BTreeMap<Dtype, Known<OperationsPerSecond>>,
    /// Multiprocessors, and the threads that fill one.
    pub fill: Known<FillModel>,
    /// Peaks by pipe and number format. One that is absent is not in the document.
    pub peaks: BTreeMap<(Pipe, Dtype), Known<OperationsPerSecond>>,
    /// Time of a launch that does nothing.
    pub launch_latency: Known<Seconds>,
}

impl Machine {
    /// A machine of which nothing is known: fill in what is.
    pub fn unknown(request: Request) -> Self {
        Self {
            request,
            memory_bandwidth: absent(MEMORY_BANDWIDTH),
            memory_ceiling: absent(MEMORY_BANDWIDTH),
            cache_capacity: absent(CACHE_CAPACITY),
            cache_bandwidth: absent(CACHE_BANDWIDTH),
            full_issue_rates: BTreeMap::new(),
            fill: absent(FILL_THREADS),
            peaks: BTreeMap::new(),
            launch_latency: absent(LAUNCH_LATENCY),
        }
    }

    /// Finds the document of the class and origin asked for, and takes from it what holds under the condition.
    ///
    /// # Errors
    /// [`NoMachine`], where no document is of the class and origin, or several are.
    pub fn load(documents: &[&Body], request: &Request) -> Result<Self, NoMachine> {
        let Request { class_id, origin, .. } = request;
        let asked = |body: &&&Body| body.class_id == *class_id && body.origin == *origin;
        let found: Vec<&Body> = documents.iter().filter(asked).copied().collect();
        match found.as_slice() {
            [body] => Ok(Self::of(body, request)),
            [] => {
                let known = |body: &&Body| format!("{} ({}, {})", body.class_id, body.class_slug, body.origin);
                let known: Vec<String> = documents.iter().map(known).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join("; ") };
                Err(NoMachine::UnknownClass { class_id: class_id.clone(), origin: *origin, known })
            }
            several => Err(NoMachine::SeveralDocuments {
                class_id: class_id.clone(),
                origin: *origin,
                documents: several.len(),
            }),
        }
    }

    /// Takes from a document of the right class and origin what holds under the request's condition.
    pub(crate) fn of(body: &Body, request: &Request) -> Self {
        let wanted = &request.condition;
        let value = |name: &str, unit: Unit| body.select(name, wanted)?.usable(unit);
        let bandwidths = [MEMORY_BANDWIDTH, MEMORY_BANDWIDTH_ASYMPTOTE];
        let memory_bandwidth = value(MEMORY_BANDWIDTH, Unit::BytesPerSecond).map(BytesPerSecond);
        let memory_ceiling = match body.largest(&bandwidths, Unit::BytesPerSecond, wanted) {
            Some(rate) => Ok(BytesPerSecond(rate)),
            None => memory_bandwidth.clone(),
        };
        Self {
            request: request.clone(),
            memory_bandwidth,
            memory_ceiling,
            cache_capacity: value(CACHE_CAPACITY, Unit::Bytes).map(|bytes| Bytes(bytes as u64)),
            cache_bandwidth: value(CACHE_BANDWIDTH, Unit::BytesPerSecond).map(BytesPerSecond),
            full_issue_rates: issue_rates(body, wanted),
            fill: value(FILL_THREADS, Unit::Threads).and_then(|threads| fill(body, threads)),
            peaks: peaks(body, wanted),
            launch_latency: value(LAUNCH_LATENCY, Unit::Seconds).map(Seconds),
        }
    }

    /// The rate that no work of this kind is known to exceed: its peak, or a rate that the issue sweep showed above it.
    pub(crate) fn ceiling(&self, pipe: Pipe, dtype: Dtype) -> Known<OperationsPerSecond> {
        let peak = self.peak(pipe, dtype);
        let issued = match pipe {
            Pipe::Scalar => self.full_issue_rate(dtype).ok(),
            Pipe::Tensor => None,
        };
        match (peak, issued) {
            (Ok(peak), Some(issued)) if issued > peak => Ok(issued),
            // The issue rate alone is no ceiling: a kernel that stages less issues more.
            (peak, _) => peak,
        }
    }

    /// Largest rate of main memory.
    pub(crate) fn memory_ceiling(&self) -> Known<BytesPerSecond> {
        match (&self.memory_ceiling, &self.memory_bandwidth) {
            (Ok(ceiling), Ok(bandwidth)) if bandwidth > ceiling => Ok(*bandwidth),
            (Err(_), Ok(bandwidth)) => Ok(*bandwidth),
            (ceiling, _) => ceiling.clone(),
        }
    }

    pub(crate) fn peak(&self, pipe: Pipe, dtype: Dtype) -> Known<OperationsPerSecond> {
        let peak = self.peaks.get(&(pipe, dtype)).cloned();
        peak.unwrap_or_else(|| absent(&format!("{PEAK_FLOPS} for {pipe} {dtype}")))
    }

    pub(crate) fn full_issue_rate(&self, dtype: Dtype) -> Known<OperationsPerSecond> {
        let rate = self.full_issue_rates.get(&dtype).cloned();
        rate.unwrap_or_else(|| absent(&format!("{FULL_ISSUE_RATE} for {dtype}")))
    }
}

fn absent<T>(what: &str) -> Known<T> {
    Err(Missing::NotInDocument { what: what.to_owned() })
}

/// The issue rate of each number format that the document has any of.
fn issue_rates(body: &Body, wanted: &Wanted) -> BTreeMap<Dtype, Known<OperationsPerSecond>> {
    let of_dtype = |dtype: Dtype| {
        let wanted = with(wanted, &[("dtype", dtype.name())]);
        let constant = match body.select(FULL_ISSUE_RATE, &wanted) {
            // What a plain rate says of a full device is not known: it holds for the fill of its own launches.
            Err(Missing::NotInDocument { .. }) if body.select(ISSUE_RATE, &wanted).is_ok() => {
                let what = format!("{FULL_ISSUE_RATE} for {dtype} (only {ISSUE_RATE}, as its sweep was launched)");
                return Some((dtype, Err(Missing::NotInDocument { what })));
            }
            Err(Missing::NotInDocument { .. }) => return None,
            selected => selected.and_then(|constant| constant.usable(Unit::OperationsPerSecond)),
        };
        Some((dtype, constant.map(OperationsPerSecond)))
    };
    Dtype::ALL.iter().filter_map(|dtype| of_dtype(*dtype)).collect()
}

/// The largest peak of each pipe and number format, over instructions; where none is usable, why the first is not.
fn peaks(body: &Body, wanted: &Wanted) -> BTreeMap<(Pipe, Dtype), Known<OperationsPerSecond>> {
    let mut peaks = BTreeMap::new();
    for (&pipe, &dtype) in Pipe::ALL.iter().flat_map(|pipe| Dtype::ALL.iter().map(move |dtype| (pipe, dtype))) {
        let wanted = with(wanted, &[(PIPE, pipe.name()), ("dtype", dtype.name())]);
        // A peak that says neither pipe nor number format is no peak of any.
        let stated = |constant: &&Constant| {
            constant.name == PEAK_FLOPS && [PIPE, "dtype"].iter().all(|name| constant.condition.contains_key(*name))
        };
        let named = body.constants.iter().filter(stated).filter(|constant| constant.is_compatible(&wanted));
        let known =
            named.map(|constant| constant.usable(Unit::FlopsPerSecond)).reduce(|best, next| match (best, next) {
                (Ok(best), Ok(next)) => Ok(best.max(next)),
                (Ok(best), Err(_)) => Ok(best),
                (Err(_), Ok(next)) => Ok(next),
                (Err(best), Err(_)) => Err(best),
            });
        if let Some(known) = known {
            peaks.insert((pipe, dtype), known.map(OperationsPerSecond));
        }
    }
    peaks
}

fn fill(body: &Body, threads: f64) -> Known<FillModel> {
    let multiprocessors = body.class_key.compute_units;
    let fill_threads = threads as u64;
    let whole = fill_threads as f64 == threads && multiprocessors > 0;
    let unusable = || Missing::Unusable {
        name: FILL_THREADS.to_owned(),
        value: format!("{threads} on {multiprocessors} multiprocessors"),
    };
    if whole { Ok(FillModel { multiprocessors, fill_threads }) } else { Err(unusable()) }
}

fn with(wanted: &Wanted, more: &[(&str, &str)]) -> Wanted {
    let mut wanted = wanted.clone();
    wanted.extend(more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
    wanted
}
