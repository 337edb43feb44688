//! Wire to model and back: the only place that sees both.
//!
//! To the wire nothing can fail (`From<&Model> for v1::Message`); from the wire a field may be missing or say what
//! this version does not know (`TryFrom<v1::Message>`, with a [`ConvertError`] that names the field).

use fleetcal_model::point::UnknownName;

mod device;
mod lease;
mod point;
mod policy;
mod task;

pub use lease::Lease;
pub use task::LeasedTask;

/// A message that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("field `{field}` of the message {problem}")]
pub struct ConvertError {
    /// Path of the field, for example `Task.points[3].dtype`.
    pub field: String,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldProblem {
    /// It has to be set.
    #[error("is missing")]
    Missing,
    /// It names a member that its vocabulary lacks. The other side may be newer.
    #[error("cannot be used: {0}")]
    UnknownName(UnknownName),
    /// It holds a number that its enumeration lacks, or 0, which says nothing. The other side may be newer.
    #[error("holds {number}, which is no known {enumeration}")]
    UnknownNumber {
        /// The enumeration.
        enumeration: &'static str,
        /// The number found.
        number: i32,
    },
}

impl ConvertError {
    fn missing(field: impl Into<String>) -> Self {
        Self { field: field.into(), problem: FieldProblem::Missing }
    }

    /// The same problem, seen from the message that holds this one as `outer`: `Point.dtype` within
    /// `Task.points[3]` becomes `Task.points[3].dtype`.
    fn within(self, outer: &str) -> Self {
        let field = match self.field.split_once('.') {
            Some((_, inner)) => format!("{outer}.{inner}"),
            None => outer.to_owned(),
        };
        Self { field, ..self }
    }
}

/// The member of a wire enumeration that a field holds. `field` is its path for the error, `Message.field`.
///
/// # Errors
/// [`FieldProblem::UnknownNumber`] for a number that the enumeration lacks, and for its zero, which means unspecified.
///
/// ```
/// use fleetcal_proto::{convert::enumeration, v1};
/// assert_eq!(enumeration::<v1::TaskOutcome>(1, "TaskEnded.outcome"), Ok(v1::TaskOutcome::Done));
/// assert!(enumeration::<v1::TaskOutcome>(0, "TaskEnded.outcome").is_err());
/// ```
pub fn enumeration<E: TryFrom<i32>>(number: i32, field: &str) -> Result<E, ConvertError> {
    let known = if number == 0 { None } else { E::try_from(number).ok() };
    known.ok_or_else(|| {
        let path = std::any::type_name::<E>();
        let enumeration = path.rsplit("::").next().unwrap_or(path);
        ConvertError { field: field.to_owned(), problem: FieldProblem::UnknownNumber { enumeration, number } }
    })
}

/// A text that must not be empty.
fn text(value: String, field: &str) -> Result<String, ConvertError> {
    if value.is_empty() { Err(ConvertError::missing(field)) } else { Ok(value) }
}

/// A member of a closed vocabulary of the model, by its name.
fn name<T: std::str::FromStr<Err = UnknownName>>(value: &str, field: &str) -> Result<T, ConvertError> {
    if value.is_empty() {
        return Err(ConvertError::missing(field));
    }
    value.parse().map_err(|error| ConvertError { field: field.to_owned(), problem: FieldProblem::UnknownName(error) })
}

#[cfg(test)]
mod tests;
