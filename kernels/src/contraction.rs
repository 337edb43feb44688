//! The weight gradient of a linear layer, dw\[o,i\] = Σ over k of dy\[k,o\] · x\[k,i\], with m rows of o and n columns of i:
//! untiled for the `working_set` sweep, and blocked in registers for `issue` and `launch`.
//!
//! Each output is one sum in the order of k by fused multiply-adds, in every variant and on every backend, so results are
//! compared bit by bit.

use std::collections::BTreeMap;

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use crate::check::{SizeRule, check};
use crate::data::InputData;
use crate::family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec,
};

mod variants;

pub use variants::Tile;

const CONTRACTION: &str = "contraction";
const ROWS: &str = "m";
const COLUMNS: &str = "n";
const DEPTH: &str = "k";

/// Seed of `dy`.
const LEFT_SEED: u64 = 1;
/// Seed of `x`.
const RIGHT_SEED: u64 = 2;

/// Largest extent: products of three of them are far below what 64 bits hold.
const EXTENT_MAX: u64 = 1 << 20;
/// Steps of k that the references of one look may take together on the host: some milliseconds.
const REFERENCE_STEPS_MAX: u64 = 1 << 20;
/// Operations of a launch point, about: the work is held constant, and only its shape varies (seed 000 has 2^31; half of
/// that keeps every point below a quarter of a millisecond).
const LAUNCH_OPERATIONS: u64 = 1 << 30;
/// Longest sum of a launch point.
const LAUNCH_DEPTH_MAX: u64 = 1 << 17;
/// Most elements of an input of a launch point.
const LAUNCH_INPUT_MAX: u64 = 1 << 28;

/// Widths of the launch sweep: few where a device starves, dense where it fills. Multiples of both tiles.
const LAUNCH_WIDTHS: [u64; 24] = [
    64, 128, 192, 256, 320, 384, 448, 512, 576, 640, 704, 768, 832, 896, 1024, 1152, 1280, 1408, 1536, 1792, 2048,
    2560, 3072, 4096,
];
/// Depths of the issue sweep, as seed 000 has them.
const ISSUE_DEPTHS: [u64; 8] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768];
/// Depths of the working-set sweep, as seed 000 has them.
const WORKING_SET_DEPTHS: [u64; 9] = [256, 512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536];

/// The family of one of its three sweeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contraction(Sweep);

impl Contraction {
    /// Re-reads from the caches, and past them.
    pub const WORKING_SET: Self = Self(Sweep::WorkingSet);
    /// The rate at which a blocked kernel issues.
    pub const ISSUE: Self = Self(Sweep::Issue);
    /// How a device fills with blocks.
    pub const LAUNCH: Self = Self(Sweep::Launch);

    fn is_tiled(self) -> bool {
        self.0 != Sweep::WorkingSet
    }
}

impl Family for Contraction {
    fn sweep(&self) -> Sweep {
        self.0
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[CONTRACTION]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F64]
    }

    /// As seed 000 has them; the launch sweep's columns are its rows, and its depth follows from the work.
    fn sizes(&self) -> &'static [SizeSpec] {
        const fn size(name: &'static str, defaults: &'static [u64]) -> SizeSpec {
            SizeSpec { name, defaults, optional: defaults.is_empty() }
        }
        match self.0 {
            Sweep::WorkingSet => {
                const { &[size(ROWS, &[256]), size(COLUMNS, &[1024]), size(DEPTH, &WORKING_SET_DEPTHS)] }
            }
            Sweep::Launch => const { &[size(ROWS, &LAUNCH_WIDTHS), size(COLUMNS, &[]), size(DEPTH, &[])] },
            Sweep::Issue
            | Sweep::Stream
            | Sweep::Cache
            | Sweep::Peak
            | Sweep::Onchip
            | Sweep::Reduce
            | Sweep::Scan
            | Sweep::Latency
            | Sweep::Transfer => const { &[size(ROWS, &[512]), size(COLUMNS, &[512]), size(DEPTH, &ISSUE_DEPTHS)] },
        }
    }

    fn complete(&self, mut sizes: BTreeMap<String, u64>) -> BTreeMap<String, u64> {
        let Some(rows) = sizes.get(ROWS).copied().filter(|_| self.0 == Sweep::Launch) else { return sizes };
        let columns = *sizes.entry(COLUMNS.to_owned()).or_insert(rows);
        let largest = LAUNCH_INPUT_MAX / rows.max(columns).max(1);
        let depth = LAUNCH_OPERATIONS / rows.saturating_mul(columns).saturating_mul(2).max(1);
        let depth = depth.min(largest).clamp(variants::STEP, LAUNCH_DEPTH_MAX) / variants::STEP * variants::STEP;
        sizes.entry(DEPTH.to_owned()).or_insert(depth);
        sizes
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        if self.is_tiled() {
            &[(ROWS, 128), (COLUMNS, 128), (DEPTH, 24)]
        } else {
            &[(ROWS, 5), (COLUMNS, 512), (DEPTH, 24)]
        }
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        let (rows_of, columns_of) = if self.is_tiled() { (64, 64) } else { (1, variants::UNTILED_BLOCK) };
        let size = |name, multiple_of| SizeRule { name, least: multiple_of, most: EXTENT_MAX, multiple_of };
        check(self, point, &[size(ROWS, rows_of), size(COLUMNS, columns_of), size(DEPTH, variants::STEP)])
    }

    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let (rows, columns, depth) = extents(point);
        let spec = |name, role, elements| BufferSpec { name, role, dtype: point.dtype, elements, rows: None };
        vec![
            spec("dw", BufferRole::Output, rows.saturating_mul(columns)),
            spec("dy", BufferRole::Input { seed: LEFT_SEED }, depth.saturating_mul(rows)),
            spec("x", BufferRole::Input { seed: RIGHT_SEED }, depth.saturating_mul(columns)),
        ]
    }

    /// Bytes are those that must move at least: what caches do not hold is read again, and how much that is, is the
    /// question. Requested are the global reads of all blocks; the working set is those of the blocks that run at once.
    fn counts(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Counts {
        let (rows, columns, depth) = extents(point);
        let shape = variants::Shape::of(point, solution, device);
        let width = point.dtype.bytes();
        let bytes_written = rows.saturating_mul(columns).saturating_mul(width);
        let bytes_read = depth.saturating_mul(rows.saturating_add(columns)).saturating_mul(width);
        let block_bytes = depth.saturating_mul(shape.rows + shape.columns).saturating_mul(width);
        let operations = [rows, columns, depth, 2].into_iter().fold(1, u64::saturating_mul);
        Counts {
            bytes_read,
            bytes_written,
            bytes_distinct: bytes_read.saturating_add(bytes_written),
            bytes_requested: block_bytes.saturating_mul(shape.blocks),
            working_set_bytes: Some(block_bytes.saturating_mul(shape.resident_blocks)),
            flops: operations,
            scalar_ops: operations,
            tensor_ops: 0,
            // What caches do not hold is read more than once.
            bytes_exact: false,
            ops_exact: true,
            opaque: false,
            kernels: 1,
            launch_contexts: vec![LaunchContext { blocks: shape.blocks, threads: shape.threads, operations }],
        }
    }

    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        match (self.0, device.backend) {
            // Threads of the host are its cores: it has no launch to fill.
            (Sweep::Launch, Backend::Cpu) => Vec::new(),
            (_, Backend::Cpu) => variants::host(self.is_tiled(), device.compute_units),
            (_, Backend::Cuda | Backend::Hip | Backend::Sim) => variants::gpu(self.is_tiled(), point),
        }
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "contraction.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/contraction.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, device: &DeviceFacts) -> Vec<Launch> {
        let (rows, columns, depth) = extents(point);
        let shape = variants::Shape::of(point, solution, device);
        let mut arguments: Vec<Argument> = (0..3).map(Argument::Buffer).collect();
        arguments.extend([rows, columns, depth].map(Argument::U64));
        vec![Launch {
            entry: format!("contraction_{}_{}", point.dtype, variants::entry(solution)),
            blocks: shape.blocks,
            threads: shape.threads,
            arguments,
        }]
    }

    fn checked_elements_max(&self, point: &Point) -> u64 {
        (REFERENCE_STEPS_MAX / extents(point).2.max(1)).max(8)
    }

    /// Exact: the same fused multiply-adds in the same order.
    fn reference(&self, point: &Point, pattern: DataPattern, _buffer: usize) -> Reference {
        let (dtype, (rows, columns, depth)) = (point.dtype, extents(point));
        let input = |seed, row_elements| InputData { pattern, seed, dtype, row_elements, first_element: 0 };
        // Arrays are filled as one row.
        let left = input(LEFT_SEED, depth.saturating_mul(rows));
        let right = input(RIGHT_SEED, depth.saturating_mul(columns));
        Box::new(move |element| {
            let (row, column) = (element / columns.max(1), element % columns.max(1));
            let factors = (0..depth)
                .map(|step| (left.rounded_element(step * rows + row), right.rounded_element(step * columns + column)));
            let value = match dtype {
                Dtype::F32 => f64::from(factors.fold(0.0_f32, |sum, (dy, x)| (dy as f32).mul_add(x as f32, sum))),
                Dtype::F64
                | Dtype::F16
                | Dtype::Bf16
                | Dtype::Tf32
                | Dtype::I8
                | Dtype::I32
                | Dtype::Fp8E4m3
                | Dtype::Fp8E5m2 => factors.fold(0.0_f64, |sum, (dy, x)| dy.mul_add(x, sum)),
            };
            Expected { value, relative_tolerance: 0.0 }
        })
    }
}

/// Rows, columns and depth.
fn extents(point: &Point) -> (u64, u64, u64) {
    let size = |name| point.size(name).unwrap_or(0);
    (size(ROWS), size(COLUMNS), size(DEPTH))
}

#[cfg(test)]
mod tests;
