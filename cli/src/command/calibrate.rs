//! `fleetcal calibrate`: coordinator and agent in one process, over loopback gRPC, through the same code as a fleet.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use fleetcal_coordinator::{Coordinator, CoordinatorConfig};
use fleetcal_proto::v1::{CancelRequest, DevicesRequest, RunEnded, RunState, StatusRequest};

use tokio_util::sync::CancellationToken;

use crate::args::{CalibrateArguments, Output};
use crate::client::{self, Control};
use crate::command::{agent, plan};
use crate::failure::{Failure, Kind};
use crate::follow::{self, Submission};
use crate::progress::Progress;
use crate::render;
use crate::stop::Stop;

mod resume;

/// How long devices are looked for.
const DISCOVERY_MAX: Duration = Duration::from_secs(90);
/// How often it is asked whether devices have been found.
const DISCOVERY_PERIOD: Duration = Duration::from_millis(50);
/// How long an interrupted run may take to store what was measured; Ctrl-C ends within two seconds.
const CANCEL_MAX: Duration = Duration::from_millis(1_200);
/// How long the agent may take to stop after that.
const AGENT_STOP_MAX: Duration = Duration::from_millis(500);

pub(super) async fn run(arguments: CalibrateArguments) -> Result<ExitCode, Failure> {
    let stop = Stop::on_signal()?;
    // The plan is read first: a wrong one costs nobody a second.
    let submission = match arguments.resume.clone() {
        Some(run) => Submission { resume: Some(run), ..Submission::default() },
        None => Submission {
            plan: plan::read(&arguments.plan, arguments.exit_on_error)?,
            resume: None,
            selectors: arguments.devices.clone(),
        },
    };
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let coordinator = Coordinator::start(CoordinatorConfig::new(loopback, &arguments.data)).await?;
    let url = format!("http://{}", coordinator.address());
    let agent_stop = CancellationToken::new();
    let agent_config = agent::config(url.clone(), arguments.data.join("agent"), &arguments.node, &arguments.limits)?;
    let mut agent = tokio::spawn(fleetcal_agent::run(agent_config, agent_stop.clone()));
    let outcome = tokio::select! {
        outcome = measure(&url, submission, &arguments, &stop) => outcome,
        ended = &mut agent => Err(agent_failure(ended)),
    };
    agent_stop.cancel();
    if !agent.is_finished() && tokio::time::timeout(AGENT_STOP_MAX, &mut agent).await.is_err() {
        agent.abort();
    }
    let stopped = coordinator.stop().await;
    // What went wrong first is what to tell of.
    let code = outcome?;
    stopped?;
    Ok(code)
}

/// The agent ended before the run did.
fn agent_failure(ended: Result<Result<(), fleetcal_agent::AgentError>, tokio::task::JoinError>) -> Failure {
    match ended {
        Ok(Ok(())) => Failure::said(Kind::Internal, "the agent ended before the run did"),
        Ok(Err(error)) => Failure::from(error),
        Err(error) => Failure::internal(error),
    }
}

async fn measure(
    url: &str,
    submission: Submission,
    arguments: &CalibrateArguments,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    let output = arguments.output.output;
    let mut control = client::connect(url, Duration::from_secs(5)).await?;
    if submission.resume.is_none() {
        end_leftover_runs(&mut control).await?;
    }
    tokio::select! {
        found = wait_for_devices(&mut control, output) => found?,
        () = stop.cancelled() => return Err(Failure::said(Kind::Interrupted, "stopped before measuring began")),
    }
    let resumed = submission.resume.is_some();
    let submitted = follow::submit(&mut control, submission, output).await?;
    let run = submitted.run_id;
    stop.say_at_last(format!("stopped; what was measured is kept. {}", resume::how_to_go_on(&run, arguments)));
    if resumed {
        resume::refuse_without_devices(&mut control, &run).await?;
    }
    let mut progress = Progress::new();
    let ended = tokio::select! {
        ended = follow::follow(&mut control, &run, &mut progress) => {
            Some(ended.map_err(|failure| failure.advise(&resume::how_to_go_on(&run, arguments)))?)
        }
        () = stop.cancelled() => None,
    };
    let (ended, interrupted) = match ended {
        Some(ended) => (Some(ended), false),
        None => {
            let ended = interrupt(&mut control, &run, &mut progress).await;
            let finished = ended.as_ref().and_then(|ended| ended.status.as_ref()).map(|status| status.state());
            (ended, finished != Some(RunState::Ended))
        }
    };
    let code = match &ended {
        Some(ended) => follow::conclude(ended, output)?,
        None => ExitCode::from(Kind::Interrupted as u8),
    };
    say_where(&arguments.data, output, interrupted);
    if interrupted {
        let failure = Failure::said(Kind::Interrupted, "stopped; what was measured is kept");
        return Err(failure.advise(&resume::how_to_go_on(&run, arguments)));
    }
    Ok(code)
}

/// Waits until the agent has introduced itself, and shows what it found.
async fn wait_for_devices(control: &mut Control, output: Output) -> Result<(), Failure> {
    let looked = async {
        loop {
            let status = control.status(StatusRequest {}).await?.into_inner();
            if status.agents.iter().any(|agent| agent.connected) {
                let devices = control.devices(DevicesRequest {}).await?.into_inner().devices;
                if output == Output::Table {
                    render::found(&devices, &status.agents);
                }
                return Ok::<(), Failure>(());
            }
            tokio::time::sleep(DISCOVERY_PERIOD).await;
        }
    };
    tokio::time::timeout(DISCOVERY_MAX, looked).await.unwrap_or_else(|_| {
        let sentence = format!("no answer about devices within {} s", DISCOVERY_MAX.as_secs());
        Err(Failure::said(Kind::Internal, sentence))
    })
}

/// Runs that an earlier process left unfinished (it was killed, or the machine died) give way to the new one.
async fn end_leftover_runs(control: &mut Control) -> Result<(), Failure> {
    let status = control.status(StatusRequest {}).await?.into_inner();
    for run in status.runs.iter().filter(|run| run.state() == RunState::Active) {
        render::note(&format!(
            "{run} was not finished; `fleetcal calibrate --resume {run}` and the options of then would go on with it",
            run = run.run_id
        ));
        let reason = "a new run was begun".to_owned();
        control.cancel(CancelRequest { run_id: run.run_id.clone(), reason }).await?;
    }
    Ok(())
}

/// Cancels the run, and waits a little for what was measured to be stored and fitted.
async fn interrupt(control: &mut Control, run: &str, progress: &mut Progress) -> Option<RunEnded> {
    let stored = async {
        let reason = "interrupted".to_owned();
        // Refused where the run ended meanwhile: then there are results to show, and nothing to cancel.
        let _ = control.cancel(CancelRequest { run_id: run.to_owned(), reason }).await;
        follow::follow(control, run, progress).await
    };
    let ended = tokio::time::timeout(CANCEL_MAX, stored).await;
    progress.end();
    // A stream that breaks now takes the table along, not what was measured nor the way to go on.
    ended.ok().and_then(Result::ok)
}

/// Says where everything is. Of a run that was cut short nothing is published.
fn say_where(data: &Path, output: Output, interrupted: bool) {
    if output == Output::Json {
        return;
    }
    let mut sentence = format!("rows: {}", data.join("rows").display());
    if !interrupted {
        sentence.push_str(&format!(", constants: {}", data.join("constants").display()));
    }
    render::say(&sentence);
}
