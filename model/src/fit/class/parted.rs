//! Two groups that an attribute of the devices tells: firmware, driver, rack, slot.
//!
//! Sixteen devices, three of them slow, do not show two humps by their shape. Who has which firmware is known without
//! looking at times, so one need only ask whether the two firmwares differ: whether their centres are far apart for the
//! spread around them, and how often labels dealt at random part devices as well. Bonferroni's rule pays for trying
//! several attributes.
//!
//! Some devices of a group may be broken, up to half of them. So a group's centre is that of its closest half (the
//! location that the shortest half gives; Andrews and others, Robust Estimates of Location, 1972), and its spread a
//! median deviation from there. What deals are compared by is how far all devices are from their own centres, none
//! counting for more than the spread of the class as a whole: a broken device adds as much to every deal, and a wrong
//! label more than a right one.

use std::collections::BTreeMap;

use super::ClassRule;
use crate::fit::attribute::{Attribute, Explanation, Level, Numbers};
use crate::fit::humps::{HUMP_MIN, Hump};
use crate::statistics::{MAD_TO_SIGMA, median, median_absolute_deviation};

/// With more devices the shape alone shows two groups, and deals of labels would take long.
pub(super) const DEVICES_MAX: usize = 128;

/// Deals for each chance of one that is allowed, so that the smallest chance that can be shown is a fifth of it.
const DEALS: f64 = 5.0;

/// Values of a group within so many of its spreads make its centre.
const NEAR_SIGMAS: f64 = 5.0;

/// Smallest distance of the centres, in units of the spread around them. A label that was known before is evidence of its
/// own, so less is asked than where the cut is chosen by the values.
const SEPARATION_MIN: f64 = 3.0;

/// The spread of a few devices may come out small by chance: two groups' are compared from this many floors on.
const SMALL_GROUP_FLOORS: f64 = 2.0;

/// Two groups, and what told them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Parted {
    /// The attribute.
    pub(super) explanation: Explanation,
    /// The group of smaller effects.
    pub(super) low: Hump,
    /// The group of larger effects.
    pub(super) high: Hump,
}

/// The two groups that an attribute tells, if one does; effects are on logarithms, by device, as levels are.
pub(super) fn find(effects: &[Option<f64>], attributes: &[Attribute], rule: ClassRule) -> Option<Parted> {
    let known = effects.iter().filter(|effect| effect.is_some_and(f64::is_finite)).count();
    if known < rule.humps.devices_min || known > DEVICES_MAX {
        return None;
    }
    let trials: Vec<Trial<'_>> =
        attributes.iter().filter_map(|attribute| Trial::of(attribute, effects, rule)).collect();
    let deals = (DEALS * trials.len() as f64 / rule.attributes.chance_max.clamp(1e-4, 1.0)).ceil() as usize;
    let chance = |trial: &Trial<'_>| trial.chance(deals) * trials.len() as f64;
    let told = trials.iter().filter(|trial| trial.is_apart(rule)).map(|trial| (chance(trial), trial));
    let told: Vec<(f64, &Trial<'_>)> = told.filter(|(chance, _)| *chance <= rule.attributes.chance_max).collect();
    let name = |trial: &Trial<'_>| trial.attribute.name.clone();
    let (chance, best) = told.iter().min_by(|(chance, trial), (other_chance, other)| {
        chance.total_cmp(other_chance).then_with(|| name(trial).cmp(&name(other)))
    })?;
    let mut alike: Vec<String> = told.iter().map(|(_, trial)| name(trial)).collect();
    alike.retain(|name| *name != best.attribute.name);
    alike.sort();
    best.parted(*chance, alike)
}

/// An attribute of two levels, each of enough devices.
struct Trial<'a> {
    attribute: &'a Attribute,
    names: [&'a str; 2],
    /// Devices by index, with their effects.
    devices: Vec<(usize, f64)>,
    /// For each of these, which level it has.
    sides: Vec<usize>,
}

impl<'a> Trial<'a> {
    fn of(attribute: &'a Attribute, effects: &[Option<f64>], rule: ClassRule) -> Option<Self> {
        let mut members: BTreeMap<&'a str, Vec<(usize, f64)>> = BTreeMap::new();
        for (device, (level, effect)) in attribute.levels.iter().zip(effects).enumerate() {
            if let (Some(level), Some(effect)) = (level, effect.filter(|effect| effect.is_finite())) {
                members.entry(level).or_default().push((device, effect));
            }
        }
        let count: usize = members.values().map(Vec::len).sum();
        let least = ((count as f64 * rule.humps.share_min).ceil() as usize).max(HUMP_MIN);
        let mut members = members.into_iter();
        let (Some((one, of_one)), Some((other, of_other)), None) = (members.next(), members.next(), members.next())
        else {
            return None;
        };
        let is_enough = of_one.len().min(of_other.len()) >= least && count >= rule.humps.devices_min;
        let sides = [vec![0; of_one.len()], vec![1; of_other.len()]].concat();
        is_enough.then(|| Self { attribute, names: [one, other], devices: [of_one, of_other].concat(), sides })
    }

    /// Effects of the devices of one of these sides.
    fn values(&self, sides: &[usize], side: usize) -> Vec<f64> {
        let of_side = self.devices.iter().zip(sides).filter(|(_, own)| **own == side);
        of_side.map(|((_, effect), _)| *effect).collect()
    }

    /// Each device's distance from the centre of its own of these sides.
    fn distances(&self, sides: &[usize]) -> Option<Vec<f64>> {
        let centers = [closest_half(&self.values(sides, 0))?, closest_half(&self.values(sides, 1))?];
        Some(self.devices.iter().zip(sides).map(|((_, effect), side)| (effect - centers[*side]).abs()).collect())
    }

    /// What these sides leave: the sum of distances, none larger than `most`.
    fn left(&self, sides: &[usize], most: f64) -> f64 {
        self.distances(sides).map_or(f64::INFINITY, |far| far.into_iter().map(|far| far.min(most)).sum())
    }

    /// Whether the groups stand apart as two humps have to. Devices that are slow each by its own amount are no group.
    fn is_apart(&self, rule: ClassRule) -> bool {
        let group = |side: usize| {
            let values = self.values(&self.sides, side);
            let center = closest_half(&values)?;
            Some((center, lower_median(values.iter().map(|value| (value - center).abs()))? * MAD_TO_SIGMA))
        };
        let Some(((one, sigma_one), (other, sigma_other))) = group(0).zip(group(1)) else { return false };
        let usual = self.distances(&self.sides).and_then(|far| lower_median(far.into_iter())).unwrap_or(f64::INFINITY);
        let sigma = (usual * MAD_TO_SIGMA).max(rule.outliers.sigma_floor);
        let floor = SMALL_GROUP_FLOORS * rule.outliers.sigma_floor;
        let (narrow, wide) = (sigma_one.min(sigma_other).max(floor), sigma_one.max(sigma_other));
        let distance = (one - other).abs();
        distance >= (SEPARATION_MIN * sigma).max(rule.humps.distance_min)
            && wide <= rule.humps.spread_ratio_max * narrow
    }

    /// How often labels dealt at random part the devices as well.
    fn chance(&self, deals: usize) -> f64 {
        let (mut sides, mut numbers) = (self.sides.clone(), Numbers::default());
        let effects: Vec<f64> = self.devices.iter().map(|(_, effect)| *effect).collect();
        let most = median_absolute_deviation(&effects).unwrap_or(0.0) * MAD_TO_SIGMA;
        let found = self.left(&sides, most);
        let mut as_well = 0;
        for _ in 0..deals {
            numbers.shuffle(&mut sides);
            as_well += usize::from(self.left(&sides, most) <= found + 1e-12);
        }
        (as_well + 1) as f64 / (deals + 1) as f64
    }

    fn parted(&self, chance: f64, alike: Vec<String>) -> Option<Parted> {
        let mut levels: Vec<(Level, Hump)> = [0, 1].into_iter().filter_map(|side| self.level(side)).collect();
        levels.sort_by(|left, right| left.0.center.total_cmp(&right.0.center));
        let explained = self.explained(&levels);
        let [(low_level, low), (high_level, high)] = <[_; 2]>::try_from(levels).ok()?;
        let levels = vec![low_level, high_level];
        let attribute = self.attribute.name.clone();
        Some(Parted { explanation: Explanation { attribute, explained, chance, levels, alike }, low, high })
    }

    /// A level and its hump: the median of what lies near the closest half.
    fn level(&self, side: usize) -> Option<(Level, Hump)> {
        let members: Vec<(usize, f64)> =
            self.devices.iter().zip(&self.sides).filter(|(_, own)| **own == side).map(|(device, _)| *device).collect();
        let values: Vec<f64> = members.iter().map(|(_, effect)| *effect).collect();
        let center = closest_half(&values)?;
        let sigma = lower_median(values.iter().map(|value| (value - center).abs()))? * MAD_TO_SIGMA;
        let near: Vec<f64> = values.into_iter().filter(|value| (value - center).abs() <= NEAR_SIGMAS * sigma).collect();
        let center = median(&near)?;
        let devices: Vec<usize> = members.iter().map(|(device, _)| *device).collect();
        let level = Level { name: self.names[side].to_owned(), devices: devices.clone(), center };
        Some((level, Hump { devices, center, sigma }))
    }

    /// The part of the variance that lies between the groups, of what lies near them.
    fn explained(&self, levels: &[(Level, Hump)]) -> f64 {
        let (mut between, mut within) = (0.0, 0.0);
        let sizes: Vec<f64> = levels.iter().map(|(_, hump)| hump.devices.len() as f64).collect();
        let total: f64 = sizes.iter().sum();
        let mean: f64 = levels.iter().zip(&sizes).map(|((_, hump), size)| hump.center * size / total).sum();
        for ((_, hump), size) in levels.iter().zip(&sizes) {
            between += size * (hump.center - mean) * (hump.center - mean);
            within += size * hump.sigma * hump.sigma;
        }
        if between + within > 0.0 { between / (between + within) } else { 0.0 }
    }
}

/// Median of the closest half of some values: half of them may be anything.
fn closest_half(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let half = sorted.len().div_ceil(2);
    let width = |window: &[f64]| window.last().zip(window.first()).map_or(f64::INFINITY, |(last, first)| last - first);
    let closest = sorted.windows(half.max(1)).min_by(|left, right| width(left).total_cmp(&width(right)))?;
    median(closest)
}

/// The middle value, of an even number the lower of the two.
fn lower_median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Devices of two firmwares, the later one slower by `by`; of them every fifth slow by an amount of its own.
    fn class(random: &mut Random, devices: usize, by: f64) -> (Vec<Option<f64>>, Attribute) {
        let is_later = |device: usize| device * 5 % devices < devices * 2 / 5;
        let effect = |device: usize| {
            let slow = if device % 5 == 4 { 0.1 + 0.3 * random.uniform() } else { 0.0 };
            Some(0.005 * random.normal() + slow + if is_later(device) { by } else { 0.0 })
        };
        let effects = (0..devices).map(effect).collect();
        let level = |device| Some(if is_later(device) { "96.00.B0" } else { "96.00.A5" }.to_owned());
        (effects, Attribute { name: "vbios".to_owned(), levels: (0..devices).map(level).collect() })
    }

    fn parted(effects: &[Option<f64>], attributes: &[Attribute]) -> Option<Parted> {
        find(effects, attributes, ClassRule::default())
    }

    #[test]
    fn firmwares_that_differ_part_a_class_whose_shape_does_not_show_it() {
        for devices in [16, 21, 64] {
            for seed in 0..20 {
                let (effects, vbios) = class(&mut Random::new(seed), devices, 0.04);
                let found = parted(&effects, std::slice::from_ref(&vbios));
                let found = found.unwrap_or_else(|| panic!("{devices} devices, seed {seed}: nothing found"));
                let is_later = |device: &usize| vbios.levels[*device].as_deref() == Some("96.00.B0");
                assert!(
                    found.high.devices.iter().all(is_later) && !found.low.devices.iter().any(is_later),
                    "{found:?}"
                );
                assert_eq!(found.high.devices.len() + found.low.devices.len(), devices);
                let apart = found.high.center - found.low.center;
                assert!((apart - 0.04).abs() < 0.015, "seed {seed}: the groups are {apart} apart, not 0.04");
                let explanation = &found.explanation;
                assert!(explanation.attribute == "vbios" && explanation.chance <= 0.01, "{explanation:?}");
                assert!(explanation.explained > 0.7 && explanation.levels[1].name == "96.00.B0", "{explanation:?}");
            }
        }
    }

    #[test]
    fn firmwares_that_do_not_differ_part_nothing() {
        for by in [0.0, 0.005] {
            let found = (0..200).filter(|seed| {
                let (effects, vbios) = class(&mut Random::new(*seed), 16, by);
                parted(&effects, &[vbios]).is_some()
            });
            let found = found.count();
            assert!(found <= 4, "{found} of 200 classes were parted, whose firmwares differ by {by}");
        }
    }

    #[test]
    fn labels_that_cut_across_the_firmwares_part_nothing() {
        let (effects, _) = class(&mut Random::new(1), 20, 0.04);
        let level = |device: usize| Some(format!("slot-{}", device % 2));
        let slot = Attribute { name: "slot".to_owned(), levels: (0..20).map(level).collect() };
        assert_eq!(parted(&effects, &[slot]), None);
    }

    #[test]
    fn devices_that_are_slow_each_by_its_own_amount_are_no_group() {
        let mut random = Random::new(1);
        let is_bad = |device: usize| device.is_multiple_of(3);
        let mut called = 0;
        for _ in 0..50 {
            let effect =
                |device| 0.005 * random.normal() + if is_bad(device) { 0.1 + 0.3 * random.uniform() } else { 0.0 };
            let effects: Vec<Option<f64>> = (0..24).map(effect).map(Some).collect();
            let levels = (0..24).map(|device| Some(if is_bad(device) { "rack-1" } else { "rack-2" }.to_owned()));
            let rack = Attribute { name: "rack".to_owned(), levels: levels.collect() };
            called += usize::from(parted(&effects, &[rack]).is_some());
        }
        // Amounts may be alike by chance.
        assert!(called <= 3, "{called} of 50 racks of broken devices were called a group");
    }

    #[test]
    fn attributes_alike_are_all_said_and_others_are_not_tried() {
        let (effects, vbios) = class(&mut Random::new(2), 20, 0.05);
        let renamed = |name: &str| Attribute { name: name.to_owned(), ..vbios.clone() };
        let found = parted(&effects, &[vbios.clone(), renamed("driver")]).expect("two groups");
        assert_eq!(
            (&*found.explanation.attribute, &found.explanation.alike[..]),
            ("driver", &["vbios".to_owned()][..])
        );
        let mut third = vbios.clone();
        third.levels[0] = Some("97.00".to_owned());
        assert_eq!(parted(&effects, &[third]), None, "three levels");
        assert_eq!(parted(&effects[..15], &[vbios]), None, "too few devices");
    }
}
