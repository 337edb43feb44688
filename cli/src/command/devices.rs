//! `fleetcal devices`: what a fleet has, or what this machine has.

use std::process::ExitCode;

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
    let reports = fleetcal_agent::discover(&program, &arguments.data.join("agent"), &arguments.node.sim).await?;
    let wanted = &arguments.node.backends;
    let reports: Vec<_> = reports
        .into_iter()
        .filter(|report| wanted.is_empty() || wanted.iter().any(|backend| backend.name() == report.backend))
        .collect();
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
