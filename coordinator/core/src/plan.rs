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
//! [measure]                            # the defaults are those of `MeasuringPolicy`
//! rounds = 5
//! noise_target = "0.25%"
//! visit_limit = "1s"
//!
//! [limits]
//! task_time = "30min"                  # of one task
//! device_time = "1h"                   # of all tasks of one device: a run estimated above it is refused
//! devices_per_node = 1                 # measured at a time, the default: neighbours disturb each other
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
//! ```

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::fit;
use fleetcal_model::point::{Dtype, Sweep};
use fleetcal_model::policy::MeasuringPolicy;

mod builtin;
mod catalog;
mod error;
mod estimate;
mod parse;
mod quantity;
mod reader;
mod select;
mod tasks;

pub use builtin::{builtin, builtin_names};
pub use error::{PlanError, PlanErrors, PlanProblem};
pub use estimate::{ClassEstimate, estimate, estimate_tasks};
pub use quantity::Size;
pub use select::{FleetDevice, Selector, SelectorField, selected};
pub use tasks::{Planned, PlannedTask, Refusal, admit, tasks};

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

/// What a plan may cost, and take up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Estimated time of one device, all its tasks together, above which a run is refused, nanoseconds.
    pub device_ns_max: Option<u64>,
    /// Devices of a node that may be measured at the same time while one of them is measured for this plan: at least 1,
    /// and 1 means that rows are measured alone. Neighbours share power, cooling, host memory and links.
    pub devices_per_node: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { device_ns_max: None, devices_per_node: 1 }
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
    /// Values of the size `elements`. Never empty.
    pub elements: Vec<Size>,
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
