//! What the score makes of real rows of one H200 whose shapes its constants were not fitted to.
//!
//! Constants: the lines through the first five points of two tilings at 512×512 (which fill 26% of the device), the best
//! fill of the launch sweep, triad's top, and for the cache the contraction without tiles at 256×8192. Times are
//! medians of samples, microseconds.

use super::*;
use crate::held_out::{Errors, Evaluation, Point, RankCorrelation, Regret};

const MULTIPROCESSORS: u64 = 132;

/// Tiles of 32×32 with 64 threads, and of 64×64 with 256: the rate of a full device, and an empty launch with its ramp.
const TILES: [(&str, u64, u64, f64, f64); 2] =
    [("t32", 32, 64, 1.41978e13, 6.82e-6), ("t64", 64, 256, 1.44741e13, 7.75e-6)];

/// At 2048×2048, k = 256 to 32768 in powers of two.
const TILED_US: [[f64; 8]; 2] = [
    [136.896, 263.52, 523.68, 1090.368, 2204.736, 4420.448, 8794.112, 17643.2],
    [124.32, 233.824, 460.192, 927.2, 2185.952, 4345.952, 8740.096, 17509.312],
];

/// Without tiles at 1024×4096, the same extents.
const UNTILED_US: [f64; 8] = [446.4, 917.696, 1862.432, 3728.928, 7921.248, 20286.88, 50200.161, 114006.561];

fn machine(full_issue_rate: f64, launch_s: f64) -> Machine {
    Machine {
        memory_bandwidth: Ok(BytesPerSecond(4.379e12)),
        cache_capacity: Ok(Bytes(3_140_000_000)),
        cache_bandwidth: Ok(BytesPerSecond(9.3e12)),
        full_issue_rates: [(F32, Ok(OperationsPerSecond(full_issue_rate)))].into(),
        fill: Ok(FillModel { multiprocessors: MULTIPROCESSORS, fill_threads: 480 }),
        launch_latency: Ok(Seconds(launch_s)),
        ..nothing_known()
    }
}

/// dw = dyᵀ·x, whose blocks each read `columns` floats for each of k steps.
fn contraction_of(m: u64, n: u64, k: u64, blocks: u64, threads: u64, columns: u64) -> Kernel {
    let block_bytes = 4 * k * columns;
    let resident = blocks.min(MULTIPROCESSORS * (2048 / threads));
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

fn evaluations(cases: &[(&str, u64, Machine, Kernel, f64)]) -> [Evaluation; 2] {
    [0, 1].map(|way| {
        let point = |(candidate, k, machine, kernel, us): &(&str, u64, Machine, Kernel, f64)| Point {
            shape: "held out".to_owned(),
            problem: format!("k={k}"),
            candidate: (*candidate).to_owned(),
            predicted: overlapped_and_added(machine, kernel)[way],
            measured: Seconds(us * 1e-6),
        };
        Evaluation::of(&cases.iter().map(point).collect::<Vec<_>>())
    })
}

fn figures(evaluation: &Evaluation) -> (f64, f64) {
    match evaluation.overall.errors {
        Errors::Known { median, worst, .. } => ((median * 1e3).round() / 1e3, (worst * 1e3).round() / 1e3),
        Errors::TooFewPoints { points } => panic!("{points} points"),
    }
}

#[test]
fn tiled_contractions_are_predicted_better_if_memory_and_compute_overlap() {
    let cases: Vec<_> = TILES
        .iter()
        .zip(TILED_US)
        .flat_map(|(&(name, tile, threads, rate, launch_s), times)| {
            let case = move |(power, us)| {
                let k = 256_u64 << power;
                let blocks = (2048 / tile) * (2048 / tile);
                let kernel = contraction_of(2048, 2048, k, blocks, threads, 2 * tile);
                (name, k, machine(rate, launch_s), kernel, us)
            };
            (0..8).zip(times).map(case)
        })
        .collect();
    let [overlapped, added] = evaluations(&cases);
    assert_eq!(figures(&overlapped), (0.109, 0.306), "median and worst of {overlapped:?}");
    assert_eq!(figures(&added), (0.409, 0.548), "median and worst of {added:?}");
    let RankCorrelation::Ranked { spearman, kendall, .. } = overlapped.overall.rank_correlation else {
        panic!("{overlapped:?}")
    };
    assert!(spearman > 0.99 && kendall > 0.95, "{overlapped:?}");
    // The wider tile is predicted best at each extent, and is.
    assert!(matches!(overlapped.overall.regret, Regret::Chosen { problems: 8, right: 8, worst: 0.0, .. }));
}

#[test]
fn untiled_contractions_show_that_the_capacity_does_not_carry_over_between_shapes() {
    let (_, _, _, rate, launch_s) = TILES[0];
    let case = |(power, us)| {
        let k = 256_u64 << power;
        ("wgrad", k, machine(rate, launch_s), contraction_of(1024, 4096, k, 16_384, 256, 257), us)
    };
    let cases: Vec<_> = (0..8).zip(UNTILED_US).map(case).collect();
    let [overlapped, added] = evaluations(&cases);
    // At k = 4096 this shape is still cached, and 256×8192 was not: twice too slow.
    assert_eq!(figures(&overlapped), (0.085, 0.99), "median and worst of {overlapped:?}");
    assert_eq!(figures(&added), (0.378, 1.296), "median and worst of {added:?}");
    assert!(matches!(overlapped.overall.regret, Regret::NoChoice { problems: 8 }));
}
