//! One file a command.

use std::process::ExitCode;

use crate::args::{Arguments, Command};
use crate::failure::Failure;

mod agent;
mod calibrate;
mod cancel;
mod coordinator;
mod devices;
mod fit;
mod plan;
mod rows;
mod run;
mod status;
mod unread;

/// Runs the command.
///
/// # Errors
/// Whatever went wrong, with the kind that decides the exit code.
pub(crate) async fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    match arguments.command {
        Command::Calibrate(arguments) => calibrate::run(arguments).await,
        Command::Coordinator(arguments) => coordinator::run(arguments).await,
        Command::Agent(arguments) => agent::run(arguments).await,
        Command::Run(arguments) => run::run(arguments).await,
        Command::Cancel(arguments) => cancel::run(arguments).await,
        Command::Status(arguments) => status::run(arguments).await,
        Command::Devices(arguments) => devices::run(arguments).await,
        Command::Rows(arguments) => rows::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Plan(command) => plan::run(command),
        // Handled before there is a runtime.
        Command::Worker => Ok(fleetcal_agent::worker::worker_main()),
    }
}
