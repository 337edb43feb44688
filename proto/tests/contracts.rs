//! Both contracts against their committed listings. A listing changes only together with the contract, on purpose:
//! set `UPDATE_LISTINGS=1` to write them anew, and read the difference.

#![allow(clippy::expect_used, reason = "a helper of tests may panic as the tests do")]
#![allow(clippy::wildcard_enum_match_arm, reason = "types of other crates, listed by name whatever they are")]

use std::fmt::Write as _;
use std::path::Path;

use arrow_schema::{DataType, Field};
use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet};

/// Compares a listing with the committed one of that name.
fn check_listing(name: &str, listing: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    if std::env::var_os("UPDATE_LISTINGS").is_some() {
        std::fs::write(&path, listing).expect("the listing can be written");
    }
    let committed = std::fs::read_to_string(&path).expect("the listing is committed");
    for (ours, theirs) in listing.lines().zip(committed.lines()) {
        assert_eq!(ours, theirs, "the contract differs from tests/{name}");
    }
    assert_eq!(listing.lines().count(), committed.lines().count(), "the contract grew or shrank: tests/{name}");
}

fn list_field(field: &Field, indent: usize, listing: &mut String) {
    let nullable = if field.is_nullable() { ", nullable" } else { "" };
    let (kind, members) = match field.data_type() {
        DataType::List(inner) => ("List".to_owned(), vec![inner.as_ref().clone()]),
        DataType::Map(inner, _) => ("Map".to_owned(), vec![inner.as_ref().clone()]),
        DataType::Struct(members) => ("Struct".to_owned(), members.iter().map(|m| m.as_ref().clone()).collect()),
        other => (other.to_string(), Vec::new()),
    };
    writeln!(listing, "{:indent$}{}: {kind}{nullable}", "", field.name()).expect("writing to memory");
    members.iter().for_each(|member| list_field(member, indent + 2, listing));
}

#[test]
fn the_row_schema_is_the_committed_one() {
    let schema = fleetcal_proto::rows::schema();
    let mut listing = String::new();
    for (key, value) in schema.metadata() {
        writeln!(listing, "{key} = {value}").expect("writing to memory");
    }
    schema.fields().iter().for_each(|field| list_field(field, 0, &mut listing));
    check_listing("row_schema_v0.txt", &listing);
}

fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(fleetcal_proto::DESCRIPTOR_SET).expect("the build script wrote it")
}

/// Every message, map entries and other nested ones included, under its full name.
fn messages(set: &FileDescriptorSet) -> Vec<(String, &DescriptorProto)> {
    fn walk<'a>(prefix: &str, messages: &'a [DescriptorProto], found: &mut Vec<(String, &'a DescriptorProto)>) {
        for message in messages {
            let name = format!("{prefix}.{}", message.name());
            walk(&name, &message.nested_type, found);
            found.push((name, message));
        }
    }
    let mut found = Vec::new();
    set.file.iter().for_each(|file| walk(file.package(), &file.message_type, &mut found));
    found.sort_by(|left, right| left.0.cmp(&right.0));
    found
}

fn enumerations(set: &FileDescriptorSet) -> Vec<&EnumDescriptorProto> {
    let top = set.file.iter().flat_map(|file| &file.enum_type);
    let mut found: Vec<_> = top.chain(messages(set).into_iter().flat_map(|(_, message)| &message.enum_type)).collect();
    found.sort_by(|left, right| left.name().cmp(right.name()));
    found
}

fn type_name(field: &FieldDescriptorProto) -> String {
    let label = match (field.label(), field.proto3_optional()) {
        (Label::Repeated, _) => "repeated ",
        (_, true) => "optional ",
        (Label::Optional | Label::Required, false) => "",
    };
    let kind = match field.r#type() {
        Type::Message | Type::Enum => field.type_name().trim_start_matches('.').to_owned(),
        scalar => scalar.as_str_name().trim_start_matches("TYPE_").to_lowercase(),
    };
    format!("{label}{kind}")
}

#[test]
fn no_field_or_enumeration_number_changes_its_meaning() {
    let set = descriptors();
    let mut listing = String::new();
    for (name, message) in messages(&set) {
        for field in &message.field {
            let within = match field.oneof_index {
                Some(_) if !field.proto3_optional() => " (oneof)",
                _ => "",
            };
            writeln!(listing, "{name}.{} = {} {}{within}", field.name(), field.number(), type_name(field))
                .expect("writing to memory");
        }
    }
    for enumeration in enumerations(&set) {
        for value in &enumeration.value {
            writeln!(listing, "{}.{} = {}", enumeration.name(), value.name(), value.number())
                .expect("writing to memory");
        }
    }
    for service in set.file.iter().flat_map(|file| &file.service) {
        for method in &service.method {
            let stream = |on: bool| if on { "stream " } else { "" };
            let (takes, gives) = (stream(method.client_streaming()), stream(method.server_streaming()));
            let (input, output) = (method.input_type(), method.output_type());
            writeln!(listing, "{}.{}({takes}{input}) -> {gives}{output}", service.name(), method.name())
                .expect("writing to memory");
        }
    }
    check_listing("protocol_v1.txt", &listing);
}

#[test]
fn names_follow_the_rules_of_the_protocol() {
    let set = descriptors();
    for file in &set.file {
        assert_eq!(file.package(), "fleetcal.v1", "{} is of another package", file.name());
    }
    for (name, message) in messages(&set) {
        for field in &message.field {
            let letters = field.name().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            assert!(letters, "{name}.{} is no snake_case", field.name());
        }
    }
    for enumeration in enumerations(&set) {
        let zero = enumeration.value.iter().find(|value| value.number() == 0).expect("proto3 wants a zero");
        let expected = format!("{}_UNSPECIFIED", screaming(enumeration.name()));
        assert_eq!(zero.name(), expected, "zero must say that nothing was said");
        let prefix = format!("{}_", screaming(enumeration.name()));
        for value in &enumeration.value {
            assert!(value.name().starts_with(&prefix), "{} does not begin with {prefix}", value.name());
        }
    }
}

/// `TaskOutcome` as `TASK_OUTCOME`.
fn screaming(name: &str) -> String {
    let mut text = String::new();
    for (position, letter) in name.chars().enumerate() {
        if letter.is_uppercase() && position > 0 {
            text.push('_');
        }
        text.push(letter.to_ascii_uppercase());
    }
    text
}
