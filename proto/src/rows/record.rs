//! A row as keys and values: what reporters print. The table of groups owns the keys, their order and their types.
//!
//! Values are those of the row, whole: integers keep all 64 bits, and a real number is written with as many digits as it
//! takes to read the same number back. What is absent is null, and so is a number that is none, which no row of ours has.

use std::collections::BTreeMap;

use arrow_schema::{DataType, Field};
use fleetcal_model::row::Row;
use serde_json::Value;

use super::groups;

/// What a key's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text; a member of a closed vocabulary is its name.
    Text,
    /// A whole number from 0.
    Whole,
    /// A whole number of either sign.
    Signed,
    /// A real number.
    Real,
    /// True or false.
    Flag,
    /// A list or a map.
    Nested,
}

impl Kind {
    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Whole => "whole",
            Self::Signed => "signed",
            Self::Real => "real",
            Self::Flag => "flag",
            Self::Nested => "nested",
        }
    }

    /// The kind of a column; nothing else than these types stands in the table of groups.
    fn of(field: &Field) -> Self {
        let scalars = [
            (DataType::UInt64, Self::Whole),
            (DataType::Int64, Self::Signed),
            (DataType::Float64, Self::Real),
            (DataType::Boolean, Self::Flag),
        ];
        let scalar = scalars.into_iter().find(|(kind, _)| kind == field.data_type()).map(|(_, kind)| kind);
        scalar.unwrap_or(if field.data_type().is_nested() { Self::Nested } else { Self::Text })
    }
}

/// One key of a row: a column of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Key {
    /// Its name. It says the unit, where there is one.
    pub name: String,
    /// The group that it belongs to.
    pub group: &'static str,
    /// What its values are.
    pub kind: Kind,
    /// Whether a row may have none.
    pub optional: bool,
}

/// Every key, in the order of the table.
pub fn keys() -> Vec<Key> {
    let keys_of = |(group, fields): (&'static str, Vec<Field>)| {
        fields.into_iter().map(move |field| Key {
            name: field.name().clone(),
            group,
            kind: Kind::of(&field),
            optional: field.is_nullable(),
        })
    };
    groups::all().into_iter().flat_map(keys_of).collect()
}

/// The values of one row, by key.
#[derive(Debug, Clone, PartialEq)]
pub struct Record(BTreeMap<String, Value>);

impl Record {
    /// Takes a row apart.
    ///
    /// # Errors
    /// The row has no such form, which is a fault of fleetcal.
    pub fn of(row: &Row) -> Result<Self, serde_json::Error> {
        let mut values = BTreeMap::new();
        if let Value::Object(groups) = serde_json::to_value(row)? {
            for (_, group) in groups {
                if let Value::Object(fields) = group {
                    values.extend(fields);
                }
            }
        }
        Ok(Self(values))
    }

    /// The value of a key; null where it is absent.
    pub fn value(&self, key: &str) -> &Value {
        self.0.get(key).unwrap_or(&Value::Null)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::testing::arbitrary_row;

    fn fits(kind: Kind, value: &Value) -> bool {
        match kind {
            Kind::Text => value.is_string(),
            Kind::Whole => value.is_u64(),
            Kind::Signed => value.is_i64(),
            Kind::Real => value.is_f64(),
            Kind::Flag => value.is_boolean(),
            Kind::Nested => value.is_array() || value.is_object(),
        }
    }

    /// The row with numbers only: JSON has no word for infinity.
    fn finite(mut row: Row) -> Row {
        row.timing.rounds.retain(|round| round.median_ns.is_finite() && round.mad_ns.is_finite());
        serde_json::from_value(serde_json::to_value(&row).expect("a row is JSON")).expect("a row")
    }

    /// A row put together again from what was printed of it.
    fn put_together(record: &BTreeMap<String, Value>) -> Row {
        let mut groups: BTreeMap<&str, BTreeMap<String, Value>> = BTreeMap::new();
        for key in keys() {
            let printed = record[&key.name].to_string();
            let read = serde_json::from_str(&printed).expect("what was printed is JSON");
            groups.entry(key.group).or_default().insert(key.name, read);
        }
        let value = serde_json::to_value(groups).expect("groups are JSON");
        serde_json::from_value(value).expect("a row")
    }

    proptest! {
        /// Nothing is lost, not a digit: the row is made again from its printed keys and values.
        #[test]
        fn every_key_has_a_value_of_its_kind_and_all_of_them_are_the_row(row in arbitrary_row().prop_map(finite)) {
            let record = Record::of(&row).expect("a row has keys and values");
            let known: BTreeSet<String> = keys().into_iter().map(|key| key.name).collect();
            prop_assert_eq!(record.0.keys().cloned().collect::<BTreeSet<_>>(), known);
            for key in keys() {
                let value = record.value(&key.name);
                let absent = key.optional && value.is_null();
                prop_assert!(absent || fits(key.kind, value), "{} is {value}, and {} is wanted", key.name, key.kind.name());
            }
            prop_assert_eq!(put_together(&record.0), row);
        }
    }
}
