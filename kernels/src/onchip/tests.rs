use super::*;
use crate::testing::device;

fn point(kernel: &str, sizes: [u64; 3]) -> Point {
    let dtype = Kernel::of(kernel).expect("a kernel").dtype();
    let sizes = [ITERATIONS, BLOCK, FULL_DEVICE].iter().zip(sizes).map(|(name, size)| ((*name).to_owned(), size));
    Point { sizes: sizes.collect(), ..Onchip.small_point(kernel, dtype) }
}

/// Every kernel, with one block and with all.
fn points() -> impl Iterator<Item = Point> {
    let all = Kernel::NAMES.into_iter();
    all.flat_map(|kernel| [[3, 64, 0], [1024, 1024, 1], [5, 32, 1]].map(|sizes| point(kernel, sizes)))
}

#[test]
fn work_is_that_of_all_threads() {
    let facts = device(Backend::Cuda);
    for point in points() {
        assert_eq!(Onchip.check(&point), Ok(()), "{point}");
        let (iterations, block) = (iterations(&point), block(&point));
        for solution in Onchip.solutions(&point, &facts) {
            let (blocks, threads) = parameter::grid(&solution);
            let is_full = point.size(FULL_DEVICE) == Some(1);
            assert!(if is_full { blocks % 132 == 0 && blocks <= 132 * 32 } else { blocks == 1 }, "{point} {solution}");
            assert_eq!(threads, block, "{point} {solution}");
            let (counts, all) = (Onchip.counts(&point, &solution, &facts), blocks * threads);
            let (operations, bytes_read) = match point.kernel.as_str() {
                "shared_read" | "l1_read" => (0, all * iterations * 16 * 16),
                "atomic_global_same" => (all * (iterations / 16).max(1), 4 * all * (iterations / 16).max(1)),
                "atomic_global_spread" => (all * iterations, 4 * all * iterations),
                "atomic_shared_same" | "atomic_shared_spread" => (4 * all * iterations, 16 * all * iterations),
                "barrier" => (blocks * iterations * 16, 0),
                _ => (all * iterations * 16 * chains(&solution), 0),
            };
            assert_eq!((counts.flops, counts.bytes_read), (operations, bytes_read), "{point} {solution}");
            assert_eq!(counts.launch_contexts.iter().map(|one| one.operations).sum::<u64>(), operations, "{point}");
            assert_eq!(counts.kernels as usize, Onchip.launches(&point, &solution, &facts).len(), "{point}");
        }
    }
}

/// What the threads of `gpu/onchip.cu` do, step by step.
#[test]
fn sums_of_reads_are_those_of_the_loop() {
    for iterations in [3, 100] {
        let right = Onchip.reference(&point("shared_read", [iterations, 64, 1]), DataPattern::Random, 0);
        for thread in [0_u32, 5, 63] {
            let (mut at, mut sum) = (thread, thread);
            for _ in 0..iterations * 16 {
                let words = (0..4).map(|lane| (4 * (at & 1023) + lane).wrapping_mul(2_654_435_761));
                sum = words.fold(sum, u32::wrapping_add);
                at += 33;
            }
            assert_eq!(right(thread.into()).value, f64::from(sum.cast_signed()), "{iterations}, thread {thread}");
        }
    }
}

#[test]
fn counters_begin_so_that_every_addition_is_seen() {
    let facts = device(Backend::Cuda);
    for kernel in ["atomic_global_same", "atomic_global_spread"] {
        let point = point(kernel, [64, 1024, 1]);
        let solution = Onchip.solutions(&point, &facts).remove(0);
        let launches = Onchip.launches(&point, &solution, &facts);
        let [_, Argument::U64(counters), Argument::U64(threads), Argument::U64(additions)] = launches[0].arguments[..]
        else {
            panic!("a buffer and three numbers")
        };
        assert_eq!(threads, launches[1].blocks * launches[1].threads, "{point}");
        assert_eq!(launches[1].arguments[1..], [counters, additions, 1].map(Argument::U64), "{point}");
        let adding: u64 = (0..counters).map(|at| threads / counters + u64::from(at < threads % counters)).sum();
        assert_eq!(adding, threads, "{point}: each thread adds to one counter");
        assert_eq!(additions * threads, Onchip.counts(&point, &solution, &facts).flops, "{point}");
    }
}

#[test]
fn special_functions_end_at_one_number_whatever_they_began_with() {
    for (kernel, end) in
        [("rsqrt", 1.0), ("rcp", 0.618_034), ("exp2", 0.641_186), ("log2", 2.444_908), ("sin", 0.934_563)]
    {
        for iterations in [3, 1024] {
            let value = Onchip.reference(&point(kernel, [iterations, 64, 1]), DataPattern::Random, 0)(0).value;
            assert!((value - end).abs() < 1e-6, "{kernel} after {iterations}: {value}");
        }
    }
}

#[test]
fn the_host_adds_and_declines_the_rest() {
    let facts = device(Backend::Cpu);
    for kernel in Kernel::NAMES {
        let point = point(kernel, [3, 64, 1]);
        let solutions = Onchip.solutions(&point, &facts);
        if kernel.starts_with("atomic_global") {
            assert_eq!(parameter::grid(&solutions[0]), (132, 1), "{point}");
        } else {
            assert!(solutions.is_empty() && Onchip.declined(&point, &facts).contains("unsupported on cpu"), "{point}");
        }
    }
}
