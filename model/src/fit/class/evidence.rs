//! What a person needs to believe that a device stands apart: which sweeps and points, by how much, under which clocks.

use std::collections::BTreeSet;

use super::{ClassRule, ClassStudy, Family, FamilyKey, by_device, first, median_of};
use crate::fit::devices::Outliers;
use crate::fit::humps::Humps;
use crate::fit::record::{Reading, Record};
use crate::fit::workers::{Workers, each};
use crate::id::DeviceId;
use crate::statistics::median;
use crate::throttle::ThrottleReasons;
use crate::vocabulary;

vocabulary! {
    /// A clock of a device.
    Clock, "clock" {
        /// That of its cores.
        Core => "core_clock",
        /// That of its memory.
        Memory => "memory_clock",
    }
}

/// A device's median reading beside the median of its class's devices.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Compared {
    /// The device's.
    pub device: f64,
    /// The class's.
    pub class: f64,
}

impl Compared {
    /// How much less than its class's the device's reading is, as a logarithm of their ratio.
    pub fn shortfall(&self) -> f64 {
        libm::log(self.class / self.device)
    }
}

/// What makes a device stand apart in one family, as far as its clocks tell.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cause {
    /// Its clock differs as its times do: it is capped (or boosted), and not bad.
    Clock {
        /// Which clock.
        clock: Clock,
        /// Throttle reasons seen on its rows.
        reasons: ThrottleReasons,
    },
    /// At its class's clocks it would stand apart all the same: the device itself.
    Device,
    /// No clock of it was read.
    NotKnown,
}

/// A point of a device against its class.
#[derive(Debug, Clone, PartialEq)]
pub struct PointEvidence<'a> {
    /// The point.
    pub point: &'a str,
    /// The solution.
    pub solution: &'a str,
    /// How much longer than the class it takes there: 0.25 is 25%.
    pub slower: f64,
}

/// A family in which a device was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct FamilyEvidence<'a> {
    /// What was compared.
    pub key: FamilyKey<'a>,
    /// Whether it stands apart here.
    pub stands_apart: bool,
    /// How much longer it takes than the median device: 0.25 is 25%.
    pub slower: f64,
    /// The same at the core clock of the class, if time goes as the clock; none where no clock was read.
    pub slower_at_class_core_clock: Option<f64>,
    /// The same at the memory clock of the class.
    pub slower_at_class_memory_clock: Option<f64>,
    /// Its distance from the median device in robust standard deviations, where it stands apart.
    pub z: Option<f64>,
    /// Why, where it stands apart.
    pub cause: Option<Cause>,
    /// Each of its points, in order.
    pub points: Vec<PointEvidence<'a>>,
    /// Core clock, kHz.
    pub core_clock_khz: Option<Compared>,
    /// Memory clock, kHz.
    pub memory_clock_khz: Option<Compared>,
    /// Power, milliwatts.
    pub power_mw: Option<Compared>,
    /// Temperature of the die, millidegrees Celsius.
    pub temperature_mc: Option<Compared>,
    /// Throttle reasons seen on its rows; none where nobody looked.
    pub throttle: Option<ThrottleReasons>,
}

/// A device that stands apart, and everything that was measured on it.
#[derive(Debug, Clone, PartialEq)]
pub struct Evidence<'a> {
    /// The device.
    pub device: &'a DeviceId,
    /// Its host.
    pub host: &'a str,
    /// Families that it was measured in, those included in which it is as others are.
    pub families: Vec<FamilyEvidence<'a>>,
}

/// A clock explains an effect if it leaves no more than this part of it.
const LEFT_MAX: f64 = 0.25;

/// A clock that differs by less explains nothing.
const SHORTFALL_MIN: f64 = 0.01;

/// The evidence on every device that stands apart anywhere, by identity.
pub(super) fn all<'a>(study: &ClassStudy<'a>, rule: ClassRule, workers: &dyn Workers) -> Vec<Evidence<'a>> {
    let called = |family: &Family<'a>| match &family.outliers {
        Outliers::Found(found) => found.iter().map(|outlier| outlier.device).collect(),
        Outliers::TooFewDevices { .. } => Vec::new(),
    };
    let apart: BTreeSet<usize> = study.families.iter().flat_map(called).collect();
    if apart.is_empty() {
        return Vec::new();
    }
    let families: Vec<&Family<'a>> = study.families.iter().collect();
    let compared = each(workers, families, |family| ComparedFamily::of(family, study.devices.len()));
    apart.into_iter().filter_map(|device| evidence(study, &compared, device, rule)).collect()
}

/// The evidence on a device, by its index; `None` where it stands apart nowhere.
fn evidence<'a>(
    study: &ClassStudy<'a>,
    compared: &[ComparedFamily<'_, 'a>],
    device: usize,
    rule: ClassRule,
) -> Option<Evidence<'a>> {
    let families: Vec<FamilyEvidence<'a>> =
        compared.iter().filter_map(|family| of_family(family, device, rule)).collect();
    let id = *study.devices.get(device)?;
    let row = compared.iter().find_map(|family| first(family.of_devices.get(device)?))?;
    let host = row.device().host.as_str();
    families.iter().any(|family| family.stands_apart).then_some(Evidence { device: id, host, families })
}

/// The readings that devices are compared by, in the order of [`Reading`].
const READINGS: [Reading; 4] =
    [Reading::CoreClockKhz, Reading::MemoryClockKhz, Reading::PowerMilliwatts, Reading::TemperatureMillidegrees];

/// A family, with its rows by device and the medians of their readings.
struct ComparedFamily<'f, 'a> {
    family: &'f Family<'a>,
    of_devices: Vec<Vec<&'a Record>>,
    /// For each reading the medians of devices, and the median of these.
    medians: [(Vec<Option<f64>>, Option<f64>); 4],
}

impl<'f, 'a> ComparedFamily<'f, 'a> {
    fn of(family: &'f Family<'a>, devices: usize) -> Self {
        let of_devices = by_device(&family.rows, devices);
        let medians = READINGS.map(|reading| {
            let medians: Vec<Option<f64>> = of_devices.iter().map(|rows| median_of(rows, reading)).collect();
            let class = median(&medians.iter().copied().flatten().collect::<Vec<_>>());
            (medians, class)
        });
        Self { family, of_devices, medians }
    }

    /// A device's median reading beside the median over all devices' medians.
    fn compare(&self, device: usize, reading: Reading) -> Option<Compared> {
        let (medians, class) = &self.medians[reading as usize];
        let (own, class) = ((*medians.get(device)?)?, (*class)?);
        (own > 0.0 && class > 0.0).then_some(Compared { device: own, class })
    }
}

fn of_family<'a>(compared: &ComparedFamily<'_, 'a>, device: usize, rule: ClassRule) -> Option<FamilyEvidence<'a>> {
    let family = compared.family;
    let effects = family.effects.as_ref().ok()?;
    let effect = (*effects.devices.get(device)?)?;
    let z = match &family.outliers {
        Outliers::Found(found) => found.iter().find(|outlier| outlier.device == device).map(|outlier| outlier.z),
        Outliers::TooFewDevices { .. } => None,
    };
    let reading = |reading: Reading| compared.compare(device, reading);
    let (core, memory) = (reading(Reading::CoreClockKhz), reading(Reading::MemoryClockKhz));
    let own = compared.of_devices.get(device)?;
    let reasons = own.iter().filter_map(|row| row.context().throttle_reasons);
    let throttle = reasons.map(ThrottleReasons::from_bits).reduce(ThrottleReasons::union);
    let at_class = |clock: Option<Compared>| clock.map(|clock| libm::expm1(effect - clock.shortfall()));
    let points = effects.points.iter().zip(&family.points).filter_map(|(class, &(point, solution))| {
        let there: Vec<f64> = own
            .iter()
            .filter(|row| (row.work().point.as_str(), row.work().solution.as_str()) == (point, solution))
            .filter_map(|row| row.estimate_ns().map(libm::log))
            .collect();
        Some(PointEvidence { point, solution, slower: libm::expm1(median(&there)? - (*class)?) })
    });
    Some(FamilyEvidence {
        key: family.key,
        stands_apart: z.is_some(),
        slower: libm::expm1(effect),
        slower_at_class_core_clock: at_class(core),
        slower_at_class_memory_clock: at_class(memory),
        z,
        cause: z.map(|_| cause(&distances(family, effect), (core, memory), throttle.unwrap_or_default(), rule)),
        points: points.collect(),
        core_clock_khz: core,
        memory_clock_khz: memory,
        power_mw: reading(Reading::PowerMilliwatts),
        temperature_mc: reading(Reading::TemperatureMillidegrees),
        throttle,
    })
}

/// How far a device is from its class; or, where that has two humps, from each, because which was its own is not known.
fn distances(family: &Family<'_>, effect: f64) -> Vec<f64> {
    match &family.humps {
        Humps::Two { low, high, .. } => vec![effect - low.center, effect - high.center],
        Humps::One { .. } | Humps::TooFewDevices { .. } => vec![effect],
    }
}

/// Which clock explains an effect, if one does; of two the one that leaves less.
fn cause(
    effects: &[f64],
    (core, memory): (Option<Compared>, Option<Compared>),
    reasons: ThrottleReasons,
    rule: ClassRule,
) -> Cause {
    if core.is_none() && memory.is_none() {
        return Cause::NotKnown;
    }
    let left = |clock: Compared| {
        let parts = effects.iter().filter_map(|effect| {
            let (left, allowed) = ((effect - clock.shortfall()).abs(), LEFT_MAX * effect.abs());
            (left <= allowed.max(rule.outliers.distance_min) && left < effect.abs()).then_some(left)
        });
        parts.reduce(f64::min)
    };
    let clocks = [(Clock::Core, core), (Clock::Memory, memory)];
    let differ = clocks.into_iter().filter_map(|(name, clock)| Some((name, clock?)));
    let differ = differ.filter(|(_, clock)| clock.shortfall().abs() >= SHORTFALL_MIN);
    let explains = differ.filter_map(|(name, clock)| Some((name, left(clock)?)));
    let best = explains.min_by(|one, other| one.1.total_cmp(&other.1));
    best.map_or(Cause::Device, |(clock, _)| Cause::Clock { clock, reasons })
}
