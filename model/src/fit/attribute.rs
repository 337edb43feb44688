//! Which attribute of devices explains how they differ: firmware, host, rack, driver, a band of clock or power.
//!
//! An attribute parts the devices into levels, and explains the part of the variance of their effects that lies between
//! levels. Any partition explains some; so effects are dealt anew to devices many times, and an attribute counts if few
//! deals explain as much. The more attributes are tried, the fewer may: Holm's rule (A simple sequentially rejective
//! multiple test procedure, Scandinavian Journal of Statistics 6, 1979). Deals come from a fixed sequence of numbers, so
//! that the same effects give the same answer.

use std::collections::BTreeMap;

use crate::statistics::{MAD_TO_SIGMA, median, median_absolute_deviation};

/// Something that devices have, as text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// What it is, for example `vbios`.
    pub name: String,
    /// Its level by device; none where it is not known.
    pub levels: Vec<Option<String>>,
}

/// When an attribute explains.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AttributeRule {
    /// Fewest devices.
    pub devices_min: usize,
    /// Chance that any attribute is named where none explains.
    pub chance_max: f64,
    /// Smallest part of the variance that is an explanation.
    pub explained_min: f64,
}

impl Default for AttributeRule {
    /// 16 devices, 1%, half of the variance.
    fn default() -> Self {
        Self { devices_min: 16, chance_max: 0.01, explained_min: 0.5 }
    }
}

/// A level of the attribute that explains.
#[derive(Debug, Clone, PartialEq)]
pub struct Level {
    /// Its name.
    pub name: String,
    /// Its devices, by index.
    pub devices: Vec<usize>,
    /// Median of their effects, on logarithms.
    pub center: f64,
}

/// An attribute that explains.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// Its name.
    pub attribute: String,
    /// Part of the variance between its levels, corrected for their number: 1 is all of it.
    pub explained: f64,
    /// Chance of explaining as much by accident, times the attributes it competes with.
    pub chance: f64,
    /// Its levels, by the median of their effects.
    pub levels: Vec<Level>,
    /// Other attributes that explain as much: the devices cannot tell which of them it is.
    pub alike: Vec<String>,
}

/// What attributes say.
#[derive(Debug, Clone, PartialEq)]
pub enum Explained {
    /// One explains.
    By(Explanation),
    /// None does.
    ByNone {
        /// Attributes that could be tried: two levels at least, of two devices at least.
        tried: Vec<String>,
    },
    /// Too few devices to tell.
    TooFewDevices {
        /// Devices there are.
        devices: usize,
        /// Devices needed.
        needed: usize,
    },
}

/// Values beyond so many robust standard deviations count as that far: one broken device explains nothing.
const CLIP_SIGMAS: f64 = 5.0;

/// Of attributes that explain as much within this, the one with the fewest levels is named.
const ALIKE: f64 = 0.05;

/// An attribute on trial: the level number of each device that has one.
struct Trial<'a> {
    attribute: &'a Attribute,
    members: Vec<(usize, usize)>,
    levels: usize,
    share: f64,
    as_much: usize,
}

/// Finds the attribute that explains the devices' effects.
pub fn explain(effects: &[Option<f64>], attributes: &[Attribute], rule: AttributeRule) -> Explained {
    let known: Vec<usize> = (0..effects.len()).filter(|&device| effects[device].is_some_and(f64::is_finite)).collect();
    let values: Vec<f64> = known.iter().filter_map(|&device| effects[device]).collect();
    if known.len() < rule.devices_min.max(2) {
        return Explained::TooFewDevices { devices: known.len(), needed: rule.devices_min.max(2) };
    }
    let mut clipped = clip(&values);
    let mut trials: Vec<Trial<'_>> = attributes.iter().filter_map(|attribute| trial(attribute, &known)).collect();
    trials.iter_mut().for_each(|trial| trial.share = between(trial, &clipped));
    // Twice as many deals as the smallest chance that Holm's rule asks for.
    let deals = (2.0 * trials.len() as f64 / rule.chance_max.clamp(1e-4, 1.0)).ceil() as usize;
    let mut numbers = Numbers::default();
    for _ in 0..deals {
        numbers.shuffle(&mut clipped);
        for trial in &mut trials {
            trial.as_much += usize::from(between(trial, &clipped) >= trial.share - 1e-12);
        }
    }
    let tried = trials.iter().map(|trial| trial.attribute.name.clone()).collect();
    name(trials, deals, effects, rule).map_or(Explained::ByNone { tried }, Explained::By)
}

/// Splits numbers into a low and a high band, for an attribute such as a measured clock: `None` where their means differ
/// by less than 1%, or where one band has fewer than two devices.
pub fn bands(name: &str, numbers: &[Option<f64>]) -> Option<Attribute> {
    let mut sorted: Vec<f64> = numbers.iter().flatten().copied().filter(|number| number.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    let total: f64 = sorted.iter().sum();
    let mut best: Option<(f64, usize, f64, f64)> = None;
    let mut below = 0.0;
    for cut in 1..sorted.len() {
        below += sorted[cut - 1];
        let (low, high) = (below / cut as f64, (total - below) / (sorted.len() - cut) as f64);
        let apart = cut as f64 * (sorted.len() - cut) as f64 * (high - low) * (high - low);
        if best.is_none_or(|(most, ..)| apart > most) {
            best = Some((apart, cut, low, high));
        }
    }
    let (_, cut, low, high) = best?;
    let is_apart = cut >= 2 && sorted.len() - cut >= 2 && low > 0.0 && high / low >= 1.01;
    let edge = sorted[cut];
    let (low, high) = (format!("about {low:.0}"), format!("about {high:.0}"));
    let level = |number: f64| if number < edge { low.clone() } else { high.clone() };
    let levels = numbers.iter().map(|number| number.filter(|number| number.is_finite()).map(level)).collect();
    is_apart.then(|| Attribute { name: name.to_owned(), levels })
}

/// Effects as far from their median as [`CLIP_SIGMAS`] allows.
fn clip(values: &[f64]) -> Vec<f64> {
    let center = median(values).unwrap_or(0.0);
    let sigma = median_absolute_deviation(values).unwrap_or(0.0) * MAD_TO_SIGMA;
    let reach = if sigma > 0.0 { CLIP_SIGMAS * sigma } else { f64::MAX };
    values.iter().map(|value| (value - center).clamp(-reach, reach)).collect()
}

/// An attribute that can be tried on the devices known: two levels at least, of two devices at least.
fn trial<'a>(attribute: &'a Attribute, known: &[usize]) -> Option<Trial<'a>> {
    let mut numbers: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut members = Vec::new();
    for (at, &device) in known.iter().enumerate() {
        let Some(level) = attribute.levels.get(device).and_then(Option::as_deref) else { continue };
        let next = numbers.len();
        let (number, count) = numbers.entry(level).or_insert((next, 0));
        *count += 1;
        members.push((at, *number));
    }
    let shared = numbers.values().filter(|(_, count)| *count >= 2).count();
    let levels = numbers.len();
    // A level of its own for almost every device explains everything and says nothing.
    let can_tell = shared >= 2 && levels * 2 <= members.len();
    can_tell.then_some(Trial { attribute, members, levels, share: 0.0, as_much: 0 })
}

/// Part of the variance between levels.
fn between(trial: &Trial<'_>, values: &[f64]) -> f64 {
    let mut sums = vec![(0.0, 0.0); trial.levels];
    let (mut sum, mut squares) = (0.0, 0.0);
    for &(at, level) in &trial.members {
        let value = values[at];
        sums[level].0 += value;
        sums[level].1 += 1.0;
        sum += value;
        squares += value * value;
    }
    let mean_square = sum * sum / trial.members.len() as f64;
    let of_levels: f64 = sums.iter().filter(|(_, count)| *count > 0.0).map(|(sum, count)| sum * sum / count).sum();
    let total = squares - mean_square;
    if total > 0.0 { ((of_levels - mean_square) / total).clamp(0.0, 1.0) } else { 0.0 }
}

/// The attribute to name, after Holm's rule.
fn name(mut trials: Vec<Trial<'_>>, deals: usize, effects: &[Option<f64>], rule: AttributeRule) -> Option<Explanation> {
    let chance = |trial: &Trial<'_>| (trial.as_much + 1) as f64 / (deals + 1) as f64;
    let corrected = |trial: &Trial<'_>| {
        let (count, levels) = (trial.members.len() as f64, trial.levels as f64);
        1.0 - (1.0 - trial.share) * (count - 1.0) / (count - levels)
    };
    trials.sort_by_key(|trial| trial.as_much);
    let tried = trials.len();
    let passed =
        trials.iter().enumerate().take_while(|(at, trial)| chance(trial) * (tried - at) as f64 <= rule.chance_max);
    let passed: Vec<(f64, &Trial<'_>)> = passed
        .map(|(at, trial)| (chance(trial) * (tried - at) as f64, trial))
        .filter(|(_, trial)| corrected(trial) >= rule.explained_min)
        .collect();
    let most = passed.iter().map(|(_, trial)| corrected(trial)).fold(f64::NEG_INFINITY, f64::max);
    let as_good: Vec<&(f64, &Trial<'_>)> =
        passed.iter().filter(|(_, trial)| corrected(trial) >= most - ALIKE).collect();
    let order = |trial: &Trial<'_>| (trial.levels, trial.attribute.name.clone());
    let &&(chance, best) = as_good.iter().min_by_key(|(_, trial)| order(trial))?;
    let mut alike: Vec<String> = as_good.iter().map(|(_, trial)| trial.attribute.name.clone()).collect();
    alike.retain(|name| *name != best.attribute.name);
    alike.sort();
    let (attribute, explained) = (best.attribute.name.clone(), corrected(best));
    Some(Explanation { attribute, explained, chance, levels: levels(best.attribute, effects), alike })
}

fn levels(attribute: &Attribute, effects: &[Option<f64>]) -> Vec<Level> {
    let mut members: BTreeMap<&str, Vec<(usize, f64)>> = BTreeMap::new();
    for (device, (level, effect)) in attribute.levels.iter().zip(effects).enumerate() {
        if let (Some(level), Some(effect)) = (level, effect.filter(|effect| effect.is_finite())) {
            members.entry(level).or_default().push((device, effect));
        }
    }
    let level = |(name, members): (&str, Vec<(usize, f64)>)| {
        let center = median(&members.iter().map(|(_, effect)| *effect).collect::<Vec<_>>())?;
        let devices = members.into_iter().map(|(device, _)| device).collect();
        Some(Level { name: name.to_owned(), devices, center })
    };
    let mut levels: Vec<Level> = members.into_iter().filter_map(level).collect();
    levels.sort_by(|left, right| left.center.total_cmp(&right.center).then(left.name.cmp(&right.name)));
    levels
}

/// A fixed sequence of numbers that look random (Steele, Lea and Flood, Fast splittable pseudorandom number generators,
/// 2014): dealing needs no more.
#[derive(Default)]
pub(super) struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Deals values anew.
    pub(super) fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            let other = self.next() % (last as u64 + 1);
            values.swap(last, other as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    fn attribute(name: &str, levels: impl IntoIterator<Item = String>) -> Attribute {
        Attribute { name: name.to_owned(), levels: levels.into_iter().map(Some).collect() }
    }

    /// Two firmwares that differ by six spreads, on hosts of four, racks of eight, and a driver that does not matter.
    fn class(random: &mut Random, devices: usize, apart: f64) -> (Vec<Option<f64>>, Vec<Attribute>) {
        let firmware: Vec<bool> = (0..devices).map(|_| random.uniform() < 0.4).collect();
        let effect = |slow: &bool, random: &mut Random| 0.005 * (random.normal() + if *slow { apart } else { 0.0 });
        let effects = firmware.iter().map(|slow| Some(effect(slow, random))).collect();
        let driver: Vec<String> = (0..devices).map(|_| format!("{}", (random.uniform() * 3.0) as u64)).collect();
        let attributes = vec![
            attribute("driver", driver),
            attribute("host", (0..devices).map(|device| format!("host-{}", device / 4))),
            attribute("rack", (0..devices).map(|device| format!("rack-{}", device / 8))),
            attribute("uuid", (0..devices).map(|device| format!("GPU-{device}"))),
            attribute("vbios", firmware.iter().map(|slow| format!("96.{slow}"))),
        ];
        (effects, attributes)
    }

    #[test]
    fn the_attribute_behind_two_humps_is_named_with_its_levels() {
        for seed in 0..10 {
            let (effects, attributes) = class(&mut Random::new(seed), 32, 6.0);
            let found = explain(&effects, &attributes, AttributeRule::default());
            let Explained::By(found) = found else { panic!("seed {seed}: {found:?}") };
            assert_eq!((&*found.attribute, found.levels.len()), ("vbios", 2), "seed {seed}");
            assert!(found.explained > 0.8 && found.chance <= 0.01, "{found:?}");
            assert!(found.levels[1].name == "96.true" && found.levels[1].center > found.levels[0].center + 0.02);
        }
    }

    #[test]
    fn where_nothing_explains_nothing_is_named() {
        let named = (0..200).filter(|seed| {
            let (effects, attributes) = class(&mut Random::new(*seed), 16, 0.0);
            matches!(explain(&effects, &attributes, AttributeRule::default()), Explained::By(_))
        });
        assert!(named.count() <= 6, "an attribute was named by accident in more than 3% of classes");
    }

    #[test]
    fn attributes_that_part_devices_alike_are_all_said() {
        let (effects, mut attributes) = class(&mut Random::new(1), 32, 8.0);
        let mut twin = attributes[4].clone();
        twin.name = "cooler".to_owned();
        attributes.push(twin);
        let Explained::By(found) = explain(&effects, &attributes, AttributeRule::default()) else { panic!("one") };
        assert_eq!((&*found.attribute, &found.alike[..]), ("cooler", &["vbios".to_owned()][..]));
    }

    #[test]
    fn bands_part_numbers_where_they_differ() {
        let clocks: Vec<Option<f64>> = [1980.0, 1740.0, 1975.0, 1745.0, 1978.0].map(Some).into();
        let found = bands("core_clock_mhz", &clocks).unwrap();
        let levels: Vec<&str> = found.levels.iter().flatten().map(String::as_str).collect();
        assert_eq!(levels, ["about 1978", "about 1742", "about 1978", "about 1742", "about 1978"]);
        assert_eq!(bands("steady", &[Some(1.0), Some(1.001), Some(1.002), Some(1.0)]), None);
        assert_eq!(bands("none", &[None, Some(f64::NAN)]), None);
    }

    #[test]
    fn what_cannot_be_tried_says_so() {
        let few = explain(&[Some(0.0); 3], &[], AttributeRule::default());
        assert_eq!(few, Explained::TooFewDevices { devices: 3, needed: 16 });
        let (effects, attributes) = class(&mut Random::new(1), 16, 6.0);
        let none = explain(&effects, &attributes[3..4], AttributeRule::default());
        assert_eq!(none, Explained::ByNone { tried: vec![] }, "a level for each device explains nothing");
    }
}
