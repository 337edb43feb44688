//! Finding the constant that holds under a condition, or the reason why there is none to use.

use std::collections::BTreeMap;

use super::{Body, CACHE_BANDWIDTH, CACHE_CAPACITY, Constant, FILL_THREADS, FULL_ISSUE_RATE, Verdict};
use crate::score::SCORE_VERSION;
use crate::units::Unit;

/// Constants that only the ranking score gives a meaning: they hold under the version that they were fitted for.
const OF_THE_SCORE: [&str; 4] = [CACHE_CAPACITY, CACHE_BANDWIDTH, FULL_ISSUE_RATE, FILL_THREADS];

/// The condition that a constant is wanted under: names and values, for example `neighbours` = `alone`.
pub type Wanted = BTreeMap<String, String>;

/// Why a document gives no value to compute with.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Missing {
    /// No constant of that name and condition was fitted.
    #[error("the document has no {what}")]
    NotInDocument {
        /// Name, with what tells it from others of that name.
        what: String,
    },
    /// The constant is there under other conditions only.
    #[error("{name} is known under other conditions only: {found}")]
    OtherConditions {
        /// Name.
        name: String,
        /// The conditions that there are.
        found: String,
    },
    /// Two constants hold, and neither is more particular than the other.
    #[error("{name} is ambiguous: each of these holds, and neither is the more particular one: {found}")]
    Ambiguous {
        /// Name.
        name: String,
        /// The conditions that hold.
        found: String,
    },
    /// The rows did not determine it.
    #[error("{name} is not identified: {reason}")]
    NotIdentified {
        /// Name.
        name: String,
        /// The document's reason.
        reason: String,
    },
    /// It has another unit than is meant.
    #[error("{name} is in {found}, and {expected} was expected")]
    OtherUnit {
        /// Name.
        name: String,
        /// Unit that is meant.
        expected: Unit,
        /// Unit of the document.
        found: Unit,
    },
    /// It was fitted for another definition of the score.
    #[error("{name} was fitted for another version of the score ({}), and this is {SCORE_VERSION}", version(*.found))]
    OtherScore {
        /// Name.
        name: String,
        /// The version, if the document says one.
        found: Option<u64>,
    },
    /// Its value is no amount of anything.
    #[error("{name} is {value}, which is not usable")]
    Unusable {
        /// Name.
        name: String,
        /// The value.
        value: String,
    },
}

fn version(found: Option<u64>) -> String {
    found.map_or_else(|| "unknown".to_owned(), |version| version.to_string())
}

impl Constant {
    /// Whether nothing of its condition contradicts `wanted`: names that only one of both has restrict nothing.
    pub fn is_compatible(&self, wanted: &Wanted) -> bool {
        self.condition.iter().all(|(name, value)| wanted.get(name).is_none_or(|other| other == value))
    }

    /// Whether it holds under `wanted`: every name of its condition is wanted with that value.
    pub fn holds(&self, wanted: &Wanted) -> bool {
        self.condition.iter().all(|(name, value)| wanted.get(name) == Some(value))
    }

    /// Its value, if there is one that is positive and finite, in that unit, and of this score.
    ///
    /// # Errors
    /// [`Missing`].
    pub fn usable(&self, unit: Unit) -> Result<f64, Missing> {
        let name = || self.name.clone();
        let value = match (self.verdict, self.value) {
            (Verdict::Measured, Some(value)) => value,
            (Verdict::Measured | Verdict::Bounded | Verdict::FormRejected | Verdict::NotIdentified, _) => {
                let reason = self.reason.clone().unwrap_or_else(|| "the document gives no reason".to_owned());
                return Err(Missing::NotIdentified { name: name(), reason });
            }
        };
        if self.unit != unit {
            return Err(Missing::OtherUnit { name: name(), expected: unit, found: self.unit });
        }
        if OF_THE_SCORE.contains(&self.name.as_str()) && self.score_version != Some(SCORE_VERSION) {
            return Err(Missing::OtherScore { name: name(), found: self.score_version });
        }
        let usable = value.is_finite() && value > 0.0;
        if usable { Ok(value) } else { Err(Missing::Unusable { name: name(), value: value.to_string() }) }
    }

    fn condition_text(&self) -> String {
        let parts: Vec<String> = self.condition.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if parts.is_empty() { "any".to_owned() } else { parts.join(",") }
    }
}

impl Body {
    /// The constant of that name that holds under `wanted`; of several the most particular one, which has the most
    /// names in its condition.
    ///
    /// A constant whose condition says less holds too: what is absent was not known, or does not restrict it.
    ///
    /// # Errors
    /// [`Missing`], where none holds, or no single one.
    pub fn select(&self, name: &str, wanted: &Wanted) -> Result<&Constant, Missing> {
        let named: Vec<&Constant> = self.constants.iter().filter(|constant| constant.name == name).collect();
        let list = |constants: &[&Constant]| {
            let texts: Vec<String> = constants.iter().map(|constant| constant.condition_text()).collect();
            texts.join("; ")
        };
        if named.is_empty() {
            return Err(Missing::NotInDocument { what: name.to_owned() });
        }
        let holding: Vec<&Constant> = named.iter().copied().filter(|constant| constant.holds(wanted)).collect();
        let most = holding.iter().map(|constant| constant.condition.len()).max().unwrap_or(0);
        let best: Vec<&Constant> = holding.into_iter().filter(|constant| constant.condition.len() == most).collect();
        match best.as_slice() {
            [] => Err(Missing::OtherConditions { name: name.to_owned(), found: list(&named) }),
            [constant] => Ok(constant),
            several => Err(Missing::Ambiguous { name: name.to_owned(), found: list(several) }),
        }
    }

    /// The largest usable value among constants of these names whose condition does not contradict `wanted`.
    pub fn largest(&self, names: &[&str], unit: Unit, wanted: &Wanted) -> Option<f64> {
        let named = self.constants.iter().filter(|constant| names.contains(&constant.name.as_str()));
        let values =
            named.filter(|constant| constant.is_compatible(wanted)).filter_map(|constant| constant.usable(unit).ok());
        values.reduce(f64::max)
    }
}
