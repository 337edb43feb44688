//! What a fit says of one constant, in the form that documents state it.

use std::collections::BTreeMap;

use super::interval::Spread;
use super::{ConstantInterval, Coverage, Witness};
use crate::id::DeviceId;
use crate::units::Unit;

/// One constant as its fit left it.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimated<'a> {
    /// Its name.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Under which condition it holds: names and values.
    pub condition: BTreeMap<String, String>,
    /// Of which solution it is, where the condition does not say: that of the winner.
    pub solution: Option<String>,
    /// What it rests on.
    pub coverage: Coverage,
    /// The only device behind it, where there is just one.
    pub only_device: Option<&'a DeviceId>,
    /// What is known of it.
    pub outcome: Outcome,
}

/// How a fit ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// There is a value.
    Measured(Value),
    /// One side is known: the value is at least, or at most, what the set says.
    Bounded {
        /// The side that is known.
        set: ValueSet,
        /// What is missing to know the other.
        reason: String,
    },
    /// The rows contradict the form that would give them the constant's meaning.
    FormRejected {
        /// By how much, at worst: a relative residual.
        max_residual: f64,
        /// The particulars.
        reason: String,
    },
    /// The rows do not determine it.
    NotIdentified(String),
}

/// A value and how well it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// The value, in the constant's unit.
    pub value: f64,
    /// Its interval, or why there is none.
    pub spread: Spread,
    /// The values that the rows do not tell from it.
    pub set: Option<ValueSet>,
    /// Largest relative residual of the fitted form.
    pub max_residual: Option<f64>,
    /// The row that shows a demonstrated maximum.
    pub witness: Option<Witness>,
    /// How it varies together with others that were fitted with it.
    pub covariances: Vec<Covariance>,
}

impl Value {
    /// A value with an interval and nothing else.
    pub(crate) fn new(value: f64, spread: Spread) -> Self {
        Self { value, spread, set: None, max_residual: None, witness: None, covariances: Vec::new() }
    }
}

/// Values that rows do not tell apart.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum ValueSet {
    /// Everything from `low`, which was seen on one side, to `high`, seen on the other; an end that is absent was not
    /// seen.
    Bracket {
        /// At least this.
        low: Option<f64>,
        /// Below this.
        high: Option<f64>,
    },
    /// One of these, ascending.
    Candidates(Vec<f64>),
}

/// How two constants of one fit vary together over its replicates.
#[derive(Debug, Clone, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Covariance {
    /// Name of the other constant, of the same condition.
    pub with: String,
    /// Covariance of single replicates' values, over their number less one, in the product of both units.
    pub covariance: f64,
    /// Correlation, from −1 to 1.
    pub correlation: f64,
    /// Replicates.
    pub replicates: u64,
}

impl Covariance {
    /// Of pairs of values; none below three, where a value is not finite, and where one does not vary.
    pub(crate) fn of(with: &str, pairs: &[(f64, f64)]) -> Option<Self> {
        if pairs.len() < crate::statistics::INTERVAL_REPLICATES_MIN {
            return None;
        }
        let count = pairs.len() as f64;
        let mean_left = pairs.iter().map(|pair| pair.0).sum::<f64>() / count;
        let mean_right = pairs.iter().map(|pair| pair.1).sum::<f64>() / count;
        let moment = |value: &dyn Fn(f64, f64) -> f64| {
            let sum: f64 = pairs.iter().map(|pair| value(pair.0 - mean_left, pair.1 - mean_right)).sum();
            sum / (count - 1.0)
        };
        let covariance = moment(&|left, right| left * right);
        let correlation =
            covariance / (moment(&|left, _| left * left).sqrt() * moment(&|_, right| right * right).sqrt());
        let finite = covariance.is_finite() && correlation.is_finite();
        let replicates = pairs.len() as u64;
        finite.then(|| Self {
            with: with.to_owned(),
            covariance,
            correlation: correlation.clamp(-1.0, 1.0),
            replicates,
        })
    }
}

/// What stands in place of an interval where a set says where the value lies.
pub(crate) fn set_spread() -> Spread {
    Spread::none(ConstantInterval::Set)
}
