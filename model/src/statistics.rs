//! Robust statistics with the same bits on every machine.
//!
//! Nothing here returns NaN: where an answer does not exist, the answer is `None`. Sums run in the order of their
//! input, transcendental functions come from `libm`.

mod order;
#[cfg(test)]
mod tests;

pub use order::median_interval;

/// Factor that makes the median absolute deviation of normal noise its standard deviation.
pub const MAD_TO_SIGMA: f64 = 1.4826;

/// Fewest replicates that an interval is computed from: two say too little about their own spread.
pub const INTERVAL_REPLICATES_MIN: usize = 3;

/// A 95% interval, both ends included.
#[derive(Debug, Clone, Copy, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The smallest interval that holds this one and `value`.
    ///
    /// An estimate that is a median may fall outside an interval centred on a mean; the published interval holds the
    /// published estimate, and can only gain coverage by it.
    #[must_use]
    pub fn widened_to(self, value: f64) -> Self {
        Self { low: self.low.min(value), high: self.high.max(value) }
    }

    /// The interval, if both ends are finite.
    pub(crate) fn finite(self) -> Option<Self> {
        (self.low.is_finite() && self.high.is_finite()).then_some(self)
    }
}

/// The median; for an even count the mean of the middle two. `None` for no values, or where one is not finite.
pub fn median(values: &[f64]) -> Option<f64> {
    match values {
        [only] => Some(*only).filter(|value| value.is_finite()),
        _ => median_in_place(&mut values.to_vec()),
    }
}

/// The same of values whose order may be lost.
pub(crate) fn median_in_place(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let is_odd = values.len() % 2 == 1;
    let (below, upper, _) = values.select_nth_unstable_by(values.len() / 2, f64::total_cmp);
    if is_odd {
        return Some(*upper);
    }
    let lower = below.iter().copied().max_by(f64::total_cmp)?;
    // Halved before they are added: the sum of two large values would overflow.
    Some(lower / 2.0 + *upper / 2.0)
}

/// Median absolute deviation from the median, not scaled: times [`MAD_TO_SIGMA`] it estimates a standard deviation.
pub fn median_absolute_deviation(values: &[f64]) -> Option<f64> {
    let center = median(values)?;
    let deviations: Vec<f64> = values.iter().map(|value| (value - center).abs()).collect();
    median(&deviations)
}

/// Half-width of the 95% order-statistic interval of the median, relative to the median.
///
/// `sorted` holds positive values in ascending order. The interval runs between the two samples whose ranks are the
/// innermost that cover the median with at least 95% (binomial, no assumption on the distribution). `None` below six
/// samples, where not even the extremes cover so much, and where the median is no positive number.
pub fn median_half_width(sorted: &[f64]) -> Option<f64> {
    let rank = lower_rank_95(sorted.len())?;
    let center = median_of_sorted(sorted)?;
    let width = sorted[sorted.len() - 1 - rank] - sorted[rank];
    (center > 0.0 && width.is_finite()).then(|| width / 2.0 / center)
}

/// Quantile 0.975 of Student's t: the factor of a two-sided 95% interval. `None` for no degrees of freedom.
///
/// Up to 200 degrees the closed form of the distribution (Abramowitz and Stegun 26.7.3 and 26.7.4) is inverted by
/// bisection; above, the expansion 26.7.5 is exact to 1e-12.
pub fn student_t_975(degrees_of_freedom: u64) -> Option<f64> {
    match degrees_of_freedom {
        0 => None,
        1..=200 => Some(student_t_by_bisection(degrees_of_freedom)),
        _ => Some(student_t_by_expansion(degrees_of_freedom as f64)),
    }
}

/// Factor of a two-sided interval of Student's t that covers `coverage`. `None` for no degrees of freedom, and where
/// `coverage` is not between 0 and 1.
///
/// Above 200 degrees it is the factor of 200, which is larger by 1% at most.
pub fn student_t_factor(coverage: f64, degrees_of_freedom: u64) -> Option<f64> {
    let asked = degrees_of_freedom > 0 && coverage > 0.0 && coverage < 1.0;
    asked.then(|| invert_student_t(coverage, degrees_of_freedom.min(200), (0.0, 1e9)))
}

/// Count, mean and variance of a sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moments {
    /// Values.
    pub count: u64,
    /// Their mean.
    pub mean: f64,
    /// Their variance, over `count − 1`.
    pub variance: f64,
}

impl Moments {
    /// Moments of the values; `None` for fewer than two, and where one is not finite.
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>() / (count - 1.0);
        variance.is_finite().then_some(Self { count: values.len() as u64, mean, variance })
    }

    /// Moments of the natural logarithms; `None` for fewer than two values, and where one is not positive and finite.
    pub fn of_logarithms(values: &[f64]) -> Option<Self> {
        if values.iter().any(|value| !(value.is_finite() && *value > 0.0)) {
            return None;
        }
        Self::of(&values.iter().map(|value| libm::log(*value)).collect::<Vec<_>>())
    }
}

/// 95% interval of the geometric mean: Student's t on the logarithms, centred on `exp(mean of logarithms)`.
///
/// `None` below [`INTERVAL_REPLICATES_MIN`] values, and where one is not positive and finite.
pub fn log_t_interval(values: &[f64]) -> Option<Interval> {
    let interval = t_interval_of(Moments::of_logarithms(values)?)?;
    Interval { low: libm::exp(interval.low), high: libm::exp(interval.high) }.finite()
}

/// 95% interval of the mean: Student's t on the values themselves, for quantities that may be negative.
///
/// `None` below [`INTERVAL_REPLICATES_MIN`] values, and where one is not finite.
pub fn t_interval(values: &[f64]) -> Option<Interval> {
    t_interval_of(Moments::of(values)?)
}

/// [`t_interval`] of the values that have these moments.
fn t_interval_of(moments: Moments) -> Option<Interval> {
    let Moments { count, mean, variance } = moments;
    if count < INTERVAL_REPLICATES_MIN as u64 {
        return None;
    }
    let half_width = student_t_975(count - 1)? * (variance / count as f64).sqrt();
    Interval { low: mean - half_width, high: mean + half_width }.finite()
}

/// The median of values already in ascending order.
fn median_of_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(*upper);
    }
    // Halved before they are added: the sum of two large values would overflow.
    Some(sorted.get(middle - 1)? / 2.0 + upper / 2.0)
}

/// Index from either end of the innermost order statistics that cover the median with at least 95%.
fn lower_rank_95(count: usize) -> Option<usize> {
    // Rank r (from 0) leaves the median outside on one side with probability P(Binomial(count, 1/2) <= r). The terms
    // are summed as exponentials of logarithms, because 2^-count alone underflows from count = 1075 on.
    let mut log_term = -(count as f64) * std::f64::consts::LN_2;
    let mut tail = libm::exp(log_term);
    let mut rank = None;
    for index in 0..count / 2 {
        if tail > 0.025 {
            break;
        }
        rank = Some(index);
        log_term += libm::log((count - index) as f64 / (index + 1) as f64);
        tail += libm::exp(log_term);
    }
    rank
}

/// Probability that |t| stays below `t`, for whole degrees of freedom.
fn student_t_central_probability(t: f64, degrees_of_freedom: u64) -> f64 {
    let ratio = t / (degrees_of_freedom as f64).sqrt();
    let cosine_squared = 1.0 / (1.0 + ratio * ratio);
    let sine = ratio * cosine_squared.sqrt();
    let odd = degrees_of_freedom % 2 == 1;
    let (mut term, mut divisor) = if odd { (cosine_squared.sqrt(), 3.0) } else { (1.0, 2.0) };
    let mut sum = 0.0;
    for _ in 0..degrees_of_freedom / 2 {
        sum += term;
        term *= cosine_squared * (divisor - 1.0) / divisor;
        divisor += 2.0;
    }
    if odd { std::f64::consts::FRAC_2_PI * (libm::atan(ratio) + sine * sum) } else { sine * sum }
}

/// Quantile 0.975, which lies between the normal one and that of one degree.
fn student_t_by_bisection(degrees_of_freedom: u64) -> f64 {
    invert_student_t(0.95, degrees_of_freedom, (1.9, 13.0))
}

/// Inverts [`student_t_central_probability`] by bisection between two bounds.
fn invert_student_t(coverage: f64, degrees_of_freedom: u64, (mut low, mut high): (f64, f64)) -> f64 {
    for _ in 0..90 {
        let middle = (low + high) / 2.0;
        if student_t_central_probability(middle, degrees_of_freedom) < coverage {
            low = middle
        } else {
            high = middle
        }
        if high - low <= 1e-15 * high {
            break;
        }
    }
    (low + high) / 2.0
}

/// The quantile as a series in the inverse of the degrees of freedom.
fn student_t_by_expansion(degrees_of_freedom: f64) -> f64 {
    let z = 1.959_963_984_540_054;
    let square = z * z;
    let terms = [
        z * (square + 1.0) / 4.0,
        z * ((5.0 * square + 16.0) * square + 3.0) / 96.0,
        z * (((3.0 * square + 19.0) * square + 17.0) * square - 15.0) / 384.0,
        z * ((((79.0 * square + 776.0) * square + 1482.0) * square - 1920.0) * square - 945.0) / 92_160.0,
    ];
    z + terms.iter().rev().fold(0.0, |sum, term| (sum + term) / degrees_of_freedom)
}
