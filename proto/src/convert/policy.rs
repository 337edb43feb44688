//! Measuring policies. Every number is a legal one here; whether it is a sensible one, the plan's parser has checked.

use fleetcal_model::policy::MeasuringPolicy;

use super::{ConvertError, name};
use crate::v1;

impl From<&MeasuringPolicy> for v1::MeasuringPolicy {
    fn from(policy: &MeasuringPolicy) -> Self {
        Self {
            rounds: policy.rounds,
            rounds_max: policy.rounds_max,
            interval_target: policy.interval_target,
            warmups: policy.warmups,
            samples_min: policy.samples_min,
            samples_max: policy.samples_max,
            stop: policy.stop.name().to_owned(),
            noise_target: policy.noise_target,
            visit_ns_max: policy.visit_ns_max,
            caches: policy.caches.name().to_owned(),
            batching: policy.batching.name().to_owned(),
            solutions: policy.solutions.name().to_owned(),
            screening_samples: policy.screening_samples,
            finalists: policy.finalists,
            data: policy.data.name().to_owned(),
            validate_elements: policy.validate_elements,
            bounds: policy.bounds.name().to_owned(),
            exit_on_error: policy.exit_on_error,
            load: policy.load.map(|load| load.name().to_owned()),
            load_ns: policy.load_ns,
            monitor: policy.monitor,
            settle_ns_max: policy.settle_ns_max,
            task_ns_max: policy.task_ns_max,
        }
    }
}

impl TryFrom<v1::MeasuringPolicy> for MeasuringPolicy {
    type Error = ConvertError;

    fn try_from(wire: v1::MeasuringPolicy) -> Result<Self, ConvertError> {
        Ok(Self {
            rounds: wire.rounds,
            rounds_max: wire.rounds_max,
            interval_target: wire.interval_target,
            warmups: wire.warmups,
            samples_min: wire.samples_min,
            samples_max: wire.samples_max,
            stop: name(&wire.stop, "MeasuringPolicy.stop")?,
            noise_target: wire.noise_target,
            visit_ns_max: wire.visit_ns_max,
            caches: name(&wire.caches, "MeasuringPolicy.caches")?,
            batching: name(&wire.batching, "MeasuringPolicy.batching")?,
            solutions: name(&wire.solutions, "MeasuringPolicy.solutions")?,
            screening_samples: wire.screening_samples,
            finalists: wire.finalists,
            data: name(&wire.data, "MeasuringPolicy.data")?,
            validate_elements: wire.validate_elements,
            bounds: name(&wire.bounds, "MeasuringPolicy.bounds")?,
            exit_on_error: wire.exit_on_error,
            load: wire.load.map(|load| name(&load, "MeasuringPolicy.load")).transpose()?,
            load_ns: wire.load_ns,
            monitor: wire.monitor,
            settle_ns_max: wire.settle_ns_max,
            task_ns_max: wire.task_ns_max,
        })
    }
}
