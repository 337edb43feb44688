//! The agent: one a node. It owns devices, drives them in worker processes, keeps what they measure until the
//! coordinator has it, and asks for more.
//!
//! Only this crate loads GPU libraries, and only child processes of it do.

pub mod assemble;
pub mod device;
pub mod harness;
pub mod identity;
pub mod task;
pub mod worker;
