//! A row before its visits: everything known of it that no visit changes.

use std::collections::BTreeMap;

use fleetcal_kernels::parameter;
use fleetcal_model::device::DeviceFacts;
use fleetcal_model::estimate::row_id;
use fleetcal_model::id::AgentId;
use fleetcal_model::point::{Point, Solution};
use fleetcal_model::row::{
    Conditions, Counts, DeviceColumns, Identity, IntervalMethod, Origin, Outcome, Role, Row, Status, Timing,
    TimingMode, Work,
};

use super::Setting;
use super::flush::Flush;
use crate::device::{Instrument, Prepared};
use crate::worker::message::RowLabels;

/// The condition of a device whose neighbours on the node are not measured.
pub(crate) const ALONE: &str = "alone";

/// What a row is made of.
pub struct RowSource<'a> {
    /// Task and labels.
    pub setting: Setting<'a>,
    /// The device.
    pub facts: &'a DeviceFacts,
    /// Whether its times are real.
    pub origin: Origin,
    /// Its clock.
    pub clock_source: &'static str,
    /// Its instrument.
    pub instrument: &'a Instrument,
    /// The point.
    pub point: &'a Point,
    /// The solution.
    pub solution: &'a Solution,
    /// What is done about caches.
    pub flush: Flush,
    /// What one launch moves and computes.
    pub counts: Counts,
    /// Measuring rounds planned.
    pub rounds_planned: u64,
}

impl RowSource<'_> {
    /// The row. Its status is `skipped` until a verdict is applied.
    pub fn template<Program>(self, prepared: Option<&Prepared<Program>>) -> Row {
        let identity = self.identity();
        let device = device_columns(self.facts, self.setting.labels);
        let work = self.work(prepared);
        let timing = self.timing();
        let conditions = self.conditions();
        let outcome = Outcome {
            status: Status::Skipped,
            reason: None,
            validated_elements: 0,
            bounds_check: self.setting.task.policy.bounds,
            max_error: None,
            max_error_index: None,
            predicted_score_ns: None,
            predicted_bound_ns: None,
            started_utc_ns: 0,
            ended_utc_ns: 0,
        };
        Row { identity, device, work, counts: self.counts, timing, conditions, outcome }
    }

    /// What is known before anything is measured. Foreign processes are unknown here, and so is whether neighbours are
    /// busy where the coordinator does not see to it that none is; unknown is not none.
    fn conditions(&self) -> Conditions {
        let alone = self.setting.task.alone_on_node;
        Conditions {
            neighbours: alone.then(|| ALONE.to_owned()),
            co_running_devices: alone.then_some(0),
            load: self.setting.task.policy.load.map(|load| load.name().to_owned()),
            ..Conditions::default()
        }
    }

    fn identity(&self) -> Identity {
        let task = self.setting.task;
        Identity {
            row_id: row_id(&task.task_id, task.attempt, &self.facts.uuid, self.point, self.solution),
            content_hash: String::new(),
            run_id: task.run_id.clone(),
            plan_digest: task.plan_digest.clone(),
            task_id: task.task_id.clone(),
            attempt: task.attempt,
            lease_epoch: task.epoch,
            agent_id: AgentId::new(&self.setting.labels.agent_id),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            origin: self.origin,
            role: Role::Fit,
        }
    }

    fn work<Program>(&self, prepared: Option<&Prepared<Program>>) -> Work {
        let (mut sizes, mut parameters) = (self.point.sizes.clone(), self.solution.parameters.clone());
        let (elements, m, n, k) = (sizes.remove("elements"), sizes.remove("m"), sizes.remove("n"), sizes.remove("k"));
        let vector_width = parameters.remove(parameter::VECTOR_WIDTH);
        let vectors_per_thread = parameters.remove(parameter::VECTORS_PER_THREAD);
        let block_threads = parameters.remove(parameter::BLOCK);
        let others: BTreeMap<String, String> =
            sizes.into_iter().chain(parameters).map(|(name, value)| (name, value.to_string())).collect();
        Work {
            sweep: self.point.sweep,
            kernel: self.point.kernel.clone(),
            point: self.point.to_string(),
            solution: self.solution.name.clone(),
            source_digest: prepared.and_then(|prepared| prepared.source_digest.clone()),
            code_digest: prepared.and_then(|prepared| prepared.code_digest.clone()),
            compile_options: prepared.and_then(|prepared| prepared.compile_options.clone()),
            dtype: self.point.dtype,
            elements,
            m,
            n,
            k,
            vector_width,
            vectors_per_thread,
            block_threads,
            parameters: others,
            data_pattern: self.setting.task.policy.data.name().to_owned(),
            label: self.setting.task.label.clone(),
        }
    }

    fn timing(&self) -> Timing {
        Timing {
            samples: Vec::new(),
            rounds: Vec::new(),
            rounds_planned: self.rounds_planned,
            pilot_rounds: None,
            rounds_done: 0,
            warmups: self.setting.task.policy.warmups,
            timing_mode: TimingMode::Single,
            enqueues_per_sample: 1,
            flush_mode: self.flush.mode,
            flush_bytes: self.flush.bytes.unwrap_or(0),
            clock_source: self.clock_source.to_owned(),
            clock_resolution_ns: Some(self.instrument.clock_resolution_ns),
            clock_overhead_ns: Some(self.instrument.clock_overhead_ns),
            empty_launch_ns: Some(self.instrument.empty_launch_ns),
            estimate_ns: None,
            interval_low_ns: None,
            interval_high_ns: None,
            interval_method: IntervalMethod::TooFewRounds,
            interval_target: Some(self.setting.task.policy.interval_target),
            converged: None,
            bimodal: None,
            samples_discarded: 0,
        }
    }
}

/// The group `device` of a row.
pub fn device_columns(facts: &DeviceFacts, labels: &RowLabels) -> DeviceColumns {
    let class = facts.class_key();
    DeviceColumns {
        node: labels.node.clone(),
        host: labels.host.clone(),
        rack: labels.rack.clone(),
        device_uuid: facts.uuid.clone(),
        pci_bdf: facts.pci_bdf.clone(),
        class_id: class.id(),
        class_slug: class.slug(),
        backend: facts.backend.name().to_owned(),
        vendor: facts.vendor.clone(),
        device_name: facts.name.clone(),
        architecture: facts.architecture.clone(),
        compute_units: facts.compute_units,
        memory_bytes: facts.memory_bytes,
        last_level_cache_bytes: facts.last_level_cache_bytes,
        nominal_memory_clock_khz: facts.memory_clock_khz,
        nominal_core_clock_khz: facts.core_clock_khz,
        power_limit_mw: facts.power_limit_mw,
        partition_mode: facts.partition_mode.clone(),
        ecc: facts.ecc,
        sockets: facts.sockets,
        vbios: facts.vbios.clone(),
        driver: facts.driver.clone(),
        runtime: facts.runtime.clone(),
        peer_uuid: None,
        link: None,
    }
}
