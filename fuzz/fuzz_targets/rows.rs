//! Any bytes as a chunk of rows, decoded, fitted, and written as documents.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fleetcal_fuzz::rows(bytes);
});
