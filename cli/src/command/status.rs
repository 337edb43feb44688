//! `fleetcal status`: runs, agents and tasks.

use std::process::ExitCode;
use std::time::Duration;

use fleetcal_proto::v1::StatusRequest;

use crate::args::{Output, StatusArguments};
use crate::client;
use crate::failure::Failure;
use crate::render;
use crate::stop::Stop;

/// How often a watched status is asked for.
const WATCH_PERIOD: Duration = Duration::from_secs(1);

pub(super) async fn run(arguments: StatusArguments) -> Result<ExitCode, Failure> {
    let output = arguments.output.output;
    let mut control = client::connect(&arguments.client.coordinator, arguments.client.wait()).await?;
    let stop = Stop::on_signal()?;
    loop {
        let status = control.status(StatusRequest {}).await?.into_inner();
        match output {
            Output::Table => render::status(&status, arguments.watch),
            Output::Json => render::status_json(&status),
        }
        // Whoever reads no further has seen enough.
        if !arguments.watch || !render::is_read() {
            return Ok(ExitCode::SUCCESS);
        }
        tokio::select! {
            () = tokio::time::sleep(WATCH_PERIOD) => {}
            () = stop.cancelled() => return Ok(ExitCode::SUCCESS),
        }
    }
}
