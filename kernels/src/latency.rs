//! What a launch costs that does nothing: alone, and in a graph of many.

use fleetcal_model::device::{Backend, DeviceFacts};
use fleetcal_model::point::{Dtype, Point, Solution, Sweep};
use fleetcal_model::policy::DataPattern;
use fleetcal_model::row::{Counts, LaunchContext, TimingMode};

use crate::check::check;
use crate::family::{BufferSpec, DeviceSource, Expected, Family, Launch, PointError, Reference, SizeSpec};
use crate::parameter;

/// One launch between two events.
pub const EMPTY: &str = "empty";
/// One of many launches of a graph between two events.
pub const GRAPH: &str = "graph";

/// The family.
#[derive(Debug, Clone, Copy)]
pub struct Latency;

impl Family for Latency {
    fn sweep(&self) -> Sweep {
        Sweep::Latency
    }

    fn kernels(&self) -> &'static [&'static str] {
        &[EMPTY, GRAPH]
    }

    /// It has no numbers; a point has to name a format.
    fn dtypes(&self) -> &'static [Dtype] {
        &[Dtype::F32]
    }

    fn sizes(&self) -> &'static [SizeSpec] {
        &[]
    }

    fn small_sizes(&self) -> &'static [(&'static str, u64)] {
        &[]
    }

    fn check(&self, point: &Point) -> Result<(), PointError> {
        check(self, point, &[])
    }

    fn buffers(&self, _point: &Point) -> Vec<BufferSpec> {
        Vec::new()
    }

    fn counts(&self, _point: &Point, solution: &Solution, _device: &DeviceFacts) -> Counts {
        let (blocks, threads) = parameter::grid(solution);
        let launch_contexts = vec![LaunchContext { blocks, threads, operations: 0 }];
        Counts { bytes_exact: true, ops_exact: true, kernels: 1, launch_contexts, ..Counts::default() }
    }

    /// One warp, and a device full of blocks. The host has one way to start its threads, and no graphs.
    fn solutions(&self, point: &Point, device: &DeviceFacts) -> Vec<Solution> {
        let units = device.compute_units.max(1);
        let gpu = |name: &str, blocks: u64, block: u64| {
            parameter::solution(name, &[(parameter::BLOCKS, blocks), (parameter::BLOCK, block)])
        };
        match (device.backend, point.kernel.as_str()) {
            (Backend::Cpu, EMPTY) => vec![parameter::solution(format!("t{units}"), &[(parameter::THREADS, units)])],
            (Backend::Cpu, _) => Vec::new(),
            (Backend::Cuda | Backend::Hip | Backend::Sim, _) => {
                vec![gpu("one_warp", 1, 32), gpu("full", 2 * units, 1024)]
            }
        }
    }

    fn source(&self) -> DeviceSource {
        DeviceSource {
            name: "latency.cu",
            text: concat!(include_str!("../gpu/compat.h"), include_str!("../gpu/latency.cu")).to_owned(),
        }
    }

    fn launches(&self, _point: &Point, solution: &Solution, _device: &DeviceFacts) -> Vec<Launch> {
        let (blocks, threads) = parameter::grid(solution);
        vec![Launch { entry: "latency_empty".to_owned(), blocks, threads, arguments: Vec::new() }]
    }

    fn timing_mode(&self, point: &Point) -> Option<TimingMode> {
        Some(if point.kernel == GRAPH { TimingMode::Batched } else { TimingMode::Single })
    }

    /// There is no output to look at.
    fn reference(&self, _point: &Point, _pattern: DataPattern, _buffer: usize) -> Reference {
        Box::new(|_| Expected { value: 0.0, relative_tolerance: 0.0 })
    }
}
