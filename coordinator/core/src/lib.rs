//! What the coordinator decides: plans, tasks, leases. Sans-IO: time and events come in, actions go out.
//!
//! - [`plan`] reads plans, and says what they come to: tasks, notes, cost.
//! - [`core`] is the scheduler: [`core::Core::step`] takes an [`event::Event`] and answers with [`action::Action`]s.
//! - [`invariant`] states what always holds, and checks it.
//!
//! Deliberately absent: clocks, threads, sockets, files, random numbers, and maps whose order differs from run to run.

pub mod action;
pub mod core;
pub mod event;
pub mod invariant;
pub mod plan;
