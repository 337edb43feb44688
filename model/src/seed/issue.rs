//! The issue rate: the slope of time over scalar operations of a register-blocktiled kernel.

use super::fill::FillModel;
use super::is_time;
use crate::row::LaunchContext;
use crate::units::Seconds;

/// Fewest points of a line that could be wrong about one. The original states no number.
const POINTS_MIN: usize = 2;

/// One point of an issue sweep.
#[derive(Debug, Clone, PartialEq)]
pub struct IssuePoint {
    /// Scalar operations.
    pub scalar_ops: u64,
    /// Best time.
    pub time: Seconds,
    /// Parallel contexts of the kernel.
    pub contexts: Vec<LaunchContext>,
}

/// A line: time = latency + operations / rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct IssueFit {
    /// Scalar operations per second: the reciprocal of the slope.
    pub rate: f64,
    /// The intercept: launch and ramp. The score does not price it, and it may be negative.
    pub latency: Seconds,
    /// Largest relative error of the line over its points.
    pub residual_max: f64,
    /// Points fitted.
    pub points: usize,
}

/// Why there is no line.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum IssueUnfittable {
    /// Fewer than two points with a time and operations.
    #[error("{points} points have a time and operations, and a line needs {POINTS_MIN}")]
    TooFewPoints {
        /// How many there are.
        points: usize,
    },
    /// Time does not grow with operations, or beyond the numbers.
    #[error("time does not grow with operations (slope {slope:.3e} s/op)")]
    NoGrowth {
        /// The slope, seconds an operation.
        slope: f64,
    },
}

/// Fits the line by ordinary least squares. Under a fill model each point's operations are divided by its launch fill,
/// which gives the rate of a full device.
///
/// # Errors
/// [`IssueUnfittable`].
pub fn fit(points: &[IssuePoint], fill: Option<FillModel>) -> Result<IssueFit, IssueUnfittable> {
    let timed: Vec<(f64, f64)> = points
        .iter()
        .filter(|point| is_time(point.time.0) && point.scalar_ops > 0)
        .map(|point| {
            let operations = point.scalar_ops as f64;
            let full = fill.and_then(|fill| fill.launch_fill(&point.contexts)).map_or(operations, |f| operations / f);
            (full, point.time.0)
        })
        .filter(|(operations, _)| operations.is_finite())
        .collect();
    if timed.len() < POINTS_MIN {
        return Err(IssueUnfittable::TooFewPoints { points: timed.len() });
    }
    let count = timed.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| timed.iter().map(value).sum::<f64>() / count;
    let (mean_operations, mean_s) = (mean(|point| point.0), mean(|point| point.1));
    let spread = timed.iter().map(|(operations, _)| (operations - mean_operations) * (operations - mean_operations));
    let growth = timed.iter().map(|(operations, seconds)| (operations - mean_operations) * (seconds - mean_s));
    let slope = growth.sum::<f64>() / spread.sum::<f64>();
    let rate = slope.recip();
    let latency_s = mean_s - slope * mean_operations;
    if !(slope > 0.0 && slope.is_finite() && rate.is_finite() && latency_s.is_finite()) {
        return Err(IssueUnfittable::NoGrowth { slope });
    }
    let residual = |(operations, seconds): &(f64, f64)| ((latency_s + slope * operations - seconds) / seconds).abs();
    // Against a time of almost nothing the error may be beyond the numbers; it stays one.
    let residual_max = timed.iter().map(residual).fold(0.0, f64::max).min(f64::MAX);
    Ok(IssueFit { rate, latency: Seconds(latency_s), residual_max, points: timed.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(scalar_ops: u64, seconds: f64) -> IssuePoint {
        let contexts = vec![LaunchContext { blocks: 4, threads: 64, operations: scalar_ops }];
        IssuePoint { scalar_ops, time: Seconds(seconds), contexts }
    }

    fn line(latency_s: f64, rate: f64) -> Vec<IssuePoint> {
        (8..16).map(|power| 1_u64 << (19 + power)).map(|ops| point(ops, latency_s + ops as f64 / rate)).collect()
    }

    #[test]
    fn an_exact_line_is_found() {
        let fit = fit(&line(7e-6, 3.5e12), None).expect("a line");
        assert!((fit.rate / 3.5e12 - 1.0).abs() < 1e-12 && (fit.latency.0 / 7e-6 - 1.0).abs() < 1e-6, "{fit:?}");
        assert!(fit.residual_max < 1e-9 && fit.points == 8, "{fit:?}");
    }

    #[test]
    fn the_intercept_may_be_negative_and_is_not_clamped() {
        let points = [point(1 << 20, 1e-6), point(1 << 21, 3e-6)];
        assert!(fit(&points, None).is_ok_and(|fit| fit.latency.0 < 0.0));
    }

    #[test]
    fn a_fill_model_gives_the_rate_of_a_full_device() {
        // 4 blocks of 64 threads on 8 multiprocessors that want 128: a quarter full.
        let fill = FillModel { multiprocessors: 8, fill_threads: 128 };
        let (plain, full) = (fit(&line(0.0, 1e12), None), fit(&line(0.0, 1e12), Some(fill)));
        let (plain, full) = (plain.expect("a line").rate, full.expect("a line").rate);
        assert!((full / plain - 4.0).abs() < 1e-9, "{full} against {plain}");
    }

    #[test]
    fn what_is_no_line_says_why() {
        assert_eq!(fit(&[], None), Err(IssueUnfittable::TooFewPoints { points: 0 }));
        let odd = [point(0, 1.0), point(5, f64::NAN), point(5, 0.0), point(9, 1.0)];
        assert_eq!(fit(&odd, None), Err(IssueUnfittable::TooFewPoints { points: 1 }));
        let falling = fit(&[point(1, 2.0), point(2, 1.0)], None);
        assert_eq!(falling, Err(IssueUnfittable::NoGrowth { slope: -1.0 }));
        let upright = fit(&[point(1, 2.0), point(1, 1.0)], None);
        assert!(matches!(upright, Err(IssueUnfittable::NoGrowth { .. })), "{upright:?}");
    }
}
