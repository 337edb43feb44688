use std::collections::BTreeMap;

use super::*;
use crate::constants::Missing;
use crate::id::ClassId;
use crate::machine::Request;
use crate::point::Dtype::{self, F32};
use crate::row::LaunchContext;
use crate::seed::fill::FillModel;
use crate::units::{Bytes, BytesPerSecond, OperationsPerSecond};

mod h200;
mod properties;

pub(super) fn nothing_known() -> Machine {
    Machine::unknown(Request::new(ClassId::new("class")))
}

pub(super) fn operations(pipe: Pipe, dtype: Dtype, count: u64) -> BTreeMap<(Pipe, Dtype), Operations> {
    [((pipe, dtype), Operations(count))].into()
}

/// One context of scalar f32 operations.
pub(super) fn contraction(blocks: u64, threads: u64, count: u64) -> Kernel {
    Kernel {
        operations: operations(Pipe::Scalar, F32, count),
        launch_contexts: vec![LaunchContext { blocks, threads, operations: count }],
        ..Kernel::default()
    }
}

/// A machine with round numbers: a byte in 1 s from memory, in 0.1 s from the cache up to 1000 bytes, a scalar operation
/// in 0.5 s and at least in 0.25 s, a tensor operation in 0.01 s; 10 multiprocessors of 100 threads, and 3 s a launch.
pub(super) fn round_numbers() -> Machine {
    let rate = |rate| Ok(OperationsPerSecond(rate));
    Machine {
        memory_bandwidth: Ok(BytesPerSecond(1.0)),
        memory_ceiling: Ok(BytesPerSecond(2.0)),
        cache_capacity: Ok(Bytes(1000)),
        cache_bandwidth: Ok(BytesPerSecond(10.0)),
        full_issue_rates: [(F32, rate(2.0))].into(),
        fill: Ok(FillModel { multiprocessors: 10, fill_threads: 100 }),
        peaks: [((Pipe::Scalar, F32), rate(4.0)), ((Pipe::Tensor, Dtype::Bf16), rate(100.0))].into(),
        launch_latency: Ok(Seconds(3.0)),
        ..nothing_known()
    }
}

/// The advisories that a published report priced a training step with: operations and bytes per second.
fn advisories() -> Machine {
    Machine {
        memory_ceiling: Ok(BytesPerSecond(4.5e11)),
        peaks: [((Pipe::Scalar, F32), Ok(OperationsPerSecond(1.5e13)))].into(),
        ..nothing_known()
    }
}

fn work(count: u64, bytes: u64) -> Kernel {
    Kernel { operations: operations(Pipe::Scalar, F32, count), read: Bytes(bytes), ..Kernel::default() }
}

fn milliseconds(kernels: &[Kernel]) -> f64 {
    (advisories().routine_bound(kernels).expect("a bound").time.0 * 1e6).round() / 1e3
}

#[test]
fn a_step_of_many_kernels_is_bounded_by_the_sum_of_their_maxima() {
    // 117 kernels, 7.72e9 operations and 441e6 bytes; the report's bound is 1.110 ms.
    let (operations, bytes) = (7_720_000_000, 441_000_000);
    assert_eq!(milliseconds(&[work(operations, 0)]), 0.515);
    assert_eq!(milliseconds(&[work(0, bytes)]), 0.98);
    assert_eq!(milliseconds(&[work(operations, bytes)]), 0.98, "one kernel overlaps both");
    assert_eq!(milliseconds(&[work(operations, 0), work(0, bytes)]), 1.495, "two kernels overlap nothing");
    // The step lies between: as if a quarter of its operations were in kernels that move nothing.
    assert_eq!(milliseconds(&[work(1_950_000_000, 0), work(operations - 1_950_000_000, bytes)]), 1.11);
}

#[test]
fn a_matrix_product_far_below_its_peak_is_bounded_and_not_predicted() {
    let bound = advisories().bound(&work(537_000_000, 0)).expect("a bound");
    assert_eq!((bound.leg, bound.exact), (BoundLeg::Operations(Pipe::Scalar, F32), true));
    assert_eq!((bound.time.0 / 2.349e-3 * 1e3).round(), 15.0, "1.5% of the peak in 2.349 ms");
    assert!(!bound.is_violated_by(Seconds(2.349e-3)) && bound.is_violated_by(Seconds(3e-5)), "{bound:?}");
    let upper = Kernel { operations_exact: false, ..work(537_000_000, 0) };
    let bound = advisories().bound(&upper).expect("a bound");
    assert!(!bound.is_violated_by(Seconds(3e-5)), "an upper count proves nothing");
}

#[test]
fn the_fill_prices_a_launch_of_few_blocks() {
    // One kernel at five block counts on 46 multiprocessors (128 threads a block), and what it took.
    let fill = Ok(FillModel { multiprocessors: 46, fill_threads: 128 });
    let full_issue_rates = [(F32, Ok(OperationsPerSecond(2.204e11)))].into();
    let machine = Machine { fill, full_issue_rates, ..nothing_known() };
    for (blocks, measured_ms) in [(8, 13.85), (16, 7.24), (32, 3.50), (128, 2.47), (1024, 2.36)] {
        let score = machine.score(&contraction(blocks, 128, 2 * 1024 * 256 * 1024)).seconds().expect("a score");
        let error = score.0 / (measured_ms * 1e-3) - 1.0;
        assert!(error.abs() < 0.034, "{blocks} blocks: off by {error}");
    }
}

#[test]
fn rereads_are_charged_to_the_cache_up_to_the_capacity_and_to_memory_past_it() {
    let machine = round_numbers();
    let at = |working_set| Kernel {
        read: Bytes(100),
        written: Bytes(20),
        requested: Bytes(500),
        working_set,
        ..Kernel::default()
    };
    let memory = |working_set| machine.score(&at(working_set)).memory;
    assert_eq!(memory(Some(Bytes(1000))), Leg::Priced(Seconds(160.0)));
    assert_eq!(memory(Some(Bytes(1001))), Leg::Priced(Seconds(520.0)));
    let unknown = Leg::NotPriced { reason: NotPriced::NoWorkingSet, at_least: Some(Seconds(60.0)) };
    assert_eq!(memory(None), unknown, "the bound, at the ceiling's rate, is what is left");
    let once = Kernel { requested: Bytes(100), ..at(None) };
    assert_eq!(machine.score(&once).memory, Leg::Priced(Seconds(120.0)), "no re-reads need no working set");
}

#[test]
fn legs_overlap_memory_add_compute_and_leave_the_launch_to_times() {
    let mut kernel = contraction(5, 100, 8);
    kernel.operations.insert((Pipe::Tensor, Dtype::Bf16), Operations(300));
    let score = round_numbers().score(&kernel);
    // Half full: 8 operations at 1 op/s, and 3 s of tensor work.
    let Score { scalar, tensor, memory, launch } = &score;
    let priced = [scalar, tensor, memory, launch].map(|leg| leg.time().expect("all is known").0);
    assert_eq!((priced, memory), ([8.0, 3.0, 0.0, 3.0], &Leg::NoWork));
    assert_eq!((score.seconds(), score.time()), (Ok(Seconds(11.0)), Ok(Seconds(14.0))));
    kernel.read = Bytes(12);
    assert_eq!(round_numbers().score(&kernel).seconds(), Ok(Seconds(12.0)));
    assert_eq!(round_numbers().routine_score(&[kernel.clone(), kernel]), Ok(Seconds(24.0)));
}

#[test]
fn what_has_no_constant_is_named_and_never_free() {
    let kernel = contraction(5, 100, 8);
    let score = Machine { fill: nothing_known().fill, ..round_numbers() }.score(&kernel);
    let missing = NotPriced::Constant(Missing::NotInDocument { what: "fill_threads".to_owned() });
    assert_eq!(score.seconds(), Err(missing.clone()));
    assert_eq!(score.scalar, Leg::NotPriced { reason: missing, at_least: Some(Seconds(2.0)) });
    assert_eq!(score.at_least(), Some(Seconds(2.0)));

    let bare = Kernel { launch_contexts: Vec::new(), ..kernel.clone() };
    assert_eq!(round_numbers().score(&bare).seconds(), Err(NotPriced::NoFill));
    let opaque = Kernel { opaque: true, ..kernel.clone() };
    assert_eq!(round_numbers().score(&opaque).seconds(), Err(NotPriced::Opaque));
    assert!(round_numbers().bound(&opaque).is_ok(), "a count that is too low still bounds");
    let half = Kernel { operations: operations(Pipe::Tensor, Dtype::F16, 8), ..kernel };
    let reason = round_numbers().score(&half).seconds().expect_err("no peak of f16").to_string();
    assert_eq!(reason, "the document has no peak_flops for tensor f16");
    assert_eq!(round_numbers().routine_score(&[bare]), Err((0, NotPriced::NoFill)));
}

#[test]
fn a_rate_that_is_none_prices_nothing() {
    for rate in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let (bandwidth, rate) = (Ok(BytesPerSecond(rate)), Ok(OperationsPerSecond(rate)));
        let machine = Machine {
            memory_bandwidth: bandwidth.clone(),
            memory_ceiling: bandwidth,
            full_issue_rates: [(F32, rate.clone())].into(),
            peaks: [((Pipe::Scalar, F32), rate.clone())].into(),
            launch_latency: Ok(Seconds(f64::NAN)),
            ..round_numbers()
        };
        let kernel = Kernel { read: Bytes(1), ..contraction(1, 1, 1) };
        let Score { memory, scalar, launch, .. } = machine.score(&kernel);
        for leg in [memory, scalar, launch] {
            assert_eq!(leg, Leg::NotPriced { reason: NotPriced::NotFinite, at_least: None }, "{rate:?}");
        }
        assert!(machine.bound(&kernel).is_err(), "{rate:?}");
    }
}

#[test]
fn a_bound_exists_if_any_leg_does_and_says_what_it_lacks() {
    let memory_only = Machine { memory_bandwidth: Ok(BytesPerSecond(10.0)), ..nothing_known() };
    let kernel = Kernel { bytes_exact: false, ..work(5, 20) };
    let bound = memory_only.bound(&kernel).expect("a bound");
    assert_eq!((bound.time, bound.leg, bound.exact), (Seconds(2.0), BoundLeg::Memory, false));
    assert_eq!(bound.not_priced[0].0, BoundLeg::Operations(Pipe::Scalar, F32));
    assert!(matches!(memory_only.bound(&work(5, 0)), Err(NoBound::NotPriced(legs)) if legs.len() == 1));
    assert_eq!(memory_only.bound(&Kernel::default()), Err(NoBound::NoWork));

    let routine = memory_only.routine_bound(&[work(5, 20), work(5, 0), Kernel::default()]).expect("a bound");
    assert_eq!((routine.time, routine.unbounded), (Seconds(2.0), vec![1]));
    assert!(matches!(memory_only.routine_bound(&[work(5, 0)]), Err(NoBound::NotPriced(_))));
    assert_eq!(memory_only.routine_bound(&[]), Err(NoBound::NoWork));
}

#[test]
fn a_rate_that_was_shown_above_its_peak_raises_the_ceiling() {
    let peaks = [((Pipe::Scalar, F32), Ok(OperationsPerSecond(1.0)))].into();
    let machine = Machine { peaks, memory_ceiling: Ok(BytesPerSecond(0.5)), ..round_numbers() };
    assert_eq!(machine.bound(&work(8, 0)).expect("a bound").time, Seconds(4.0));
    assert_eq!(machine.bound(&work(0, 8)).expect("a bound").time, Seconds(8.0));
    let no_peak = Machine { peaks: BTreeMap::new(), ..machine };
    assert!(no_peak.bound(&work(8, 0)).is_err(), "an issue rate by itself is no ceiling");
}

#[test]
fn a_row_is_a_kernel_by_its_counts() {
    let mut row = crate::testing::RowSpec::new("triad", 1 << 20, &[1e5; 3]).row();
    row.counts.bytes_requested = row.counts.bytes_read;
    (row.counts.flops, row.counts.tensor_ops, row.counts.kernels) = (30, 10, 0);
    let kernel = Kernel::of_row(&row);
    assert_eq!((kernel.read, kernel.written, kernel.reread()), (Bytes(8 << 20), Bytes(4 << 20), Bytes(0)));
    let counted = [((Pipe::Scalar, F32), Operations(20)), ((Pipe::Tensor, F32), Operations(10))];
    assert_eq!((kernel.operations, kernel.launches), (counted.into(), 1), "what is no tensor work is scalar");
    // Counts of a file are believed as far as they can be true.
    row.counts.bytes_written = u64::MAX;
    let kernel = Kernel::of_row(&row);
    assert_eq!((kernel.compulsory(), kernel.read), (Bytes(12 << 20), Bytes(0)));
}
