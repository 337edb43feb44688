//! The 95% interval of a constant, from the replicates behind it: devices of a class, or rounds of one device.
//!
//! The published value is a median, so the interval must cover a median. Below [`ORDER_STATISTICS_FROM`] replicates
//! it is Student's t, on logarithms where the quantity is positive; from there on it is that of order statistics, see
//! [`median_interval`]. The switch is set by simulation: Student's t covers 93 to 97% of any shape below eight, and
//! falls to 88% at 16 and 52% at 64 where devices spread skewedly, because it covers the mean; order statistics cover
//! 94.6 to 95.4% from six on, at the price of 10 to 25% more width where the spread is normal. Resampling is not used:
//! a bootstrap of the median covers 88% at four, and at many it estimates what order statistics know.

use super::ConstantInterval;
use crate::statistics::{INTERVAL_REPLICATES_MIN, Interval, log_t_interval, median_interval, t_interval};

/// Replicates from which order statistics give the interval.
pub const ORDER_STATISTICS_FROM: usize = 8;

/// A 95% interval, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// The interval.
    pub interval: Option<Interval>,
    /// How it was computed, or why there is none.
    pub method: ConstantInterval,
}

impl Spread {
    /// No interval, and why.
    pub fn none(why: ConstantInterval) -> Self {
        Self { interval: None, method: why }
    }
}

/// What the values behind a constant are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicate {
    /// One value a device: the interval is the class's.
    Device,
    /// One value a round of a single device: the interval is that device's.
    Round,
}

/// What values a quantity may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Domain {
    /// Positive: it varies by factors.
    Positive,
    /// Of any sign, such as a latency that rows hardly show.
    Real,
}

/// The interval of `estimate` from its replicates' own values, widened to hold it.
pub fn of(values: &[f64], estimate: f64, replicate: Replicate, domain: Domain) -> Spread {
    if values.len() < INTERVAL_REPLICATES_MIN {
        return Spread::none(too_few(replicate));
    }
    let sound = |value: &f64| value.is_finite() && (domain == Domain::Real || *value > 0.0);
    if !values.iter().all(sound) || !estimate.is_finite() {
        return Spread::none(ConstantInterval::ReplicateFailed);
    }
    let method = method(values.len(), replicate, domain);
    let interval = match method {
        ConstantInterval::OrderStatisticsDevices | ConstantInterval::OrderStatisticsRounds => median_interval(values),
        ConstantInterval::StudentTLogDevices | ConstantInterval::StudentTLogRounds => log_t_interval(values),
        ConstantInterval::StudentTDevices | ConstantInterval::StudentTRounds => t_interval(values),
        ConstantInterval::TooFewRounds
        | ConstantInterval::TooFewDevices
        | ConstantInterval::ReplicateFailed
        | ConstantInterval::Witness
        | ConstantInterval::Set
        | ConstantInterval::SeedMode => None,
    };
    match interval {
        Some(interval) => Spread { interval: Some(interval.widened_to(estimate)), method },
        None => Spread::none(ConstantInterval::ReplicateFailed),
    }
}

/// What a constant with too few replicates says in place of an interval.
pub fn too_few(replicate: Replicate) -> ConstantInterval {
    match replicate {
        Replicate::Device => ConstantInterval::TooFewDevices,
        Replicate::Round => ConstantInterval::TooFewRounds,
    }
}

fn method(count: usize, replicate: Replicate, domain: Domain) -> ConstantInterval {
    match (count >= ORDER_STATISTICS_FROM, replicate, domain) {
        (true, Replicate::Device, _) => ConstantInterval::OrderStatisticsDevices,
        (true, Replicate::Round, _) => ConstantInterval::OrderStatisticsRounds,
        (false, Replicate::Device, Domain::Positive) => ConstantInterval::StudentTLogDevices,
        (false, Replicate::Device, Domain::Real) => ConstantInterval::StudentTDevices,
        (false, Replicate::Round, Domain::Positive) => ConstantInterval::StudentTLogRounds,
        (false, Replicate::Round, Domain::Real) => ConstantInterval::StudentTRounds,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::median;
    use crate::testing::Random;

    #[test]
    fn intervals_of_a_class_cover_its_median() {
        for devices in [4, 7, 8, 16, 64] {
            let mut random = Random::new(devices as u64);
            let mut held = 0;
            for _ in 0..1_000 {
                let values: Vec<f64> = (0..devices).map(|_| 4e12 * libm::exp(0.005 * random.normal())).collect();
                let estimate = median(&values).unwrap();
                let spread = of(&values, estimate, Replicate::Device, Domain::Positive);
                held += usize::from(spread.interval.unwrap().contains(4e12));
            }
            assert!((925..=975).contains(&held), "{devices} devices: {held} of 1,000");
        }
    }

    #[test]
    fn the_method_is_named_and_switches_at_the_stated_number() {
        let method = |count, replicate, domain| of(&vec![1.0; count], 1.0, replicate, domain).method;
        use ConstantInterval::*;
        assert_eq!(method(7, Replicate::Device, Domain::Positive), StudentTLogDevices);
        assert_eq!(method(8, Replicate::Device, Domain::Positive), OrderStatisticsDevices);
        assert_eq!(method(7, Replicate::Round, Domain::Real), StudentTRounds);
        assert_eq!(method(8, Replicate::Round, Domain::Real), OrderStatisticsRounds);
        assert_eq!(method(2, Replicate::Round, Domain::Real), TooFewRounds);
        assert_eq!(method(2, Replicate::Device, Domain::Real), TooFewDevices);
    }

    #[test]
    fn values_that_are_no_replicates_give_no_interval() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let spread = of(&[1.0, 1.0, 1.0, bad], 1.0, Replicate::Device, Domain::Positive);
            assert_eq!(spread, Spread::none(ConstantInterval::ReplicateFailed), "{bad}");
        }
        assert!(of(&[1.0, 1.0, -1.0], 1.0, Replicate::Device, Domain::Real).interval.is_some());
        let widened = of(&[1.0, 1.0, 1.0], 2.0, Replicate::Round, Domain::Positive).interval.unwrap();
        assert!(widened.contains(2.0) && widened.contains(1.0), "{widened:?}");
    }
}
