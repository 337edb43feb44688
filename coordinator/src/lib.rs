//! The shell around `fleetcal-core`: gRPC in, the journal, Parquet parts, fits and published constants out.
//!
//! The core decides and this crate does. One task owns the core (`driver`); it is the only place where events meet
//! time, and it makes durable what must be durable before anything that depends on it is done. Rows take another way
//! (`ingest`): they are never looked at one by one, a group of chunks becomes one Parquet part, and only the record
//! "these chunks are in this part" passes through the driver.
//!
//! A data folder belongs to one coordinator at a time:
//!
//! ```text
//! DATA/lock              held while a coordinator runs
//! DATA/journal.sqlite    durable events, chunks and parts
//! DATA/rows/RUN/*.parquet
//! DATA/orphans/          parts that the journal does not name: never deleted, never read
//! DATA/constants/        published documents, and those of each run under runs/
//! ```

pub mod clock;
pub mod config;
mod constants;
mod convert;
mod driver;
mod error;
pub mod folder;
mod ingest;
pub mod journal;
pub mod rows;
mod rpc;
mod selection;
mod server;
mod views;
mod watch;

pub use config::CoordinatorConfig;
pub use constants::{RunConstants, fit_folder};
pub use error::CoordinatorError;
pub use server::Coordinator;
