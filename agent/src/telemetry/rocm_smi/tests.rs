use super::*;
use crate::testing::c_library;

/// Two devices, in an order of the library's own. The first says everything, the second only what no device says.
const STAND_IN: &str = r#"
#include <stdint.h>
int rsmi_init(uint64_t flags) { return flags != 0; }
int rsmi_num_monitor_devices(uint32_t *count) { *count = 2; return 0; }
int rsmi_dev_pci_id_get(uint32_t index, uint64_t *id) {
    *id = index == 0 ? ((uint64_t)1 << 32 | (uint64_t)3 << 28 | 0xc1 << 8 | 2 << 3 | 1) : 0x6500;
    return 0;
}
int rsmi_dev_temp_metric_get(uint32_t index, uint32_t sensor, int metric, int64_t *degrees) {
    if (metric != 0 || sensor > 2) return 1;
    *degrees = index == 0 ? 40000 + 10000 * (int64_t)sensor : INT64_MIN;
    return 0;
}
int rsmi_dev_power_get(uint32_t index, uint64_t *power, int *kind) { *power = 0; *kind = 0; return 2; }
int rsmi_dev_power_ave_get(uint32_t index, uint32_t sensor, uint64_t *power) {
    *power = index == 0 ? 512345000 : UINT64_MAX;
    return sensor;
}
int rsmi_dev_fan_speed_get(uint32_t index, uint32_t sensor, int64_t *speed) { *speed = index == 0 ? 51 : -1; return sensor; }
int rsmi_dev_fan_speed_max_get(uint32_t index, uint32_t sensor, uint64_t *speed) { *speed = 255; return sensor; }
int rsmi_dev_busy_percent_get(uint32_t index, uint32_t *percent) { *percent = index == 0 ? 7 : UINT32_MAX; return 0; }
int rsmi_dev_ecc_count_get(uint32_t index, uint64_t block, uint64_t counts[2]) {
    counts[0] = index == 0 ? 5 : UINT64_MAX; counts[1] = index == 0 ? 1 : UINT64_MAX;
    return block != 1;
}
typedef struct { _Bool flag; uint32_t count, current; uint64_t hertz[33]; } frequencies;
int rsmi_dev_gpu_clk_freq_get(uint32_t index, int clock, frequencies *table) {
    table->flag = 1; table->count = 3; table->current = index == 0 ? 2 : 0;
    table->hertz[0] = 0; table->hertz[2] = clock == 4 ? 1300000000 : 2100000000;
    return 0;
}
"#;

fn stand_in() -> Option<&'static Library> {
    let (_folder, path) = c_library("rocm_smi", STAND_IN)?;
    let library = Library::load(&[path]).expect("the stand-in has every function");
    Some(Box::leak(Box::new(library)))
}

#[test]
fn a_device_is_found_by_its_pci_address_and_never_by_an_index() {
    let Some(library) = stand_in() else { return };
    let mut second = RocmSmiSensor::of(library, "0001:C1:02.1").expect("it is there, its partition set aside");
    assert_eq!(second.index, 0);
    assert_eq!(
        second.read(),
        Reading {
            core_clock_khz: Some(2_100_000),
            memory_clock_khz: Some(1_300_000),
            power_mw: Some(512_345),
            temperature_mc: Some(40_000),
            hot_spot_mc: Some(50_000),
            memory_temperature_mc: Some(60_000),
            fan_percent: Some(20),
            busy_percent: Some(7),
            ecc_corrected: Some(5),
            ecc_uncorrected: Some(1),
            ..Reading::default()
        }
    );
    let mut sentinels = RocmSmiSensor::of(library, "00000000:65:00.0").expect("it is there");
    assert_eq!(sentinels.index, 1);
    assert_eq!(sentinels.read(), Reading::default(), "what no device says is no value");
    for absent in ["0000:c1:02.1", "0001:c1:02.0", "0001:65:00.0"] {
        let error = RocmSmiSensor::of(library, absent).expect_err(absent);
        assert!(error.contains(absent), "{error}");
    }
}

#[test]
fn a_library_that_is_missing_or_lacks_functions_says_so() {
    let error = Library::load(&["librocm-smi-there-is-none.so"]).expect_err("there is none");
    assert!(error.contains("librocm-smi-there-is-none.so"), "{error}");
    let refusing = "#include <stdint.h>\nint rsmi_init(uint64_t f) { return 8; }\nint rsmi_num_monitor_devices(uint32_t *n) { return 0; }";
    for (name, source, said) in
        [("empty", "int nothing;", "rsmi_init"), ("refusing", refusing, "rsmi_init says error 8")]
    {
        let Some((_folder, path)) = c_library(name, source) else { return };
        let error = Library::load(&[path]).expect_err(name);
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn both_forms_of_the_table_of_frequencies_are_read() {
    let words = |low: u32, high: u32| u64::from(low) | u64::from(high) << 32;
    let table = |words: &[u64]| {
        let mut table = [0; 64];
        table[..words.len()].copy_from_slice(words);
        library::current_frequency_hz(&table)
    };
    if cfg!(target_endian = "big") {
        return;
    }
    for flag in [0, 1] {
        let newer = [words(flag, 3), words(1, 0), 500_000_000, 1_700_000_000, 2_100_000_000];
        assert_eq!(table(&newer), Some(1_700_000_000), "with a flag of {flag}");
    }
    assert_eq!(table(&[words(2, 1), 800_000_000, 1_200_000_000]), Some(1_200_000_000), "the older form");
    assert_eq!(table(&[words(1, 0), 800_000_000]), Some(800_000_000), "the older form with one frequency");
    assert_eq!(table(&[0, 0]), None);
    assert_eq!(table(&[words(0, 40), words(39, 0)]), None, "more frequencies than there can be");
    assert_eq!(table(&[words(0, 3), words(u32::MAX, 0), 5, 5, 5]), None, "none is in force");
}
