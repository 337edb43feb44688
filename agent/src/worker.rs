//! Worker processes: a hung or poisoned device context costs one of them, never the agent.
//!
//! [`child`] is the process itself, [`supervisor`] the agent's hold on it. They talk in length-prefixed JSON ([`frame`],
//! [`message`], [`resume`]) over the child's standard input and output.

pub mod child;
pub mod frame;
pub mod lock;
pub mod message;
pub mod resume;
pub mod supervisor;

pub use child::worker_main;
pub use supervisor::{Worker, WorkerError};
