use proptest::prelude::*;

use super::*;

/// Rates and amounts of all sizes, and what is none.
fn rates() -> impl Strategy<Value = f64> {
    prop_oneof![
        8 => 1e-3..1e15_f64,
        1 => prop_oneof![Just(0.0), Just(-1.0), Just(f64::NAN), Just(f64::INFINITY), Just(f64::MIN_POSITIVE), Just(1e308)],
    ]
}

fn known<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Result<T, Missing>> {
    prop_oneof![
        4 => value.prop_map(Ok),
        1 => Just(Err(Missing::NotInDocument { what: "it".to_owned() })),
    ]
}

fn machines(rates: fn() -> BoxedStrategy<f64>) -> impl Strategy<Value = Machine> {
    let bandwidth = move || known(rates().prop_map(BytesPerSecond));
    let operations = move || known(rates().prop_map(OperationsPerSecond));
    let fill = known(
        (0..200_u64, 0..3000_u64)
            .prop_map(|(multiprocessors, fill_threads)| FillModel { multiprocessors, fill_threads }),
    );
    let memory = (bandwidth(), bandwidth(), known(any::<u64>().prop_map(Bytes)), bandwidth());
    let compute = (operations(), operations(), operations(), fill, known(rates().prop_map(Seconds)));
    (memory, compute).prop_map(|(memory, (issue, scalar, tensor, fill, launch_latency))| Machine {
        memory_bandwidth: memory.0,
        memory_ceiling: memory.1,
        cache_capacity: memory.2,
        cache_bandwidth: memory.3,
        full_issue_rates: [(F32, issue)].into(),
        fill,
        peaks: [((Pipe::Scalar, F32), scalar), ((Pipe::Tensor, Dtype::Bf16), tensor)].into(),
        launch_latency,
        ..nothing_known()
    })
}

fn counts() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 1..1000_u64, any::<u64>()]
}

fn kernels() -> impl Strategy<Value = Kernel> {
    let bytes = (counts(), counts(), counts(), proptest::option::of(counts()));
    let contexts = proptest::collection::vec((0..2000_u64, 0..2000_u64, counts()), 0..3);
    (bytes, counts(), counts(), contexts, any::<bool>()).prop_map(|(bytes, scalar, tensor, contexts, opaque)| {
        let mut operations = operations(Pipe::Scalar, F32, scalar);
        operations.insert((Pipe::Tensor, Dtype::Bf16), Operations(tensor));
        let context = |(blocks, threads, operations)| LaunchContext { blocks, threads, operations };
        Kernel {
            read: Bytes(bytes.0),
            written: Bytes(bytes.1),
            requested: Bytes(bytes.2),
            working_set: bytes.3.map(Bytes),
            operations,
            launch_contexts: contexts.into_iter().map(context).collect(),
            opaque,
            ..Kernel::default()
        }
    })
}

/// The machine with every rate multiplied.
fn raised(machine: &Machine, factor: f64) -> Machine {
    let bandwidth = |known: &Result<BytesPerSecond, Missing>| known.clone().map(|rate| BytesPerSecond(rate.0 * factor));
    let rate =
        |known: &Result<OperationsPerSecond, Missing>| known.clone().map(|rate| OperationsPerSecond(rate.0 * factor));
    Machine {
        memory_bandwidth: bandwidth(&machine.memory_bandwidth),
        memory_ceiling: bandwidth(&machine.memory_ceiling),
        full_issue_rates: machine.full_issue_rates.iter().map(|(dtype, known)| (*dtype, rate(known))).collect(),
        peaks: machine.peaks.iter().map(|(key, known)| (*key, rate(known))).collect(),
        ..machine.clone()
    }
}

fn sane() -> BoxedStrategy<f64> {
    (1e-3..1e15_f64).boxed()
}

fn wild() -> BoxedStrategy<f64> {
    rates().boxed()
}

fn is_duration(seconds: Seconds) -> bool {
    seconds.0.is_finite() && seconds.0 >= 0.0
}

proptest! {
    #[test]
    fn nothing_is_ever_no_number(machine in machines(wild), kernel in kernels()) {
        let score = machine.score(&kernel);
        for time in [score.seconds(), score.time()] {
            prop_assert!(time.is_err() || time.is_ok_and(is_duration), "{:?}", score);
        }
        prop_assert!(score.at_least().is_none_or(|time| time.0 >= 0.0), "{:?}", score);
        if let Ok(bound) = machine.bound(&kernel) {
            prop_assert!(is_duration(bound.time), "{:?}", bound);
        }
        let routine = machine.routine_bound(&[kernel.clone(), kernel]);
        prop_assert!(routine.as_ref().map_or(true, |routine| is_duration(routine.time)), "{:?}", routine);
    }

    #[test]
    fn a_score_is_never_below_its_bound(machine in machines(wild), kernel in kernels()) {
        let (score, bound) = (machine.score(&kernel), machine.bound(&kernel));
        if let Ok(bound) = bound {
            if let Ok(seconds) = score.seconds() {
                prop_assert!(seconds >= bound.time, "{:?} below {:?}", score, bound);
            }
            prop_assert!(score.at_least().is_some_and(|time| time >= bound.time), "{:?} below {:?}", score, bound);
        }
    }

    #[test]
    fn work_without_a_rate_is_never_left_out(machine in machines(sane), kernel in kernels()) {
        let score = machine.score(&kernel);
        let has_bytes = kernel.compulsory().0 > 0 || kernel.reread().0 > 0;
        prop_assert_eq!(score.memory == Leg::NoWork, !has_bytes);
        for (pipe, leg) in [(Pipe::Scalar, &score.scalar), (Pipe::Tensor, &score.tensor)] {
            prop_assert_eq!(*leg == Leg::NoWork, kernel.operations_of(pipe).next().is_none());
        }
        if machine.fill.is_err() && score.scalar != Leg::NoWork {
            prop_assert!(score.seconds().is_err());
        }
    }

    #[test]
    fn raising_constants_never_raises_a_bound_and_none_appears_or_goes(
        machine in machines(sane), kernel in kernels(), factor in 1.0..10.0_f64,
    ) {
        let (before, after) = (machine.bound(&kernel), raised(&machine, factor).bound(&kernel));
        prop_assert_eq!(before.is_ok(), after.is_ok());
        if let (Ok(before), Ok(after)) = (before, after) {
            prop_assert!(after.time <= before.time, "{:?} after {:?}", after, before);
        }
    }

    #[test]
    fn learning_a_constant_never_lowers_a_bound(machine in machines(sane), kernel in kernels()) {
        let less = Machine { peaks: BTreeMap::new(), full_issue_rates: BTreeMap::new(), ..machine.clone() };
        if let Ok(before) = less.bound(&kernel) {
            prop_assert!(machine.bound(&kernel).is_ok_and(|after| after.time >= before.time));
        }
    }

    #[test]
    fn however_work_is_cut_its_bound_lies_between_the_largest_leg_and_the_sum(
        parts in proptest::collection::vec((0..1_u64 << 40, 0..1_u64 << 40), 1..20),
    ) {
        let kernels: Vec<Kernel> = parts.iter().map(|&(count, bytes)| work(count, bytes)).collect();
        let total = work(parts.iter().map(|part| part.0).sum(), parts.iter().map(|part| part.1).sum());
        if let Ok(routine) = advisories().routine_bound(&kernels) {
            let whole = advisories().bound(&total).expect("its parts have work").time.0;
            let legs = total.read.0 as f64 / 4.5e11 + parts.iter().map(|part| part.0 as f64).sum::<f64>() / 1.5e13;
            let rounding = 1e-12 * legs;
            prop_assert!(routine.time.0 >= whole - rounding && routine.time.0 <= legs + rounding);
        }
    }
}
