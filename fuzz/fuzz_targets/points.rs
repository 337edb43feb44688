//! Any bytes as points, through every fit that takes points.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fleetcal_fuzz::points(bytes);
});
