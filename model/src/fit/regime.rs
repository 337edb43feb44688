//! A line through points of which only the first may lie on it: past a knee another resource binds.
//!
//! Least squares over a sweep that crosses a knee answers for neither side: on an H200 it gives 2.24e12 op/s and a
//! negative latency for a kernel that issues 3.67e12 op/s until its operands leave the cache. So the regime is looked
//! for: the longest run of points from the smallest on, that one line holds within a limit, and is followed by points
//! that are slower than it says.

use super::line::{Line, NoLine, fit_line};
use super::residual::{Dropped, Filtered, Refit, ResidualRule, filter};

/// How a regime is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RegimeRule {
    /// Points that a regime has at least: one more than a line and a knee need.
    pub points_min: usize,
    /// A line holds a point within this, relative.
    pub residual_max: f64,
    /// What is dropped inside of a regime.
    pub residuals: ResidualRule,
}

impl Default for RegimeRule {
    /// Four points, 3%: the first five points of the kernel above lie within 2.2% of their line.
    fn default() -> Self {
        Self { points_min: 4, residual_max: 0.03, residuals: ResidualRule { floor: 0.02, ..ResidualRule::default() } }
    }
}

/// A line and where it holds.
#[derive(Debug, Clone, PartialEq)]
pub struct Regime {
    /// The line.
    pub line: Line,
    /// Indices of the points that it was fitted to, in the order of their abscissas.
    pub used: Vec<usize>,
    /// Points inside of the regime that are far off, with their relative residuals.
    pub dropped: Vec<Dropped>,
    /// Points past the knee, with their relative residuals: positive means slower than the line says.
    pub beyond: Vec<Dropped>,
    /// Largest relative residual of a point that was used.
    pub residual_max: f64,
}

/// Why there is no regime.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
pub enum NoRegime {
    /// Too few points.
    #[error("{points} points are too few to tell a line from a knee: {needed} are needed")]
    TooFewPoints {
        /// How many there are.
        points: usize,
        /// How many are needed.
        needed: usize,
    },
    /// The numbers determine no line.
    #[error("no line fits: {0}")]
    NoLine(#[from] NoLine),
    /// No line holds the first points.
    #[error("no line holds the first {points} points within {:.0}%: the nearest is off by {:.1}%", limit * 100.0, residual_max * 100.0)]
    Rejected {
        /// How many points were tried at least.
        points: usize,
        /// The limit, relative.
        limit: f64,
        /// Largest relative residual of the nearest line.
        residual_max: f64,
    },
    /// Time does not grow along the line.
    #[error("time does not grow (slope {slope:.3e})")]
    NoGrowth {
        /// The slope.
        slope: f64,
    },
}

/// Finds the regime of points (x, y), `y` positive, in any order.
///
/// # Errors
/// [`NoRegime`].
pub fn find(points: &[(f64, f64)], rule: RegimeRule) -> Result<Regime, NoRegime> {
    let needed = rule.points_min.max(2);
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by(|&left, &right| {
        let (left, right) = (points[left], points[right]);
        left.0.total_cmp(&right.0).then(left.1.total_cmp(&right.1))
    });
    let sorted: Vec<(f64, f64)> = order.iter().map(|&index| points[index]).collect();
    if sorted.len() < needed {
        return Err(NoRegime::TooFewPoints { points: sorted.len(), needed });
    }
    let mut nearest = f64::INFINITY;
    for length in (needed..=sorted.len()).rev() {
        let head = Head { points: &sorted, length };
        let filtered = filter(&head, length, rule.residuals)?;
        let residual_max = largest(&filtered, &head);
        nearest = nearest.min(residual_max);
        // A run that ends in a point which was dropped is a shorter run.
        let ends_inside = filtered.kept.last() == Some(&(length - 1));
        if residual_max > rule.residual_max || filtered.kept.len() < needed || !ends_inside {
            continue;
        }
        if filtered.fit.slope <= 0.0 {
            return Err(NoRegime::NoGrowth { slope: filtered.fit.slope });
        }
        return Ok(regime(&filtered, &head, &order, residual_max));
    }
    Err(NoRegime::Rejected { points: needed, limit: rule.residual_max, residual_max: nearest })
}

/// The first points of a sorted sweep.
struct Head<'p> {
    points: &'p [(f64, f64)],
    length: usize,
}

impl Head<'_> {
    fn residual(&self, line: &Line, index: usize) -> f64 {
        let (x, y) = self.points[index];
        (y - line.intercept - line.slope * x) / y
    }
}

impl Refit for Head<'_> {
    type Fit = Line;
    type Error = NoLine;

    fn fit(&self, kept: &[usize]) -> Result<Line, NoLine> {
        fit_line(&kept.iter().map(|&index| self.points[index]).collect::<Vec<_>>())
    }

    fn residuals(&self, line: &Line) -> Vec<f64> {
        (0..self.length).map(|index| self.residual(line, index)).collect()
    }
}

fn largest(filtered: &Filtered<Line>, head: &Head<'_>) -> f64 {
    filtered.kept.iter().map(|&index| head.residual(&filtered.fit, index).abs()).fold(0.0, f64::max)
}

fn regime(filtered: &Filtered<Line>, head: &Head<'_>, order: &[usize], residual_max: f64) -> Regime {
    let line = filtered.fit;
    let named = |index: usize, residual: f64| Dropped { index: order[index], residual };
    Regime {
        line,
        used: filtered.kept.iter().map(|&index| order[index]).collect(),
        dropped: filtered.dropped.iter().map(|dropped| named(dropped.index, dropped.residual)).collect(),
        beyond: (head.length..head.points.len()).map(|index| named(index, head.residual(&line, index))).collect(),
        residual_max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Random;

    /// Medians of nine launches, nanoseconds, of the 32×32×8/4×4 contraction with m = n = 512 and k = 256 · 2^i on three
    /// H200 devices, two processes on the last; 2^27 · 2^i operations.
    const H200_NS: [(&str, f64, [u64; 8]); 4] = [
        ("a", 3.67e12, [44_352, 79_712, 152_256, 299_072, 592_032, 1_491_488, 3_807_648, 7_539_712]),
        ("b", 3.80e12, [44_512, 78_624, 148_960, 290_496, 573_632, 1_427_232, 3_864_288, 7_707_616]),
        ("d, first process", 3.57e12, [44_800, 83_008, 156_544, 307_392, 608_384, 1_366_400, 3_854_368, 7_565_504]),
        ("d, second process", 3.56e12, [45_984, 82_816, 159_552, 310_112, 611_520, 1_489_888, 3_803_328, 7_515_616]),
    ];

    fn sweep(times_ns: &[u64]) -> Vec<(f64, f64)> {
        (0..).zip(times_ns).map(|(step, ns)| ((1_u64 << (27 + step)) as f64, *ns as f64 * 1e-9)).collect()
    }

    #[test]
    fn the_issue_rates_of_real_devices_are_those_before_the_knee() {
        for (device, rate, times_ns) in H200_NS {
            let found = find(&sweep(&times_ns), RegimeRule::default()).expect(device);
            let found_rate = found.line.slope.recip();
            assert!((found_rate / rate - 1.0).abs() < 0.02, "{device}: {found_rate:e}");
            assert_eq!(found.used, [0, 1, 2, 3, 4], "{device}");
            assert!(found.beyond.iter().all(|point| point.residual > 0.1), "{device}: {:?}", found.beyond);
            assert!((4e-6..10e-6).contains(&found.line.intercept), "{device}: {}", found.line.intercept);
        }
    }

    #[test]
    fn a_sweep_without_a_knee_is_used_whole_in_any_order() {
        let mut random = Random::new(11);
        let mut points: Vec<(f64, f64)> = (0..10)
            .map(|step| f64::from(1 << step) * 1e8)
            .map(|ops| (ops, (5e-6 + ops / 3e12) * (1.0 + 0.003 * random.normal())))
            .collect();
        points[4].1 *= 1.3;
        let found = find(&points, RegimeRule::default()).expect("a line");
        assert!((found.line.slope.recip() / 3e12 - 1.0).abs() < 0.01, "{found:?}");
        assert_eq!((found.used.len(), found.beyond.len()), (9, 0), "{found:?}");
        assert_eq!(found.dropped.iter().map(|point| point.index).collect::<Vec<_>>(), [4]);
        points.reverse();
        let turned = find(&points, RegimeRule::default()).expect("a line");
        assert_eq!(turned.line, found.line);
        assert_eq!(turned.dropped[0].index, 5);
    }

    #[test]
    fn what_is_no_regime_says_why() {
        let find = |points: &[(f64, f64)]| find(points, RegimeRule::default());
        assert_eq!(find(&[(1.0, 1.0)]), Err(NoRegime::TooFewPoints { points: 1, needed: 4 }));
        let falling = [(1.0, 4.0), (2.0, 3.0), (3.0, 2.0), (4.0, 1.0)];
        assert!(matches!(find(&falling), Err(NoRegime::NoGrowth { .. })), "{:?}", find(&falling));
        let wild = [(1.0, 1.0), (2.0, 9.0), (3.0, 1.0), (4.0, 30.0), (5.0, 2.0)];
        assert!(matches!(find(&wild), Err(NoRegime::Rejected { .. })), "{:?}", find(&wild));
        let nan = [(1.0, f64::NAN), (2.0, 1.0), (3.0, 1.0), (4.0, 1.0)];
        assert_eq!(find(&nan), Err(NoRegime::NoLine(NoLine::BadPoint)));
    }
}
