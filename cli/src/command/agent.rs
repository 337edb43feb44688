//! `fleetcal agent`: the service that drives this node's devices.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use fleetcal_agent::{AgentConfig, Deadlines};

use crate::args::{AgentArguments, AgentLimits, NodeArguments};
use crate::failure::Failure;
use crate::stop::Stop;

pub(super) async fn run(arguments: AgentArguments) -> Result<ExitCode, Failure> {
    let stop = Stop::on_signal()?;
    let config = config(arguments.coordinator, arguments.data, &arguments.node, &arguments.limits)?;
    fleetcal_agent::run(config, stop.token()).await?;
    Ok(ExitCode::SUCCESS)
}

/// What an agent needs to know, from the flags that every node has.
///
/// # Errors
/// The path of the running program cannot be told.
pub(super) fn config(
    coordinator: String,
    data_folder: PathBuf,
    node: &NodeArguments,
    limits: &AgentLimits,
) -> Result<AgentConfig, Failure> {
    Ok(AgentConfig {
        deadlines: node
            .launch_deadline
            .map_or_else(Deadlines::default, |seconds| Deadlines::with_launches(Duration::from_secs(seconds))),
        coordinator,
        data_folder,
        node: node.node.clone(),
        rack: node.rack.clone(),
        sim: node.sim.clone(),
        backends: (!node.backends.is_empty()).then(|| node.backends.clone()),
        monitor: !limits.no_monitor,
        worker_program: std::env::current_exe().map_err(Failure::internal)?,
        token: None,
    })
}
