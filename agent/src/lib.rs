//! The agent: one a node. It owns devices, drives them in worker processes, keeps what they measure until the
//! coordinator has it, and asks for more.
//!
//! Only this crate loads GPU libraries, and only child processes of it do.

pub mod agent;
pub mod assemble;
pub mod config;
pub mod device;
pub mod error;
pub mod harness;
pub mod identity;
mod runner;
mod session;
mod spool;
pub mod task;
pub mod telemetry;
#[cfg(test)]
mod testing;
pub mod worker;

pub use agent::{discover, run};
pub use config::AgentConfig;
pub use error::AgentError;
pub use runner::deadlines::Deadlines;
pub use spool::SpoolError;
