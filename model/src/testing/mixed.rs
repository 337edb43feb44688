//! A simulated class measured over several sweeps, device by device: as many rows as a large fleet has, without holding
//! them all.
//!
//! Every device has the same thousand points: `stream`, `issue`, `launch` and `working_set`, in several shapes and
//! solutions. Rows have 32 samples in four rounds, and say that they are simulated.

use std::collections::BTreeMap;

use super::{Random, RowSpec};
use crate::digest::Sha256Digest;
use crate::estimate::{Visit, finish};
use crate::id::{AgentId, RowId, TaskId};
use crate::point::{Dtype, Sweep};
use crate::row::{Counts, LaunchContext, Origin, Role, Row, RowLoad, Sample, StopReason, Work};
use crate::throttle::ThrottleReasons;

/// Rows of one device.
pub const ROWS_OF_DEVICE: usize = 1_000;

/// Rounds of a row, and samples of a round.
const ROUNDS: u64 = 4;
const SAMPLES: u64 = 8;

/// Multiprocessors, and threads that fill one.
const MULTIPROCESSORS: u64 = 132;
const FILL_THREADS: u64 = 480;

/// Spreads on logarithms: of devices, of a device's points, of rounds, of samples.
const SIGMAS: [f64; 4] = [0.005, 0.001, 0.002, 0.001];

/// One device in so many is slower, by a tenth or more.
const SLOW_EVERY: u64 = 200;

/// What one point of a device takes on the class's centre.
struct Timed {
    work: Work,
    counts: Counts,
    ns: f64,
}

/// The points that every device measures, the same for all.
pub struct Mix(Vec<Timed>);

impl Mix {
    /// All [`ROWS_OF_DEVICE`] of them.
    #[allow(clippy::new_without_default, reason = "nothing about it is a default")]
    pub fn new() -> Self {
        let mut points: Vec<Timed> = Vec::with_capacity(ROWS_OF_DEVICE);
        for kernel in ["copy", "scale", "add", "triad"] {
            for size in 0..16 {
                points.extend((0..8).map(|solution| stream(kernel, size, solution)));
            }
        }
        for (shape, solution) in (0..4).flat_map(|shape| (0..6).map(move |solution| (shape, solution))) {
            points.extend((0..8).map(|step| issue(256 << shape, solution, 512 << step)));
        }
        for threads in (1..=8).map(|warps| warps * 64) {
            points.extend((1..=25).map(|step| launch(threads, step * 24)));
        }
        for shape in 0..4 {
            points.extend((0..24).map(|step| working_set(512 << shape, step)));
        }
        Self(points)
    }

    /// Rows of the device of that number, not sealed: the same seed and number give the same rows.
    pub fn rows(&self, seed: u64, device: u64) -> Vec<Row> {
        let mut random = Random::new(
            Sha256Digest::of(format!("{seed}/{device}").as_bytes()).to_hex()[..8]
                .bytes()
                .fold(seed, |mixed, byte| mixed.wrapping_mul(257).wrapping_add(u64::from(byte))),
        );
        let mut factor = libm::exp(SIGMAS[0] * random.normal());
        let (mut clock_khz, mut throttle) = (1_980_000.0 * libm::exp(0.002 * random.normal()), ThrottleReasons::NONE);
        if device % SLOW_EVERY == SLOW_EVERY / 2 {
            let by = 1.1 + 0.3 * random.uniform();
            factor *= by;
            (clock_khz, throttle) = (clock_khz / by, ThrottleReasons::POWER_CAP);
        }
        let base = base(device, clock_khz as u64, throttle);
        self.0.iter().enumerate().map(|(at, timed)| row(&base, timed, (device, at), factor, &mut random)).collect()
    }
}

fn base(device: u64, clock_khz: u64, throttle: ThrottleReasons) -> Row {
    let name = Sha256Digest::of(format!("device {device}").as_bytes()).to_hex();
    let uuid = format!("GPU-{}-{}-{}-{}-{}", &name[..8], &name[8..12], &name[12..16], &name[16..20], &name[20..32]);
    let mut row = RowSpec::new("copy", 1, &[]).device(&uuid).row();
    let host = device / 8;
    row.identity.run_id = "0199a5e2-7d3c-7b1e-9f10-5d2a4c6e8f01".into();
    row.identity.plan_digest = Sha256Digest::of(b"plan").to_hex();
    row.identity.agent_id = AgentId::new(format!("agent-{host:05}"));
    row.identity.origin = Origin::Simulated;
    row.device.host = format!("host-{host:05}");
    row.device.node = row.device.host.clone();
    row.device.rack = Some(format!("rack-{:04}", host / 8));
    row.device.pci_bdf = Some(format!("00000000:{:02x}:00.0", 0x19 + 16 * (device % 8)));
    row.device.backend = "sim".to_owned();
    row.device.vbios = Some("96.00.A5.00.01".to_owned());
    row.device.driver = Some(if host.is_multiple_of(3) { "580.126.09" } else { "580.159.03" }.to_owned());
    row.device.runtime = Some("12.8".to_owned());
    row.conditions.core_clock_khz = Some(clock_khz);
    row.conditions.memory_clock_khz = Some(3_201_000);
    row.conditions.throttle_reasons = Some(throttle.bits());
    row.conditions.load = Some(RowLoad::Burst.name().to_owned());
    row.conditions.monitor_source = Some("sim".to_owned());
    row.conditions.foreign_processes = Some(0);
    row.conditions.monitor_samples = 20;
    row.conditions.host_load = Some(1.25);
    row
}

fn row(base: &Row, timed: &Timed, (device, at): (u64, usize), factor: f64, random: &mut Random) -> Row {
    let mut row = base.clone();
    let (task, begun_s) = (format!("task-{device:05}-{}", timed.work.sweep), device % 50 * 600 + at as u64 / 2);
    let fields = [&*task, row.device.device_uuid.as_str(), &*timed.work.point, &*timed.work.solution];
    row.identity.row_id = RowId::new(Sha256Digest::of(fields.join("\u{1f}").as_bytes()).to_hex()[..32].to_owned());
    row.identity.task_id = TaskId::new(task);
    row.work = timed.work.clone();
    row.counts = timed.counts.clone();
    let ns = timed.ns * factor * libm::exp(SIGMAS[1] * random.normal());
    let mut start_ns = begun_s * 1_000_000_000;
    for round in 1..=ROUNDS {
        let of_round = ns * libm::exp(SIGMAS[2] * random.normal());
        let mut sample = || {
            let ns = (of_round * libm::exp(SIGMAS[3] * random.normal())).round() as u64;
            start_ns += ns + 20_000;
            let clock_khz = row.conditions.core_clock_khz;
            Sample { ns, round, start_ns, accepted: true, throttle_bits: row.conditions.throttle_reasons, clock_khz }
        };
        let samples: Vec<Sample> = (0..SAMPLES).map(|_| sample()).collect();
        let (order, buffer_offset_bytes) = (at as u64 % 40, round * 4_096);
        let stop_reason = StopReason::Converged;
        let visit = Visit { round, order, buffer_offset_bytes, enqueues_per_sample: 1, stop_reason };
        row.timing.rounds.extend(visit.summarise(&samples));
        row.timing.samples.extend(samples);
    }
    row.timing.rounds_planned = ROUNDS;
    row.timing.clock_source = "sim".to_owned();
    row.timing.clock_resolution_ns = Some(32.0);
    row.timing.interval_target = Some(0.01);
    finish(&mut row.timing, Role::Fit);
    row.conditions.power_mw = Some((650_000.0 * libm::exp(0.02 * random.normal())) as u64);
    row.conditions.temperature_mc = Some(60_000 + 1_000 * ((4.0 * random.normal()) as i64));
    row.outcome.validated_elements = timed.work.elements.unwrap_or(1 << 18);
    row.outcome.started_utc_ns = (1_764_500_000 + begun_s) * 1_000_000_000;
    row.outcome.ended_utc_ns = row.outcome.started_utc_ns + start_ns % 1_000_000_000;
    row
}

fn stream(kernel: &'static str, size: u64, solution: u64) -> Timed {
    let elements = (1 << 25) * (size + 1);
    let name = ["w4_v1_b256_tile", "w4_v2_b256_tile", "w4_v4_b256_tile", "w4_v8_b256_tile"][solution as usize % 4];
    let row = RowSpec::new(kernel, elements, &[]).row();
    let solution_name = if solution < 4 { name.to_owned() } else { name.replace("tile", "stride") };
    let mut work = Work { solution: solution_name, ..row.work };
    (work.vector_width, work.vectors_per_thread, work.block_threads) = (Some(4), Some(1 << (solution % 4)), Some(256));
    work.source_digest = Some(Sha256Digest::of(b"stream").to_hex());
    work.code_digest = Some(Sha256Digest::of(kernel.as_bytes()).to_hex());
    work.parameters = BTreeMap::from([("mapping".to_owned(), if solution < 4 { "tile" } else { "stride" }.to_owned())]);
    let ns = 5_000.0 + row.counts.bytes_moved() as f64 / 4.379e12 * 1e9 * (1.0 + 0.01 * solution as f64);
    Timed { work, counts: row.counts, ns }
}

/// A contraction of some shape and extent, with `blocks` of `threads`; it takes `ns`.
fn contraction(sweep: Sweep, shape: [u64; 3], solution: String, context: [u64; 2], counts: Counts, ns: f64) -> Timed {
    let row = RowSpec::new("contraction", 1, &[]).row();
    let ([m, n, k], [blocks, threads]) = (shape, context);
    let operations = 2 * m * n * k;
    let work = Work {
        sweep,
        point: format!("{sweep}/contraction/f32/k={k}/m={m}/n={n}"),
        solution: format!("{solution}_g{blocks}"),
        source_digest: Some(Sha256Digest::of(b"contraction").to_hex()),
        code_digest: Some(Sha256Digest::of(solution.as_bytes()).to_hex()),
        elements: None,
        block_threads: Some(threads),
        m: Some(m),
        n: Some(n),
        k: Some(k),
        ..row.work
    };
    let bytes = (m * k + k * n + m * n) * Dtype::F32.bytes();
    let counts = Counts {
        bytes_read: bytes - m * n * Dtype::F32.bytes(),
        bytes_written: m * n * Dtype::F32.bytes(),
        bytes_distinct: bytes,
        bytes_requested: counts.bytes_requested.max(bytes),
        scalar_ops: operations,
        flops: operations,
        bytes_exact: true,
        ops_exact: true,
        kernels: 1,
        launch_contexts: vec![LaunchContext { blocks, threads, operations }],
        ..counts
    };
    Timed { work, counts, ns }
}

fn issue(side: u64, solution: u64, extent: u64) -> Timed {
    let operations = (2 * side * side * extent) as f64;
    let ns = 7_000.0 + operations / (3.6e12 - 1e11 * solution as f64) * 1e9;
    let name = format!("t{}_b{}", 8 << (solution % 3), 64 << (solution / 3));
    let blocks = side * side / 1_024;
    contraction(Sweep::Issue, [side, side, extent], name, [blocks, 64 << (solution / 3)], Counts::default(), ns)
}

fn launch(threads: u64, blocks: u64) -> Timed {
    let shape = [blocks * 64, threads, 4_096];
    let operations = (2 * shape[0] * shape[1] * shape[2]) as f64;
    let resident = (blocks * threads.min(FILL_THREADS)) as f64;
    let fill = (resident / (MULTIPROCESSORS * FILL_THREADS) as f64).min(1.0);
    let ns = operations / (4e12 * fill) * 1e9;
    contraction(Sweep::Launch, shape, format!("pinned_b{threads}"), [blocks, threads], Counts::default(), ns)
}

fn working_set(side: u64, step: u64) -> Timed {
    let working_set_bytes = (2 << 20) << (step / 2) | if step % 2 == 1 { (1 << 20) << (step / 2) } else { 0 };
    let requested = (1 << 34) + side * (1 << 20);
    let rate = if working_set_bytes <= 48 << 20 { 8.4e12 } else { 4.379e12 };
    let counts = Counts { working_set_bytes: Some(working_set_bytes), bytes_requested: requested, ..Counts::default() };
    let shape = [side, 1_024, 64 * (step + 1)];
    let ns = 5_000.0 + requested as f64 / rate * 1e9;
    contraction(Sweep::WorkingSet, shape, "untiled_b256".to_owned(), [side * 4, 256], counts, ns)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_device_has_a_thousand_rows_of_its_own_and_they_are_the_same_again() {
        let mix = Mix::new();
        let rows = mix.rows(1, 7);
        let names: BTreeSet<&RowId> = rows.iter().map(|row| &row.identity.row_id).collect();
        assert_eq!((rows.len(), names.len()), (ROWS_OF_DEVICE, ROWS_OF_DEVICE));
        assert!(rows.iter().all(|row| row.feeds_fits() && row.timing.samples.len() == 32));
        assert_eq!(mix.rows(1, 7), rows);
        assert_ne!(mix.rows(1, 8)[0].identity.row_id, rows[0].identity.row_id);
    }
}
