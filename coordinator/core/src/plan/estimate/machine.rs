//! How fast a device is, guessed before anything is measured.

use fleetcal_model::device::{Backend, DeviceFacts};

/// Memory faster than this is GDDR on a narrow bus, slower is HBM on a wide one, kHz.
const HBM_CLOCK_MAX_KHZ: u64 = 4_000_000;
/// Five stacks, bits.
const HBM_BUS_BITS: u64 = 5120;
/// Eight chips, bits.
const GDDR_BUS_BITS: u64 = 256;
/// Where the memory clock is unknown, bytes a second.
const UNKNOWN_GPU_BANDWIDTH: f64 = 1e12;
/// What one core of a host draws from memory, bytes a second.
const CORE_BANDWIDTH: f64 = 5e9;
/// What one socket of a host draws from memory at most, bytes a second.
const SOCKET_BANDWIDTH: f64 = 2e11;
/// Random data made by one core, bytes a second; a GPU makes it as fast as it writes.
const CORE_FILL_BANDWIDTH: f64 = 8e8;
/// One launch of a GPU kernel, with its events, nanoseconds.
const GPU_LAUNCH_NS: f64 = 20e3;
/// Waking the threads of a host, nanoseconds.
const HOST_LAUNCH_NS: f64 = 50e3;
/// Compiling and loading one GPU solution, its share of a batch, nanoseconds.
const GPU_PREPARE_NS: f64 = 20e6;

/// A device as the cost model sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Machine {
    /// Bytes that kernels read and write a nanosecond.
    pub(super) bytes_per_ns: f64,
    /// Bytes of inputs that are made a nanosecond.
    pub(super) fill_bytes_per_ns: f64,
    /// One launch, nanoseconds.
    pub(super) launch_ns: f64,
    /// Compiling and loading one solution, nanoseconds.
    pub(super) prepare_ns: f64,
    /// Whether a second of load or idleness takes one: a simulated device knows neither.
    pub(super) takes_time: bool,
}

impl Machine {
    /// Guessed from what is known of the device.
    pub(super) fn of(device: &DeviceFacts) -> Self {
        match device.backend {
            Backend::Cpu => {
                let cores = device.compute_units.max(1) as f64;
                let sockets = device.sockets.unwrap_or(1).max(1) as f64;
                Self {
                    bytes_per_ns: (cores * CORE_BANDWIDTH).min(sockets * SOCKET_BANDWIDTH) / 1e9,
                    fill_bytes_per_ns: (cores * CORE_FILL_BANDWIDTH).min(sockets * SOCKET_BANDWIDTH) / 1e9,
                    launch_ns: HOST_LAUNCH_NS,
                    prepare_ns: 0.0,
                    takes_time: true,
                }
            }
            Backend::Cuda | Backend::Hip | Backend::Sim => {
                let bytes_per_ns = device.memory_clock_khz.map_or(UNKNOWN_GPU_BANDWIDTH, clock_bandwidth) / 1e9;
                let takes_time = device.backend != Backend::Sim;
                let prepare_ns = if takes_time { GPU_PREPARE_NS } else { 0.0 };
                Self { bytes_per_ns, fill_bytes_per_ns: bytes_per_ns, launch_ns: GPU_LAUNCH_NS, prepare_ns, takes_time }
            }
        }
    }

    /// Flushing the caches once, nanoseconds.
    pub(super) fn flush_ns(&self, device: &DeviceFacts) -> f64 {
        self.launch_ns + device.flush_bytes() as f64 / self.bytes_per_ns
    }
}

/// Bytes a second of double data rate memory with that clock.
fn clock_bandwidth(clock_khz: u64) -> f64 {
    let bus_bits = if clock_khz <= HBM_CLOCK_MAX_KHZ { HBM_BUS_BITS } else { GDDR_BUS_BITS };
    clock_khz as f64 * 1e3 * 2.0 * bus_bits as f64 / 8.0
}
