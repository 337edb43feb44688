//! `fleetcal run`: submit a plan to a fleet.

use std::process::ExitCode;

use crate::args::{Output, RunArguments};
use crate::client;
use crate::command::plan;
use crate::failure::{Failure, Kind};
use crate::follow::{self, Submission};
use crate::progress::Progress;
use crate::render;
use crate::stop;

pub(super) async fn run(arguments: RunArguments) -> Result<ExitCode, Failure> {
    let output = arguments.output.output;
    let submission = match arguments.plan {
        Some(plan) => Submission { plan: plan::read(&plan)?, resume: None, selectors: arguments.devices },
        None => Submission { resume: arguments.resume, ..Submission::default() },
    };
    let mut control = client::connect(&arguments.client.coordinator, arguments.client.wait()).await?;
    let stop = stop::on_signal()?;
    let submitted = follow::submit(&mut control, submission, output).await?;
    if arguments.detach {
        if output == Output::Json {
            render::run_id_json(&submitted.run_id);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let mut progress = Progress::new();
    let ended = tokio::select! {
        ended = follow::follow(&mut control, &submitted.run_id, &mut progress) => ended?,
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
