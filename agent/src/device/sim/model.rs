//! The model behind simulated times: what a fit of simulated rows must find again.

use std::fmt;
use std::str::FromStr;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::DeviceId;
use fleetcal_model::point::UnknownName;
use fleetcal_model::row::Counts;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde::{Deserialize, Serialize};

use super::{SimProgram, SimSpec};

/// Standard deviation of the rates of devices of one model, relative.
const DEVICE_SPREAD: f64 = 0.005;
/// Standard deviation from round to round of one device, relative: the state that fresh buffers bring.
const ROUND_NOISE: f64 = 0.003;
/// Standard deviation from sample to sample of one round, relative.
const SAMPLE_NOISE: f64 = 0.001;
/// How much slower each step of [`solution_slowdown`] is, relative.
const SLOWDOWN_STEP: f64 = 0.02;
/// Steps that there are.
const SLOWDOWN_STEPS: u64 = 8;

/// A simulated product: devices of one model are one class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SimModel {
    /// A device with 80 GiB.
    S1,
    /// A larger and faster one with 192 GiB.
    S2,
}

impl fmt::Display for SimModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::S1 => "S1",
            Self::S2 => "S2",
        })
    }
}

impl FromStr for SimModel {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        match text {
            "S1" => Ok(Self::S1),
            "S2" => Ok(Self::S2),
            _ => Err(UnknownName { what: "simulated model", text: text.to_owned(), expected: "S1, S2".to_owned() }),
        }
    }
}

/// The truth about a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimConstants {
    /// Rate of main memory, bytes a second.
    pub memory_bandwidth: f64,
    /// Rate of the level-2 cache, bytes a second.
    pub l2_bandwidth: f64,
    /// Time of an empty launch, seconds.
    pub launch_latency_s: f64,
    /// Time of a load that the level-2 cache answers, seconds.
    pub l2_latency_s: f64,
    /// Time of a load that main memory answers, seconds.
    pub memory_latency_s: f64,
    /// Rate of arithmetic, operations a second.
    pub peak_flops: f64,
    /// Threads that a compute unit needs to work at that rate.
    pub fill_threads: u64,
    /// Level-2 cache, bytes; it is the last level.
    pub l2_cache_bytes: u64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Compute units.
    pub compute_units: u64,
    /// Power limit, milliwatts.
    pub power_limit_mw: u64,
}

/// Constants of [`SimModel::S1`].
const S1: SimConstants = SimConstants {
    memory_bandwidth: 1.0e12,
    l2_bandwidth: 3.0e12,
    launch_latency_s: 4.0e-6,
    l2_latency_s: 200e-9,
    memory_latency_s: 500e-9,
    peak_flops: 2.0e13,
    fill_threads: 256,
    l2_cache_bytes: 40 << 20,
    memory_bytes: 80 << 30,
    compute_units: 108,
    power_limit_mw: 400_000,
};

/// Constants of [`SimModel::S2`].
const S2: SimConstants = SimConstants {
    memory_bandwidth: 4.0e12,
    l2_bandwidth: 9.0e12,
    launch_latency_s: 2.5e-6,
    l2_latency_s: 150e-9,
    memory_latency_s: 600e-9,
    peak_flops: 8.0e13,
    fill_threads: 512,
    l2_cache_bytes: 64 << 20,
    memory_bytes: 192 << 30,
    compute_units: 160,
    power_limit_mw: 1_000_000,
};

impl SimModel {
    /// Its constants.
    pub const fn constants(self) -> SimConstants {
        match self {
            Self::S1 => S1,
            Self::S2 => S2,
        }
    }

    /// The facts of a device of this model.
    pub(crate) fn facts(self, uuid: DeviceId) -> DeviceFacts {
        let constants = self.constants();
        DeviceFacts {
            uuid,
            backend: Backend::Sim,
            vendor: "sim".to_owned(),
            name: format!("Sim {self}"),
            architecture: "sim".to_owned(),
            compute_units: constants.compute_units,
            memory_bytes: constants.memory_bytes,
            memory_clock_khz: None,
            core_clock_khz: None,
            power_limit_mw: Some(constants.power_limit_mw),
            partition_mode: Some("none".to_owned()),
            ecc: Some(true),
            sockets: None,
            pci_bdf: None,
            vbios: None,
            driver: Some(concat!("sim ", env!("CARGO_PKG_VERSION")).to_owned()),
            runtime: None,
            l2_cache_bytes: Some(constants.l2_cache_bytes),
            last_level_cache_bytes: Some(constants.l2_cache_bytes),
            warp_size: 32,
        }
    }

    /// Time of one launch of the best solution without noise, seconds: latency, and the longer of moving the bytes and
    /// doing the operations.
    ///
    /// Up to the size of the cache all bytes move at its rate, from twice its size none do; between, the part falls
    /// linearly. After a flush, all bytes come from memory, but for those that are read more than once. Arithmetic goes at
    /// the rate of the part of the device that has work.
    pub(super) fn seconds(self, counts: &Counts, flushed: bool) -> f64 {
        let constants = self.constants();
        let footprint = part_of_cache(counts, &constants);
        // What a flush takes away comes back with the first of several reads.
        let is_reread = counts.bytes_requested > counts.bytes_read || counts.bytes_read > counts.bytes_distinct;
        let cached = if flushed && !is_reread { 0.0 } else { (2.0 - footprint).clamp(0.0, 1.0) };
        let bytes = counts.bytes_requested.max(counts.bytes_read).saturating_add(counts.bytes_written) as f64;
        let moving_s = bytes * (cached / constants.l2_bandwidth + (1.0 - cached) / constants.memory_bandwidth);
        let working_s = counts.flops as f64 / constants.peak_flops / fill(counts, &constants);
        constants.launch_latency_s + moving_s.max(working_s)
    }

    /// Time of one launch whose loads wait for each other, seconds: the part that the cache holds answers sooner.
    pub(super) fn seconds_of_chain(self, counts: &Counts) -> f64 {
        let constants = self.constants();
        let loads = counts.launch_contexts.iter().map(|context| context.operations).sum::<u64>() as f64;
        let cached = (1.0 / part_of_cache(counts, &constants)).min(1.0);
        let load_s = cached * constants.l2_latency_s + (1.0 - cached) * constants.memory_latency_s;
        constants.launch_latency_s + loads * load_s
    }
}

/// Footprint over the level-2 cache.
fn part_of_cache(counts: &Counts, constants: &SimConstants) -> f64 {
    counts.working_set_bytes.unwrap_or(counts.bytes_distinct) as f64 / constants.l2_cache_bytes as f64
}

/// The part of the device that the launch with the most work keeps busy: blocks of at most
/// [`SimConstants::fill_threads`] threads each fill a compute unit by so many.
fn fill(counts: &Counts, constants: &SimConstants) -> f64 {
    let most = counts.launch_contexts.iter().max_by_key(|context| context.operations);
    let Some(context) = most.filter(|context| context.operations > 0) else { return 1.0 };
    let busy = context.blocks as f64 * context.threads.min(constants.fill_threads) as f64;
    (busy / (constants.compute_units as f64 * constants.fill_threads as f64)).min(1.0)
}

/// How much longer a solution takes than the best: 1 plus 2% for each of 0 to 7 steps that its name chooses, alike on
/// every device and for every point. So there is something for screening to find, and there are ties.
pub fn solution_slowdown(solution: &str) -> f64 {
    let step = random(&format!("slowdown of {solution}")).next_u64() % SLOWDOWN_STEPS;
    1.0 + SLOWDOWN_STEP * step as f64
}

/// The noise of one visit. The same words give the same noise, whatever else was measured before.
#[derive(Debug)]
pub(super) struct Noise {
    base: f64,
    samples: ChaCha8Rng,
}

impl Noise {
    pub(super) fn new(spec: &SimSpec, facts: &DeviceFacts, round: u64, visit: u64, program: &SimProgram) -> Self {
        let SimProgram { point, solution, .. } = program;
        let device = format!("{}/{}", spec.seed, facts.uuid);
        let spread = 1.0 + DEVICE_SPREAD * normal(&mut random(&device));
        let round_name = format!("{device}/{round}/{point}/{solution}");
        let mood = 1.0 + ROUND_NOISE * normal(&mut random(&round_name));
        Self { base: spread * mood, samples: random(&format!("{round_name}/{visit}")) }
    }

    /// The factor on the time of the next sample.
    pub(super) fn factor(&mut self) -> f64 {
        self.base * (1.0 + SAMPLE_NOISE * normal(&mut self.samples))
    }
}

/// Random numbers that a text names.
fn random(name: &str) -> ChaCha8Rng {
    let digest = Sha256Digest::of(name.as_bytes()).to_hex();
    ChaCha8Rng::seed_from_u64(u64::from_str_radix(&digest[..16], 16).unwrap_or_default())
}

/// A nearly normal number: mean 0, variance 1, within ±6. The sum of twelve uniform ones needs no function whose last
/// bits differ between C libraries (Irwin and Hall).
fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| f64::from(random.next_u32()) / 4_294_967_296.0).sum::<f64>() - 6.0
}
