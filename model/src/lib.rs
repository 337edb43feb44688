//! The part of fleetcal that others embed: units, rows, estimates, fits and the constants document.
//!
//! Everything here is pure: rows in, typed outcomes out. No IO, no clock, no randomness, and the same bytes on any
//! machine (transcendental functions come from `libm`, sums have a fixed order). A compiler or a scheduler links this
//! crate alone to predict times from published constants.
//!
//! What is deliberately absent: device libraries, Arrow, Parquet, gRPC. The Arrow schema of a row is owned by
//! `fleetcal-proto`; this crate owns what a row *means*.

pub mod compare;
pub mod constants;
pub mod device;
pub mod digest;
pub mod estimate;
pub mod explain;
pub mod fit;
pub mod held_out;
pub mod id;
pub mod import;
pub mod machine;
pub mod modes;
pub mod pilot;
pub mod point;
pub mod policy;
pub mod row;
pub mod score;
pub mod seed;
pub mod selection;
pub mod statistics;
#[cfg(any(test, feature = "testing"))]
#[cfg_attr(not(test), allow(dead_code, reason = "unit tests use more of it than simulations do"))]
pub mod testing;
pub mod throttle;
pub mod units;
