//! Submitting a run and following it to its end: the same for a fleet and for one machine.

use std::process::ExitCode;

use fleetcal_model::constants::Document;
use fleetcal_model::fit::pool::RejectReason;
use fleetcal_proto::status::ERROR_KIND_KEY;
use fleetcal_proto::v1::run_event::Body;
use fleetcal_proto::v1::{RunEnded, SubmitRequest, SubmitResponse, WatchRequest};
use fleetcal_proto::version;

use crate::args::Output;
use crate::client::Control;
use crate::failure::{Failure, Kind};
use crate::progress::Progress;
use crate::render;

/// What to run.
#[derive(Debug, Default)]
pub(crate) struct Submission {
    /// The plan's text; empty when a run is resumed.
    pub(crate) plan: String,
    /// The run to go on with.
    pub(crate) resume: Option<String>,
    /// Devices to narrow the plan to.
    pub(crate) selectors: Vec<String>,
}

/// Submits, and prints what it will cost before anything is measured.
///
/// # Errors
/// The coordinator refuses, or cannot be reached.
pub(crate) async fn submit(
    control: &mut Control,
    submission: Submission,
    output: Output,
) -> Result<SubmitResponse, Failure> {
    let request = SubmitRequest {
        versions: Some(version::supported()),
        plan: submission.plan,
        resume_run_id: submission.resume,
        selectors: submission.selectors,
    };
    let response = control.submit(request).await?.into_inner();
    if output == Output::Table {
        render::submitted(&response);
    }
    Ok(response)
}

/// Follows a run until it ends, showing its progress.
///
/// # Errors
/// The coordinator is lost.
pub(crate) async fn follow(control: &mut Control, run: &str, progress: &mut Progress) -> Result<RunEnded, Failure> {
    let mut events = control.watch(WatchRequest { run_id: run.to_owned() }).await?.into_inner();
    while let Some(event) = events.message().await.map_err(lost)? {
        match event.body {
            Some(Body::Status(status)) => progress.status(&status),
            Some(Body::Progress(visit)) => progress.visit(&visit),
            Some(Body::Task(task)) => progress.task(&task),
            Some(Body::Ended(ended)) => {
                progress.end();
                return Ok(ended);
            }
            // A newer coordinator may say more than we know.
            None => {}
        }
    }
    Err(Failure::said(Kind::Network, format!("the coordinator stopped before {run} ended")))
}

/// A stream that broke. What fleetcal did not say itself was said by the transport: nobody is there any more.
fn lost(status: tonic::Status) -> Failure {
    if status.metadata().contains_key(ERROR_KIND_KEY) {
        return Failure::from(status);
    }
    Failure::said(Kind::Network, format!("the coordinator was lost: {}", status.message()))
}

/// Prints what a run found, and turns it into an exit code.
///
/// # Errors
/// The documents cannot be read.
pub(crate) fn conclude(ended: &RunEnded, output: Output) -> Result<ExitCode, Failure> {
    let documents = ended
        .documents
        .iter()
        .map(|text| Document::from_json(text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(Failure::internal)?;
    match output {
        Output::Table => render::constants(&documents),
        Output::Json => render::documents_json(&ended.documents),
    }
    for problem in &ended.problems {
        render::note(problem);
    }
    let status = ended.status.clone().unwrap_or_default();
    if output == Output::Table {
        render::run_summary(&status);
    }
    render::outcomes(&documents);
    let mut rejected = documents.iter().flat_map(|document| &document.body.rejected_rows);
    let wrong = rejected.any(|row| row.reason == RejectReason::WrongResult);
    let measured =
        documents.iter().flat_map(|document| &document.body.constants).any(|constant| constant.value.is_some());
    if status.done == status.tasks && measured && !wrong && ended.unread_parts == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    if !measured {
        render::note("no constant was measured");
    }
    Ok(ExitCode::from(Kind::Incomplete as u8))
}
