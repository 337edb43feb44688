//! Both contracts of fleetcal, and nothing else: the gRPC protocol `fleetcal.v1`, and the one Arrow schema of a row.
//!
//! - [`v1`] is generated from `fleetcal/v1/*.proto`. Wire types stop in [`convert`]: the rest of fleetcal works with
//!   the types of `fleetcal-model`.
//! - [`version`] chooses the protocol version that two sides speak, [`status`] carries kinds of errors across, and
//!   [`auth`] is asked on every call.
//! - [`rows`] owns the schema of a row, and how rows travel as Arrow IPC.
//!
//! Deliberately absent: Parquet (the coordinator's), clocks, and any decision about runs, tasks or leases.

pub mod auth;
pub mod convert;
pub mod rows;
pub mod status;
#[cfg(any(test, feature = "testing"))]
#[doc(hidden)]
pub mod testing;
pub mod version;

/// The generated messages and services. Documented in `fleetcal/v1/*.proto`, whose comments they carry.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]
pub mod v1 {
    tonic::include_proto!("fleetcal.v1");
}

/// The compiled protocol, as an encoded `google.protobuf.FileDescriptorSet`: for reflection, and for the test that a
/// field number never changes its meaning.
pub const DESCRIPTOR_SET: &[u8] = tonic::include_file_descriptor_set!("fleetcal_descriptor");
