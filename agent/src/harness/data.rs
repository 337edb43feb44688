//! Listener: memory of a round, random inputs, poisoned outputs.

use fleetcal_kernels::BufferSpec;

use super::arena::slot_bytes;
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::order::RoundRandom;
use super::set_up::give_up_largest;
use crate::device::{Device, DeviceError};

/// Allocates at the start of a round, fills inputs once they are first wanted, poisons outputs before each visit.
#[derive(Debug)]
pub(super) struct DataInitialisation;

impl<D: Device> Listener<D> for DataInitialisation {
    fn name(&self) -> &'static str {
        "data initialisation"
    }

    /// Fresh buffers at a new offset. Where memory that was free at first is gone, the largest points are given up.
    fn pre_round(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let started_ns = bench.setting.clock.monotonic_ns();
        let offset_bytes = {
            let restarts = bench.setting.resume.restarts;
            RoundRandom::offset_bytes(bench.setting.task.seed, bench.position.round, restarts)
        };
        loop {
            let wanted = (0..bench.points.len()).filter(|&point| !bench.wanted_of(point).is_empty());
            let slots = slot_bytes(wanted.map(|point| bench.points[point].buffers.as_slice()));
            match bench.arena.renew(bench.device, &slots, offset_bytes) {
                Err(error @ DeviceError::OutOfMemory { .. }) if give_up_largest(bench, &error)? => {}
                outcome => {
                    bench.round_ns = bench.since_ns(started_ns);
                    return Ok(outcome?);
                }
            }
        }
    }

    /// Fills inputs, for all points at once that want the same data.
    fn pre_problem(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let started_ns = bench.setting.clock.monotonic_ns();
        let points = &bench.points;
        let elements_wanted = |spec: &BufferSpec| {
            let same = |other: &&BufferSpec| other.role == spec.role && other.dtype == spec.dtype;
            points.iter().flat_map(|work| &work.buffers).filter(same).map(|other| other.elements).max().unwrap_or(0)
        };
        let pattern = bench.setting.task.policy.data;
        bench.arena.fill(bench.device, &points[bench.position.point].buffers, pattern, elements_wanted)?;
        bench.round_ns += bench.since_ns(started_ns);
        Ok(())
    }

    fn pre_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        bench.poison_outputs()
    }
}
