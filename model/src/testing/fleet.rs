//! Simulated classes of devices whose truth is known: rows with rounds and samples, and what is wrong with whom.
//!
//! Every row follows `time = latency + bytes / rate`, times a factor of its device, its host, its hour, its point on
//! that device, its round and its sample. What hard fleets have comes on top: slow devices (half of them because their
//! clock is capped, which their conditions show), spiked samples, a throttled hour, a second hump with a firmware of its
//! own.

use std::collections::{BTreeMap, BTreeSet};

use super::{Random, RowSpec, bytes_moved};
use crate::estimate::{Visit, finish};
use crate::id::{DeviceId, RowId};
use crate::row::{Role, Row, Sample, StopReason};
use crate::throttle::ThrottleReasons;

/// Core clock of a device that nothing holds back, kHz.
const CLOCK_KHZ: f64 = 1_980_000.0;

/// Firmware of devices of the first hump.
const VBIOS: &str = "96.00.A5";

/// What a class is simulated from. Spreads are standard deviations of logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetSpec {
    /// Devices.
    pub devices: usize,
    /// Devices of one host.
    pub devices_per_host: usize,
    /// Hours that rows are spread over.
    pub hours: usize,
    /// Rows of one device and point, each in an hour of its own choice.
    pub visits: usize,
    /// Rounds of a row.
    pub rounds: usize,
    /// Samples of a round.
    pub samples: usize,
    /// Kernels of the stream sweep.
    pub kernels: Vec<&'static str>,
    /// Elements of each array, by point.
    pub elements: Vec<u64>,
    /// Bandwidth of the class, bytes per second.
    pub rate: f64,
    /// Latency of the class, nanoseconds.
    pub latency_ns: f64,
    /// Spread of devices.
    pub device_sigma: f64,
    /// Spread of hosts.
    pub host_sigma: f64,
    /// Spread of hours.
    pub hour_sigma: f64,
    /// Spread of a device's points.
    pub point_sigma: f64,
    /// Spread of a row's rounds.
    pub round_sigma: f64,
    /// Spread of a round's samples.
    pub sample_sigma: f64,
    /// Part of the devices that are slow, by 10 to 40%.
    pub slow_share: f64,
    /// Part of the samples that take three times as long.
    pub spiked_share: f64,
    /// How much slower the first hour is: 0.15 is 15%.
    pub throttled_hour: f64,
    /// Part of the devices that form a second hump, with a firmware of its own.
    pub hump_share: f64,
    /// How much slower the second hump is.
    pub hump_by: f64,
    /// The second hump's firmware.
    pub hump_vbios: &'static str,
}

impl FleetSpec {
    /// A clean class: 0.5% between devices, 0.2% between rounds, 0.1% between samples, five sizes of one kernel.
    pub fn clean(devices: usize) -> Self {
        Self {
            devices,
            devices_per_host: 4,
            hours: 8,
            visits: 1,
            rounds: 5,
            samples: 9,
            kernels: vec!["triad"],
            elements: (25..30).map(|power| 1 << power).collect(),
            rate: 4.379e12,
            latency_ns: 5_000.0,
            device_sigma: 0.005,
            host_sigma: 0.0,
            hour_sigma: 0.0,
            point_sigma: 0.001,
            round_sigma: 0.002,
            sample_sigma: 0.001,
            slow_share: 0.0,
            spiked_share: 0.0,
            throttled_hour: 0.0,
            hump_share: 0.0,
            hump_by: 0.0,
            hump_vbios: "96.00.B0",
        }
    }

    /// A hard class of which two in five devices are slower by 4%, with a firmware of their own.
    pub fn two_humps(devices: usize) -> Self {
        Self { hump_share: 0.4, hump_by: 0.04, ..Self::hard(devices) }
    }

    /// The same, and nothing that is known of devices tells who they are.
    pub fn untold_humps(devices: usize) -> Self {
        Self { hump_vbios: VBIOS, ..Self::two_humps(devices) }
    }

    /// A hard class: a fifth of the devices slow by 10 to 40%, 5% of samples spiked, the first hour slower by 15%.
    pub fn hard(devices: usize) -> Self {
        Self { slow_share: 0.2, spiked_share: 0.05, throttled_hour: 0.15, ..Self::clean(devices) }
    }
}

/// A simulated class.
#[derive(Debug, Clone, PartialEq)]
pub struct Fleet {
    /// Its rows.
    pub rows: Vec<Row>,
    /// Slow devices, with how much longer everything takes on them: 0.25 is 25%.
    pub slow: BTreeMap<DeviceId, f64>,
    /// Those of them whose clock is capped.
    pub capped: BTreeSet<DeviceId>,
    /// Devices of the second hump.
    pub hump: BTreeSet<DeviceId>,
}

/// A device in the making.
struct Device {
    id: DeviceId,
    host: usize,
    /// Factor of its times, its host's included.
    factor: f64,
    clock_khz: u64,
    throttle: ThrottleReasons,
    vbios: &'static str,
    driver: &'static str,
}

impl Fleet {
    /// Simulates a class: the same spec and seed give the same rows.
    pub fn simulate(spec: &FleetSpec, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let mut fleet =
            Self { rows: Vec::new(), slow: BTreeMap::new(), capped: BTreeSet::new(), hump: BTreeSet::new() };
        let devices = fleet.devices(spec, &mut random);
        let mut hours: Vec<f64> =
            (0..spec.hours.max(1)).map(|_| libm::exp(spec.hour_sigma * random.normal())).collect();
        hours[0] *= 1.0 + spec.throttled_hour;
        for device in &devices {
            for kernel in &spec.kernels {
                for &elements in &spec.elements {
                    let point = libm::exp(spec.point_sigma * random.normal());
                    for visit in 0..spec.visits {
                        let hour = (random.uniform() * hours.len() as f64) as usize;
                        let factor = device.factor * point * hours[hour];
                        fleet.rows.push(row(spec, device, (kernel, elements, visit), (hour, factor), &mut random));
                    }
                }
            }
        }
        fleet
    }

    fn devices(&mut self, spec: &FleetSpec, random: &mut Random) -> Vec<Device> {
        let hosts = spec.devices.div_ceil(spec.devices_per_host.max(1));
        let hosts: Vec<f64> = (0..hosts).map(|_| libm::exp(spec.host_sigma * random.normal())).collect();
        // Who is slow and who is of the second hump is drawn apart, and neither goes along a host.
        let mut order: Vec<usize> = (0..spec.devices).collect();
        random.shuffle(&mut order);
        let part = |share: f64| (share * spec.devices as f64).round() as usize;
        let slow: BTreeSet<usize> = order.iter().copied().take(part(spec.slow_share)).collect();
        random.shuffle(&mut order);
        let hump: BTreeSet<usize> = order.iter().copied().take(part(spec.hump_share)).collect();
        let device = |index: usize| {
            let id = DeviceId::new(format!("GPU-{index:04}"));
            let host = index / spec.devices_per_host.max(1);
            let mut factor = hosts[host] * libm::exp(spec.device_sigma * random.normal());
            let (mut clock, mut throttle) = (CLOCK_KHZ * libm::exp(0.002 * random.normal()), ThrottleReasons::NONE);
            if slow.contains(&index) {
                let by = 0.1 + 0.3 * random.uniform();
                factor *= 1.0 + by;
                self.slow.insert(id.clone(), by);
                if random.uniform() < 0.5 {
                    self.capped.insert(id.clone());
                    (clock, throttle) = (clock / (1.0 + by), ThrottleReasons::POWER_CAP);
                }
            }
            let vbios = if hump.contains(&index) { spec.hump_vbios } else { VBIOS };
            if hump.contains(&index) {
                factor *= 1.0 + spec.hump_by;
                self.hump.insert(id.clone());
            }
            let driver = if random.uniform() < 0.5 { "580.126" } else { "580.159" };
            Device { id, host, factor, clock_khz: clock.round() as u64, throttle, vbios, driver }
        };
        (0..spec.devices).map(device).collect()
    }
}

/// A row of `(kernel, elements, visit)` in `hour`, every time of which takes `factor` as long as the class says.
fn row(
    spec: &FleetSpec,
    device: &Device,
    (kernel, elements, visit): (&'static str, u64, usize),
    (hour, factor): (usize, f64),
    random: &mut Random,
) -> Row {
    let base = RowSpec::new(kernel, elements, &[]).device(device.id.as_str());
    let mut row = base.row();
    let ns = (spec.latency_ns + bytes_moved(kernel, elements) as f64 / spec.rate * 1e9) * factor;
    for round in 1..=spec.rounds as u64 {
        let of_round = ns * libm::exp(spec.round_sigma * random.normal());
        let samples: Vec<Sample> = (0..spec.samples).map(|_| sample(spec, round, of_round, random)).collect();
        let visit = Visit {
            round,
            order: 0,
            buffer_offset_bytes: 0,
            enqueues_per_sample: 1,
            stop_reason: StopReason::Converged,
        };
        row.timing.rounds.extend(visit.summarise(&samples));
        row.timing.samples.extend(samples);
    }
    row.timing.rounds_planned = spec.rounds as u64;
    finish(&mut row.timing, Role::Fit);
    row.identity.row_id = RowId::new(format!("{}/{}/{visit}", row.identity.row_id, hour));
    row.device.host = format!("host-{:03}", device.host);
    row.device.node = row.device.host.clone();
    row.device.rack = Some(format!("rack-{}", device.host / 4));
    row.device.vbios = Some(device.vbios.to_owned());
    row.device.driver = Some(device.driver.to_owned());
    row.conditions.core_clock_khz = Some(device.clock_khz);
    row.conditions.memory_clock_khz = Some(3_201_000);
    row.conditions.power_mw = Some((650_000.0 * libm::exp(0.02 * random.normal())) as u64);
    row.conditions.temperature_mc = Some(60_000 + (4_000.0 * random.normal()) as i64);
    row.conditions.throttle_reasons = Some(device.throttle.bits());
    row.conditions.monitor_samples = 20;
    row.outcome.started_utc_ns = (hour as u64 * 3_600 + 60) * 1_000_000_000;
    row.outcome.ended_utc_ns = row.outcome.started_utc_ns + 1_000_000_000;
    row
}

fn sample(spec: &FleetSpec, round: u64, ns: f64, random: &mut Random) -> Sample {
    let spike = if random.uniform() < spec.spiked_share { 3.0 } else { 1.0 };
    let ns = (ns * spike * libm::exp(spec.sample_sigma * random.normal())).round() as u64;
    Sample { ns, round, start_ns: 0, accepted: true, throttle_bits: None, clock_khz: None }
}
