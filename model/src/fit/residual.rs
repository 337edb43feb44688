//! Residual filtering: fit, drop what is far off, fit again, until nothing changes.
//!
//! The scale of what is usual comes from the residuals themselves, by their median magnitude, which half of the points
//! cannot move; the first fit, over all points, should be a robust one, or it hides what pulls at it. Points may come
//! back: each pass judges all of them by the fit of the pass before. The order of points does not matter.

use std::collections::BTreeSet;

use crate::statistics::{MAD_TO_SIGMA, median};

/// When a residual is too large.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ResidualRule {
    /// A residual beyond so many standard deviations is dropped.
    pub sigmas: f64,
    /// No residual up to this is dropped, relative: a device's points differ by so much from one day to the next.
    pub floor: f64,
    /// Points that are left at least.
    pub points_min: usize,
    /// Largest part of the points that may be dropped.
    pub share_max: f64,
}

impl Default for ResidualRule {
    /// Three standard deviations, a floor of 1%, a quarter of the points, three left.
    fn default() -> Self {
        Self { sigmas: 3.0, floor: 0.01, points_min: 3, share_max: 0.25 }
    }
}

/// A point that a fit left out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dropped {
    /// Its index among the points given.
    pub index: usize,
    /// Its relative residual against the final fit.
    pub residual: f64,
}

/// A fit without the points that are far off.
#[derive(Debug, Clone, PartialEq)]
pub struct Filtered<Fit> {
    /// The fit over the points kept.
    pub fit: Fit,
    /// Indices of the points kept, ascending.
    pub kept: Vec<usize>,
    /// The others, by index.
    pub dropped: Vec<Dropped>,
    /// Beyond this a residual was too large in the last pass, relative.
    pub limit: f64,
    /// Whether a further pass would change nothing. If not, passes went round in a circle, or more points were off than
    /// may be dropped, and the worst were.
    pub settled: bool,
}

/// Fits of some points, and the relative residual of every point, kept or not.
pub trait Refit {
    /// What is fitted.
    type Fit;
    /// Why it cannot be.
    type Error;

    /// Fits the points with these indices, ascending.
    ///
    /// # Errors
    /// Those of the fit.
    fn fit(&self, kept: &[usize]) -> Result<Self::Fit, Self::Error>;

    /// The relative residual of every point.
    fn residuals(&self, fit: &Self::Fit) -> Vec<f64>;
}

/// Passes at most; a few are usual.
const PASSES_MAX: usize = 32;

/// Filters `count` points to a fixed point of the rule.
///
/// # Errors
/// Those of the fit.
pub fn filter<R: Refit>(refit: &R, count: usize, rule: ResidualRule) -> Result<Filtered<R::Fit>, R::Error> {
    let droppable = ((count as f64 * rule.share_max).floor() as usize).min(count.saturating_sub(rule.points_min));
    let mut kept: Vec<usize> = (0..count).collect();
    let mut seen: BTreeSet<Vec<usize>> = BTreeSet::new();
    loop {
        let fit = refit.fit(&kept)?;
        let residuals = refit.residuals(&fit);
        let limit = limit(&kept, &residuals, rule);
        let (next, all_dropped) = judge(&residuals, limit, droppable);
        let fixed = next == kept;
        seen.insert(kept.clone());
        if fixed || seen.contains(&next) || seen.len() >= PASSES_MAX {
            let is_dropped = |index: &usize| kept.binary_search(index).is_err();
            let dropped = (0..count).filter(is_dropped).map(|index| Dropped { index, residual: residuals[index] });
            return Ok(Filtered { dropped: dropped.collect(), fit, kept, limit, settled: fixed && all_dropped });
        }
        kept = next;
    }
}

/// What the residuals of the points kept call too large.
fn limit(kept: &[usize], residuals: &[f64], rule: ResidualRule) -> f64 {
    let magnitudes: Vec<f64> = kept.iter().map(|&index| residuals[index].abs()).collect();
    let sigma = median(&magnitudes).unwrap_or(0.0) * MAD_TO_SIGMA;
    (rule.sigmas * sigma).max(rule.floor)
}

/// Indices that stay, and whether all that are too far off could go: the worst go first, and of equals the later.
fn judge(residuals: &[f64], limit: f64, droppable: usize) -> (Vec<usize>, bool) {
    // A residual that is no number is as far off as can be.
    let magnitude = |index: usize| if residuals[index].is_nan() { f64::INFINITY } else { residuals[index].abs() };
    let mut off: Vec<usize> = (0..residuals.len()).filter(|&index| magnitude(index) > limit).collect();
    let all_dropped = off.len() <= droppable;
    off.sort_by(|&left, &right| magnitude(right).total_cmp(&magnitude(left)).then(right.cmp(&left)));
    off.truncate(droppable);
    let kept = (0..residuals.len()).filter(|index| !off.contains(index)).collect();
    (kept, all_dropped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// The median of some numbers.
    struct Center(Vec<f64>);

    impl Refit for Center {
        type Fit = f64;
        type Error = ();
        fn fit(&self, kept: &[usize]) -> Result<f64, ()> {
            median(&kept.iter().map(|&index| self.0[index]).filter(|value| !value.is_nan()).collect::<Vec<_>>())
                .ok_or(())
        }
        fn residuals(&self, fit: &f64) -> Vec<f64> {
            self.0.iter().map(|value| value / fit - 1.0).collect()
        }
    }

    fn filtered(values: &[f64]) -> Filtered<f64> {
        filter(&Center(values.to_vec()), values.len(), ResidualRule::default()).expect("there are points")
    }

    #[test]
    fn what_is_far_off_goes_and_is_named() {
        let found = filtered(&[1.0, 1.001, 0.999, 1.0, 1.3, 1.002]);
        assert_eq!(found.kept, [0, 1, 2, 3, 5]);
        assert!(matches!(&found.dropped[..], [Dropped { index: 4, residual }] if (residual - 0.3).abs() < 1e-9));
        assert!(found.settled && found.fit == 1.0, "{found:?}");
    }

    #[test]
    fn small_differences_are_below_the_floor() {
        let found = filtered(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.009]);
        assert!(found.dropped.is_empty() && found.settled, "{found:?}");
    }

    #[test]
    fn never_more_than_the_share_goes_and_that_is_said() {
        let found = filtered(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(found.dropped.len(), 2, "{found:?}");
        assert!(!found.settled, "a third point is too far off: {found:?}");
        assert!(filtered(&[1.0, 1.0, 9.0]).dropped.is_empty(), "three points are left at least");
    }

    #[test]
    fn points_that_are_no_number_go_first() {
        let found = filtered(&[1.0, 1.0, f64::NAN, 1.0, 1.0]);
        assert_eq!(found.kept, [0, 1, 3, 4], "{found:?}");
    }

    #[test]
    fn the_order_of_points_does_not_matter() {
        let mut random = Random::new(3);
        let mut values: Vec<f64> = (0..40).map(|_| 1.0 + 0.01 * random.normal()).collect();
        values.extend([1.5, 0.5, 1.2, 3.0]);
        let expected = filtered(&values);
        for _ in 0..20 {
            random.shuffle(&mut values);
            let found = filtered(&values);
            assert_eq!(found.dropped.len(), expected.dropped.len());
            assert!((found.fit / expected.fit - 1.0).abs() < 1e-12, "{found:?}");
        }
    }
}
