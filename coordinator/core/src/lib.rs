//! What the coordinator decides: plans, tasks, leases. Sans-IO: time and events come in, actions go out.
//!
//! Deliberately absent: clocks, threads, sockets, files, random numbers, and maps whose order differs from run to run.

pub mod action;
pub mod event;
