//! Typed reading of a TOML document that remembers where everything stands.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::error::{Errors, PlanProblem, nearest};

/// One table of the document.
#[derive(Clone)]
pub(super) struct Section<'d> {
    path: String,
    offset: usize,
    entries: Option<&'d DeTable<'d>>,
}

impl<'d> Section<'d> {
    /// A table whose keys are checked against `known`: others are errors.
    pub(super) fn new(
        path: impl Into<String>,
        offset: usize,
        entries: &'d DeTable<'d>,
        known: &[&'static str],
        errors: &mut Errors<'_>,
    ) -> Self {
        let section = Self { path: path.into(), offset, entries: Some(entries) };
        for key in entries.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let problem = PlanProblem::UnknownKey {
                    key: name.to_owned(),
                    nearest: nearest(name, known.iter().copied()),
                    known: known.join(", "),
                };
                errors.add(key.span().start, section.path.clone(), problem);
            }
        }
        section
    }

    /// Where the table begins.
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The path of one of its keys.
    pub(super) fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// A value as it stands.
    pub(super) fn value(&self, key: &str) -> Option<&'d Spanned<DeValue<'d>>> {
        self.entries.and_then(|entries| entries.get(key))
    }

    /// Where a key's value stands; where the table begins if it is absent.
    pub(super) fn offset_of(&self, key: &str) -> usize {
        self.value(key).map_or(self.offset, |value| value.span().start)
    }

    /// Adds an error at a key's value.
    pub(super) fn complain(&self, key: &str, problem: PlanProblem, errors: &mut Errors<'_>) {
        errors.add(self.offset_of(key), self.path_of(key), problem);
    }

    /// A value turned into what it means. `None` where it is absent, or wrong, which is then among the errors.
    pub(super) fn read<T>(
        &self,
        key: &str,
        convert: impl FnOnce(&DeValue<'d>) -> Result<T, PlanProblem>,
        errors: &mut Errors<'_>,
    ) -> Option<T> {
        match convert(self.value(key)?.get_ref()) {
            Ok(value) => Some(value),
            Err(problem) => {
                self.complain(key, problem, errors);
                None
            }
        }
    }

    /// Each value of a list; a value that is no list is a list of one. The second is where it stands.
    pub(super) fn read_list<T>(
        &self,
        key: &str,
        convert: impl Fn(&DeValue<'d>) -> Result<T, PlanProblem>,
        errors: &mut Errors<'_>,
    ) -> Option<Vec<(T, usize)>> {
        let value = self.value(key)?;
        let items: Vec<(&DeValue<'d>, Range<usize>)> = match value.get_ref().as_array() {
            Some(items) => items.iter().map(|item| (item.get_ref(), item.span())).collect(),
            None => vec![(value.get_ref(), value.span())],
        };
        let mut list = Vec::with_capacity(items.len());
        for (item, span) in items {
            match convert(item) {
                Ok(item) => list.push((item, span.start)),
                Err(problem) => errors.add(span.start, self.path_of(key), problem),
            }
        }
        Some(list)
    }

    /// A table inside this one; an empty one where it is absent.
    pub(super) fn section(&self, key: &str, known: &[&'static str], errors: &mut Errors<'_>) -> Section<'d> {
        let path = self.path_of(key);
        let Some(value) = self.value(key) else { return Section { path, offset: self.offset, entries: None } };
        let offset = value.span().start;
        match value.get_ref().as_table() {
            Some(entries) => Section::new(path, offset, entries, known, errors),
            None => {
                self.complain(key, wrong_type("a table", value.get_ref()), errors);
                Section { path, offset, entries: None }
            }
        }
    }
}

/// Says that a value is of another type.
pub(super) fn wrong_type(expected: &'static str, value: &DeValue<'_>) -> PlanProblem {
    let found = match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a decimal number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    PlanProblem::WrongType { expected, found }
}

/// Says that a value of the right type cannot be used.
pub(super) fn bad_value(found: impl ToString, expected: impl Into<String>) -> PlanProblem {
    PlanProblem::BadValue { found: found.to_string(), expected: expected.into() }
}
