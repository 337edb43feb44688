//! The STREAM kernels (McCalpin, <https://www.cs.virginia.edu/stream/ref.html>): copy c = a, scale b = 0.5 a,
//! add c = a + b, triad a = b + 0.5 c.
//!
//! Counts are exact by construction: every kernel touches every element of each of its arrays once, in one direction,
//! and no access is guarded. So an array must hold a whole number of the largest tile, see [`ELEMENTS_MULTIPLE`].

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext};

use crate::data::InputData;
use crate::family::{
    Argument, BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec,
};
use crate::number::rounded;
use crate::parameter;

mod variants;

/// `elements` must be a positive multiple of this: the largest tile is 1024 threads of 8 vectors of 4 elements.
pub const ELEMENTS_MULTIPLE: u64 = 1024 * 8 * 4;
/// More elements than this are refused, so that no byte count can overflow.
const ELEMENTS_MAX: u64 = 1 << 48;
/// The name of the one size.
const ELEMENTS: &str = "elements";

const COPY: &str = "copy";
const SCALE: &str = "scale";
const ADD: &str = "add";
const TRIAD: &str = "triad";

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Stream;

impl Family for Stream {
    fn sweep(&self) -> Sweep {
        Sweep::Stream
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[COPY, SCALE, ADD, TRIAD]
    }

    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32, Dtype::F64]
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[SizeSpec { name: ELEMENTS, defaults: &[], optional: false }]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[(ELEMENTS, ELEMENTS_MULTIPLE)]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        if !self.kernels().contains(&point.kernel.as_str()) {
            let known = self.kernels().join(", ");
            return Err(PointError::UnknownKernel { sweep: Sweep::Stream, kernel: point.kernel.clone(), known });
        }
        if !self.dtypes().contains(&point.dtype) {
            let known = self.dtypes().iter().map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
            return Err(PointError::UnsupportedDtype { sweep: Sweep::Stream, dtype: point.dtype, known });
        }
        let size = ELEMENTS.to_owned();
        let Some(value) = point.size(ELEMENTS) else {
            return Err(PointError::MissingSize { sweep: Sweep::Stream, kernel: point.kernel.clone(), size });
        };
        if value == 0 || !value.is_multiple_of(ELEMENTS_MULTIPLE) {
            let reason =
                format!("it must be a positive multiple of {ELEMENTS_MULTIPLE}, so that every block divides it");
            return Err(PointError::BadSize { size, value, reason });
        }
        if value > ELEMENTS_MAX {
            return Err(PointError::BadSize { size, value, reason: format!("it must be at most {ELEMENTS_MAX}") });
        }
        Ok(())
    }

    /// The output first, then the inputs: a harness that gives buffers to points by position then fills each input
    /// once for all four kernels, and no output falls on an input.
    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let (output, inputs) = arrays(&point.kernel);
        let spec = |name, role| BufferSpec { name, role, dtype: point.dtype, elements: elements(point), rows: None };
        let inputs = inputs.iter().zip(1..).map(|(name, seed)| spec(*name, BufferRole::Input { seed }));
        std::iter::once(spec(output, BufferRole::Output)).chain(inputs).collect()
    }

    fn counts(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Counts {
        let inputs = u64::try_from(arrays(&point.kernel).1.len()).unwrap_or(u64::MAX);
        let array_bytes = elements(point).saturating_mul(point.dtype.bytes());
        let operations = elements(point).saturating_mul(match point.kernel.as_str() {
            SCALE | ADD => 1,
            TRIAD => 2,
            _ => 0,
        });
        let (blocks, threads) = parameter::grid(solution);
        Counts {
            bytes_read: array_bytes.saturating_mul(inputs),
            bytes_written: array_bytes,
            bytes_distinct: array_bytes.saturating_mul(inputs + 1),
            bytes_requested: array_bytes.saturating_mul(inputs),
            working_set_bytes: None,
            flops: operations,
            scalar_ops: operations,
            tensor_ops: 0,
            bytes_exact: true,
            ops_exact: true,
            opaque: false,
            kernels: 1,
            launch_contexts: vec![LaunchContext { blocks, threads, operations }],
        }
    }

    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        match device.backend {
            Backend::Cpu => variants::host(device.compute_units),
            Backend::Cuda | Backend::Hip => variants::gpu(point, device.compute_units),
            Backend::Sim => variants::gpu(point, device.compute_units).into_iter().take(variants::SIMULATED).collect(),
        }
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "stream.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/stream.cu")).to_owned(),
        }
    }

    fn launches(&self, point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        let (blocks, threads) = parameter::grid(solution);
        let last = arrays(&point.kernel).1.len();
        let tile = variants::tile_elements(solution).max(1);
        vec![Launch {
            entry: variants::entry(point, solution),
            blocks,
            threads,
            arguments: vec![
                Argument::Buffer(0),
                Argument::Buffer(1),
                Argument::Buffer(last),
                Argument::U64(elements(point) / tile),
            ],
        }]
    }

    /// Exact: 0.5 is a power of two, so the product is exact, a fused multiply-add rounds like two operations, and every
    /// IEEE machine gives the same bits.
    fn reference(&self, point: &Point, pattern: DataPattern, _buffer: usize) -> Reference {
        let (dtype, row_elements) = (point.dtype, elements(point));
        let input = |seed| InputData { pattern, seed, dtype, row_elements, first_element: 0 };
        let (first, second) = (input(1), input(2));
        // The sum of two numbers of binary32 is exact in binary64, or rounds there so that rounding again gives what f32
        // arithmetic gives (Figueroa: When is double rounding innocuous?, SIGNUM Newsletter 1995).
        let right = move |exact| Expected { value: rounded(exact, dtype), relative_tolerance: 0.0 };
        match point.kernel.as_str() {
            SCALE => Box::new(move |element| right(0.5 * first.rounded_element(element))),
            ADD => Box::new(move |element| right(first.rounded_element(element) + second.rounded_element(element))),
            TRIAD => {
                Box::new(move |element| right(first.rounded_element(element) + 0.5 * second.rounded_element(element)))
            }
            _ => Box::new(move |element| right(first.rounded_element(element))),
        }
    }
}

/// The array written and the arrays read, in the order of the formula.
fn arrays(kernel: &str) -> (&'static str, &'static [&'static str]) {
    match kernel {
        SCALE => ("b", &["a"]),
        ADD => ("c", &["a", "b"]),
        TRIAD => ("a", &["b", "c"]),
        _ => ("c", &["a"]),
    }
}

fn elements(point: &Point) -> u64 {
    point.size(ELEMENTS).unwrap_or(0)
}

#[cfg(test)]
mod tests;
