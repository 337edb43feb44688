use super::*;
use crate::constants::{Constant, Document, Envelope, Verdict};
use crate::fit::Options;
use crate::id::RunId;
use crate::score::{Kernel, SCORE_VERSION};
use crate::testing::RowSpec;

/// A document of the bandwidth of two devices, and of no more.
fn body() -> Body {
    let sizes = [1_u64 << 27, 1 << 28, 1 << 29];
    let of_device = |device| sizes.map(|elements| RowSpec::modelled("triad", elements, 5e3, 4e12).device(device).row());
    let rows: Vec<_> = ["GPU-a", "GPU-b"].into_iter().flat_map(of_device).collect();
    let envelope = Envelope {
        created_utc_ns: 1,
        created_by: "test".to_owned(),
        run_id: RunId::new("run-1"),
        coordinator_version: "0.1.0".to_owned(),
    };
    Document::fit(&rows, &Options::default(), &envelope).remove(0).body
}

fn constant(name: &str, condition: &[(&str, &str)], value: f64, unit: Unit) -> Constant {
    let condition = condition.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    Constant { name: name.to_owned(), condition, value: Some(value), unit, ..body().constants[0].clone() }
}

/// The document with more constants.
fn extended(constants: impl IntoIterator<Item = Constant>) -> Body {
    let mut body = body();
    body.constants.extend(constants);
    body
}

fn load(body: &Body) -> Machine {
    Machine::load(&[body], &Request::new(body.class_id.clone())).expect("its own class")
}

/// A constant for everything that a machine knows, of the size that an H200 has it.
fn everything() -> Vec<Constant> {
    let f32 = ("dtype", "f32");
    vec![
        constant(CACHE_CAPACITY, &[], 3.14e9, Unit::Bytes),
        constant(CACHE_BANDWIDTH, &[], 9.3e12, Unit::BytesPerSecond),
        constant(ISSUE_RATE, &[f32], 3.67e12, Unit::OperationsPerSecond),
        constant(FULL_ISSUE_RATE, &[f32], 1.42e13, Unit::OperationsPerSecond),
        constant(FILL_THREADS, &[], 480.0, Unit::Threads),
        constant(LAUNCH_LATENCY, &[], 4.8e-6, Unit::Seconds),
        constant(PEAK_FLOPS, &[f32, (PIPE, "scalar"), ("instruction", "fma")], 6.5e13, Unit::FlopsPerSecond),
        constant(PEAK_FLOPS, &[f32, (PIPE, "scalar"), ("instruction", "add")], 3.2e13, Unit::FlopsPerSecond),
        constant(PEAK_FLOPS, &[("dtype", "bf16"), (PIPE, "tensor")], 6.36e14, Unit::FlopsPerSecond),
        constant(PEAK_FLOPS, &[f32, (PIPE, "scalar"), ("load", "sustained")], 9e13, Unit::FlopsPerSecond),
    ]
}

#[test]
fn a_document_gives_what_it_has_with_units() {
    let machine = load(&extended(everything()));
    let floor = machine.memory_bandwidth.clone().expect("the floor").0;
    let ceiling = machine.memory_ceiling.clone().expect("the asymptote").0;
    assert!(floor < 4e12 && (ceiling / 4e12 - 1.0).abs() < 1e-6, "{floor} {ceiling}");
    assert_eq!(machine.cache_capacity, Ok(Bytes(3_140_000_000)));
    assert_eq!(machine.cache_bandwidth, Ok(BytesPerSecond(9.3e12)));
    assert_eq!(machine.fill, Ok(FillModel { multiprocessors: 132, fill_threads: 480 }));
    assert_eq!(machine.launch_latency, Ok(Seconds(4.8e-6)));
    assert_eq!(machine.full_issue_rate(Dtype::F32), Ok(OperationsPerSecond(1.42e13)));
    assert_eq!(machine.peak(Pipe::Scalar, Dtype::F32), Ok(OperationsPerSecond(6.5e13)), "fma, and not sustained");
    assert_eq!(machine.peak(Pipe::Tensor, Dtype::Bf16), Ok(OperationsPerSecond(6.36e14)));
    let other = machine.full_issue_rate(Dtype::F64).expect_err("f32 says nothing of f64").to_string();
    assert_eq!(other, "full_issue_rate is known under other conditions only: dtype=f32");
    assert!(machine.peak(Pipe::Tensor, Dtype::F32).is_err(), "a scalar peak is none of tensor units");
}

#[test]
fn what_a_document_lacks_is_missing_by_name() {
    let machine = load(&body());
    let missing = |what: &str| Missing::NotInDocument { what: what.to_owned() };
    assert_eq!(machine.cache_capacity, Err(missing("cache_capacity")));
    assert_eq!(machine.fill, Err(missing("fill_threads")));
    assert_eq!(machine.full_issue_rate(Dtype::F32), Err(missing("full_issue_rate for f32")));
    let copy = Kernel { read: Bytes(1 << 30), written: Bytes(1 << 30), ..Kernel::default() };
    assert!(machine.score(&copy).seconds().is_ok() && machine.score(&copy).time().is_err());
    // A plain issue rate holds for the fill of its own launches, and for no other.
    let plain = load(&extended([constant(ISSUE_RATE, &[("dtype", "f32")], 3.67e12, Unit::OperationsPerSecond)]));
    let reason = plain.full_issue_rate(Dtype::F32).expect_err("no rate of a full device").to_string();
    assert!(reason.contains("only issue_rate"), "{reason}");
}

#[test]
fn an_unknown_class_or_origin_has_no_machine() {
    let body = body();
    let error = Machine::load(&[&body], &Request::new(ClassId::new("other"))).expect_err("another class");
    assert!(error.to_string().contains(&body.class_slug), "{error}");
    let simulated = Request::new(body.class_id.clone()).origin(Origin::Simulated);
    assert!(matches!(Machine::load(&[&body], &simulated), Err(NoMachine::UnknownClass { .. })));
    let request = Request::new(body.class_id.clone());
    assert!(Machine::load(&[], &request).expect_err("nothing").to_string().ends_with("those of: none"));
    assert!(matches!(Machine::load(&[&body, &body], &request), Err(NoMachine::SeveralDocuments { documents: 2, .. })));
}

#[test]
fn verdicts_units_versions_and_values_are_heeded() {
    let sound = constant(CACHE_CAPACITY, &[], 1e9, Unit::Bytes);
    let capacity = |constant: Constant| load(&extended([constant])).cache_capacity;
    assert_eq!(capacity(sound.clone()), Ok(Bytes(1_000_000_000)));

    let reason = Some("all cached".to_owned());
    let verdict = Constant { verdict: Verdict::NotIdentified, value: None, reason, ..sound.clone() };
    assert_eq!(capacity(verdict).expect_err("no value").to_string(), "cache_capacity is not identified: all cached");
    let unit = Constant { unit: Unit::BytesPerSecond, ..sound.clone() };
    assert!(matches!(capacity(unit), Err(Missing::OtherUnit { found: Unit::BytesPerSecond, .. })));
    for version in [None, Some(SCORE_VERSION + 1)] {
        let other = Constant { score_version: version, ..sound.clone() };
        assert!(matches!(capacity(other), Err(Missing::OtherScore { .. })), "{version:?}");
    }
    for value in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let odd = Constant { value: Some(value), ..sound.clone() };
        assert!(matches!(capacity(odd), Err(Missing::Unusable { .. })), "{value}");
    }
    let half = constant(FILL_THREADS, &[], 0.5, Unit::Threads);
    assert!(matches!(load(&extended([half])).fill, Err(Missing::Unusable { .. })), "half a thread");
    let old = Constant { score_version: None, ..constant(LAUNCH_LATENCY, &[], 1e-6, Unit::Seconds) };
    assert!(load(&extended([old])).launch_latency.is_ok(), "a latency means the same under every score");
}

#[test]
fn the_most_particular_constant_that_holds_is_taken() {
    let latency = |condition: &[(&str, &str)], seconds| constant(LAUNCH_LATENCY, condition, seconds, Unit::Seconds);
    let (any, alone, full) =
        (latency(&[], 1.0), latency(&[("neighbours", "alone")], 2.0), latency(&[("neighbours", "node_full")], 3.0));
    let take = |constants: &[&Constant], request: &dyn Fn(Request) -> Request| {
        let body = extended(constants.iter().map(|constant| (*constant).clone()));
        let request = request(Request::new(body.class_id.clone()));
        Machine::load(&[&body], &request).expect("its own class").launch_latency.map(|latency| latency.0)
    };
    let as_it_is = |request: Request| request;
    let node_full = |request: Request| request.under("neighbours", "node_full");
    assert_eq!(take(&[&any, &alone, &full], &as_it_is), Ok(2.0));
    assert_eq!(take(&[&any, &alone, &full], &node_full), Ok(3.0));
    assert_eq!(take(&[&any, &full], &as_it_is), Ok(1.0), "one that does not say holds for lack of a better one");
    assert!(matches!(take(&[&full], &as_it_is), Err(Missing::OtherConditions { .. })));
    let burst = latency(&[("load", "burst")], 4.0);
    assert!(matches!(take(&[&alone, &burst], &as_it_is), Err(Missing::Ambiguous { .. })));
    let solution = latency(&[("neighbours", "alone"), ("solution", "w4")], 5.0);
    assert_eq!(take(&[&alone, &solution], &as_it_is), Ok(2.0), "a solution's own holds where it is asked for");
    assert_eq!(take(&[&alone, &solution], &|request| request.under("solution", "w4")), Ok(5.0));
}
