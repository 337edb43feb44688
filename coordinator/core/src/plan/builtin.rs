//! The plans that come with the binary.

/// Name and text of each.
const BUILTIN: [(&str, &str); 2] =
    [("quick", include_str!("../../plans/quick.toml")), ("standard", include_str!("../../plans/standard.toml"))];

/// The text of a plan that comes with the binary.
pub fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The names that [`builtin`] knows.
pub fn builtin_names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|(name, _)| *name)
}
