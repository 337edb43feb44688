//! `fleetcal`: every role in one binary. A node needs one file.
//!
//! This crate parses, dispatches and prints. What is decided and done stands in the other crates.

mod args;
mod client;
mod command;
mod failure;
mod files;
mod follow;
mod progress;
mod render;
mod stop;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Arguments, Command};
use crate::failure::{Failure, Kind};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // The worker speaks frames on its standard output and must not share a runtime or a logger with anything.
    if let Command::Worker = arguments.command {
        return fleetcal_agent::worker::worker_main();
    }
    start_logging(&arguments);
    match run(arguments) {
        Ok(code) => match render::output_failure() {
            None => code,
            Some(error) => {
                let sentence = format!("results could not be written to standard output: {error}");
                let failure = Failure::said(Kind::Output, sentence);
                render::error(&failure);
                failure.exit_code()
            }
        },
        Err(failure) => {
            render::error(&failure);
            failure.exit_code()
        }
    }
}

fn run(arguments: Arguments) -> Result<ExitCode, Failure> {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().enable_all().thread_name("fleetcal").build().map_err(|error| {
            Failure::internal(anyhow::Error::new(error).context("the async runtime does not start"))
        })?;
    let result = runtime.block_on(async {
        tokio::select! {
            result = command::run(arguments) => result,
            code = stop::at_once() => Ok(code),
        }
    });
    // A thread stuck in a driver or a dead network file system must not keep the process.
    runtime.shutdown_timeout(std::time::Duration::from_millis(100));
    result
}

/// Logs go to standard error, as sentences for people; `FLEETCAL_LOG` chooses what.
fn start_logging(arguments: &Arguments) {
    let service = matches!(arguments.command, Command::Coordinator(_) | Command::Agent(_));
    let default = if service { "info" } else { "warn" };
    let filter =
        tracing_subscriber::EnvFilter::try_from_env("FLEETCAL_LOG").unwrap_or_else(|_| default.to_owned().into());
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(progress::log_writer)
        .with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr()));
    if service {
        builder.with_target(false).init();
    } else {
        builder.with_target(false).without_time().compact().init();
    }
}
