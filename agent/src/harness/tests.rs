//! The loop on a scripted device: what is called in which order, and what is said of it.

mod about;
mod batching;
mod bounds;
mod copies;
pub(crate) mod fake;
mod hooks;
mod limits;
mod loads;
mod memory;
mod outcomes;
mod pilot;
mod placement;
mod procedure;
mod resuming;
mod said;
mod settling;
mod solutions;
mod stopping;
