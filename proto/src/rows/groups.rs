//! The columns of a row, group by group, in the order of the table. Meanings and units stand with the fields of
//! [`fleetcal_model::row`]; here is how each is stored.
//!
//! Whole numbers are 64-bit, members of closed vocabularies are their names, and what may be absent is nullable.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

/// Every group, under the name of its field in [`fleetcal_model::row::Row`].
pub(super) fn all() -> [(&'static str, Vec<Field>); 7] {
    [
        ("identity", identity()),
        ("device", device()),
        ("work", work()),
        ("counts", counts()),
        ("timing", timing()),
        ("conditions", conditions()),
        ("outcome", outcome()),
    ]
}

/// Which row this is, and of what: run, plan, task, attempt, epoch, agent, origin, role.
fn identity() -> Vec<Field> {
    vec![
        text("row_id"),
        text("content_hash"),
        text("run_id"),
        text("plan_digest"),
        text("task_id"),
        whole("attempt"),
        whole("lease_epoch"),
        text("agent_id"),
        text("agent_version"),
        text("origin"),
        text("role"),
    ]
}

/// On what it was measured: node, device, its class and that class's key, driver; the peer of a transfer.
fn device() -> Vec<Field> {
    vec![
        text("node"),
        text("host"),
        optional(text("rack")),
        text("device_uuid"),
        optional(text("pci_bdf")),
        text("class_id"),
        text("class_slug"),
        text("backend"),
        text("vendor"),
        text("device_name"),
        text("architecture"),
        whole("compute_units"),
        whole("memory_bytes"),
        optional(whole("last_level_cache_bytes")),
        optional(whole("nominal_memory_clock_khz")),
        optional(whole("nominal_core_clock_khz")),
        optional(whole("power_limit_mw")),
        optional(text("partition_mode")),
        optional(flag("ecc")),
        optional(whole("sockets")),
        optional(text("vbios")),
        optional(text("driver")),
        optional(text("runtime")),
        optional(text("peer_uuid")),
        optional(text("link")),
    ]
}

/// What ran: sweep, kernel, point, solution, digests of source and code. Common parameters have columns, the rest is
/// a map.
fn work() -> Vec<Field> {
    vec![
        text("sweep"),
        text("kernel"),
        text("point"),
        text("solution"),
        optional(text("source_digest")),
        optional(text("code_digest")),
        optional(text("compile_options")),
        text("dtype"),
        optional(whole("elements")),
        optional(whole("m")),
        optional(whole("n")),
        optional(whole("k")),
        optional(whole("vector_width")),
        optional(whole("vectors_per_thread")),
        optional(whole("block_threads")),
        map("parameters"),
        text("data_pattern"),
        optional(text("label")),
    ]
}

/// What one launch moves and computes, and per leg whether that is exact.
fn counts() -> Vec<Field> {
    vec![
        whole("bytes_read"),
        whole("bytes_written"),
        whole("bytes_distinct"),
        whole("bytes_requested"),
        optional(whole("working_set_bytes")),
        whole("flops"),
        whole("scalar_ops"),
        whole("tensor_ops"),
        flag("bytes_exact"),
        flag("ops_exact"),
        flag("opaque"),
        whole("kernels"),
        list("launch_contexts", vec![whole("blocks"), whole("threads"), whole("operations")]),
    ]
}

/// How long it took: every sample, every round, how both were taken, the instrument, and the estimate with its
/// interval.
fn timing() -> Vec<Field> {
    vec![
        list(
            "samples",
            vec![
                whole("ns"),
                whole("round"),
                whole("start_ns"),
                flag("accepted"),
                optional(whole("throttle_bits")),
                optional(whole("clock_khz")),
            ],
        ),
        list(
            "rounds",
            vec![
                whole("round"),
                whole("order"),
                whole("buffer_offset_bytes"),
                real("median_ns"),
                real("mad_ns"),
                whole("samples"),
                text("stop_reason"),
            ],
        ),
        whole("rounds_planned"),
        optional(whole("pilot_rounds")),
        whole("rounds_done"),
        whole("warmups"),
        text("timing_mode"),
        whole("enqueues_per_sample"),
        text("flush_mode"),
        whole("flush_bytes"),
        text("clock_source"),
        optional(real("clock_resolution_ns")),
        optional(real("clock_overhead_ns")),
        optional(real("empty_launch_ns")),
        optional(real("estimate_ns")),
        optional(real("interval_low_ns")),
        optional(real("interval_high_ns")),
        text("interval_method"),
        optional(real("interval_target")),
        optional(flag("converged")),
        optional(flag("bimodal")),
        whole("samples_discarded"),
    ]
}

/// The state of device and host during the samples. Null is unknown.
fn conditions() -> Vec<Field> {
    vec![
        optional(whole("core_clock_khz")),
        optional(whole("memory_clock_khz")),
        optional(whole("power_mw")),
        optional(signed("temperature_mc")),
        optional(signed("hot_spot_mc")),
        optional(signed("memory_temperature_mc")),
        optional(whole("fan_percent")),
        optional(whole("throttle_reasons")),
        optional(whole("ecc_corrected")),
        optional(whole("ecc_uncorrected")),
        optional(whole("rows_remapped")),
        optional(text("neighbours")),
        optional(text("load")),
        optional(whole("co_running_devices")),
        optional(whole("foreign_processes")),
        optional(text("monitor_source")),
        whole("monitor_samples"),
        optional(real("host_load")),
        optional(real("host_steal")),
    ]
}

/// How it ended, what was checked, what the model in force had said, and when.
fn outcome() -> Vec<Field> {
    vec![
        text("status"),
        optional(text("reason")),
        whole("validated_elements"),
        text("bounds_check"),
        optional(real("max_error")),
        optional(whole("max_error_index")),
        optional(real("predicted_score_ns")),
        optional(real("predicted_bound_ns")),
        whole("started_utc_ns"),
        whole("ended_utc_ns"),
    ]
}

fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

fn whole(name: &str) -> Field {
    Field::new(name, DataType::UInt64, false)
}

fn signed(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

fn real(name: &str) -> Field {
    Field::new(name, DataType::Float64, false)
}

fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, false)
}

fn optional(field: Field) -> Field {
    field.with_nullable(true)
}

/// A list of structs. `element` is the name that the Parquet format wants for what is inside.
fn list(name: &str, members: Vec<Field>) -> Field {
    Field::new(name, DataType::List(Arc::new(Field::new_struct("element", members, false))), false)
}

/// A map of texts, with the names that the Parquet format wants for what is inside.
fn map(name: &str) -> Field {
    let entry = Fields::from(vec![text("key"), text("value")]);
    Field::new(name, DataType::Map(Arc::new(Field::new("key_value", DataType::Struct(entry), false)), false), false)
}
