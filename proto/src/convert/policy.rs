//! Measuring policies. Every number is a legal one here; whether it is a sensible one, the plan's parser has checked.

use fleetcal_model::policy::MeasuringPolicy;

use crate::v1;

impl From<&MeasuringPolicy> for v1::MeasuringPolicy {
    fn from(policy: &MeasuringPolicy) -> Self {
        Self {
            rounds: policy.rounds,
            warmups: policy.warmups,
            samples_min: policy.samples_min,
            samples_max: policy.samples_max,
            noise_target: policy.noise_target,
            visit_ns_max: policy.visit_ns_max,
            screening_samples: policy.screening_samples,
            finalists: policy.finalists,
            validate_elements: policy.validate_elements,
            exit_on_error: policy.exit_on_error,
            task_ns_max: policy.task_ns_max,
        }
    }
}

impl From<v1::MeasuringPolicy> for MeasuringPolicy {
    fn from(wire: v1::MeasuringPolicy) -> Self {
        Self {
            rounds: wire.rounds,
            warmups: wire.warmups,
            samples_min: wire.samples_min,
            samples_max: wire.samples_max,
            noise_target: wire.noise_target,
            visit_ns_max: wire.visit_ns_max,
            screening_samples: wire.screening_samples,
            finalists: wire.finalists,
            validate_elements: wire.validate_elements,
            exit_on_error: wire.exit_on_error,
            task_ns_max: wire.task_ns_max,
        }
    }
}
