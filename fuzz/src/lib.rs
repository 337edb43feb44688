//! What the fuzz targets and `tests/tests/hostile.rs` run: bytes in, a panic where a promise is broken.
//!
//! The promises: no fit panics, whatever it is given; what it answers is finite numbers or a reason; a document comes back
//! from its JSON as it was, and has no positive constant whose interval holds zero. Inputs tell which fits answered
//! numbers: a fit that refuses everything keeps every promise and shows none.

#![allow(clippy::panic)]

use std::fmt::Debug;

use fleetcal_model::constants::{Document, Envelope, may_be_negative};
use fleetcal_model::fit::devices::{Cell, OutlierRule, Outliers, effects, outliers};
use fleetcal_model::fit::interval::{self, Domain, Replicate};
use fleetcal_model::fit::line::fit_line;
use fleetcal_model::fit::regime::{RegimeRule, find};
use fleetcal_model::fit::{Options, capacity, fill, humps, intake::intake};
use fleetcal_model::id::RunId;
use fleetcal_model::row::{LaunchContext, Row};
use fleetcal_model::seed;
use fleetcal_model::seed::capacity::WorkingSetPoint;
use fleetcal_model::seed::envelope::EnvelopeRow;
use fleetcal_model::seed::fill::{FillForm, FillModel, LaunchPoint, STARVED, default_candidates};
use fleetcal_model::seed::issue::IssuePoint;
use fleetcal_model::statistics::{log_t_interval, median_interval, t_interval};
use fleetcal_model::units::{Bytes, BytesPerSecond, Seconds};
use fleetcal_proto::rows::{Decoder, from_batch, schema_message};

/// Points of an input at most, about as many as real sweeps have: fits look for a regime from every length, and filter
/// each to a fixed point, so that long inputs would only make runs slow.
const POINTS_MAX: usize = 24;

/// Bytes as the numbers of points.
struct Source<'b>(&'b [u8]);

impl Source<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn word(&mut self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A time: one of those that break things, one of a range of 1e9, or any bits.
    fn seconds(&mut self) -> f64 {
        const ODD: [f64; 10] =
            [0.0, -1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 5e-324, f64::MAX, 1e-300, 1e-3, 1e-3];
        let kind = self.byte();
        match kind % 8 {
            0 => ODD.get(usize::from(kind / 8) % ODD.len()).copied().unwrap_or(0.0),
            1 => f64::from_bits(self.word()),
            2 => 1e-6 * f64::from(1 + u32::from(self.byte())),
            _ => 1e-6 * 1e9_f64.powf(f64::from(self.byte()) / 255.0),
        }
    }

    /// A count: none, one, all that there are, a power of two, or any.
    fn count(&mut self) -> u64 {
        match self.byte() % 8 {
            0 => 0,
            1 => 1,
            2 => u64::MAX,
            3 => self.word(),
            _ => 1 << (self.byte() % 48),
        }
    }

    fn contexts(&mut self) -> Vec<LaunchContext> {
        let some = usize::from(self.byte() % 3);
        let context = |_| LaunchContext { blocks: self.count(), threads: self.count(), operations: self.count() };
        (0..some).map(context).collect()
    }

    /// Points until the bytes end.
    fn all<T>(&mut self, mut point: impl FnMut(&mut Self) -> T) -> Vec<T> {
        std::iter::from_fn(|| (!self.0.is_empty()).then(|| point(self))).take(POINTS_MAX).collect()
    }
}

/// Every fit that [`points`] runs, by the name that it is told by where it answered.
pub const FITS: [&str; 14] = [
    "line",
    "regime",
    "seed capacity",
    "capacity",
    "both sides",
    "seed issue",
    "seed fill",
    "fill",
    "envelope",
    "effects",
    "interval",
    "order statistics",
    "outliers",
    "humps",
];

/// Names of the fits that answered numbers rather than a reason for none.
pub type Answered = Vec<&'static str>;

fn answered<const N: usize>(fits: [(&'static str, bool); N]) -> Answered {
    fits.into_iter().filter(|(_, is_answer)| *is_answer).map(|(name, _)| name).collect()
}

/// Takes bytes as points of one of the fits. Those that answered.
///
/// # Panics
/// Where a fit breaks a promise.
pub fn points(bytes: &[u8]) -> Answered {
    let mut source = Source(bytes);
    match source.byte() % 7 {
        0 => lines(&mut source),
        1 => capacities(&mut source),
        2 => issue_rates(&mut source),
        3 => fills(&mut source),
        4 => envelopes(&mut source),
        5 => designs(&mut source),
        _ => numbers(&source.all(Source::seconds)),
    }
}

/// Takes bytes as a chunk of rows. The number of rows that the decoder let through.
///
/// # Panics
/// Where decoder, fit or document breaks a promise.
pub fn rows(bytes: &[u8]) -> usize {
    let decoder = schema_message().ok().and_then(|schema| Decoder::new(&schema).ok());
    let Some(decoder) = decoder else { panic!("our own schema is not ours") };
    let Ok(batches) = decoder.decode(bytes) else { return 0 };
    let rows: Vec<Row> = batches.iter().filter_map(|batch| from_batch(batch).ok()).flatten().collect();
    documents(&rows);
    rows.len()
}

/// Fits rows, as they are and as `fleetcal fit` takes them in. The documents.
///
/// # Panics
/// Where a document does not come back from its JSON: a number that is none has no word there.
pub fn documents(rows: &[Row]) -> Vec<Document> {
    let envelope = Envelope {
        created_utc_ns: 0,
        created_by: "fuzz".to_owned(),
        run_id: RunId::new("run"),
        coordinator_version: String::new(),
    };
    let found = Document::fit(rows, &Options::default(), &envelope);
    let taken_in = intake(rows, false).map(|intake| Document::fit(intake.rows, &Options::default(), &envelope));
    for document in found.iter().chain(taken_in.iter().flatten()) {
        let json = document.to_json().unwrap_or_else(|error| panic!("no JSON: {error}: {document:?}"));
        let back = Document::from_json(&json).unwrap_or_else(|error| panic!("{error}: {json}"));
        assert_eq!(&back, document, "it came back as another");
        for constant in document.body.constants.iter().filter(|constant| !may_be_negative(&constant.name)) {
            let zero = constant.interval.filter(|interval| interval.low <= 0.0);
            assert!(zero.is_none() && constant.value.is_none_or(|value| value > 0.0), "{constant:?}");
        }
    }
    found
}

/// `Debug` writes every number of an answer.
fn sound(answer: &impl Debug) {
    let text = format!("{answer:?}");
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

/// Wild points, of which hardly any lie on a line, and noisy ones of a line with a few wild ones among them.
fn lines(source: &mut Source<'_>) -> Answered {
    let is_wild = source.byte().is_multiple_of(2);
    let given = source.all(|from| match from.byte() {
        odd if is_wild || odd < 8 => (from.seconds(), from.seconds()),
        noise => {
            let x = f64::from(1 + u32::from(from.byte()));
            (x, (5.0 + x) * (1.0 + f64::from(noise) * 1e-4))
        }
    });
    let given = given.as_slice();
    let (line, regime) = (fit_line(given), find(given, RegimeRule::default()));
    line.iter().for_each(sound);
    regime.iter().for_each(|regime| sound(&regime.line));
    answered([("line", line.is_ok()), ("regime", regime.is_ok())])
}

fn capacities(source: &mut Source<'_>) -> Answered {
    let dram = (source.byte() % 2 == 1).then(|| BytesPerSecond(source.seconds()));
    let given = source.all(|from| WorkingSetPoint {
        working_set: Bytes(from.count()),
        requested: Bytes(from.count()),
        time: Seconds(from.seconds()),
    });
    let original = seed::capacity::fit(&given, dram);
    sound(&original);
    let found = capacity::fit(&given, dram);
    if let Ok(found) = &found {
        sound(found);
        let merged = capacity::merge(&[found.bracket, found.bracket]);
        assert!(merged.consistent || !found.monotone, "{found:?} {merged:?}");
    }
    answered([
        ("seed capacity", matches!(original, seed::capacity::CapacityFit::Transition { .. })),
        ("capacity", found.is_ok()),
        ("both sides", found.is_ok_and(|found| found.bracket.center().is_some())),
    ])
}

fn issue_rates(source: &mut Source<'_>) -> Answered {
    let fill =
        (source.byte() % 2 == 1).then(|| FillModel { multiprocessors: source.count(), fill_threads: source.count() });
    let given = source.all(|from| IssuePoint {
        scalar_ops: from.count(),
        time: Seconds(from.seconds()),
        contexts: from.contexts(),
    });
    let found = seed::issue::fit(&given, fill);
    found.iter().for_each(sound);
    answered([("seed issue", found.is_ok())])
}

/// A sweep of launches: wild ones, and ones that follow the form but for their times, or no candidate would ever fit.
fn fills(source: &mut Source<'_>) -> Answered {
    let is_wild = source.byte().is_multiple_of(2);
    let multiprocessors = if is_wild { source.count() } else { 1 + u64::from(source.byte()) };
    let truth = FillModel { multiprocessors, fill_threads: 32 * (1 + u64::from(source.byte() % 32)) };
    let given = source.all(|from| {
        let (is_wide, blocks) = (from.byte().is_multiple_of(2), 1 << (from.byte() % 12));
        let orderly = vec![LaunchContext { blocks, threads: if is_wide { 256 } else { 64 }, operations: 1 << 31 }];
        let contexts = if is_wild { from.contexts() } else { orderly };
        let seconds = match from.byte() {
            odd if is_wild || odd < 16 => from.seconds(),
            noise => truth.effective_ops(FillForm::Capped, &contexts) * 1e-12 * (1.0 + f64::from(noise) * 2e-4),
        };
        let geometry = if is_wide { "wide" } else { "narrow" }.to_owned();
        LaunchPoint { geometry, contexts, tensor_ops: u64::from(from.byte() == 7), time: Seconds(seconds) }
    });
    let original = seed::fill::fit(&given, multiprocessors, &default_candidates(), STARVED);
    original.iter().for_each(sound);
    let found = fill::fit(&given, multiprocessors, &default_candidates(), fill::FillRule::default());
    if let Ok(set) = &found {
        sound(set);
        assert!(set.fill_threads.contains(&set.best.model.fill_threads), "{set:?}");
    }
    answered([("seed fill", original.is_ok()), ("fill", found.is_ok())])
}

fn envelopes(source: &mut Source<'_>) -> Answered {
    let given = source.all(|from| {
        let flags = from.byte();
        EnvelopeRow {
            label: String::new(),
            time: Seconds(from.seconds()),
            bound: (flags & 8 > 0).then(|| Seconds(from.seconds())),
            kernels: from.count(),
            flops: from.count(),
            bytes: from.count(),
            flops_exact: flags & 1 > 0,
            bytes_exact: flags & 2 > 0,
            opaque: flags & 4 > 0,
        }
    });
    let found = seed::envelope::fit(&given);
    sound(&found);
    answered([("envelope", found.compute.is_some() && found.memory.is_some())])
}

fn designs(source: &mut Source<'_>) -> Answered {
    let cell = |from: &mut Source<'_>| {
        let at = usize::from(from.byte());
        Cell { device: at % 5, point: at / 5 % 4, logarithm: from.seconds().ln() }
    };
    let found = effects(&source.all(cell));
    found.iter().for_each(sound);
    answered([("effects", found.is_ok())])
}

fn numbers(values: &[f64]) -> Answered {
    let order = median_interval(values);
    sound(&[log_t_interval(values), t_interval(values), order]);
    let estimate = values.first().copied().unwrap_or(1.0);
    let intervals = [Domain::Positive, Domain::Real].map(|of| interval::of(values, estimate, Replicate::Device, of));
    sound(&intervals);
    let logarithm = |value: &f64| Some(value.ln()).filter(|logarithm| logarithm.is_finite());
    let given: Vec<Option<f64>> = values.iter().map(logarithm).collect();
    let (apart, found) = (outliers(&given, OutlierRule::default()), humps::find(&given, humps::HumpRule::default()));
    sound(&apart);
    sound(&found);
    answered([
        ("interval", intervals.iter().all(|spread| spread.interval.is_some())),
        ("order statistics", order.is_some()),
        ("outliers", matches!(apart, Outliers::Found(_))),
        ("humps", matches!(found, humps::Humps::One { .. } | humps::Humps::Two { .. })),
    ])
}
