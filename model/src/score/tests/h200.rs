//! What the score makes of real rows of one H200 whose shapes its constants were not fitted to.
//!
//! The constants are fitted here: issue rates to the points of two tilings at 512×512 before their knee (which fill 26% of
//! the device), capacity and rate of the cache to the contraction without tiles at 256×8192. The fill is the best one of
//! the launch sweep, the rate of memory is triad's top. Times are medians of samples, microseconds.

use super::*;
use crate::fit::capacity;
use crate::held_out::{Errors, Evaluation, Point, RankCorrelation, Regret};
use crate::seed::capacity::WorkingSetPoint;
use crate::seed::issue::{self, IssuePoint};

const FILL: FillModel = FillModel { multiprocessors: 132, fill_threads: 480 };
const TRIAD: BytesPerSecond = BytesPerSecond(4.379e12);

/// A kernel of the contraction: its tile (rows, columns), its threads a block, and the floats that a block reads a step.
#[derive(Clone, Copy)]
struct Tiling {
    name: &'static str,
    tile: (u64, u64),
    threads: u64,
    floats: u64,
}

const T32: Tiling = Tiling { name: "t32", tile: (32, 32), threads: 64, floats: 64 };
const T64: Tiling = Tiling { name: "t64", tile: (64, 64), threads: 256, floats: 128 };
/// One row and 256 columns a block.
const UNTILED: Tiling = Tiling { name: "wgrad", tile: (1, 256), threads: 256, floats: 257 };

/// At 512×512, k = 256 to 4096 in powers of two.
const CALIBRATION_US: [(Tiling, [f64; 5]); 2] =
    [(T32, [44.352, 79.712, 152.256, 299.072, 592.032]), (T64, [44.192, 78.88, 151.04, 294.816, 581.504])];

/// At 256×8192, k = 256 to 32768.
const SPILLING_US: [f64; 8] = [229.28, 463.808, 936.96, 1979.264, 5175.904, 12407.328, 28264.641, 61487.358];

/// At 2048×2048, the same extents.
const TILED_US: [(Tiling, [f64; 8]); 2] = [
    (T32, [136.896, 263.52, 523.68, 1090.368, 2204.736, 4420.448, 8794.112, 17643.2]),
    (T64, [124.32, 233.824, 460.192, 927.2, 2185.952, 4345.952, 8740.096, 17509.312]),
];

/// At 1024×4096 and 256×1024, the same extents.
const UNTILED_US: [((u64, u64), [f64; 8]); 2] = [
    ((1024, 4096), [446.4, 917.696, 1862.432, 3728.928, 7921.248, 20286.88, 50200.161, 114006.561]),
    ((256, 1024), [32.608, 57.632, 109.952, 219.584, 435.52, 963.712, 1921.664, 4012.896]),
];

fn seconds(us: f64) -> Seconds {
    Seconds(us * 1e-6)
}

fn extents() -> impl Iterator<Item = u64> {
    (8..16).map(|power| 1 << power)
}

/// The machine by its fits, with rate and latency of one tiling.
fn machine(tiling: Tiling) -> Machine {
    let calibration = CALIBRATION_US.iter().find(|(of, _)| of.name == tiling.name).unwrap_or(&CALIBRATION_US[0]);
    let point = |(k, us): (u64, &f64)| {
        let contexts = contraction_of(calibration.0, 512, 512, k).launch_contexts;
        IssuePoint { scalar_ops: 2 * 512 * 512 * k, time: seconds(*us), contexts }
    };
    let points: Vec<IssuePoint> = extents().zip(&calibration.1).map(point).collect();
    let issued = issue::fit(&points, Some(FILL)).expect("five points are a line");
    let point = |(k, us)| {
        let kernel = contraction_of(UNTILED, 256, 8192, k);
        let working_set = kernel.working_set.expect("a contraction has one");
        WorkingSetPoint { working_set, requested: kernel.requested, time: seconds(us) }
    };
    let points: Vec<WorkingSetPoint> = extents().zip(SPILLING_US).map(point).collect();
    let cache = capacity::fit(&points, Some(TRIAD)).expect("both sides are there");
    Machine {
        memory_bandwidth: Ok(TRIAD),
        cache_capacity: Ok(cache.bracket.center().expect("a bracket")),
        cache_bandwidth: Ok(cache.cache_rate.expect("cached points")),
        full_issue_rates: [(F32, Ok(OperationsPerSecond(issued.rate)))].into(),
        fill: Ok(FILL),
        launch_latency: Ok(issued.latency),
        ..nothing_known()
    }
}

/// dw = dyᵀ·x, whose blocks each read their floats for each of k steps.
fn contraction_of(tiling: Tiling, m: u64, n: u64, k: u64) -> Kernel {
    let Tiling { tile, threads, floats, .. } = tiling;
    let (blocks, block_bytes) = ((m / tile.0) * (n / tile.1), 4 * k * floats);
    let resident = blocks.min(FILL.multiprocessors * (2048 / threads));
    Kernel {
        read: Bytes(4 * k * (m + n)),
        written: Bytes(4 * m * n),
        requested: Bytes(block_bytes * blocks),
        working_set: Some(Bytes(block_bytes * resident)),
        ..contraction(blocks, threads, 2 * m * n * k)
    }
}

/// Score and launch, and what they would be if memory and compute did not overlap.
fn overlapped_and_added(machine: &Machine, kernel: &Kernel) -> [Seconds; 2] {
    let score = machine.score(kernel);
    let leg = |leg: &Leg| leg.time().expect("every constant is known").0;
    let added = [&score.memory, &score.scalar, &score.tensor, &score.launch].map(leg).iter().sum();
    [score.time().expect("every constant is known"), Seconds(added)]
}

/// Both ways' evaluations of one shape.
fn evaluations(cases: &[(Tiling, [f64; 8])], (m, n): (u64, u64)) -> [Evaluation; 2] {
    [0, 1].map(|way| {
        let of_tiling = |&(tiling, times): &(Tiling, [f64; 8])| {
            let machine = machine(tiling);
            let point = move |(k, us): (u64, f64)| Point {
                shape: format!("m={m}/n={n}"),
                problem: format!("k={k}"),
                candidate: tiling.name.to_owned(),
                predicted: overlapped_and_added(&machine, &contraction_of(tiling, m, n, k))[way],
                measured: seconds(us),
            };
            extents().zip(times).map(point).collect::<Vec<_>>()
        };
        Evaluation::of(&cases.iter().flat_map(of_tiling).collect::<Vec<_>>())
    })
}

/// Median and worst error, percent, to one digit.
fn figures(evaluation: &Evaluation) -> (f64, f64) {
    let percent = |error: f64| (error * 1e3).round() / 10.0;
    match evaluation.overall.errors {
        Errors::Known { median, worst, .. } => (percent(median), percent(worst)),
        Errors::TooFewPoints { points } => panic!("{points} points"),
    }
}

#[test]
fn tiled_contractions_are_predicted_better_if_memory_and_compute_overlap() {
    let [overlapped, added] = evaluations(&TILED_US, (2048, 2048));
    assert_eq!(figures(&overlapped), (10.9, 30.6), "median and worst of {overlapped:?}");
    assert_eq!(figures(&added), (40.5, 54.8), "median and worst of {added:?}");
    let RankCorrelation::Ranked { spearman, kendall, .. } = overlapped.overall.rank_correlation else {
        panic!("{overlapped:?}")
    };
    assert!(spearman > 0.99 && kendall > 0.95, "{overlapped:?}");
    // The wider tile is predicted best at each extent, and is.
    assert!(matches!(overlapped.overall.regret, Regret::Chosen { problems: 8, right: 8, worst: 0.0, .. }));
}

#[test]
fn untiled_contractions_show_that_the_capacity_does_not_carry_over_between_shapes() {
    let expected = [[(6.3, 55.4), (35.1, 79.2)], [(14.0, 105.3), (47.6, 136.8)]];
    for (&(shape, times), expected) in UNTILED_US.iter().zip(expected) {
        let ways = evaluations(&[(UNTILED, times)], shape);
        assert_eq!([0, 1].map(|way| figures(&ways[way])), expected, "median and worst of {ways:?}");
        assert!(matches!(ways[0].overall.regret, Regret::NoChoice { problems: 8 }));
    }
}
