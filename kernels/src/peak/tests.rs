use fleetcal_model::point::{Dtype, Point};

use super::*;
use crate::testing::device;

fn point(kernel: &str, dtype: Dtype, iterations: u64) -> Point {
    Point { sizes: [(ITERATIONS.to_owned(), iterations)].into(), ..Peak.small_point(kernel, dtype) }
}

#[test]
fn every_kernel_has_the_formats_that_its_instruction_has() {
    let supported = |kernel: &str| -> Vec<&str> {
        let all = Peak.dtypes().iter().filter(|dtype| Peak.supports(kernel, **dtype));
        all.map(|dtype| dtype.name()).collect()
    };
    assert_eq!(supported(FMA), ["f32", "f64", "i32"]);
    assert_eq!(supported(MMA), ["f64", "f16", "bf16", "tf32", "i8"]);
    let error = Peak.check(&point(FMA, Dtype::I8, 1)).expect_err("no such kernel").to_string();
    assert!(error.contains("peak does not measure i8, it measures: f32, f64, i32"), "{error}");
}

#[test]
fn operations_are_those_of_all_threads() {
    let facts = device(Backend::Cuda);
    for (kernel, dtype, threads_of_one, operations_of_one) in [
        (FMA, Dtype::F32, 1, 2),
        (FMA, Dtype::I32, 1, 2),
        (MMA, Dtype::Bf16, 32, 2 * 16 * 8 * 16),
        (MMA, Dtype::Tf32, 32, 2 * 16 * 8 * 8),
        (MMA, Dtype::I8, 32, 2 * 16 * 8 * 32),
        (MMA, Dtype::F64, 32, 2 * 8 * 8 * 4),
    ] {
        let point = point(kernel, dtype, 3);
        for solution in Peak.solutions(&point, &facts) {
            let (blocks, threads) = parameter::grid(&solution);
            let counts = Peak.counts(&point, &solution, &facts);
            let expected = blocks * threads / threads_of_one * 3 * 16 * chains(&solution) * operations_of_one;
            assert_eq!(counts.flops, expected, "{point} {solution}");
            assert_eq!(counts.scalar_ops + counts.tensor_ops, counts.flops, "{point} {solution}");
            assert_eq!(counts.tensor_ops > 0, kernel == MMA, "{point} {solution}");
            assert!(blocks * threads >= OUTPUTS, "{point} {solution}: every output needs a thread");
        }
    }
}

#[test]
fn chains_stay_normal_numbers_and_move() {
    for dtype in [Dtype::F32, Dtype::F64] {
        let few = Peak.reference(&point(FMA, dtype, 1), DataPattern::Random, 0);
        let many = Peak.reference(&point(FMA, dtype, ITERATIONS_MAX), DataPattern::Random, 0);
        for thread in 0..OUTPUTS {
            assert!((1.0..3.0).contains(&few(thread).value) && (1.0..3.0).contains(&many(thread).value), "{thread}");
            assert_eq!(few(thread), few(thread % LANES), "first values repeat after {LANES} threads");
        }
        assert_ne!(few(0), many(0), "{dtype}: a loop left out would not be seen");
        assert_ne!(few(0), few(1), "{dtype}: threads that share a value hide a wrong lane");
    }
}

#[test]
fn sums_of_the_tensor_kernels_are_whole_and_exact() {
    for (dtype, bits) in [(Dtype::F16, 24), (Dtype::Bf16, 24), (Dtype::Tf32, 24), (Dtype::I8, 31), (Dtype::F64, 53)] {
        let right = Peak.reference(&point(MMA, dtype, ITERATIONS_MAX), DataPattern::Random, 0);
        let values: Vec<f64> = (0..OUTPUTS).map(|thread| right(thread).value).collect();
        assert!(values.iter().all(|value| value.fract() == 0.0 && value.abs() < f64::from(2).powi(bits)), "{values:?}");
        assert!(values.iter().any(|value| *value != values[0]), "{dtype}: all threads have the same");
    }
}

#[test]
fn devices_without_the_instruction_decline_it_with_a_reason() {
    let point = point(MMA, Dtype::F16, 1);
    let old = DeviceFacts { architecture: "sm_75".to_owned(), ..device(Backend::Cuda) };
    for (facts, why) in
        [(old, "compute capability 8.0"), (device(Backend::Hip), "AMD"), (device(Backend::Cpu), "processor")]
    {
        assert!(Peak.solutions(&point, &facts).is_empty());
        let declined = Peak.declined(&point, &facts);
        assert!(declined.contains("unsupported") && declined.contains(why), "{declined}");
    }
}
