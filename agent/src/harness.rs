//! The measuring loop: one task on one device, generic over [`Device`].
//!
//! The shape is that of the Tensile tuning client: rounds > problems (points) > solutions > visits > warm-ups, syncs,
//! enqueues, with listeners around every level. Listeners are asked for counts (the largest wins and is broadcast) and
//! whether more is needed (all are asked, any yes wins); `pre_*` hooks run in order of registration,
//! `post_*` hooks in reverse; nothing is called while a timed interval runs. What is measured, validated and published
//! is one [`record::Record`] a (point, solution), so that a result can never be seen before its verdict.
//!
//! The procedure of a task: drop points that cannot be measured; compile every solution; wait until the device is quiet,
//! if it was not meanwhile; measure the instrument; screen solutions in round 0 where a point has several; then visit the best few of every point in rounds of their
//! own, with fresh buffers and a new order each.

use std::sync::atomic::AtomicBool;

use fleetcal_kernels::Family;
use fleetcal_model::point::Sweep;

use crate::device::{Device, DeviceError};
use crate::task::TaskSpec;
use crate::worker::lock::LockError;
use crate::worker::message::{Event, RowLabels};
use crate::worker::resume::Resume;

pub mod arena;
mod batching;
pub mod bench;
mod bounds;
pub mod budget;
pub mod clock;
mod data;
pub mod flush;
pub mod listener;
pub(crate) mod load;
mod look;
pub mod monitor;
pub mod order;
mod progress;
pub mod record;
mod reporter;
mod resume;
mod rounds;
mod selector;
mod set_up;
mod settle;
mod solutions;
pub mod stop;
pub mod template;
mod timer;
mod validator;
pub mod zones;

#[cfg(test)]
pub(crate) mod tests;

use bench::Bench;
use clock::Clock;
use listener::Listeners;

/// Where the harness says what happens.
pub trait Sink {
    /// Takes one event.
    ///
    /// # Errors
    /// Nobody listens any more.
    fn event(&mut self, event: Event) -> std::io::Result<()>;
}

impl Sink for Vec<Event> {
    fn event(&mut self, event: Event) -> std::io::Result<()> {
        self.push(event);
        Ok(())
    }
}

/// Why a task could not be measured to its end.
#[derive(Debug, thiserror::Error)]
pub enum HarnessError {
    /// The sweep has no kernels in this version.
    #[error("the sweep `{sweep}` cannot be measured by this version of the agent; update the agent")]
    NoFamily {
        /// The sweep.
        sweep: Sweep,
    },
    /// The task wants another number of devices than one.
    #[error("a task on {count} devices was given, this version of the agent measures one at a time; update the agent")]
    Devices {
        /// How many.
        count: usize,
    },
    /// The device cannot be had for this process alone.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The device failed in a way that concerns more than one solution.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A solution failed and the plan wants the task to end then.
    #[error("{solution} on {point} failed, and the plan says exit_on_error: {reason}")]
    FailedSolution {
        /// The solution.
        solution: String,
        /// The point.
        point: String,
        /// What was wrong with it.
        reason: String,
    },
    /// Somebody else works on the device.
    #[error("the device is busy with {processes} other processes: {who}; try again when they are done")]
    Busy {
        /// How many.
        processes: usize,
        /// Their names.
        who: String,
    },
    /// Somebody stopped the task.
    #[error("the task was stopped before its end")]
    Interrupted,
    /// The agent is gone.
    #[error("nobody listens to the worker any more: {0}")]
    Sink(#[from] std::io::Error),
}

impl HarnessError {
    /// Whether another try, here or on a twin, may help. A lock folder or a library that is amiss is this node's alone.
    pub fn retry_may_help(&self) -> bool {
        match self {
            Self::NoFamily { .. } | Self::Devices { .. } | Self::FailedSolution { .. } => false,
            Self::Lock(_) | Self::Device(_) | Self::Busy { .. } | Self::Interrupted | Self::Sink(_) => true,
        }
    }
}

/// What surrounds a task.
#[derive(Clone, Copy)]
pub struct Setting<'a> {
    /// The task.
    pub task: &'a TaskSpec,
    /// What its rows say of the agent and its node.
    pub labels: &'a RowLabels,
    /// What earlier workers did of it.
    pub resume: &'a Resume,
    /// Set by somebody who wants the task to stop; looked at between batches of samples.
    pub interrupt: &'a AtomicBool,
    /// The time.
    pub clock: &'a dyn Clock,
}

/// Measures a task on a device. Rows and visits go to the sink as they are known; the end of the task
/// ([`Event::Done`] or [`Event::Failed`]) is the caller's to say.
///
/// # Errors
/// See [`HarnessError`]; what was said before stays true.
pub fn measure<D: Device>(device: &mut D, setting: Setting<'_>, sink: &mut dyn Sink) -> Result<(), HarnessError> {
    let Some(sweep) = setting.task.points.first().map(|point| point.sweep) else { return Ok(()) };
    let family = fleetcal_kernels::family(sweep).ok_or(HarnessError::NoFamily { sweep })?;
    measure_family(device, family, setting, sink)
}

/// [`measure`] with the family given.
fn measure_family<D: Device>(
    device: &mut D,
    family: &dyn Family,
    setting: Setting<'_>,
    sink: &mut dyn Sink,
) -> Result<(), HarnessError> {
    let mut bench = Bench::new(device, family, setting, sink);
    let monitor = monitor::HardwareMonitor::start(&mut bench)?;
    set_up::set_up(&mut bench, &monitor)?;
    let policy = &setting.task.policy;
    // The reporter comes first: its post hooks run last, when every other listener has had its say.
    let mut listeners = Listeners::new(vec![
        Box::new(reporter::Reporter::default()),
        Box::new(progress::ProgressListener::of(setting.resume)),
        Box::new(data::DataInitialisation),
        // Before the validator, whose poison must be overwritten by timed launches alone.
        Box::new(load::Loader::of(monitor.shared())),
        Box::new(validator::ReferenceValidator::new(policy.validate_elements)),
        Box::new(bounds::GuardZones),
        Box::new(batching::Batcher),
        Box::new(settle::Settler::default()),
        Box::new(timer::Timer::default()),
        Box::new(selector::Selector::of(setting.resume)),
        // Last, so that its post hooks come first: everybody else judges samples that are marked.
        Box::new(monitor),
    ]);
    let outcome = rounds::run(&mut bench, &mut listeners);
    if let Err(error @ HarnessError::FailedSolution { .. }) = &outcome {
        bench.close_all_rows(&error.to_string())?;
    }
    outcome
}
