//! Arbitrary rows, for property tests here and in the crates that store rows.

use fleetcal_model::id::{AgentId, ClassId, DeviceId, RowId, RunId, TaskId};
use fleetcal_model::point::{Dtype, Sweep};
use fleetcal_model::policy::BoundsCheck;
use fleetcal_model::row::{
    Conditions, Counts, DeviceColumns, FlushMode, Identity, IntervalMethod, LaunchContext, Origin, Outcome, Role,
    Round, Row, Sample, Status, StopReason, Timing, TimingMode, Work,
};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::{Strategy, any};
use proptest::sample::select;

/// Any row at all: every column present, absent, empty, extreme. Floating-point values are finite or infinite, never
/// NaN, so that rows can be compared.
pub fn arbitrary_row() -> impl Strategy<Value = Row> {
    (identity(), device(), work(), counts(), timing(), conditions(), outcome()).prop_map(
        |(identity, device, work, counts, timing, conditions, outcome)| Row {
            identity,
            device,
            work,
            counts,
            timing,
            conditions,
            outcome,
        },
    )
}

/// Letters of several lengths in UTF-8, empty texts included.
fn text() -> impl Strategy<Value = String> {
    "[a-z0-9µ€𝄞 _./=-]{0,12}"
}

fn maybe_text() -> impl Strategy<Value = Option<String>> {
    option::of(text())
}

fn maybe_whole() -> impl Strategy<Value = Option<u64>> {
    option::of(any::<u64>())
}

fn real() -> impl Strategy<Value = f64> {
    proptest::num::f64::POSITIVE
        | proptest::num::f64::NEGATIVE
        | proptest::num::f64::NORMAL
        | proptest::num::f64::SUBNORMAL
        | proptest::num::f64::ZERO
        | proptest::num::f64::INFINITE
}

fn maybe_real() -> impl Strategy<Value = Option<f64>> {
    option::of(real())
}

fn identity() -> impl Strategy<Value = Identity> {
    let texts = proptest::array::uniform8(text());
    let members = (select(Origin::ALL), select(Role::ALL));
    (texts, any::<(u64, u64)>(), members).prop_map(|(texts, (attempt, lease_epoch), (origin, role))| {
        let [row_id, content_hash, run_id, plan_digest, task_id, agent_id, agent_version, _] = texts;
        Identity {
            row_id: RowId::new(row_id),
            content_hash,
            run_id: RunId::new(run_id),
            plan_digest,
            task_id: TaskId::new(task_id),
            attempt,
            lease_epoch,
            agent_id: AgentId::new(agent_id),
            agent_version,
            origin,
            role,
        }
    })
}

fn device() -> impl Strategy<Value = DeviceColumns> {
    let texts = proptest::array::uniform9(text());
    let maybe_texts = proptest::array::uniform8(maybe_text());
    let wholes = proptest::array::uniform5(maybe_whole());
    (texts, maybe_texts, any::<(u64, u64)>(), wholes, any::<Option<bool>>()).prop_map(
        |(texts, maybe_texts, (compute_units, memory_bytes), wholes, ecc)| {
            let [node, host, device_uuid, class_id, class_slug, backend, vendor, device_name, architecture] = texts;
            let [rack, pci_bdf, partition_mode, vbios, driver, runtime, peer_uuid, link] = maybe_texts;
            let [last_level_cache_bytes, nominal_memory_clock_khz, nominal_core_clock_khz, power_limit_mw, sockets] =
                wholes;
            DeviceColumns {
                node,
                host,
                rack,
                device_uuid: DeviceId::new(device_uuid),
                pci_bdf,
                class_id: ClassId::new(class_id),
                class_slug,
                backend,
                vendor,
                device_name,
                architecture,
                compute_units,
                memory_bytes,
                last_level_cache_bytes,
                nominal_memory_clock_khz,
                nominal_core_clock_khz,
                power_limit_mw,
                partition_mode,
                ecc,
                sockets,
                vbios,
                driver,
                runtime,
                peer_uuid: peer_uuid.map(DeviceId::new),
                link,
            }
        },
    )
}

fn work() -> impl Strategy<Value = Work> {
    let texts = proptest::array::uniform4(text());
    let maybe_texts = proptest::array::uniform4(maybe_text());
    let wholes = proptest::array::uniform7(maybe_whole());
    let parameters = btree_map(text(), text(), 0..4);
    (texts, maybe_texts, wholes, parameters, select(Sweep::ALL), select(Dtype::ALL)).prop_map(
        |(texts, maybe_texts, wholes, parameters, sweep, dtype)| {
            let [kernel, point, solution, data_pattern] = texts;
            let [source_digest, code_digest, compile_options, label] = maybe_texts;
            let [elements, m, n, k, vector_width, vectors_per_thread, block_threads] = wholes;
            Work {
                sweep,
                kernel,
                point,
                solution,
                source_digest,
                code_digest,
                compile_options,
                dtype,
                elements,
                m,
                n,
                k,
                vector_width,
                vectors_per_thread,
                block_threads,
                parameters,
                data_pattern,
                label,
            }
        },
    )
}

fn counts() -> impl Strategy<Value = Counts> {
    let wholes = any::<[u64; 8]>();
    let contexts = vec(any::<[u64; 3]>(), 0..3);
    (wholes, maybe_whole(), any::<[bool; 3]>(), contexts).prop_map(|(wholes, working_set_bytes, flags, contexts)| {
        let [bytes_read, bytes_written, bytes_distinct, bytes_requested, flops, scalar_ops, tensor_ops, kernels] =
            wholes;
        let [bytes_exact, ops_exact, opaque] = flags;
        let context = |[blocks, threads, operations]: [u64; 3]| LaunchContext { blocks, threads, operations };
        Counts {
            bytes_read,
            bytes_written,
            bytes_distinct,
            bytes_requested,
            working_set_bytes,
            flops,
            scalar_ops,
            tensor_ops,
            bytes_exact,
            ops_exact,
            opaque,
            kernels,
            launch_contexts: contexts.into_iter().map(context).collect(),
        }
    })
}

fn sample() -> impl Strategy<Value = Sample> {
    (any::<[u64; 3]>(), any::<bool>(), maybe_whole(), maybe_whole()).prop_map(
        |([ns, round, start_ns], accepted, throttle_bits, clock_khz)| Sample {
            ns,
            round,
            start_ns,
            accepted,
            throttle_bits,
            clock_khz,
        },
    )
}

fn round() -> impl Strategy<Value = Round> {
    (any::<[u64; 4]>(), real(), real(), select(StopReason::ALL)).prop_map(
        |([round, order, buffer_offset_bytes, samples], median_ns, mad_ns, stop_reason)| Round {
            round,
            order,
            buffer_offset_bytes,
            median_ns,
            mad_ns,
            samples,
            stop_reason,
        },
    )
}

fn timing() -> impl Strategy<Value = Timing> {
    let members = (select(FlushMode::ALL), select(IntervalMethod::ALL), select(TimingMode::ALL));
    let reals = proptest::array::uniform7(maybe_real());
    let flags = (any::<[Option<bool>; 2]>(), maybe_whole());
    (vec(sample(), 0..6), vec(round(), 0..4), any::<[u64; 6]>(), members, text(), reals, flags).prop_map(
        |(samples, rounds, wholes, (flush_mode, interval_method, timing_mode), clock_source, reals, flags)| {
            let [rounds_planned, rounds_done, warmups, enqueues_per_sample, flush_bytes, samples_discarded] = wholes;
            let [clock_resolution_ns, clock_overhead_ns, empty_launch_ns, estimate_ns, low, high, interval_target] =
                reals;
            let ([converged, bimodal], pilot_rounds) = flags;
            Timing {
                samples,
                rounds,
                rounds_planned,
                pilot_rounds,
                rounds_done,
                warmups,
                timing_mode,
                enqueues_per_sample,
                flush_mode,
                flush_bytes,
                clock_source,
                clock_resolution_ns,
                clock_overhead_ns,
                empty_launch_ns,
                estimate_ns,
                interval_low_ns: low,
                interval_high_ns: high,
                interval_method,
                interval_target,
                converged,
                bimodal,
                samples_discarded,
            }
        },
    )
}

fn conditions() -> impl Strategy<Value = Conditions> {
    let wholes = proptest::array::uniform10(maybe_whole());
    let signed = any::<[Option<i64>; 3]>();
    let texts = proptest::array::uniform3(maybe_text());
    (wholes, signed, texts, any::<u64>(), maybe_real(), maybe_real()).prop_map(
        |(wholes, signed, [neighbours, load, monitor_source], monitor_samples, host_load, host_steal)| {
            let [core, memory, power, reasons, corrected, uncorrected, co_running, foreign, fan, remapped] = wholes;
            let [temperature_mc, hot_spot_mc, memory_temperature_mc] = signed;
            Conditions {
                core_clock_khz: core,
                memory_clock_khz: memory,
                power_mw: power,
                temperature_mc,
                hot_spot_mc,
                memory_temperature_mc,
                fan_percent: fan,
                throttle_reasons: reasons,
                ecc_corrected: corrected,
                ecc_uncorrected: uncorrected,
                rows_remapped: remapped,
                neighbours,
                load,
                co_running_devices: co_running,
                foreign_processes: foreign,
                monitor_source,
                monitor_samples,
                host_load,
                host_steal,
            }
        },
    )
}

fn outcome() -> impl Strategy<Value = Outcome> {
    let reals = proptest::array::uniform3(maybe_real());
    let members = (select(Status::ALL), select(BoundsCheck::ALL));
    (members, maybe_text(), any::<[u64; 3]>(), reals, maybe_whole()).prop_map(
        |((status, bounds_check), reason, wholes, reals, max_error_index)| {
            let [validated_elements, started_utc_ns, ended_utc_ns] = wholes;
            let [max_error, predicted_score_ns, predicted_bound_ns] = reals;
            Outcome {
                status,
                reason,
                validated_elements,
                bounds_check,
                max_error,
                max_error_index,
                predicted_score_ns,
                predicted_bound_ns,
                started_utc_ns,
                ended_utc_ns,
            }
        },
    )
}
