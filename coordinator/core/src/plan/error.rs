//! What is wrong with a plan, and where.

use std::fmt;

use fleetcal_kernels::PointError;

/// One thing that is wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {}{problem}", prefix(path))]
pub struct PlanError {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The key's path, for example `measure.rounds`; empty for the document itself.
    pub path: String,
    /// What is wrong.
    pub problem: PlanProblem,
}

fn prefix(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!("{path}: ") }
}

/// What can be wrong with a plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanProblem {
    /// It is no TOML.
    #[error("not valid TOML: {message}")]
    Syntax {
        /// The parser's words.
        message: String,
    },
    /// It is longer than any plan.
    #[error("the plan has {bytes} bytes, and {most} are the most")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
    /// A key that nothing reads.
    #[error("unknown key `{key}`{}, known here: {known}", suggestion(nearest.as_deref()))]
    UnknownKey {
        /// The key found.
        key: String,
        /// The nearest right one, if one is near.
        nearest: Option<String>,
        /// Every right one.
        known: String,
    },
    /// A key that has to be there.
    #[error("`{key}` is missing: {expected}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What it should say.
        expected: &'static str,
    },
    /// A value of another type.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What it should be.
        expected: &'static str,
        /// What it is.
        found: &'static str,
    },
    /// A value of the right type that cannot be used.
    #[error("`{found}` cannot be used: {expected}")]
    BadValue {
        /// The value.
        found: String,
        /// What it must be.
        expected: String,
    },
    /// A name that is in no catalog.
    #[error("unknown {what} `{name}`{}, known: {known}", suggestion(nearest.as_deref()))]
    UnknownName {
        /// What was being named.
        what: &'static str,
        /// The name found.
        name: String,
        /// The nearest right one, if one is near.
        nearest: Option<String>,
        /// Every right one.
        known: String,
    },
    /// A point that its family cannot measure.
    #[error("{0}")]
    Point(#[from] PointError),
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |nearest| format!(", did you mean `{nearest}`?"))
}

/// Everything that is wrong with a plan, in the order of the text. Never empty.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct PlanErrors(Vec<PlanError>);

impl PlanErrors {
    /// The errors, in the order of the text.
    pub fn errors(&self) -> &[PlanError] {
        &self.0
    }
}

impl fmt::Display for PlanErrors {
    /// One line each: `LINE:COLUMN: PATH: MESSAGE`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

/// Collects errors, and turns offsets into lines and columns.
pub(super) struct Errors<'t> {
    text: &'t str,
    found: Vec<PlanError>,
}

impl<'t> Errors<'t> {
    /// None so far, in this text.
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, found: Vec::new() }
    }

    /// Adds one that begins at a byte offset.
    pub(super) fn add(&mut self, offset: usize, path: impl Into<String>, problem: PlanProblem) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        self.found.push(PlanError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            path: path.into(),
            problem,
        });
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The value if nothing was wrong, else everything that was.
    pub(super) fn into_result<T>(mut self, value: Option<T>) -> Result<T, PlanErrors> {
        match value {
            Some(value) if self.found.is_empty() => Ok(value),
            _ => {
                self.found.sort_by_key(|error| (error.line, error.column));
                self.found.dedup();
                Err(PlanErrors(self.found))
            }
        }
    }
}

/// The name among `known` that was probably meant, if one is near enough.
pub fn nearest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    const NEAR_ENOUGH: f64 = 0.75;
    /// One slip of the finger, which is much of a short name.
    const ONE_SLIP: f64 = 0.9;
    let name = name.to_lowercase();
    let mut best: Option<(f64, &str)> = None;
    for candidate in known {
        let alike = strsim::jaro_winkler(&name, candidate);
        let similarity = if strsim::osa_distance(&name, candidate) <= 1 { alike.max(ONE_SLIP) } else { alike };
        if similarity >= NEAR_ENOUGH && best.is_none_or(|(highest, _)| similarity > highest) {
            best = Some((similarity, candidate));
        }
    }
    best.map(|(_, candidate)| candidate.to_owned())
}
