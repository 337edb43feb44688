//! Who stands apart, and whether the rest are two groups: each decides about the other.
//!
//! Slow devices hide two humps, and two humps make the usual spread so large that slow devices hide in it. So outliers are
//! called first, humps are looked for among the rest, and if there are two, outliers are called anew by the distance from
//! their own hump.

use super::ClassRule;
use crate::fit::devices::{Outlier, Outliers, outliers};
use crate::fit::humps::{Hump, HumpRule, Humps, find};

/// Whether a device is among those called.
pub(super) fn is_outlier(outliers: &Outliers, device: usize) -> bool {
    matches!(outliers, Outliers::Found(found) if found.iter().any(|outlier| outlier.device == device))
}

/// Outliers and humps of devices with these effects.
pub(super) fn judge(effects: &[Option<f64>], rule: ClassRule) -> (Outliers, Humps) {
    let first = outliers(effects, rule.outliers);
    let kept: Vec<Option<f64>> =
        effects.iter().enumerate().map(|(device, effect)| effect.filter(|_| !is_outlier(&first, device))).collect();
    // What is asked is whether the class is large enough; a quarter of it may stand apart.
    let of_kept = HumpRule { devices_min: rule.humps.devices_min * 3 / 4, ..rule.humps };
    // A few slow devices may be alike by chance: a group that was called outliers is a hump if it is as tight as the rest.
    let tight = HumpRule { spread_ratio_max: rule.humps.spread_ratio_max / 2.0, ..rule.humps };
    let (dip, limit, mut low, mut high) = match (find(effects, tight), find(&kept, of_kept)) {
        (few @ Humps::TooFewDevices { .. }, _) => return (first, few),
        (_, Humps::Two { dip, limit, low, high }) | (Humps::Two { dip, limit, low, high }, _) => {
            (dip, limit, low, high)
        }
        (one, _) => return (first, one),
    };
    let boundary = (low.center + high.center) / 2.0;
    let own = |effect: f64| if effect < boundary { low.center } else { high.center };
    let from_own: Vec<Option<f64>> = effects.iter().map(|effect| effect.map(|effect| effect - own(effect))).collect();
    let second = match outliers(&from_own, rule.outliers) {
        Outliers::Found(found) => {
            let told = |outlier: Outlier| Outlier { effect: effects[outlier.device].unwrap_or(0.0), ..outlier };
            Outliers::Found(found.into_iter().map(told).collect())
        }
        few @ Outliers::TooFewDevices { .. } => few,
    };
    let stays = |hump: &mut Hump| hump.devices.retain(|device| !is_outlier(&second, *device));
    stays(&mut low);
    stays(&mut high);
    (second, Humps::Two { dip, limit, low, high })
}
