//! `docs/constants.schema.json` names every field of a document and nothing else.

#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

use fleetcal_model::constants::{Document, Envelope, OutliersStudy, Verdict};
use fleetcal_model::fit::pool::RejectReason;
use fleetcal_model::fit::{ConstantInterval, Mode, Options};
use fleetcal_model::id::RunId;
use fleetcal_model::testing::fleet::{Fleet, FleetSpec};
use fleetcal_model::units::Unit;
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("the file is there")).expect("it is JSON")
}

/// The keywords that the schema uses, and what they ask for; another keyword is a fault, because it would go unchecked.
fn faults(root: &Value, schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    for (keyword, asked) in schema.as_object().expect("a schema is an object") {
        let holds = match keyword.as_str() {
            "$schema" | "$defs" | "title" | "description" | "properties" => true,
            "$ref" => {
                let pointer = asked.as_str().and_then(|text| text.strip_prefix('#')).expect("a local reference");
                let target = root.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not defined"));
                self::faults(root, target, value, at, faults);
                true
            }
            "type" => match asked.as_array() {
                Some(types) => types.iter().any(|one| is_type(one, value)),
                None => is_type(asked, value),
            },
            "const" => asked == value,
            "enum" => asked.as_array().is_some_and(|members| members.contains(value)),
            "minimum" => value.as_f64().is_none_or(|number| asked.as_f64().is_some_and(|least| number >= least)),
            "maximum" => value.as_f64().is_none_or(|number| asked.as_f64().is_some_and(|most| number <= most)),
            "anyOf" => asked.as_array().expect("a list").iter().any(|one| {
                let mut of_one = Vec::new();
                self::faults(root, one, value, at, &mut of_one);
                of_one.is_empty()
            }),
            "required" => asked
                .as_array()
                .expect("a list")
                .iter()
                .all(|name| name.as_str().is_some_and(|name| value.get(name).is_some())),
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    self::faults(root, asked, item, &format!("{at}/{index}"), faults);
                }
                true
            }
            "additionalProperties" => {
                for (name, member) in value.as_object().into_iter().flatten() {
                    let at = format!("{at}/{name}");
                    match schema.get("properties").and_then(|named| named.get(name)) {
                        Some(named) => self::faults(root, named, member, &at, faults),
                        None if *asked == Value::Bool(false) => faults.push(format!("{at} is not in the schema")),
                        None => self::faults(root, asked, member, &at, faults),
                    }
                }
                true
            }
            other => panic!("this test does not know the keyword `{other}`"),
        };
        if !holds {
            faults.push(format!("{at}: {value} against {keyword} {asked}"));
        }
    }
}

fn is_type(name: &Value, value: &Value) -> bool {
    match name.as_str() {
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("null") => value.is_null(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        other => panic!("no type is called {other:?}"),
    }
}

fn complies(value: &Value, what: &str) {
    let schema = read("docs/constants.schema.json");
    let mut found = Vec::new();
    faults(&schema, &schema, value, "", &mut found);
    assert!(found.is_empty(), "{what}: {} faults, the first: {}", found.len(), found[0]);
}

fn fitted(spec: &FleetSpec) -> Document {
    let (created_by, coordinator_version) = ("test".to_owned(), "0".to_owned());
    let envelope = Envelope { created_utc_ns: 0, created_by, run_id: RunId::new("run"), coordinator_version };
    Document::fit(&Fleet::simulate(spec, 1).rows, &Options::default(), &envelope).remove(0)
}

#[test]
fn the_committed_document_and_those_of_simulated_fleets_comply() {
    complies(&read("tests/fixtures/h200/constants.json"), "the document of an H200");
    let hard = fitted(&FleetSpec::hard(32));
    assert!(!hard.body.rejected_devices.is_empty(), "a fifth of the fleet is slow");
    let found = |study: &OutliersStudy| matches!(study, OutliersStudy::Found(found) if !found.is_empty());
    assert!(hard.body.class_study.iter().any(|study| found(&study.outliers)), "the study names them");
    let humps = fitted(&FleetSpec { hump_share: 0.4, hump_by: 0.08, ..FleetSpec::clean(32) });
    for (document, what) in [(hard, "a hard fleet"), (humps, "a fleet of two humps")] {
        complies(&serde_json::to_value(&document).expect("a document has a JSON form"), what);
    }
}

#[test]
fn a_field_too_many_and_a_field_too_few_are_faults() {
    let schema = read("docs/constants.schema.json");
    let document = read("tests/fixtures/h200/constants.json");
    let count = |value: &Value| {
        let mut found = Vec::new();
        faults(&schema, &schema, value, "", &mut found);
        found.len()
    };
    let mut more = document.clone();
    more["body"]["constants"][0]["colour"] = Value::Null;
    let mut less = document.clone();
    less["body"].as_object_mut().expect("an object").remove("origin");
    let mut wrong = document;
    wrong["body"]["constants"][0]["verdict"] = Value::from("guessed");
    assert_eq!([more, less, wrong].map(|value| count(&value)), [1, 1, 1]);
}

#[test]
fn vocabularies_are_those_of_the_crate() {
    let schema = read("docs/constants.schema.json");
    let same = |pointer: &str, names: Vec<&str>| {
        let listed = schema.pointer(pointer).unwrap_or_else(|| panic!("{pointer} is not there"));
        assert_eq!(*listed, Value::from(names), "{pointer}");
    };
    let constant = "/$defs/constant/properties";
    same(&format!("{constant}/verdict/enum"), Verdict::ALL.iter().map(|one| one.name()).collect());
    same(&format!("{constant}/unit/enum"), Unit::ALL.iter().map(|one| one.name()).collect());
    let methods = ConstantInterval::ALL.iter().map(|one| one.name()).collect();
    same(&format!("{constant}/interval_method/anyOf/0/enum"), methods);
    let reasons = RejectReason::ALL.iter().map(|one| one.name()).collect();
    same("/$defs/rejected_row/properties/reason/enum", reasons);
    same("/$defs/fit_options/properties/mode/enum", Mode::ALL.iter().map(|one| one.name()).collect());
}
