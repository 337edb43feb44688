//! Listener: memory of a round, random inputs, poisoned outputs.

use fleetcal_model::row::Origin;

use super::arena::{Arena, Guards, Placement, allocated_bytes, slot_bytes};
use super::bench::Bench;
use super::listener::{HookResult, Listener};
use super::order::RoundRandom;
use super::set_up::give_up_largest;
use crate::device::{Device, DeviceError};

/// Fresh buffers are displaced by less than this, bytes: many times the caches, a fraction of the memory.
const DISPLACEMENT_BYTES_MAX: u64 = 4 << 30;

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
        let (seed, round) = (bench.setting.task.seed, bench.position.round);
        let restarts = bench.setting.resume.restarts;
        let offset_bytes = RoundRandom::offset_bytes(seed, round, restarts);
        // Those of the round before are given back first, so that they count as free.
        bench.arena = Arena::default();
        let memory_bytes = bench.device.memory_available_bytes()?;
        let guards = Guards::of(bench.setting.task.policy.bounds);
        loop {
            let wanted = (0..bench.points.len()).filter(|&point| !bench.wanted_of(point).is_empty());
            let slots = slot_bytes(wanted.map(|point| bench.points[point].buffers.as_slice()));
            let spare_bytes = memory_bytes.saturating_sub(allocated_bytes(&slots, guards));
            // A simulated device has no pages.
            let has_pages = bench.device.origin() == Origin::Measured;
            let most_bytes = if has_pages { DISPLACEMENT_BYTES_MAX.min(spare_bytes / 2) } else { 0 };
            let displacement_bytes = RoundRandom::displacement_bytes(seed, round, restarts, most_bytes);
            let placement = Placement { offset_bytes, displacement_bytes };
            match bench.arena.renew(bench.device, &slots, placement, guards) {
                Err(error @ DeviceError::OutOfMemory { .. }) if give_up_largest(bench, &error)? => {}
                outcome => {
                    bench.round_ns = bench.since_ns(started_ns);
                    return Ok(outcome?);
                }
            }
        }
    }

    fn pre_problem(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        let started_ns = bench.setting.clock.monotonic_ns();
        bench.fill_inputs()?;
        bench.round_ns += bench.since_ns(started_ns);
        Ok(())
    }

    /// Inputs are filled again where the solution before was wrong, and may have spoilt them.
    fn pre_visit(&mut self, bench: &mut Bench<'_, D>) -> HookResult {
        bench.fill_inputs()?;
        bench.poison_outputs()
    }
}
