//! Launches that the harness needs beside the measured ones: filling, poisoning, reading back, flushing caches.
//!
//! Arguments name buffers by their position in the call: 0 is what the launch writes, 1 what it reads.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::Dtype;

use crate::chain::Chain;
use crate::data::InputData;
use crate::family::{Argument, BufferSpec, DeviceSource, Launch};
use crate::number;

/// Threads a block of every support launch.
const BLOCK_THREADS: u64 = 256;
/// Threads that keep a compute unit full on every architecture known (CUDA: 1536 to 2048, CDNA: 2048).
const RESIDENT_THREADS: u64 = 2048;

/// Every entry of the source.
pub const ENTRIES: [&str; 22] = [
    "support_fill_random_f32",
    "support_fill_random_f64",
    "support_fill_random_i32",
    "support_fill_chain",
    "support_gather_f32",
    "support_gather_f64",
    "support_gather_i32",
    "support_poison_b8",
    "support_poison_b16",
    "support_poison_b32",
    "support_poison_b64",
    "support_fill_periodic_b8",
    "support_fill_periodic_b16",
    "support_fill_periodic_b32",
    "support_fill_periodic_b64",
    "support_fill_identity_b8",
    "support_fill_identity_b16",
    "support_fill_identity_b32",
    "support_fill_identity_b64",
    "support_flush",
    "support_empty",
    "support_lead",
];

/// The text that holds them. It needs no macro defined.
pub fn source() -> DeviceSource {
    DeviceSource {
        name: "support.cu",
        text: concat!(
            include_str!("../gpu/compat.h"),
            include_str!("../gpu/chain.h"),
            include_str!("../gpu/support.cu")
        )
        .to_owned(),
    }
}

/// Fills an array of `elements` elements with random data, see [`crate::data::Formula::Random`]. `None` for a number
/// format that no family reads yet.
pub fn fill_random(device: &DeviceFacts, elements: u64, data: &InputData) -> Option<Launch> {
    let mut arguments = vec![Argument::Buffer(0)];
    arguments.extend([elements, data.first_element, data.seed].map(Argument::U64));
    Some(spread(device, format!("support_fill_random_{}", filled_name(data.dtype)?), elements, arguments))
}

/// Fills an array of `elements` elements, see [`crate::data::Formula::Periodic`]. Buffer 1 holds the `length` values of
/// a period, in the array's number format.
pub fn fill_periodic(device: &DeviceFacts, elements: u64, data: &InputData, length: u64, repeat: u64) -> Launch {
    let mut arguments = vec![Argument::Buffer(0), Argument::Buffer(1)];
    arguments.extend([elements, data.first_element, length.max(1), repeat.max(1)].map(Argument::U64));
    spread(device, format!("support_fill_periodic_{}", bits_name(data.dtype)), elements, arguments)
}

/// Fills an array of `elements` elements, see [`crate::data::Formula::Identity`]. `None` for a number format that no
/// family reads yet.
pub fn fill_identity(device: &DeviceFacts, elements: u64, data: &InputData) -> Option<Launch> {
    let mut arguments = vec![Argument::Buffer(0)];
    let one = number::bits(1.0, data.dtype)?;
    arguments.extend([elements, data.first_element, data.row_elements.max(1), one].map(Argument::U64));
    Some(spread(device, format!("support_fill_identity_{}", bits_name(data.dtype)), elements, arguments))
}

/// Fills an array of `elements` 32-bit words, see [`crate::data::Formula::Chain`].
pub fn fill_chain(device: &DeviceFacts, elements: u64, data: &InputData, chain: Chain) -> Launch {
    let mut arguments = vec![Argument::Buffer(0)];
    arguments.extend([elements, data.first_element, chain.slots(), u64::from(chain.bits())].map(Argument::U64));
    spread(device, "support_fill_chain".to_owned(), elements, arguments)
}

/// Writes `pattern` to every logical element of an array; gaps between its rows stay as they are.
pub fn poison(device: &DeviceFacts, spec: &BufferSpec, pattern: u64) -> Launch {
    let (elements, (row, pitch)) = (spec.logical_elements(), row_and_pitch(spec));
    let mut arguments = vec![Argument::Buffer(0)];
    arguments.extend([elements, pattern, row, pitch].map(Argument::U64));
    spread(device, format!("support_poison_{}", bits_name(spec.dtype)), elements, arguments)
}

/// Writes `count` elements as binary64 to buffer 0: the logical elements `start`, `start + stride`, … of the array in
/// buffer 1. `None` for a number format that no family writes yet.
pub fn gather(device: &DeviceFacts, spec: &BufferSpec, start: u64, count: u64, stride: u64) -> Option<Launch> {
    let (row, pitch) = row_and_pitch(spec);
    let mut arguments = vec![Argument::Buffer(0), Argument::Buffer(1)];
    arguments.extend([count, start, stride, row, pitch].map(Argument::U64));
    Some(spread(device, format!("support_gather_{}", gathered_name(spec.dtype)?), count, arguments))
}

/// Reads and writes `bytes` of buffer 0, which then fill the caches. A multiple of 16.
pub fn flush(device: &DeviceFacts, bytes: u64) -> Launch {
    let packs = bytes / 16;
    spread(device, "support_flush".to_owned(), packs, vec![Argument::Buffer(0), Argument::U64(packs)])
}

/// Writes zeros to `bytes` of buffer 0. A multiple of 8.
pub fn clear(device: &DeviceFacts, bytes: u64) -> Launch {
    let words = bytes / 8;
    let mut arguments = vec![Argument::Buffer(0)];
    arguments.extend([words, 0, 0, 0].map(Argument::U64));
    spread(device, "support_poison_b64".to_owned(), words, arguments)
}

/// Does nothing: its time is the instrument's.
pub fn empty() -> Launch {
    Launch { entry: "support_empty".to_owned(), blocks: 1, threads: 32, arguments: Vec::new() }
}

/// Keeps the device busy for at least `cycles` of its clock, so that the host is ahead of it when the first timed
/// interval begins: an interval that the device must wait in shows the host, not the kernel.
pub fn lead(cycles: u64) -> Launch {
    Launch { entry: "support_lead".to_owned(), blocks: 1, threads: 32, arguments: vec![Argument::U64(cycles)] }
}

/// One resident grid over `items`, or less where there are fewer.
fn spread(device: &DeviceFacts, entry: String, items: u64, arguments: Vec<Argument>) -> Launch {
    let resident = device.compute_units.max(1).saturating_mul(RESIDENT_THREADS / BLOCK_THREADS);
    let blocks = items.div_ceil(BLOCK_THREADS).clamp(1, resident);
    Launch { entry, blocks, threads: BLOCK_THREADS, arguments }
}

/// What the kernels take for an array's rows: 0 and 0 where it has no gaps.
fn row_and_pitch(spec: &BufferSpec) -> (u64, u64) {
    spec.rows.map_or((0, 0), |rows| (rows.elements, rows.pitch_elements))
}

fn bits_name(dtype: Dtype) -> String {
    format!("b{}", dtype.bytes() * 8)
}

/// Formats that arrays are read back from.
fn gathered_name(dtype: Dtype) -> Option<&'static str> {
    match dtype {
        Dtype::F32 | Dtype::F64 | Dtype::I32 => Some(dtype.name()),
        Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => None,
    }
}

/// Formats that arrays are filled with random numbers of.
fn filled_name(dtype: Dtype) -> Option<&'static str> {
    match dtype {
        Dtype::F32 | Dtype::F64 | Dtype::I32 => Some(dtype.name()),
        Dtype::F16 | Dtype::Bf16 | Dtype::Tf32 | Dtype::I8 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => None,
    }
}
