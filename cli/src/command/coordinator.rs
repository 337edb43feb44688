//! `fleetcal coordinator`: the service that hands out work and keeps rows.

use std::process::ExitCode;
use std::time::Duration;

use fleetcal_coordinator::{Coordinator, CoordinatorConfig};

use crate::args::CoordinatorArguments;
use crate::failure::Failure;
use crate::stop::Stop;

pub(super) async fn run(arguments: CoordinatorArguments) -> Result<ExitCode, Failure> {
    let stop = Stop::on_signal()?;
    let lease = Duration::from_secs(arguments.lease);
    let config = CoordinatorConfig {
        listen: arguments.listen,
        data_folder: arguments.data,
        lease,
        heartbeat: lease / 3,
        grace: Duration::from_secs(arguments.grace),
    };
    let coordinator = Coordinator::start(config).await?;
    tracing::info!("listening on http://{}", coordinator.address());
    stop.cancelled().await;
    tracing::info!("stopping");
    coordinator.stop().await?;
    Ok(ExitCode::SUCCESS)
}
