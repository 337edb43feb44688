//! Names of constants.

/// Name of the demonstrated floor of main memory's bandwidth, B/s.
pub const MEMORY_BANDWIDTH: &str = "memory_bandwidth";

/// Name of the bandwidth that a stream kernel tends to as its arrays grow, B/s.
pub const MEMORY_BANDWIDTH_ASYMPTOTE: &str = "memory_bandwidth_asymptote";

/// Name of the time that a stream kernel takes before it moves its first byte, s.
pub const STREAM_LATENCY: &str = "stream_latency";

/// Name of the working set up to which re-reads are served by the cache, B: a constant of the ranking score, not the
/// size of a cache.
pub const CACHE_CAPACITY: &str = "cache_capacity";

/// Name of the rate at which re-reads within [`CACHE_CAPACITY`] are served, B/s.
pub const CACHE_BANDWIDTH: &str = "cache_bandwidth";

/// Name of the scalar operations per second that the register-blocktiled kernel issues as it was launched, op/s.
pub const ISSUE_RATE: &str = "issue_rate";

/// Name of the scalar operations per second of a launch that fills the device, op/s: [`ISSUE_RATE`] with each point's
/// operations divided by its launch fill. It holds together with [`FILL_THREADS`]; the ranking score divides by it.
pub const FULL_ISSUE_RATE: &str = "full_issue_rate";

/// Name of the threads that fill a multiprocessor, threads; the multiprocessors are those of the class.
pub const FILL_THREADS: &str = "fill_threads";

/// Name of the operations per second that a kernel made for it shows, flop/s; the condition says `dtype` and [`PIPE`].
pub const PEAK_FLOPS: &str = "peak_flops";

/// Name of the time of a launch that does nothing, s.
pub const LAUNCH_LATENCY: &str = "launch_latency";

/// Name of the condition that tells scalar units (`scalar`) from tensor units (`tensor`).
pub const PIPE: &str = "pipe";

/// Name of the footprint up to which the last-level cache serves what is read again, B: the hardware's, by the `cache`
/// sweep.
pub const LAST_LEVEL_CACHE_CAPACITY: &str = "last_level_cache_capacity";

/// Name of the rate at which it does, B/s.
pub const LAST_LEVEL_CACHE_BANDWIDTH: &str = "last_level_cache_bandwidth";

/// Name of the intercept of [`ISSUE_RATE`]'s line, s: launch and ramp, which no score prices. It may be negative.
pub const ISSUE_LATENCY: &str = "issue_latency";

/// Name of the threads that fill the whole device, threads: multiprocessors times [`FILL_THREADS`], which is what a
/// launch sweep identifies.
pub const DEVICE_FILL_THREADS: &str = "device_fill_threads";

/// Whether a constant of that name is published as it comes out, below zero too. All others are positive quantities.
pub fn may_be_negative(name: &str) -> bool {
    name == ISSUE_LATENCY
}
