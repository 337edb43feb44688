//! `fleetcal run`: submit a plan to a fleet.

use std::process::ExitCode;

use fleetcal_proto::v1::RunEnded;

use crate::args::{ClientArguments, Output, RunArguments};
use crate::client::{self, Control};
use crate::command::plan;
use crate::failure::{Failure, Kind};
use crate::follow::{self, Submission};
use crate::progress::Progress;
use crate::render;
use crate::stop::Stop;

pub(super) async fn run(arguments: RunArguments) -> Result<ExitCode, Failure> {
    let output = arguments.output.output;
    let submission = match arguments.plan {
        Some(plan) => {
            Submission { plan: plan::read(&plan, arguments.exit_on_error)?, resume: None, selectors: arguments.devices }
        }
        None => Submission { resume: arguments.resume, ..Submission::default() },
    };
    let mut control = client::connect(&arguments.client.coordinator, arguments.client.wait()).await?;
    let stop = Stop::on_signal()?;
    let submitted = follow::submit(&mut control, submission, output).await?;
    if arguments.detach {
        if output == Output::Json {
            render::run_id_json(&submitted.run_id);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut progress = Progress::new();
    let ended = tokio::select! {
        ended = follow_through_restarts(control, &submitted.run_id, &mut progress, &arguments.client) => ended?,
        () = stop.cancelled() => {
            progress.end();
            let sentence = format!(
                "no longer watching {run}, which goes on: `fleetcal status` shows it, `fleetcal cancel {run}` ends it",
                run = submitted.run_id
            );
            return Err(Failure::said(Kind::Interrupted, sentence));
        }
    };
    follow::conclude(&ended, output)
}

/// Follows a run to its end, through restarts of the coordinator: the run outlives them, and so does its watcher.
async fn follow_through_restarts(
    mut control: Control,
    run: &str,
    progress: &mut Progress,
    client: &ClientArguments,
) -> Result<RunEnded, Failure> {
    loop {
        match follow::follow(&mut control, run, progress).await {
            Err(failure) if failure.is(Kind::Network) => {
                tracing::warn!("{}; the run goes on, waiting for it", failure.sentence());
                control = client::connect(&client.coordinator, client.wait()).await?;
            }
            ended => return ended,
        }
    }
}
