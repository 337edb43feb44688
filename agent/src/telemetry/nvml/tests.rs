use std::ffi::OsStr;

use super::*;
use crate::testing::c_library;

/// Two devices, in an order that is not CUDA's. The first says everything, the second fails or says what none says.
const STAND_IN: &str = r#"
#include <string.h>
#include <unistd.h>
static int first, second;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = index ? &first : &second; return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    if (!strcmp(id, "00000001:C1:00.0")) { *device = &first; return 0; }
    if (!strcmp(id, "00000000:65:00.0")) { *device = &second; return 0; }
    return 6;
}
int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *megahertz) {
    *megahertz = device != &first ? 0 : clock == 1 ? 1980 : clock == 2 ? 3201 : 7;
    return 0;
}
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    *milliwatts = device == &first ? 654321 : 0xffffffff;
    return 0;
}
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *degrees) {
    *degrees = device == &first ? 41 : 0xffffffff;
    return sensor;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    *reasons = 0x44;
    return device == &first ? 0 : 15;
}
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu, compute; } process;
int nvmlDeviceGetComputeRunningProcesses_v3(void *device, unsigned *count, process *processes) {
    if (device != &first) return 3;
    if (!processes) { *count = 2; return 7; }
    memset(processes, 0, 2 * sizeof *processes);
    processes[0].pid = 1; processes[1].pid = getpid();
    *count = 2;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void *device, int kind, int counter, unsigned long long *count) {
    *count = device == &first ? 10 + kind : ~0ull;
    return counter;
}
int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) { rates[0] = device == &first ? 3 : 1000; return 0; }
int nvmlDeviceGetFanSpeed_v2(void *device, unsigned fan, unsigned *percent) { *percent = 0xffffffff; return 0; }
typedef struct { unsigned id, scope; long long stamp, latency; int type, code; union { unsigned long long wide; unsigned narrow; } value; } field;
int nvmlDeviceGetFieldValues(void *device, int count, field *fields) {
    for (int i = 0; i < count; i++) {
        fields[i].type = 1;
        fields[i].code = device == &first ? 0 : 3;
        fields[i].value.wide = 0;
        fields[i].value.narrow = fields[i].id == 82 ? 55 : fields[i].id == 142 ? 2 : fields[i].id == 143 ? 1 : 99;
    }
    return 0;
}
"#;

fn stand_in() -> Option<&'static Nvml> {
    let (_folder, path) = c_library("nvml", STAND_IN)?;
    let library = Nvml::builder().lib_path(OsStr::new(&path)).init().expect("the stand-in starts");
    Some(Box::leak(Box::new(library)))
}

#[test]
fn a_device_is_found_by_its_pci_address_and_never_by_an_index() {
    let Some(library) = stand_in() else { return };
    let mut sensor = NvmlSensor::of(library, "00000001:C1:00.0", true).expect("it is there");
    let reading = sensor.read();
    let process_1 = reading.foreign.as_ref().and_then(|processes| processes.first()).map(|process| process.pid);
    assert_eq!(process_1, Some(1), "our own process is none of the others: {:?}", reading.foreign);
    let thermal = ThrottleReasons::HARDWARE_THERMAL.union(ThrottleReasons::POWER_CAP);
    let expected = Reading {
        core_clock_khz: Some(1_980_000),
        memory_clock_khz: Some(3_201_000),
        power_mw: Some(654_321),
        temperature_mc: Some(41_000),
        memory_temperature_mc: Some(55_000),
        throttle: Some(thermal),
        ecc_corrected: Some(10),
        ecc_uncorrected: Some(11),
        rows_remapped: Some(3),
        busy_percent: Some(3),
        foreign: reading.foreign.clone(),
        ..Reading::default()
    };
    assert_eq!(reading, expected);
    let mut slice = NvmlSensor::of(library, "00000001:C1:00.0", false).expect("it is there");
    assert_eq!(slice.read().foreign, None, "who uses the other slices is nobody's business here");
    let error = NvmlSensor::of(library, "00000000:C1:00.0", true).expect_err("the domain is another");
    assert!(error.contains("00000000:C1:00.0"), "{error}");
}

#[test]
fn a_reading_carries_no_value_of_an_earlier_one() {
    let Some(library) = stand_in() else { return };
    let mut sensor = NvmlSensor::of(library, "00000001:C1:00.0", true).expect("it is there");
    let slow = |reading: &Reading| {
        let Reading { ecc_corrected, rows_remapped, memory_temperature_mc, busy_percent, .. } = *reading;
        let known = [ecc_corrected, rows_remapped, busy_percent].map(|value| value.is_some());
        let processes = reading.foreign.as_ref().map(Vec::len);
        (known, memory_temperature_mc.is_some(), processes.is_some())
    };
    let (all, none) = (([true; 3], true, true), ([false; 3], false, false));
    let start = Instant::now();
    assert_eq!(slow(&sensor.read_at(start)), all, "the first has everything");
    let soon = sensor.read_at(start + SLOW_EVERY / 2);
    assert_eq!(slow(&soon), none, "what it did not ask for it does not say");
    assert!(soon.core_clock_khz.is_some() && soon.throttle.is_some(), "{soon:?}");
    assert_eq!(slow(&sensor.read_at(start + SLOW_EVERY)), all, "it is due again");
    assert_eq!(slow(&sensor.read_whole()), all, "whoever wants all of it has it read now");
}

#[test]
fn sentinels_and_failures_are_none_each_for_itself() {
    let Some(library) = stand_in() else { return };
    let mut sensor = NvmlSensor::of(library, "00000000:65:00.0", true).expect("it is there");
    assert_eq!(sensor.read(), Reading::default());
}

#[test]
fn every_reason_has_a_name_and_an_unknown_one_is_another() {
    let bits = [0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x40, 0x80, 0x100];
    for bit in bits {
        let reason = translated(bit);
        assert!(!reason.is_empty() && !reason.intersects(ThrottleReasons::OTHER), "bit {bit:#x} is {reason}");
    }
    assert_eq!(translated(0), ThrottleReasons::NONE);
    assert!(
        translated(0x40).discards() && !translated(0x7).discards(),
        "heat discards, the product's own limit does not"
    );
    let unknown = throttle(Err(NvmlError::IncorrectBits(Unnamed::U64(0x8000_0004))));
    assert_eq!(unknown, Some(ThrottleReasons::POWER_CAP.union(ThrottleReasons::OTHER)));
    assert_eq!(throttle(Err(NvmlError::NotSupported)), None);
}

#[test]
fn processes_that_cannot_be_seen_are_unknown_and_not_none() {
    assert_eq!(foreign_pids(7, &[7], true), Some(Vec::new()));
    assert_eq!(foreign_pids(7, &[9, 7, 8, 9], true), Some(vec![8, 9]));
    assert_eq!(foreign_pids(7, &[], true), None, "we hold a context: a list without us shows nobody");
    assert_eq!(foreign_pids(7, &[1007], false), None, "numbers of another name space");
    assert_eq!(foreign_pids(7, &[7], false), None, "a container shows its own processes only");
    assert_eq!(foreign_pids(7, &[7, 8], false), Some(vec![8]));
}
