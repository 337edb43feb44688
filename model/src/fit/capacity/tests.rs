use super::*;
use crate::testing::Random;

/// Medians of nine launches of the untiled contraction on one H200, nanoseconds, for k = 256 · 2^i: m × n, blocks.
const H200_NS: [(u64, &[u64]); 3] = [
    (1024, &[32_608, 57_632, 109_952, 219_584, 435_520, 963_712, 1_921_664, 4_012_896]),
    (8192, &[229_280, 463_808, 936_960, 1_979_264, 5_175_904, 12_407_328, 28_264_641, 61_487_358]),
    (16384, &[446_400, 917_696, 1_862_432, 3_728_928, 7_921_248, 20_286_880, 50_200_161, 114_006_561]),
];
/// Its bandwidth of main memory, bytes a second.
const H200_DRAM: BytesPerSecond = BytesPerSecond(4.379e12);
/// Blocks of 256 threads that 132 multiprocessors hold.
const H200_RESIDENT: u64 = 132 * 8;

fn h200(blocks: u64, times_ns: &[u64]) -> Vec<WorkingSetPoint> {
    let block_bytes = |step: u32| (256_u64 << step) * 257 * 4;
    (0..)
        .zip(times_ns)
        .map(|(step, ns)| WorkingSetPoint {
            working_set: Bytes(block_bytes(step) * blocks.min(H200_RESIDENT)),
            requested: Bytes(block_bytes(step) * blocks),
            time: Seconds(*ns as f64 * 1e-9),
        })
        .collect()
}

/// A made sweep: a launch of 5 µs, rates of 9e12 and 2e12 B/s either side of a capacity of 1 GB.
fn made(random: &mut Random, steps: std::ops::Range<u32>) -> Vec<WorkingSetPoint> {
    steps
        .map(|step| {
            let set = 2_u64.pow(step) * 1_000_000;
            let rate = if set <= 1_000_000_000 { 9e12 } else { 2e12 };
            let seconds = (5e-6 + set as f64 / rate) * (1.0 + 0.005 * random.normal());
            WorkingSetPoint { working_set: Bytes(set), requested: Bytes(set), time: Seconds(seconds) }
        })
        .collect()
}

#[test]
fn a_real_device_has_a_transition_where_the_sweep_reaches_memory_and_a_bound_where_it_does_not() {
    let [small, middle, large] = H200_NS.map(|(blocks, times_ns)| fit(&h200(blocks, times_ns), Some(H200_DRAM)));
    let (small, middle, large) = (small.expect("small"), middle.expect("middle"), large.expect("large"));
    let block_bytes = |k: u64| Bytes(k * 257 * 4 * H200_RESIDENT);
    assert_eq!((small.bracket.high, small.spilled_points), (None, 0), "the default shape never leaves the cache");
    assert_eq!(middle.bracket, Bracket { low: Some(block_bytes(4096)), high: Some(block_bytes(8192)) });
    assert_eq!(large.bracket, Bracket { low: Some(block_bytes(8192)), high: Some(block_bytes(16384)) });
    let rates = [&small, &middle, &large].map(|fit| fit.cache_rate.expect("a rate").0);
    assert!(rates.iter().all(|rate| (8.5e12..10.5e12).contains(rate)), "{rates:?}");
    assert!(small.monotone && middle.monotone && large.monotone);
}

#[test]
fn the_launch_is_subtracted_and_short_points_are_no_spill() {
    for seed in 0..100 {
        let found = fit(&made(&mut Random::new(seed), 0..14), None).expect("a transition");
        let low = found.bracket.low.expect("cached");
        assert_eq!((low.0, found.bracket.high.expect("spilled").0), (512_000_000, 1_024_000_000), "seed {seed}");
        assert!((found.latency.0 / 5e-6 - 1.0).abs() < 0.1, "seed {seed}: {}", found.latency.0);
        assert!((found.cache_rate.expect("a rate").0 / 9e12 - 1.0).abs() < 0.05, "seed {seed}: {found:?}");
        assert!(found.launch_bound.contains(&0), "a megabyte is all launch: {found:?}");
    }
}

#[test]
fn one_point_is_no_side() {
    let points = made(&mut Random::new(1), 6..11);
    let found = fit(&points, Some(BytesPerSecond(2e12))).expect("bounds");
    assert_eq!((found.cached_points, found.spilled_points), (4, 1));
    assert_eq!((found.bracket.low.map(|low| low.0), found.bracket.high), (Some(512_000_000), None));
}

#[test]
fn overlapping_sides_widen_the_bracket() {
    let point = |set: u64, rate: f64| WorkingSetPoint {
        working_set: Bytes(set),
        requested: Bytes(1 << 40),
        time: Seconds((1_u64 << 40) as f64 / rate),
    };
    let found = fit(&[point(1, 9e12), point(2, 2e12), point(4, 9e12), point(8, 2e12)], None).expect("sides");
    assert_eq!(found.bracket, Bracket { low: Some(Bytes(1)), high: Some(Bytes(8)) });
    assert!(!found.monotone);
    assert_eq!(found.bracket.center(), Some(Bytes(3)));
}

#[test]
fn what_says_nothing_says_why() {
    assert_eq!(fit(&[], None), Err(NoCapacity::TooFewPoints { points: 0 }));
    let flat = made(&mut Random::new(2), 5..9);
    assert!(matches!(fit(&flat, None), Err(NoCapacity::NoTransition { .. })), "{:?}", fit(&flat, None));
    let odd = [f64::NAN, 0.0, -1.0, f64::INFINITY].map(|seconds| WorkingSetPoint {
        working_set: Bytes(1),
        requested: Bytes(1),
        time: Seconds(seconds),
    });
    assert_eq!(fit(&odd, None), Err(NoCapacity::TooFewPoints { points: 0 }));
}

#[test]
fn bounds_of_devices_narrow_each_other() {
    let bracket = |low: Option<u64>, high: Option<u64>| Bracket { low: low.map(Bytes), high: high.map(Bytes) };
    let merged =
        merge(&[bracket(Some(10), None), bracket(None, Some(50)), bracket(Some(20), Some(80)), bracket(None, None)]);
    assert_eq!(merged, Merged { bracket: bracket(Some(20), Some(50)), consistent: true });
    assert_eq!(merge(&[]), Merged { bracket: bracket(None, None), consistent: true });
    let torn = merge(&[bracket(Some(10), Some(20)), bracket(Some(10), Some(20)), bracket(Some(40), Some(80))]);
    assert_eq!(torn, Merged { bracket: bracket(Some(10), Some(20)), consistent: false });
}
