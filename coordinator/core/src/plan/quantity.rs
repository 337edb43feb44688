//! Values of a plan: numbers, durations, percentages and sizes, each written in one way.

use std::fmt;

use toml::de::DeValue;

use super::error::{PlanProblem, nearest};
use super::reader::{bad_value, wrong_type};
use super::{DevicesPerNode, parse::COUNT_MAX};

const SIZE_EXPECTED: &str = "a size such as 1048576, \"2^20\" or \"dram\"";
const DURATION_EXPECTED: &str = "a duration such as \"500ms\", \"1s\" or \"30min\"";
const PERCENT_EXPECTED: &str = "a percentage such as \"0.25%\"";

/// Nanoseconds of one unit.
const DURATION_UNITS: [(&str, f64); 6] =
    [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("min", 60e9), ("s", 1e9), ("h", 3600e9)];

/// Any text.
pub(super) fn text(value: &DeValue<'_>) -> Result<String, PlanProblem> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong_type("a string", value))
}

/// A text for people, of so many characters at most and on one line: it ends up in tables, logs and rows.
pub(super) fn short_text(characters_max: usize) -> impl Fn(&DeValue<'_>) -> Result<String, PlanProblem> {
    move |value| {
        let found = text(value)?;
        let length = found.chars().count();
        if length > characters_max {
            let start: String = found.chars().take(20).collect();
            let expected = format!("it has {length} characters, and at most {characters_max} are kept");
            return Err(bad_value(format!("{}…", start.escape_debug()), expected));
        }
        if found.chars().any(char::is_control) {
            return Err(bad_value(found.escape_debug(), "it must be one line without control characters"));
        }
        Ok(found)
    }
}

/// A member of a closed vocabulary, by the name that rows and documents give it too.
pub(super) fn member<T: Copy + fmt::Display>(
    known: &'static [T],
    what: &'static str,
) -> impl Fn(&DeValue<'_>) -> Result<T, PlanProblem> {
    move |value| {
        let found = text(value)?;
        let names: Vec<String> = known.iter().map(T::to_string).collect();
        let member = names.iter().position(|name| *name == found).and_then(|index| known.get(index).copied());
        member.ok_or_else(|| PlanProblem::UnknownName {
            what,
            nearest: nearest(&found, names.iter().map(String::as_str)),
            known: names.join(", "),
            name: found,
        })
    }
}

/// How many devices of a node may be measured at a time: a number, or `"all"`.
pub(super) fn devices_per_node(value: &DeValue<'_>) -> Result<DevicesPerNode, PlanProblem> {
    const EXPECTED: &str = "a number of devices, or \"all\"";
    match value.as_str() {
        Some("all") => Ok(DevicesPerNode::All),
        Some(other) => Err(bad_value(other, format!("it must be {EXPECTED}"))),
        None if value.is_integer() => whole_within(1, COUNT_MAX)(value).map(DevicesPerNode::AtMost),
        None => Err(wrong_type(EXPECTED, value)),
    }
}

/// `true` or `false`.
pub(super) fn boolean(value: &DeValue<'_>) -> Result<bool, PlanProblem> {
    value.as_bool().ok_or_else(|| wrong_type("true or false", value))
}

/// A whole number from 0.
pub(super) fn whole(value: &DeValue<'_>) -> Result<u64, PlanProblem> {
    let number = value.as_integer().ok_or_else(|| wrong_type("a whole number", value))?;
    u64::from_str_radix(number.as_str(), number.radix())
        .map_err(|_| bad_value(number, "it must be a whole number, not negative, that fits in 64 bits"))
}

/// A whole number within bounds, both included.
pub(super) fn whole_within(low: u64, high: u64) -> impl Fn(&DeValue<'_>) -> Result<u64, PlanProblem> {
    move |value| match whole(value)? {
        number if (low..=high).contains(&number) => Ok(number),
        number => Err(bad_value(number, format!("it must be from {low} to {high}"))),
    }
}

/// A duration with its unit, nanoseconds; more than 0 and at most a week.
pub(super) fn duration_ns(value: &DeValue<'_>) -> Result<u64, PlanProblem> {
    const WEEK_NS: f64 = 7.0 * 24.0 * 3600e9;
    let DeValue::String(text) = value else { return Err(wrong_type(DURATION_EXPECTED, value)) };
    let wrong = || bad_value(text, format!("it must be {DURATION_EXPECTED}"));
    let (number, nanoseconds) = DURATION_UNITS
        .into_iter()
        .find_map(|(unit, nanoseconds)| Some((finite(text.strip_suffix(unit)?.trim_end())?, nanoseconds)))
        .ok_or_else(wrong)?;
    let total_ns = (number * nanoseconds).round();
    if !(1.0..=WEEK_NS).contains(&total_ns) {
        return Err(bad_value(text, "it must be at least 1ns and at most a week"));
    }
    Ok(total_ns as u64)
}

/// A duration, or `"none"` for no time at all, nanoseconds.
pub(super) fn duration_or_none_ns(value: &DeValue<'_>) -> Result<u64, PlanProblem> {
    if value.as_str() == Some("none") { Ok(0) } else { duration_ns(value) }
}

/// A percentage, as a fraction; more than 0 and less than 100%.
pub(super) fn percent(value: &DeValue<'_>) -> Result<f64, PlanProblem> {
    let DeValue::String(text) = value else { return Err(wrong_type(PERCENT_EXPECTED, value)) };
    let number = text.strip_suffix('%').map(str::trim_end).and_then(|digits| Some((digits, finite(digits)?)));
    match number {
        // Read as hundredths, so that 99.9% is the number 0.999 and not the quotient of two rounded ones.
        Some((digits, number)) if number > 0.0 && number < 100.0 => {
            Ok(finite(&format!("{digits}e-2")).unwrap_or(number / 100.0))
        }
        Some(_) => Err(bad_value(text, "it must be more than 0% and less than 100%")),
        None => Err(bad_value(text, format!("it must be {PERCENT_EXPECTED}"))),
    }
}

/// How many elements are compared with the reference: a number, `"all"` or `"none"`; −1 stands for all.
pub(super) fn validation(value: &DeValue<'_>) -> Result<i64, PlanProblem> {
    const EXPECTED: &str = "a number of elements, \"all\" or \"none\"";
    match value.as_str() {
        Some("all") => Ok(-1),
        Some("none") => Ok(0),
        Some(other) => Err(bad_value(other, format!("it must be {EXPECTED}"))),
        None if value.is_integer() => {
            let elements = whole_within(1, i64::MAX as u64)(value)?;
            i64::try_from(elements).map_err(|_| bad_value(elements, format!("it must be {EXPECTED}")))
        }
        None => Err(wrong_type(EXPECTED, value)),
    }
}

/// A size of a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// So many elements.
    Elements(u64),
    /// The smallest power of two whose two arrays speak for the main memory of the device in hand.
    Dram,
}

/// A size: a whole number, a power such as `"2^20"`, or the word `"dram"`.
pub(super) fn size(value: &DeValue<'_>) -> Result<Size, PlanProblem> {
    if value.as_str() == Some("dram") { Ok(Size::Dram) } else { fixed_size(value).map(Size::Elements) }
}

/// A size that is the same on every device: a whole number, or a power such as `"2^20"`.
pub(super) fn fixed_size(value: &DeValue<'_>) -> Result<u64, PlanProblem> {
    match value.as_str() {
        Some(text) => power(text).ok_or_else(|| bad_value(text, format!("it must be {SIZE_EXPECTED}"))),
        None if value.is_integer() => whole(value),
        None => Err(wrong_type(SIZE_EXPECTED, value)),
    }
}

/// Reads `BASE^EXPONENT`.
fn power(text: &str) -> Option<u64> {
    let (base, exponent) = text.split_once('^')?;
    base.trim().parse::<u64>().ok()?.checked_pow(exponent.trim().parse().ok()?)
}

fn finite(text: &str) -> Option<f64> {
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}
