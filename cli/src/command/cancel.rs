//! `fleetcal cancel`: end a run early.

use std::process::ExitCode;

use fleetcal_proto::v1::CancelRequest;

use crate::args::CancelArguments;
use crate::client;
use crate::failure::Failure;
use crate::render;

pub(super) async fn run(arguments: CancelArguments) -> Result<ExitCode, Failure> {
    let mut control = client::connect(&arguments.client.coordinator, arguments.client.wait()).await?;
    let request = CancelRequest { run_id: arguments.run.clone(), reason: arguments.reason };
    control.cancel(request).await?;
    render::say(&format!(
        "{run} is cancelled; what was measured is kept, and `fleetcal run --resume {run}` goes on",
        run = arguments.run
    ));
    Ok(ExitCode::SUCCESS)
}
