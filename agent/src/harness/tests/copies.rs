//! A family that copies, with as many solutions as a point says.

use std::collections::BTreeMap;

use fleetcal_kernels::{
    BufferRole, BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, Rows, SizeSpec,
};
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::Counts;

/// A point of so many elements with so many solutions.
pub(crate) fn point(elements: u64, solutions: u64) -> Point {
    let sizes = BTreeMap::from([("elements".to_owned(), elements), ("solutions".to_owned(), solutions)]);
    Point { sweep: Sweep::Stream, kernel: "copy".to_owned(), dtype: Dtype::F32, sizes }
}

/// Copies, with the solutions `s0`, `s1`, …: `s0` is the fastest.
pub(crate) struct Copies;

impl Family for Copies {
    fn sweep(&self) -> Sweep {
        Sweep::Stream
    }
    fn kernels(&self) -> &'static [&'static str] {
        &["copy"]
    }
    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32]
    }
    fn sizes(&self) -> &'static [SizeSpec] {
        &[]
    }
    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[("elements", 64)]
    }
    fn check(&self, point: &Point) -> Result<(), PointError> {
        match point.size("elements") {
            Some(elements) if elements > 0 => Ok(()),
            _ => Err(PointError::BadSize { size: "elements".to_owned(), value: 0, reason: "it is nothing".to_owned() }),
        }
    }
    fn buffers(&self, point: &Point) -> Vec<BufferSpec> {
        let elements = point.size("elements").unwrap_or(0);
        let pitch = point.size("pitch");
        let rows = pitch.map(|pitch_elements| Rows { elements: pitch_elements - 8, pitch_elements });
        let spec = |name, role| BufferSpec { name, role, dtype: point.dtype, elements, rows };
        vec![spec("c", BufferRole::Output), spec("a", BufferRole::Input { seed: 1 })]
    }
    fn counts(&self, point: &Point, _solution: &Solution, _device: &DeviceFacts) -> Counts {
        Counts { bytes_distinct: 8 * point.size("elements").unwrap_or(0), ..Counts::default() }
    }
    fn solutions(&self, point: &Point, _device: &DeviceFacts) -> Vec<Solution> {
        let parameters =
            |index: u64| BTreeMap::from([("block".to_owned(), 128), ("ns".to_owned(), 1000 + 100 * index)]);
        let solution = |index: u64| Solution { name: format!("s{index}"), parameters: parameters(index) };
        (0..point.size("solutions").unwrap_or(1)).map(solution).collect()
    }
    fn source(&self) -> DeviceSource {
        DeviceSource { name: "copies", text: String::new() }
    }
    fn launches(&self, _point: &Point, _solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        vec![Launch { entry: "copy".to_owned(), blocks: 1, threads: 1, arguments: Vec::new() }]
    }
    fn reference(&self, _point: &Point, _pattern: DataPattern, _buffer: usize) -> Reference {
        Box::new(|element| Expected { value: element as f64 + 1.0, relative_tolerance: 0.0 })
    }
}
