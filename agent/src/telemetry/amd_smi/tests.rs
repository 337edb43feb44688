use super::*;
use crate::testing::c_library;

/// Three devices: one of many dies that counts throttled cycles, one that names its throttlers, and one that says only
/// what no device says. The compiler lays out the table of metrics and the union of an address.
const STAND_IN: &str = r#"
#include <stdint.h>
#include <string.h>
#ifndef FIRST
#define FIRST 26
#define SECOND 0
#endif
typedef union { struct { uint64_t function : 3, device : 5, bus : 8, domain : 48; } part; uint64_t word; } address;
typedef struct { uint32_t number[4]; const char *build; } version;
typedef struct {
    uint16_t size; uint8_t format, content;
    uint16_t edge, hot_spot, memory, regulators[3];
    uint16_t busy, memory_busy, media_busy, average_watts;
    uint64_t energy, system_clock;
    uint16_t average_mhz[7];
    uint16_t core_mhz, soc_mhz, memory_mhz, media_mhz[4];
    uint32_t throttle_of_its_kind;
    uint16_t fan_rpm, link_width, link_speed;
    uint32_t busy_sum, memory_busy_sum;
    uint16_t stacks[4];
    uint64_t firmware_clock;
    uint16_t millivolts[3];
    uint64_t throttlers;
    uint16_t watts, decoders[4];
    uint32_t locks;
    uint16_t bridge_width, bridge_speed;
    uint64_t bus_traffic[5], read[8], written[8];
    uint16_t die_mhz[8], soc_mhzs[4], video_mhzs[4], display_mhzs[4];
    uint16_t pictures[32];
    uint32_t refused[2];
    uint64_t cycles, processor_hot, package_power, socket_hot, regulators_hot, memory_hot;
    uint16_t parts;
    char behind[6000];
} table;
typedef struct { uint64_t corrected, uncorrected, deferred, reserved[5]; } errors;
static int devices[3];
static int kind(void *processor) { return (int *)processor - devices; }
static address of(int device) {
    address at = { .word = 0 };
    at.part.domain = device == 0; at.part.bus = device == 0 ? 0xc1 : 0x65 + device;
    at.part.device = device == 0 ? 2 : 0; at.part.function = device == 0;
    return at;
}
int amdsmi_init(uint64_t flags) { return flags != 2; }
int amdsmi_get_lib_version(version *said) {
    said->number[0] = FIRST; said->number[1] = SECOND; said->number[2] = 1; said->build = "stand-in";
    return 0;
}
int amdsmi_get_processor_handle_from_bdf(address at, void **processor) {
    for (int device = 0; device < 3; device++)
        if (at.word == of(device).word) { *processor = devices + device; return 0; }
    /* A library that answers with some device, whatever it was asked for. */
    if (at.part.bus == 0xee) { *processor = devices; return 0; }
    return 7;
}
int amdsmi_get_gpu_device_bdf(void *processor, address *at) { *at = of(kind(processor)); return 0; }
int amdsmi_get_gpu_metrics_info(void *processor, table *said) {
    static uint64_t calls;
    memset(said, 0xff, sizeof *said);
    if (kind(processor) == 2) return 0;
    said->hot_spot = 50; said->memory = 60; said->busy = 7; said->memory_mhz = 1300;
    if (kind(processor) == 1) {
        /* After three tables it gives no more. */
        static int tables;
        if (++tables > 3) return 7;
        said->edge = 40; said->core_mhz = 1700; said->average_watts = 305; said->throttlers = 1ull << 36 | 1;
        return 0;
    }
    said->core_mhz = 2100; said->watts = 512; said->average_watts = 0;
    said->die_mhz[0] = 2100; said->die_mhz[1] = 1950; said->die_mhz[2] = 0; said->die_mhz[3] = 2000;
    /* The firmware renews its counts with every second call; from the fifth on, package power throttles. */
    uint64_t renewed = calls++ / 2;
    said->cycles = 1000 + 100 * renewed; said->processor_hot = 3; said->socket_hot = 5; said->regulators_hot = 0;
    said->memory_hot = 0; said->package_power = renewed < 2 ? 9 : 9 + renewed;
    return 0;
}
int amdsmi_get_temp_metric(void *processor, int sensor, int metric, int64_t *degrees) {
    if (metric != 0 || sensor > 2) return 1;
    *degrees = kind(processor) == 2 ? INT64_MIN / 1000 : 33;
    return 0;
}
int amdsmi_get_gpu_fan_speed(void *processor, uint32_t sensor, int64_t *speed) {
    *speed = kind(processor) == 2 ? -1 : 51;
    return sensor;
}
int amdsmi_get_gpu_fan_speed_max(void *processor, uint32_t sensor, uint64_t *speed) { *speed = 255; return sensor; }
int amdsmi_get_gpu_ecc_count(void *processor, uint64_t block, errors *said) {
    said->corrected = kind(processor) == 2 ? UINT64_MAX : 5; said->uncorrected = kind(processor) == 2 ? UINT64_MAX : 1;
    said->deferred = 77;
    return block != 1;
}
"#;

fn stand_in(version: (u32, u32)) -> Option<Result<&'static Library, String>> {
    let source = format!("#define FIRST {}\n#define SECOND {}\n{STAND_IN}", version.0, version.1);
    let (_folder, path) = c_library("amd_smi", &source)?;
    Some(Library::load(&[path]).map(|library| &*Box::leak(Box::new(library))))
}

#[test]
fn a_device_is_found_by_its_pci_address_and_never_by_an_index() {
    let Some(library) = stand_in((26, 0)) else { return };
    let library = library.expect("the stand-in has every function");
    let mut dies = AmdSmiSensor::of(library, "0001:C1:02.1").expect("it is there");
    assert_eq!(
        dies.read(),
        Reading {
            core_clock_khz: Some(1_950_000),
            memory_clock_khz: Some(1_300_000),
            power_mw: Some(512_000),
            temperature_mc: Some(33_000),
            hot_spot_mc: Some(50_000),
            memory_temperature_mc: Some(60_000),
            fan_percent: Some(20),
            busy_percent: Some(7),
            ecc_corrected: Some(5),
            ecc_uncorrected: Some(1),
            ..Reading::default()
        },
        "one table of counts says nothing of throttling"
    );
    let mut named = AmdSmiSensor::of(library, "0000:66:00.0").expect("it is there").read();
    let reasons = ThrottleReasons::POWER_CAP.union(ThrottleReasons::HARDWARE_THERMAL);
    assert_eq!(named.throttle.take(), Some(reasons));
    assert_eq!(
        (named.core_clock_khz, named.power_mw, named.temperature_mc),
        (Some(1_700_000), Some(305_000), Some(40_000))
    );
    let mut sentinels = AmdSmiSensor::of(library, "00000000:67:00.0").expect("it is there");
    assert_eq!(sentinels.read(), Reading::default(), "what no device says is no value");
    for absent in ["0000:c1:02.1", "0001:c1:02.0", "0001:66:00.0"] {
        let error = AmdSmiSensor::of(library, absent).expect_err(absent);
        assert!(error.contains(absent), "{error}");
    }
    let error = AmdSmiSensor::of(library, "0000:ee:00.0").expect_err("the library answers with another device");
    assert!(error.contains("0000:ee:00.0"), "{error}");
}

#[test]
fn throttling_is_what_was_counted_between_two_tables() {
    let Some(library) = stand_in((24, 7)) else { return };
    let mut sensor = AmdSmiSensor::of(library.expect("24.7 is known"), "0001:c1:02.1").expect("it is there");
    let start = Instant::now();
    let mut at = |ms| sensor.read_at(start + Duration::from_millis(ms)).throttle;
    // Two readings show each table.
    let said = [at(0), at(10), at(20), at(30), at(40), at(50)];
    let capped = Some(ThrottleReasons::POWER_CAP);
    assert_eq!(said, [None, None, Some(ThrottleReasons::NONE), None, capped, None], "a table that was seen is no news");
    at(60);
    at(70);
    assert_eq!(at(900), None, "the time between the two tables is too long");
    at(910);
    assert_eq!(at(920), capped, "and the next two are near again");
    at(1300);
    assert_eq!(at(1500), None, "that a table was seen once more makes it no younger");
}

#[test]
fn a_table_that_is_refused_costs_its_values_only() {
    let Some(library) = stand_in((26, 0)) else { return };
    let mut sensor = AmdSmiSensor::of(library.expect("26.0 is known"), "0000:66:00.0").expect("it is there");
    let readings: Vec<Reading> = (0..4).map(|_| sensor.read_whole()).collect();
    assert!(readings[..3].iter().all(|reading| reading.core_clock_khz == Some(1_700_000)), "{readings:?}");
    let expected = Reading {
        temperature_mc: Some(33_000),
        hot_spot_mc: Some(33_000),
        memory_temperature_mc: Some(33_000),
        fan_percent: Some(20),
        ecc_corrected: Some(5),
        ecc_uncorrected: Some(1),
        ..Reading::default()
    };
    assert_eq!(readings[3], expected, "no value of an earlier table stands in");
}

#[test]
fn a_release_without_counts_says_nothing_of_throttling_that_it_does_not_name() {
    let Some(library) = stand_in((24, 6)) else { return };
    let mut sensor = AmdSmiSensor::of(library.expect("24.6 is known"), "0001:c1:02.1").expect("it is there");
    assert!((0..6).all(|_| sensor.read().throttle.is_none()), "what stands there belongs to something else");
}

#[test]
fn slow_values_are_left_out_between_and_whole_readings_have_all() {
    let Some(library) = stand_in((25, 5)) else { return };
    let mut sensor = AmdSmiSensor::of(library.expect("25.5 is known"), "0001:c1:02.1").expect("it is there");
    let start = Instant::now();
    assert_eq!(sensor.read_at(start).ecc_corrected, Some(5));
    let between = sensor.read_at(start + SLOW_EVERY / 2);
    assert_eq!((between.ecc_corrected, between.fan_percent, between.temperature_mc), (None, None, None));
    assert_eq!(between.power_mw, Some(512_000), "quick values are in every reading");
    assert_eq!(sensor.read_at(start + SLOW_EVERY).ecc_corrected, Some(5));
    assert_eq!(sensor.read_whole().ecc_corrected, Some(5));
}

#[test]
fn a_library_that_is_missing_unknown_or_lacks_functions_says_so() {
    let error = Library::load(&["libamd-smi-there-is-none.so"]).expect_err("there is none");
    assert!(error.contains("libamd-smi-there-is-none.so"), "{error}");
    let Some(unknown) = stand_in((27, 0)) else { return };
    let error = unknown.expect_err("nobody has read its tables");
    assert!(error.contains("27.0"), "{error}");
    let refusing = "int amdsmi_init(unsigned long f) { return 34; }\n\
                    int amdsmi_get_lib_version(void *v) { return 0; }\n\
                    int amdsmi_get_processor_handle_from_bdf(unsigned long a, void **p) { return 0; }";
    for (name, source, said) in
        [("empty", "int nothing;", "amdsmi_init"), ("refusing", refusing, "amdsmi_init says error 34")]
    {
        let Some((_folder, path)) = c_library(name, source) else { return };
        let error = Library::load(&[path]).expect_err(name);
        assert!(error.contains(said), "{error}");
    }
}
