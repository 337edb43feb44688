//! Selectors: which devices a plan, or a submission, means.

use std::fmt;
use std::str::FromStr;

use fleetcal_model::device::DeviceFacts;

use super::error::{PlanProblem, nearest};
use super::reader::bad_value;

/// A device and where it is: what selectors look at and tasks are planned for.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetDevice {
    /// What is known of it.
    pub facts: DeviceFacts,
    /// Label of its node.
    pub node: String,
    /// Name of its host.
    pub host: String,
    /// Label of its rack.
    pub rack: Option<String>,
}

/// What of a device a selector looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SelectorField {
    /// Slug or id of its class.
    Class,
    /// Its vendor.
    Vendor,
    /// Its product name.
    Name,
    /// Node label or host name.
    Node,
    /// Rack label.
    Rack,
    /// Its UUID.
    Uuid,
    /// Who drives it.
    Backend,
}

impl SelectorField {
    /// Every field.
    pub const ALL: [Self; 7] =
        [Self::Class, Self::Vendor, Self::Name, Self::Node, Self::Rack, Self::Uuid, Self::Backend];

    /// The word before the equals sign.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Class => "class",
            Self::Vendor => "vendor",
            Self::Name => "name",
            Self::Node => "node",
            Self::Rack => "rack",
            Self::Uuid => "uuid",
            Self::Backend => "backend",
        }
    }
}

/// One selector: `FIELD=PATTERN`, or a bare `PATTERN`.
///
/// `*` in a pattern stands for any letters, and case does not matter. A bare pattern matches a class slug, a product
/// name, a vendor, a backend, or the beginning of a UUID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    field: Option<SelectorField>,
    pattern: String,
}

impl Selector {
    /// Whether the device is meant.
    pub fn matches(&self, device: &FleetDevice) -> bool {
        let facts = &device.facts;
        let class = facts.class_key();
        let any = |texts: &[&str]| texts.iter().any(|text| glob(&self.pattern, &text.to_lowercase()));
        match self.field {
            Some(SelectorField::Class) => any(&[&class.slug(), class.id().as_str()]),
            Some(SelectorField::Vendor) => any(&[&facts.vendor]),
            Some(SelectorField::Name) => any(&[&facts.name]),
            Some(SelectorField::Node) => any(&[&device.node, &device.host]),
            Some(SelectorField::Rack) => device.rack.as_deref().is_some_and(|rack| any(&[rack])),
            Some(SelectorField::Uuid) => any(&[facts.uuid.as_str()]),
            Some(SelectorField::Backend) => any(&[facts.backend.name()]),
            None => {
                any(&[&class.slug(), &facts.name, &facts.vendor, facts.backend.name()])
                    || glob(&format!("{}*", self.pattern), &facts.uuid.as_str().to_lowercase())
            }
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field {
            Some(field) => write!(f, "{}={}", field.name(), self.pattern),
            None => f.write_str(&self.pattern),
        }
    }
}

impl FromStr for Selector {
    type Err = PlanProblem;

    /// Reads `FIELD=PATTERN` or `PATTERN`.
    fn from_str(text: &str) -> Result<Self, PlanProblem> {
        let (field, pattern) = match text.split_once('=') {
            None => (None, text),
            Some((field, pattern)) => (Some(parse_field(field.trim())?), pattern),
        };
        let pattern = pattern.trim().to_lowercase();
        if pattern.is_empty() {
            return Err(bad_value(text, "a selector is FIELD=PATTERN or a bare PATTERN, for example `vendor=nvidia`"));
        }
        Ok(Self { field, pattern })
    }
}

fn parse_field(name: &str) -> Result<SelectorField, PlanProblem> {
    let names = SelectorField::ALL.map(SelectorField::name);
    SelectorField::ALL.into_iter().find(|field| field.name() == name).ok_or_else(|| PlanProblem::UnknownName {
        what: "selector",
        name: name.to_owned(),
        nearest: nearest(name, names),
        known: names.join(", "),
    })
}

/// Whether a device is meant by a list of selectors: by any of them, or by an empty list.
pub fn selected(selectors: &[Selector], device: &FleetDevice) -> bool {
    selectors.is_empty() || selectors.iter().any(|selector| selector.matches(device))
}

/// Whether `text` is what `pattern` says, where `*` stands for any letters. Both in lower case.
fn glob(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let mut rest = rest;
    // The earliest place of each middle part leaves the most for the parts behind it.
    while let Some((middle, behind)) = rest.split_once('*') {
        let Some(place) = text.find(middle) else { return false };
        text = &text[place + middle.len()..];
        rest = behind;
    }
    text.ends_with(rest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::sample_device;

    #[test]
    fn globs_match_whole_texts() {
        for (pattern, text, expected) in [
            ("h200", "h200", true),
            ("h200", "h200x", false),
            ("nvidia-*", "nvidia-h200-141g", true),
            ("*h200*", "nvidia-h200-141g", true),
            ("*200", "h200-200", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("ab*ba", "aba", false),
            ("*", "", true),
        ] {
            assert_eq!(glob(pattern, text), expected, "{pattern} on {text}");
        }
    }

    #[test]
    fn selectors_look_at_what_they_name() {
        let device = FleetDevice { rack: Some("R12".to_owned()), ..sample_device("GPU-1a2b", "node-7") };
        let everywhere: Selector = "rack=*".parse().expect("a selector");
        assert!(!everywhere.matches(&sample_device("GPU-1", "a")), "a device without a rack is in none");
        for (text, expected) in [
            ("vendor=nvidia", true),
            ("vendor=amd", false),
            ("node=NODE-*", true),
            ("uuid=GPU-1a2b", true),
            ("uuid=GPU-1a", false),
            ("GPU-1a", true),
            ("backend=cuda", true),
            ("cuda", true),
            ("class=nvidia-h200-*", true),
            ("name=*h200", true),
            ("node-7", false),
            ("rack=R1*", true),
            ("rack=r2", false),
        ] {
            let selector: Selector = text.parse().expect("a selector");
            assert_eq!(selector.matches(&device), expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_field_names_the_nearest() {
        let error = "vendr=nvidia".parse::<Selector>().expect_err("no such field");
        assert!(error.to_string().contains("did you mean `vendor`?"), "{error}");
        assert!("vendor=".parse::<Selector>().is_err(), "an empty pattern matches nothing and is refused");
    }
}
