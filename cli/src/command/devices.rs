//! `fleetcal devices`: what a fleet has, or what this machine has.

use std::process::ExitCode;

use fleetcal_agent::identity::Identity;
use fleetcal_agent::worker::message::BackendReport;
use fleetcal_model::device::Backend;
use fleetcal_proto::v1::DevicesRequest;

use crate::args::{DevicesArguments, Output};
use crate::client;
use crate::failure::Failure;
use crate::render;

pub(super) async fn run(arguments: DevicesArguments) -> Result<ExitCode, Failure> {
    if arguments.local { local(&arguments).await } else { fleet(&arguments).await }
}

async fn local(arguments: &DevicesArguments) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(Failure::internal)?;
    let folder = arguments.data.join("agent");
    let reports = fleetcal_agent::discover(&program, &folder, &arguments.node.sim).await?;
    let wanted = &arguments.node.backends;
    let reports: Vec<_> = reports
        .into_iter()
        .filter(|report| wanted.is_empty() || wanted.iter().any(|backend| backend.name() == report.backend))
        .collect();
    let made_up = |report: &BackendReport| report.backend == Backend::Sim.name() && !report.devices.is_empty();
    if reports.iter().any(made_up) && !Identity::is_there(&folder) {
        render::note("no agent has worked in this data folder: UUIDs of simulated devices are made up for this look");
    }
    match arguments.output.output {
        Output::Table => render::local_devices(&reports),
        Output::Json => render::local_devices_json(&reports)?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn fleet(arguments: &DevicesArguments) -> Result<ExitCode, Failure> {
    let mut control = client::connect(&arguments.client.coordinator, arguments.client.wait()).await?;
    let devices = control.devices(DevicesRequest {}).await?.into_inner().devices;
    match arguments.output.output {
        Output::Table => render::fleet_devices(&devices),
        Output::Json => render::fleet_devices_json(&devices)?,
    }
    Ok(ExitCode::SUCCESS)
}
