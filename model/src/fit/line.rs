//! A straight line through (bytes, seconds), robust against single bad points.

use crate::statistics::{MAD_TO_SIGMA, median};

/// Residuals beyond so many standard deviations lose weight: Huber's constant, 95% efficient on normal noise.
const HUBER_SIGMAS: f64 = 1.345;

/// The noise scale is never taken below this, relative. Points of one device differ by so much between rounds (0.17%
/// is the median of STREAM rows on H200 devices); a smaller scale would let two of three points outvote the third.
const SCALE_FLOOR: f64 = 0.002;

/// Reweighting ends once no coefficient moves by more than this, relative.
const TOLERANCE: f64 = 1e-13;

/// From this many reweightings on it is enough that no fitted value moves by more than [`TOLERANCE`] of its `y`: an
/// intercept near zero may never stand still relative to itself.
const PATIENCE: usize = 100;

/// Reweightings at most. The objective is convex, and most lines settle within some twenty; one in a hundred, with
/// residuals about Huber's bound, takes hundreds, and is off by percents where it is stopped at one.
const ITERATIONS_MAX: usize = 10_000;

/// A fitted line: `y = intercept + slope · x`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Value at `x = 0`.
    pub intercept: f64,
    /// Growth per unit of `x`.
    pub slope: f64,
    /// Largest |y − fitted y| / y over the points.
    pub max_relative_residual: f64,
}

/// Why points have no line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NoLine {
    /// A coordinate is not finite, or a `y` is not positive, so that residuals have no relative size.
    #[error("a point is not positive and finite")]
    BadPoint,
    /// All points share one `x`, or there are fewer than two.
    #[error("fewer than two distinct abscissas")]
    OneAbscissa,
    /// The numbers are too far apart for `f64`.
    #[error("the points are too far apart for double precision")]
    Overflow,
}

/// Fits a line by iteratively reweighted least squares on relative residuals, with Huber's weights.
///
/// Residuals are relative because times span orders of magnitude: absolute ones would let the largest size dictate the
/// slope, and leave the intercept to its noise. Huber's loss is chosen over Tukey's because it is convex: with a
/// handful of sizes, a loss with several minima would make the answer depend on where the iteration began. The noise
/// scale is set once, from the residuals of the line of median slope (Theil and Sen), and then held, which keeps the
/// objective fixed; it is never taken below 0.2%.
///
/// # Errors
/// [`NoLine`], where the points do not determine a line.
pub fn fit_line(points: &[(f64, f64)]) -> Result<Line, NoLine> {
    if points.iter().any(|&(x, y)| !(x.is_finite() && y.is_finite() && y > 0.0)) {
        return Err(NoLine::BadPoint);
    }
    let (intercept, slope) = median_slope_line(points)?;
    let start = relative_residuals(points, intercept, slope);
    let magnitudes: Vec<f64> = start.iter().map(|residual| residual.abs()).collect();
    let scale = median(&magnitudes).ok_or(NoLine::Overflow)? * MAD_TO_SIGMA;
    let bound = HUBER_SIGMAS * scale.max(SCALE_FLOOR);

    let mut line = (intercept, slope);
    for iteration in 0..ITERATIONS_MAX {
        let residuals = relative_residuals(points, line.0, line.1);
        let weights: Vec<f64> = residuals.iter().map(|residual| bound / residual.abs().max(bound)).collect();
        let next = weighted_line(points, &weights)?;
        let moved = |before: f64, after: f64| (after - before).abs() > TOLERANCE * after.abs();
        let stands = !moved(line.0, next.0) && !moved(line.1, next.1);
        let shift = |x: f64| (next.0 - line.0) + (next.1 - line.1) * x;
        let settled = stands || iteration >= PATIENCE && points.iter().all(|(x, y)| shift(*x).abs() <= TOLERANCE * y);
        line = next;
        if settled {
            break;
        }
    }
    let residuals = relative_residuals(points, line.0, line.1);
    let max_relative_residual = residuals.iter().fold(0.0_f64, |largest, residual| largest.max(residual.abs()));
    let fitted = Line { intercept: line.0, slope: line.1, max_relative_residual };
    let finite = fitted.intercept.is_finite() && fitted.slope.is_finite() && max_relative_residual.is_finite();
    if finite { Ok(fitted) } else { Err(NoLine::Overflow) }
}

/// The line whose slope is the median over all pairs of points, and whose intercept is the median over all points.
fn median_slope_line(points: &[(f64, f64)]) -> Result<(f64, f64), NoLine> {
    let mut slopes = Vec::new();
    for (index, &(x, y)) in points.iter().enumerate() {
        let later = &points[index + 1..];
        slopes.extend(
            later.iter().filter(|(other_x, _)| *other_x != x).map(|(other_x, other_y)| (other_y - y) / (other_x - x)),
        );
    }
    if slopes.is_empty() {
        return Err(NoLine::OneAbscissa);
    }
    let slope = median(&slopes).ok_or(NoLine::Overflow)?;
    let intercepts: Vec<f64> = points.iter().map(|(x, y)| y - slope * x).collect();
    Ok((median(&intercepts).ok_or(NoLine::Overflow)?, slope))
}

fn relative_residuals(points: &[(f64, f64)], intercept: f64, slope: f64) -> Vec<f64> {
    points.iter().map(|(x, y)| (y - intercept - slope * x) / y).collect()
}

/// Weighted least squares of relative residuals, about the weighted means so that large `x` cost no digits.
fn weighted_line(points: &[(f64, f64)], weights: &[f64]) -> Result<(f64, f64), NoLine> {
    let weighted = || points.iter().zip(weights).map(|(&(x, y), weight)| (x, y, weight / (y * y)));
    let total: f64 = weighted().map(|(_, _, weight)| weight).sum();
    let mean_x = weighted().map(|(x, _, weight)| weight * x).sum::<f64>() / total;
    let mean_y = weighted().map(|(_, y, weight)| weight * y).sum::<f64>() / total;
    let spread: f64 = weighted().map(|(x, _, weight)| weight * (x - mean_x) * (x - mean_x)).sum();
    let shared: f64 = weighted().map(|(x, y, weight)| weight * (x - mean_x) * (y - mean_y)).sum();
    let slope = shared / spread;
    let intercept = mean_y - slope * mean_x;
    if slope.is_finite() && intercept.is_finite() { Ok((intercept, slope)) } else { Err(NoLine::Overflow) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn on_line(xs: &[f64], intercept: f64, slope: f64) -> Vec<(f64, f64)> {
        xs.iter().map(|x| (*x, intercept + slope * x)).collect()
    }

    fn close(found: f64, truth: f64, relative: f64) -> bool {
        (found - truth).abs() <= relative * truth.abs()
    }

    #[test]
    fn exact_points_give_their_line_back() {
        let line = fit_line(&on_line(&[1e8, 1e9, 1e10], 5e-6, 2e-13)).unwrap();
        assert!(close(line.intercept, 5e-6, 1e-9) && close(line.slope, 2e-13, 1e-9), "{line:?}");
        assert!(line.max_relative_residual < 1e-12, "{line:?}");
    }

    #[test]
    fn one_bad_point_of_six_does_not_move_the_line() {
        let mut points = on_line(&[1e8, 2e8, 4e8, 8e8, 16e8, 32e8], 5e-6, 2e-13);
        points[5].1 *= 1.3;
        let line = fit_line(&points).unwrap();
        assert!(close(line.slope, 2e-13, 0.005), "{line:?}");
        assert!(line.max_relative_residual > 0.2, "the bad point must show in the residual: {line:?}");
    }

    #[test]
    fn a_line_that_settles_slowly_is_still_the_minimum() {
        // Residuals about Huber's bound: 562 reweightings. The minimum is from tests/oracle, which solves by other means.
        let points = [
            (1_048_576.0, 5.257_359_386_259_546e-6),
            (2_097_152.0, 5.536_805_742_419_796e-6),
            (4_194_304.0, 6.057_766_665_176_38e-6),
            (8_388_608.0, 7.092_018_453_099_178e-6),
            (16_777_216.0, 1.020_006_404_576_940_6e-5),
        ];
        let line = fit_line(&points).unwrap();
        assert!(close(line.slope, 3.135_790_175_684e-13, 1e-9), "{line:?}");
        assert!(close(line.intercept, 4.875_685_675_626e-6, 1e-9), "{line:?}");
    }

    #[test]
    fn points_without_a_line_say_why() {
        assert_eq!(fit_line(&[]), Err(NoLine::OneAbscissa));
        assert_eq!(fit_line(&[(1.0, 1.0)]), Err(NoLine::OneAbscissa));
        assert_eq!(fit_line(&[(1.0, 1.0), (1.0, 2.0)]), Err(NoLine::OneAbscissa));
        assert_eq!(fit_line(&[(1.0, 0.0), (2.0, 2.0)]), Err(NoLine::BadPoint));
        assert_eq!(fit_line(&[(1.0, f64::INFINITY), (2.0, 2.0)]), Err(NoLine::BadPoint));
        assert_eq!(fit_line(&[(1.0, 1e-300), (2.0, 1e-300)]), Err(NoLine::Overflow));
    }

    proptest! {
        #[test]
        fn no_points_make_a_line_of_nan(points in prop::collection::vec((any::<f64>(), any::<f64>()), 0..8)) {
            if let Ok(line) = fit_line(&points) {
                prop_assert!(line.intercept.is_finite() && line.slope.is_finite(), "{line:?}");
                prop_assert!(line.max_relative_residual.is_finite(), "{line:?}");
            }
        }
    }
}
