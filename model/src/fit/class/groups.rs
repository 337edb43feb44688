//! Who stands apart, and whether the rest are two groups: each decides about the other.
//!
//! Slow devices hide two humps, and two humps make the usual spread so large that slow devices hide in it. So outliers are
//! called first, humps are looked for among the rest, and if there are two, outliers are called anew by the distance from
//! their own hump. An attribute that parts the devices comes before all of this: it says whose hump is whose.

use super::ClassRule;
use super::parted::{self, Parted};
use crate::fit::attribute::{Attribute, Explanation};
use crate::fit::devices::{Outlier, Outliers, outliers};
use crate::fit::humps::{Hump, HumpRule, Humps, dip, find, limit};

/// Whether a device is among those called.
pub(super) fn is_outlier(outliers: &Outliers, device: usize) -> bool {
    matches!(outliers, Outliers::Found(found) if found.iter().any(|outlier| outlier.device == device))
}

/// Outliers and humps of devices with these effects, and the attribute that told the humps, if one did.
pub(super) fn judge(
    effects: &[Option<f64>],
    attributes: &[Attribute],
    rule: ClassRule,
) -> (Outliers, Humps, Option<Explanation>) {
    if let Some(Parted { explanation, low, high }) = parted::find(effects, attributes, rule) {
        let known: Vec<f64> = effects.iter().flatten().copied().filter(|effect| effect.is_finite()).collect();
        let (outliers, humps) = from_own(effects, (dip_of(&known), limit(known.len())), [low, high], true, rule);
        return (outliers, humps, Some(explanation));
    }
    let (outliers, humps) = by_shape(effects, rule);
    (outliers, humps, None)
}

/// The dip of values in any order.
fn dip_of(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    dip(&sorted)
}

/// Outliers and humps as the shape of the effects shows them.
fn by_shape(effects: &[Option<f64>], rule: ClassRule) -> (Outliers, Humps) {
    let first = outliers(effects, rule.outliers);
    let kept: Vec<Option<f64>> =
        effects.iter().enumerate().map(|(device, effect)| effect.filter(|_| !is_outlier(&first, device))).collect();
    // What is asked is whether the class is large enough; a quarter of it may stand apart.
    let of_kept = HumpRule { devices_min: rule.humps.devices_min * 3 / 4, ..rule.humps };
    // A few slow devices may be alike by chance: a group that was called outliers is a hump if it is as tight as the rest.
    let tight = HumpRule { spread_ratio_max: rule.humps.spread_ratio_max / 2.0, ..rule.humps };
    match (find(effects, tight), find(&kept, of_kept)) {
        (few @ Humps::TooFewDevices { .. }, _) => (first, few),
        (_, Humps::Two { dip, limit, low, high }) | (Humps::Two { dip, limit, low, high }, _) => {
            from_own(effects, (dip, limit), [low, high], false, rule)
        }
        (one, _) => (first, one),
    }
}

/// Outliers by their distance from their own hump, and the humps without them. A device's own hump is the nearer one,
/// unless it was told which.
fn from_own(
    effects: &[Option<f64>],
    (dip, limit): (f64, f64),
    [mut low, mut high]: [Hump; 2],
    is_told: bool,
    rule: ClassRule,
) -> (Outliers, Humps) {
    let boundary = (low.center + high.center) / 2.0;
    let own = |device: usize, effect: f64| {
        let is_of = |hump: &Hump| is_told && hump.devices.binary_search(&device).is_ok();
        if is_of(&low) || !is_of(&high) && effect < boundary { low.center } else { high.center }
    };
    let distances: Vec<Option<f64>> =
        effects.iter().enumerate().map(|(device, effect)| effect.map(|effect| effect - own(device, effect))).collect();
    let found = match outliers(&distances, rule.outliers) {
        Outliers::Found(found) => {
            let told = |outlier: Outlier| Outlier { effect: effects[outlier.device].unwrap_or(0.0), ..outlier };
            Outliers::Found(found.into_iter().map(told).collect())
        }
        few @ Outliers::TooFewDevices { .. } => few,
    };
    let stays = |hump: &mut Hump| hump.devices.retain(|device| !is_outlier(&found, *device));
    stays(&mut low);
    stays(&mut high);
    (found, Humps::Two { dip, limit, low, high })
}
