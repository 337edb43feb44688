//! What an agent is told when it starts.

use std::fmt;
use std::path::PathBuf;

use fleetcal_model::device::Backend;

use crate::device::sim::SimSpec;
use crate::runner::deadlines::Deadlines;

/// Settings of an agent. Where they come from (flags, environment, a file) is the caller's matter.
#[derive(Clone)]
pub struct AgentConfig {
    /// URL of the coordinator, for example `http://127.0.0.1:7600`.
    pub coordinator: String,
    /// Folder that holds the agent's identity and its spool. One agent a folder.
    pub data_folder: PathBuf,
    /// Node label; the host's name where there is none.
    pub node: Option<String>,
    /// Rack label.
    pub rack: Option<String>,
    /// Simulated devices to make.
    pub sim: SimSpec,
    /// Backends whose devices are offered; every device found where there is none.
    pub backends: Option<Vec<Backend>>,
    /// Whether sensors of devices may be read; where not, no plan's wish for them counts, and rows hold no telemetry.
    pub monitor: bool,
    /// The `fleetcal` binary, started as `fleetcal worker` for each task.
    pub worker_program: PathBuf,
    /// How long workers may be silent.
    pub deadlines: Deadlines,
    /// Credentials for the coordinator.
    pub token: Option<String>,
}

impl fmt::Debug for AgentConfig {
    /// Everything but the token: settings end up in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AgentConfig")
            .field("coordinator", &self.coordinator)
            .field("data_folder", &self.data_folder)
            .field("node", &self.node)
            .field("rack", &self.rack)
            .field("sim", &self.sim)
            .field("backends", &self.backends)
            .field("monitor", &self.monitor)
            .field("worker_program", &self.worker_program)
            .field("deadlines", &self.deadlines)
            .field("token", &self.token.as_ref().map(|_| "(hidden)"))
            .finish()
    }
}
