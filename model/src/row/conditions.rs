//! Group `conditions`: the state of the device and its host.

/// Group `conditions`: the state of the device and its host during the row's samples.
#[derive(Debug, Clone, PartialEq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Conditions {
    /// Core clock, median, kHz.
    pub core_clock_khz: Option<u64>,
    /// Memory clock, median, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power, median, milliwatts.
    pub power_mw: Option<u64>,
    /// Temperature of the die, largest, millidegrees Celsius.
    pub temperature_mc: Option<i64>,
    /// Temperature of the hottest spot, largest.
    pub hot_spot_mc: Option<i64>,
    /// Temperature of the memory, largest.
    pub memory_temperature_mc: Option<i64>,
    /// Fan, median, percent of its full speed.
    pub fan_percent: Option<u64>,
    /// Throttle reasons seen, bits of [`crate::throttle::ThrottleReasons`].
    pub throttle_reasons: Option<u64>,
    /// Corrected memory errors counted meanwhile.
    pub ecc_corrected: Option<u64>,
    /// Uncorrected memory errors counted meanwhile.
    pub ecc_uncorrected: Option<u64>,
    /// Memory rows that were remapped meanwhile.
    pub rows_remapped: Option<u64>,
    /// Whether other devices of the node were busy: `alone` or `node_full`.
    pub neighbours: Option<String>,
    /// A [`super::RowLoad`], where the plan names a load.
    pub load: Option<String>,
    /// Devices of the node measured at the same time, this one not counted.
    pub co_running_devices: Option<u64>,
    /// Foreign processes on the device; unknown where they cannot be seen.
    pub foreign_processes: Option<u64>,
    /// Where readings come from, for example `nvml`; absent where no sensor could be read, or none was asked.
    pub monitor_source: Option<String>,
    /// Readings of the monitor that overlap the samples; 0 means telemetry says nothing.
    pub monitor_samples: u64,
    /// Load average of the host over a minute.
    pub host_load: Option<f64>,
    /// Part of the host's processor time that its hypervisor gave to others during the samples, 0 to 1.
    pub host_steal: Option<f64>,
}
