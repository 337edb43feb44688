//! Worker processes: a hung or poisoned device context costs one of them, never the agent.

pub mod message;
