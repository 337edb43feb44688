//! Listener: memory of a round, random inputs, poisoned outputs.

use super::arena::{Guards, slot_bytes};
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
        let guards = Guards::of(bench.setting.task.policy.bounds);
        loop {
            let wanted = (0..bench.points.len()).filter(|&point| !bench.wanted_of(point).is_empty());
            let slots = slot_bytes(wanted.map(|point| bench.points[point].buffers.as_slice()));
            match bench.arena.renew(bench.device, &slots, offset_bytes, guards) {
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
