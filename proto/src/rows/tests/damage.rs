//! Chunks and schemas that nobody should have sent: a typed error each, never a panic.

use std::collections::HashMap;

use arrow_ipc::writer::{DictionaryTracker, IpcDataGenerator, IpcWriteOptions, write_message};
use arrow_schema::{DataType, Field, Schema};

use super::*;

fn message_of(schema: &Schema) -> Vec<u8> {
    let options = IpcWriteOptions::default();
    let mut dictionaries = DictionaryTracker::new(true);
    let encoded =
        IpcDataGenerator::default().schema_to_bytes_with_dictionary_tracker(schema, &mut dictionaries, &options);
    let mut bytes = Vec::new();
    write_message(&mut bytes, encoded, &options).expect("writing to memory");
    bytes
}

fn refusal(schema: &Schema) -> SchemaError {
    match Decoder::new(&message_of(schema)) {
        Err(RowsError::Schema(error)) => error,
        other => panic!("the schema was not refused as a schema: {other:?}"),
    }
}

/// Our schema with other fields.
fn with_fields(change: impl FnOnce(&mut Vec<Field>)) -> Schema {
    let mut fields: Vec<Field> = schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    change(&mut fields);
    Schema::new_with_metadata(fields, schema().metadata().clone())
}

#[test]
fn schemas_of_others_are_refused_with_the_difference() {
    let foreign = Schema::new(schema().fields().clone());
    assert_eq!(refusal(&foreign), SchemaError::Foreign);

    let newer = HashMap::from([(SCHEMA_VERSION_KEY.to_owned(), "7".to_owned())]);
    let newer = Schema::new_with_metadata(schema().fields().clone(), newer);
    assert_eq!(refusal(&newer), SchemaError::Version { found: "7".to_owned(), ours: 0 });

    let cases = [
        (with_fields(|fields| fields.truncate(fields.len() - 1)), "`ended_utc_ns` is missing"),
        (with_fields(|fields| fields.push(Field::new("colour", DataType::Utf8, true))), "`colour` is unknown"),
        (with_fields(|fields| fields[0] = Field::new("row_id", DataType::Int64, false)), "`row_id` is Int64, not Utf8"),
        (with_fields(|fields| fields.push(fields[0].clone())), "a column is there twice"),
        (with_fields(|fields| fields.swap(0, 1)), "they stand in another order"),
    ];
    for (schema, expected) in cases {
        let SchemaError::Columns { difference } = refusal(&schema) else { panic!("{expected}: not refused by column") };
        assert_eq!(difference, expected);
    }
}

#[test]
fn what_is_no_schema_message_is_refused() {
    let chunk = encode_batches(&some_rows(1)).expect("a chunk");
    for bytes in [&[][..], b"nonsense", &[0xff; 64], &chunk] {
        assert!(Decoder::new(bytes).is_err(), "{} bytes were taken for a schema", bytes.len());
    }
    assert!(rows_of(&schema_message().expect("our own schema")).is_err(), "a schema was taken for a record batch");
}

#[test]
fn a_chunk_cut_anywhere_is_truncated_or_damaged() {
    let chunk = encode_batches(&some_rows(2)).expect("a chunk");
    // Every byte of the frame, then a stride of a prime through metadata and body, then the last bytes.
    for end in (1..16).chain((16..chunk.len()).step_by(37)).chain(chunk.len() - 8..chunk.len()) {
        match decoder().decode(&chunk[..end]) {
            Err(RowsError::Truncated { .. } | RowsError::Damaged { .. }) => {}
            other => panic!("cut at byte {end} of {}: {other:?}", chunk.len()),
        }
    }
}

#[test]
fn numbers_out_of_range_in_the_metadata_never_panic() {
    let chunk = encode_batches(&some_rows(1)).expect("a chunk");
    let metadata_bytes = chunk.len() - usize::try_from(body_bytes(&chunk)).expect("a length");
    // Lengths, offsets and counts are 4 or 8 bytes, little endian, aligned to 4: overwrite each place with the worst.
    for (turn, place) in (0..metadata_bytes - 8).step_by(4).enumerate() {
        let value = [i64::MAX, -1, i64::from(i32::MAX), 1 << 40, 0, 7][turn % 6];
        let mut bytes = chunk.clone();
        bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        assert_typed(&bytes);
    }
}

/// Length of the body that the one message of a chunk describes.
fn body_bytes(chunk: &[u8]) -> i64 {
    arrow_ipc::root_as_message(&chunk[8..]).expect("our own message").bodyLength()
}

/// Decodes, and looks into what was decoded: damage within values may leave other rows, or errors, nothing else.
fn assert_typed(bytes: &[u8]) {
    drop(rows_of(bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(bytes.is_empty() || decoder().decode(&bytes).is_err());
        prop_assert!(Decoder::new(&bytes).is_err());
    }

    #[test]
    fn flipped_bytes_never_panic(flips in proptest::collection::vec((any::<prop::sample::Index>(), 1_u8..), 1..8)) {
        let mut chunk = encode_batches(&some_rows(2)).expect("a chunk");
        let mut message = schema_message().expect("our own schema");
        for (index, bits) in flips {
            let (in_chunk, in_message) = (index.index(chunk.len()), index.index(message.len()));
            chunk[in_chunk] ^= bits;
            message[in_message] ^= bits;
        }
        assert_typed(&chunk);
        drop(Decoder::new(&message));
    }
}
