//! One constant, with everything that one must know to use it.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use super::names::{MEMORY_BANDWIDTH, MEMORY_BANDWIDTH_ASYMPTOTE, STREAM_LATENCY, may_be_negative};
use crate::fit::bandwidth::{Asymptote, Fitted, Floor};
use crate::fit::estimated::{Covariance, Estimated, Outcome, Value, ValueSet};
use crate::fit::{ConstantInterval, Coverage, Witness};
use crate::id::DeviceId;
use crate::score::SCORE_VERSION;
use crate::statistics::Interval;
use crate::units::Unit;
use crate::vocabulary;

vocabulary! {
    /// How a fit ended.
    Verdict, "verdict" {
        /// There is a value, and its rows show it.
        Measured => "measured",
        /// One side of it is known, by the set; the reason says what is missing for the other.
        Bounded => "bounded",
        /// The rows contradict the form that gives it its meaning; the reason says by how much.
        FormRejected => "form_rejected",
        /// The rows do not determine it; the reason says why.
        NotIdentified => "not_identified",
    }
}

/// A named number with everything that one must know to use it.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Constant {
    /// Its name, for example [`MEMORY_BANDWIDTH`].
    pub name: String,
    /// Under which condition it holds, for example `kernel` = `triad`. A name that is absent does not restrict it.
    pub condition: BTreeMap<String, String>,
    /// The value; none unless measured.
    pub value: Option<f64>,
    /// Of which kernel, solution and shape it is, where it is the winner's and the condition does not say.
    #[cfg_attr(feature = "serde", serde(default))]
    pub solution: Option<String>,
    /// Unit of value, interval, set and witness.
    pub unit: Unit,
    /// 95% interval.
    pub interval: Option<Interval>,
    /// How the interval was computed, or why there is none; none where there is no value either.
    pub interval_method: Option<ConstantInterval>,
    /// The values that the rows do not tell from it; of one that is bounded, the side that is known.
    #[cfg_attr(feature = "serde", serde(default))]
    pub set: Option<ValueSet>,
    /// How it varies together with others that were fitted with it, over the replicates of the fit.
    #[cfg_attr(feature = "serde", serde(default))]
    pub covariances: Vec<Covariance>,
    /// How the fit ended.
    pub verdict: Verdict,
    /// Why there is no value.
    pub reason: Option<String>,
    /// Of what it is a constant.
    pub scope: Scope,
    /// Devices behind the value.
    pub devices_used: u64,
    /// Devices that measured for it.
    pub devices_total: u64,
    /// Points behind the value.
    pub points_used: u64,
    /// Points that fed the fit, those that rules took out included.
    pub points_total: u64,
    /// Largest relative residual of the fitted form.
    pub max_residual: Option<f64>,
    /// The row that shows a demonstrated maximum.
    pub witness: Option<Witness>,
    /// [`SCORE_VERSION`] when it was fitted; none in a document older than the score. A constant that only the score
    /// gives a meaning is not used under another version.
    #[cfg_attr(feature = "serde", serde(default))]
    pub score_version: Option<u64>,
}

/// Of what a constant is one.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(into = "String", try_from = "String")
)]
pub enum Scope {
    /// Of the class: several devices stand behind it.
    Class,
    /// Of the one device that stands behind it.
    Device(DeviceId),
}

impl Constant {
    pub(super) fn of_floor(fitted: &Fitted<'_, Floor>) -> Self {
        let constant = Self::unfitted(MEMORY_BANDWIDTH, Unit::BytesPerSecond, fitted);
        match &fitted.outcome {
            Err(reason) => constant.not_identified(reason.to_string()),
            Ok(floor) => Self {
                value: Some(floor.bandwidth.0),
                interval_method: Some(ConstantInterval::Witness),
                witness: Some(floor.witness.clone()),
                ..constant
            },
        }
    }

    pub(super) fn of_asymptote(fitted: &Fitted<'_, Asymptote>) -> [Self; 2] {
        let bandwidth = Self::unfitted(MEMORY_BANDWIDTH_ASYMPTOTE, Unit::BytesPerSecond, fitted);
        let latency = Self::unfitted(STREAM_LATENCY, Unit::Seconds, fitted);
        let asymptote = match &fitted.outcome {
            Err(reason) => return [bandwidth, latency].map(|constant| constant.not_identified(reason.to_string())),
            Ok(asymptote) => asymptote,
        };
        let max_residual = Some(asymptote.max_relative_residual);
        let covariances = |with: &str| Covariance::of(with, &asymptote.replicates).into_iter().collect();
        let bandwidth = Self {
            value: Some(asymptote.bandwidth.0),
            interval: asymptote.bandwidth_spread.interval,
            interval_method: Some(asymptote.bandwidth_spread.method),
            covariances: covariances(STREAM_LATENCY),
            max_residual,
            ..bandwidth
        };
        let latency = match &asymptote.latency {
            Err(reason) => Self { max_residual, ..latency.not_identified(reason.to_string()) },
            Ok(seconds) => Self {
                value: Some(seconds.0),
                interval: asymptote.latency_spread.interval,
                interval_method: Some(asymptote.latency_spread.method),
                covariances: covariances(MEMORY_BANDWIDTH_ASYMPTOTE),
                max_residual,
                ..latency
            },
        };
        [bandwidth, latency.told_from_zero(asymptote.latency_spread.interval)]
    }

    /// A constant of a sweep beside `stream`.
    pub(super) fn of_estimated(estimated: Estimated<'_>) -> Self {
        let Estimated { name, unit, condition, solution, coverage, only_device, outcome } = estimated;
        let constant = Self { solution, ..Self::without_value(name, unit, condition, coverage, only_device) };
        let interval = if let Outcome::Measured(value) = &outcome { value.spread.interval } else { None };
        let constant = match outcome {
            Outcome::NotIdentified(reason) => constant.not_identified(reason),
            Outcome::Bounded { set, reason } => {
                Self { verdict: Verdict::Bounded, set: Some(set), reason: Some(reason), ..constant }
            }
            Outcome::FormRejected { max_residual, reason } => Self {
                verdict: Verdict::FormRejected,
                max_residual: Some(max_residual),
                reason: Some(reason),
                ..constant
            },
            Outcome::Measured(Value { value, spread, set, max_residual, witness, covariances }) => Self {
                value: Some(value),
                interval: spread.interval,
                interval_method: Some(spread.method),
                set,
                max_residual,
                witness,
                covariances,
                ..constant
            },
        };
        if may_be_negative(name) { constant } else { constant.told_from_zero(interval) }
    }

    /// A quantity that is positive, and whose interval reaches down to zero, is no number yet: the rows say that it is at
    /// most the interval's upper end. Whether the estimate itself came out above zero is chance.
    fn told_from_zero(self, interval: Option<Interval>) -> Self {
        let Some(Interval { low, high }) = interval.filter(|interval| interval.low <= 0.0 && interval.high > 0.0)
        else {
            return self;
        };
        let (from, to) = (self.unit.show(low), self.unit.show(high));
        Self {
            value: None,
            interval: None,
            interval_method: None,
            covariances: Vec::new(),
            set: Some(ValueSet::Bracket { low: None, high: Some(high) }),
            verdict: Verdict::Bounded,
            reason: Some(format!(
                "its 95% interval, {from} to {to}, holds zero: it is at most {to}; smaller sizes or more rounds would \
                 tell it from nothing"
            )),
            ..self
        }
    }

    fn unfitted<T>(name: &str, unit: Unit, fitted: &Fitted<'_, T>) -> Self {
        Self::without_value(name, unit, fitted.condition.to_map(), fitted.coverage, fitted.only_device)
    }

    /// Everything but the value.
    fn without_value(
        name: &str,
        unit: Unit,
        condition: BTreeMap<String, String>,
        coverage: Coverage,
        only_device: Option<&DeviceId>,
    ) -> Self {
        let Coverage { devices_used, devices_total, points_used, points_total } = coverage;
        Self {
            name: name.to_owned(),
            condition,
            value: None,
            unit,
            interval: None,
            interval_method: None,
            set: None,
            covariances: Vec::new(),
            solution: None,
            verdict: Verdict::Measured,
            reason: None,
            scope: only_device.map_or(Scope::Class, |device| Scope::Device(device.clone())),
            devices_used: devices_used as u64,
            devices_total: devices_total as u64,
            points_used: points_used as u64,
            points_total: points_total as u64,
            max_residual: None,
            witness: None,
            score_version: Some(SCORE_VERSION),
        }
    }

    fn not_identified(self, reason: String) -> Self {
        Self { verdict: Verdict::NotIdentified, reason: Some(reason), ..self }
    }
}

impl fmt::Display for Scope {
    /// `class`, or `device UUID`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Class => f.write_str("class"),
            Self::Device(device) => write!(f, "device {device}"),
        }
    }
}

/// A text that is no scope.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no scope: `class` or `device UUID` was expected")]
pub struct NotAScope {
    /// The text found.
    pub text: String,
}

impl FromStr for Scope {
    type Err = NotAScope;

    /// Reads what [`Scope`]'s `Display` writes.
    fn from_str(text: &str) -> Result<Self, NotAScope> {
        match (text, text.strip_prefix("device ")) {
            ("class", _) => Ok(Self::Class),
            (_, Some(device)) if !device.is_empty() => Ok(Self::Device(DeviceId::new(device))),
            _ => Err(NotAScope { text: text.to_owned() }),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> Self {
        scope.to_string()
    }
}

impl TryFrom<String> for Scope {
    type Error = NotAScope;
    fn try_from(text: String) -> Result<Self, NotAScope> {
        text.parse()
    }
}
