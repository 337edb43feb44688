//! Plans: what to measure, on which devices, how well, and at what cost.
//!
//! A plan is a TOML text. Every quantity with a unit is a string that names it (`"1s"`, `"0.25%"`, `"30min"`); every
//! count is a bare whole number; a size may be written as a power (`"2^20"`).
//!
//! ```toml
//! name = "mine"
//! description = "what it is for"       # optional
//! label = "after the firmware update"  # optional, kept with every row
//! seed = 1                             # optional, of every random order
//!
//! [devices]
//! select = ["class=nvidia-h200-*", "cpu"]  # every device, if absent
//!
//! [measure]                            # what stands here are the defaults, those of `MeasuringPolicy`
//! rounds = 5                           # visits of every point; from 3 on there are intervals
//! rounds_max = 15                      # as many as the spread of the first may ask for; at least `rounds`
//! interval_target = "0.5%"             # half-width of a row's interval that further rounds are meant to reach
//! warmups = 1                          # launches before the timed ones of a visit
//! samples_min = 10                     # timed intervals of a visit, at least and at most
//! samples_max = 100
//! stop = "interval"                    # or "stable_noise"; "count" takes samples_max always
//! noise_target = "0.25%"               # of a visit's median, for stop = "interval"
//! visit_limit = "1s"                   # of one visit, whatever its noise
//! caches = "auto"                      # as each sweep wants it; "cold" flushes before each interval, "warm" never
//! batching = "auto"                    # short kernels are timed many at a time; "never" times each launch alone
//! solutions = "all"                    # "best" measures what the constants in force would select, and nothing else
//! screening_samples = 3                # timed intervals of a screening visit
//! finalists = 4                        # solutions of a point measured anew after screening
//! data = "random"                      # or constant, serial, identity, trigonometric, dimension, nan, infinity, denormal
//! validate = 1048576                   # elements compared with the reference; or "all", "none"
//! bounds = "values"                    # accesses outside of arrays: guard zones; or "pages", "none"
//! exit_on_error = false                # whether the first failure ends the task
//! # load = "sustained"                 # after load_time of load; "burst" after load_time of idleness; absent: as it comes
//! # load_time = "1s"                   # only with `load`
//! monitor = true                       # whether sensors are read meanwhile
//! settle_limit = "2s"                  # longest wait before a task for an idle, cool device; or "none"
//!
//! [limits]
//! task_time = "30min"                  # of one task, the default: visits shrink to fit it
//! device_time = "1h"                   # of all tasks of one device: a run that may need more is refused
//! devices_per_node = 1                 # measured at a time, the default; "all" measures nodes in full use
//!
//! [[sweep]]
//! family = "stream"
//! kernels = ["copy", "triad"]          # every one, if absent
//! dtypes = ["f32"]                     # every one, if absent
//! elements = ["dram", "2^20", 262144]  # or { from = "2^18", to = "2^30", step = 4 }
//! points_per_task = 8                  # all in one, if absent
//!
//! [fit]                                # the defaults are those of `fit::Options`
//! footprint_factor = 4                 # rows speak for main memory from so many last-level caches on; `dram` is that large
//! sizes_min = 3                        # that an asymptote needs
//! mode = "robust"                      # or "seed": the original's fits, for comparison with its constants
//! ```

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::fit;
use fleetcal_model::point::{Dtype, Sweep};
use fleetcal_model::policy::MeasuringPolicy;
use fleetcal_model::statistics::INTERVAL_REPLICATES_MIN;

mod builtin;
mod catalog;
mod error;
mod estimate;
mod parse;
mod quantity;
mod reader;
mod select;
mod tasks;
mod write;

pub use builtin::{builtin, builtin_names};
pub use error::{PlanError, PlanErrors, PlanProblem, nearest};
pub use estimate::{ClassEstimate, TaskCost, estimate, estimate_tasks};
pub use parse::PLAN_BYTES_MAX;
pub use quantity::Size;
pub use select::{FleetDevice, Selector, SelectorField, selected};
pub use tasks::{Planned, PlannedTask, Refusal, admit, tasks};
pub use write::{fit_keys, measure_keys};

/// A plan, read and checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Its name.
    pub name: String,
    /// What it is for, in a sentence.
    pub description: String,
    /// Free text kept with every row.
    pub label: Option<String>,
    /// Seed of every random order.
    pub seed: u64,
    /// The devices it means: all, if empty.
    pub selectors: Vec<Selector>,
    /// How points are measured.
    pub measure: MeasuringPolicy,
    /// What it may cost at most.
    pub limits: Limits,
    /// What is measured, in the order of the text. Never empty.
    pub sweeps: Vec<SweepPlan>,
    /// How constants are fitted.
    pub fit: fit::Options,
    digest: Sha256Digest,
}

impl Plan {
    /// What a person should know before running it: it is right, and may still not give what they expect.
    pub fn cautions(&self) -> Vec<String> {
        let mut cautions = Vec::new();
        let rounds = self.measure.rounds.max(self.measure.rounds_max);
        if rounds < INTERVAL_REPLICATES_MIN as u64 {
            cautions.push(format!(
                "measure.rounds = {rounds}: no row and no constant will have an interval, which takes \
                 {INTERVAL_REPLICATES_MIN} rounds"
            ));
        }
        if self.measure.validate_elements < 0 {
            cautions.push(
                "measure.validate = \"all\": every element is compared on the host, which takes seconds a visit at 2^28 \
                 elements and more"
                    .to_owned(),
            );
        }
        cautions
    }
}

/// What a plan may cost, and take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Time that one device may need for all its tasks, further rounds included, above which a run is refused,
    /// nanoseconds.
    pub device_ns_max: Option<u64>,
    /// Devices of a node that may be measured at the same time while one of them is measured for this plan.
    pub devices_per_node: DevicesPerNode,
}

impl Default for Limits {
    fn default() -> Self {
        Self { device_ns_max: None, devices_per_node: DevicesPerNode::AtMost(1) }
    }
}

/// How many devices of a node are measured at a time. Neighbours share power, cooling, host memory and links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DevicesPerNode {
    /// Never more than so many, at least one. One means that rows are measured alone.
    AtMost(u64),
    /// As many as there are: the state of a node in full use.
    All,
}

impl DevicesPerNode {
    /// The most that may be measured at a time.
    pub const fn most(self) -> u64 {
        match self {
            Self::AtMost(most) => most,
            Self::All => u64::MAX,
        }
    }
}

/// One `[[sweep]]` section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SweepPlan {
    /// The family.
    pub sweep: Sweep,
    /// Its kernels. Never empty.
    pub kernels: Vec<String>,
    /// Number formats. Never empty.
    pub dtypes: Vec<Dtype>,
    /// Values of each size, in the order of the family's sizes; those that the family derives are absent. None is empty.
    pub sizes: Vec<(&'static str, Vec<Size>)>,
    /// Most points of one task; all of a number format, if absent.
    pub points_per_task: Option<u64>,
}

impl Plan {
    /// Reads and checks a plan's text.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its line and column.
    pub fn parse(text: &str) -> Result<Self, PlanErrors> {
        parse::parse(text)
    }

    /// SHA-256 of the plan's text, hexadecimal.
    pub fn digest(&self) -> String {
        self.digest.to_hex()
    }
}

#[cfg(test)]
pub(crate) use tests::sample_device;

#[cfg(test)]
mod tests;
