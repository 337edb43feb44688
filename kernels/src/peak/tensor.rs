//! Tensor instructions of NVIDIA devices: `mma.sync`, whose shapes and fragments are those of the PTX manual, section
//! "Matrix multiply-accumulate operation using mma instruction".

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::Dtype;

/// Threads that one instruction belongs to.
pub(super) const WARP: u64 = 32;

/// What one instruction multiplies: 16 or 8 rows, 8 columns, and so many products a sum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Product {
    rows: u64,
    depth: u64,
    /// Format of the sums.
    pub(super) sum: Dtype,
}

const COLUMNS: u64 = 8;

/// The instruction for operands of a number format, if this version has one.
pub(super) fn product(operands: Dtype) -> Option<Product> {
    let (rows, depth, sum) = match operands {
        Dtype::F16 | Dtype::Bf16 => (16, 16, Dtype::F32),
        Dtype::Tf32 => (16, 8, Dtype::F32),
        Dtype::I8 => (16, 32, Dtype::I32),
        Dtype::F64 => (8, 4, Dtype::F64),
        Dtype::F32 | Dtype::I32 | Dtype::Fp8E4m3 | Dtype::Fp8E5m2 => return None,
    };
    Some(Product { rows, depth, sum })
}

/// Whether a device has these instructions: compute capability 8.0 and above.
pub(super) fn is_there(device: &DeviceFacts) -> bool {
    let digits: String = device.architecture.chars().filter(char::is_ascii_digit).collect();
    digits.parse::<u64>().is_ok_and(|capability| capability >= 80)
}

impl Product {
    /// Operations of one instruction: a product and a sum each.
    pub(super) fn operations(self) -> u64 {
        2 * self.rows * COLUMNS * self.depth
    }

    /// What one instruction adds to the first sum of a lane: row `lane / 4`, column `2 (lane % 4)` of A·B.
    pub(super) fn first_of_thread(self, lane: u64) -> f64 {
        let (row, column) = (lane / 4, 2 * (lane % 4));
        (0..self.depth).map(|depth| left(row, depth) * right(depth, column)).sum::<i64>() as f64
    }
}

/// A\[row\]\[depth\]; `gpu/peak.cu` has the same numbers.
fn left(row: u64, depth: u64) -> i64 {
    ((7 * row + 3 * depth) % 8) as i64 - 4
}

/// B\[depth\]\[column\].
fn right(depth: u64, column: u64) -> i64 {
    ((5 * depth + 3 * column) % 8) as i64 - 4
}
