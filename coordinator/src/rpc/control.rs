//! The users' service: runs, their news, the fleet, constants.

use std::path::PathBuf;
use std::sync::Arc;

use fleetcal_core::action::Refused;
use fleetcal_core::event::{ClassSelection, Event, Timestamp};
use fleetcal_core::plan::Plan;
use fleetcal_model::id::RunId;
use fleetcal_model::policy::SolutionChoice;
use fleetcal_proto::status::ErrorKind;
use fleetcal_proto::v1;
use fleetcal_proto::v1::run_event::Body;
use fleetcal_proto::version::{negotiate, supported};
use tokio::sync::broadcast::{self, error::RecvError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};
use uuid::Uuid;

use crate::clock::Clock;
use crate::constants::Fits;
use crate::driver::{Driver, DriverError};
use crate::selection;
use crate::views;
use crate::watch::{News, Watchers};

/// News that wait for one watcher; while they do, the others are not kept waiting.
const WATCH_EVENTS: usize = 64;

/// The service of users.
#[derive(Clone)]
pub(crate) struct Control {
    pub(crate) driver: Driver,
    pub(crate) fits: Arc<Fits>,
    pub(crate) watchers: Watchers,
    pub(crate) clock: Arc<dyn Clock>,
    /// The folder of published constants.
    pub(crate) constants: PathBuf,
    /// Cancelled when the coordinator stops.
    pub(crate) stop: CancellationToken,
    /// Everything that runs for a stream.
    pub(crate) streams: TaskTracker,
}

#[tonic::async_trait]
impl v1::control_server::Control for Control {
    type WatchStream = ReceiverStream<Result<v1::RunEvent, Status>>;

    async fn submit(&self, request: Request<v1::SubmitRequest>) -> Result<Response<v1::SubmitResponse>, Status> {
        let request = request.into_inner();
        negotiate(request.versions.unwrap_or_default(), supported())?;
        let run = match request.resume_run_id {
            Some(run) => self.resume(RunId::new(run)).await?,
            None => self.begin(request.plan, request.selectors).await?,
        };
        let submitted = self.driver.read(move |view| views::submitted(view.core, &run)).await?;
        submitted
            .map(Response::new)
            .ok_or_else(|| ErrorKind::Internal.status("the run is not there after it was submitted"))
    }

    async fn watch(&self, request: Request<v1::WatchRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let run = RunId::new(request.into_inner().run_id);
        // Subscribed first, so that nothing falls between the state and the news after it.
        let news = self.watchers.subscribe();
        let status = self.run_status(&run).await?;
        let (events, watched) = mpsc::channel(WATCH_EVENTS);
        let control = self.clone();
        self.streams.spawn(async move {
            let told = tokio::select! {
                told = control.tell(run, status, news, &events) => told,
                () = control.stop.cancelled() => Err(DriverError::Stopped.into()),
                () = events.closed() => Ok(()),
            };
            if let Err(status) = told {
                // An error means that nobody watches any more.
                let _ = events.try_send(Err(status));
            }
        });
        Ok(Response::new(ReceiverStream::new(watched)))
    }

    async fn cancel(&self, request: Request<v1::CancelRequest>) -> Result<Response<v1::CancelResponse>, Status> {
        let v1::CancelRequest { run_id, reason } = request.into_inner();
        let run = RunId::new(run_id);
        self.run_status(&run).await?;
        self.accepted(Event::RunCancelled { run, reason }).await?;
        Ok(Response::new(v1::CancelResponse {}))
    }

    async fn status(&self, _request: Request<v1::StatusRequest>) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(self.driver.read(|view| views::status(view.core)).await?))
    }

    async fn devices(&self, _request: Request<v1::DevicesRequest>) -> Result<Response<v1::DevicesResponse>, Status> {
        let devices = self.driver.read(|view| views::devices(view.core)).await?;
        Ok(Response::new(v1::DevicesResponse { devices }))
    }

    async fn constants(
        &self,
        request: Request<v1::ConstantsRequest>,
    ) -> Result<Response<v1::ConstantsResponse>, Status> {
        let run = RunId::new(request.into_inner().run_id);
        let status = self.run_status(&run).await?;
        if !views::is_over(&status) {
            return Err(
                ErrorKind::NotPossible.status(format!("run {run} has not ended: its constants are not made yet"))
            );
        }
        let fitted = self.fits.of(&run).await?;
        Ok(Response::new(v1::ConstantsResponse { documents: fitted.documents.clone() }))
    }
}

impl Control {
    /// Begins a run of a plan.
    async fn begin(&self, plan: String, selectors: Vec<String>) -> Result<RunId, Status> {
        // Parsed here for its errors; the core parses the text again, and would refuse it in one sentence.
        let parsed = Plan::parse(&plan).map_err(|errors| ErrorKind::InvalidRequest.status(errors.to_string()))?;
        let selections = match parsed.measure.solutions {
            SolutionChoice::All => Vec::new(),
            SolutionChoice::Best => self.selections().await?,
        };
        let run = new_run_id(self.clock.now());
        self.accepted(Event::RunSubmitted { run: run.clone(), plan, selectors, selections }).await?;
        Ok(run)
    }

    /// What the constants in force select, for every class of the fleet.
    async fn selections(&self) -> Result<Vec<ClassSelection>, Status> {
        let classes = self.driver.read(|view| selection::classes(view.core)).await?;
        let store = self.constants.clone();
        let reading = tokio::task::spawn_blocking(move || selection::in_force(&store, &classes));
        let read = reading.await.map_err(|error| ErrorKind::Internal.status(error.to_string()))?;
        read.map_err(|error| {
            ErrorKind::NotPossible.status(format!("what the constants in force select is not known: {error}"))
        })
    }

    /// Goes on with a run that was cut short.
    async fn resume(&self, run: RunId) -> Result<RunId, Status> {
        self.run_status(&run).await?;
        self.accepted(Event::RunResumed { run: run.clone() }).await?;
        Ok(run)
    }

    /// Steps the core with a user's request.
    async fn accepted(&self, event: Event) -> Result<(), Status> {
        match self.driver.step(event).await?.refused {
            None => Ok(()),
            Some((refusal, reason)) => {
                let kind = match refusal {
                    Refused::Request => ErrorKind::InvalidRequest,
                    Refused::NotFound => ErrorKind::NotFound,
                    Refused::State => ErrorKind::NotPossible,
                };
                Err(kind.status(reason))
            }
        }
    }

    async fn run_status(&self, run: &RunId) -> Result<v1::RunStatus, Status> {
        let wanted = run.clone();
        let status = self.driver.read(move |view| views::run_status(view.core, &wanted)).await?;
        status.ok_or_else(|| ErrorKind::NotFound.status(format!("there is no run `{run}` here")))
    }

    /// Tells a watcher everything until the run has ended.
    async fn tell(
        &self,
        run: RunId,
        mut status: v1::RunStatus,
        mut news: broadcast::Receiver<(RunId, News)>,
        events: &mpsc::Sender<Result<v1::RunEvent, Status>>,
    ) -> Result<(), Status> {
        loop {
            let ended = views::is_over(&status);
            send(events, Body::Status(status)).await?;
            if ended {
                return send(events, Body::Ended(self.ended(&run).await?)).await;
            }
            status = loop {
                match news.recv().await {
                    Ok((of, _)) if of != run => {}
                    Ok((_, News::Progress(progress))) => send(events, Body::Progress(progress)).await?,
                    Ok((_, News::Task(change, status))) => {
                        send(events, Body::Task(change)).await?;
                        send(events, Body::Status(status)).await?;
                    }
                    Ok((_, News::Ended)) | Err(RecvError::Lagged(_)) => break self.run_status(&run).await?,
                    Err(RecvError::Closed) => return Err(DriverError::Stopped.into()),
                }
            };
        }
    }

    async fn ended(&self, run: &RunId) -> Result<v1::RunEnded, Status> {
        let fitted = self.fits.of(run).await?;
        let wanted = run.clone();
        let mut problems = self.driver.read(move |view| view.core.problems(&wanted)).await?;
        problems.extend(fitted.problems.iter().cloned());
        Ok(v1::RunEnded {
            status: Some(self.run_status(run).await?),
            documents: fitted.documents.clone(),
            problems,
            unread_parts: fitted.unread_parts,
        })
    }
}

async fn send(events: &mpsc::Sender<Result<v1::RunEvent, Status>>, body: Body) -> Result<(), Status> {
    // An error means that nobody watches any more.
    events.send(Ok(v1::RunEvent { body: Some(body) })).await.map_err(|_| Status::from(DriverError::Stopped))
}

/// A name that sorts by the time of the run, short enough to type: milliseconds since 1970, and four random digits.
fn new_run_id(now: Timestamp) -> RunId {
    const NS_PER_MS: u64 = 1_000_000;
    let (random, _) = Uuid::new_v4().as_u64_pair();
    RunId::new(format!("{:011x}-{:04x}", now.0 / NS_PER_MS, random >> 48))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_runs_sort_by_time_and_can_name_a_folder() {
        let names = [1_700_000_000_000_000_000, 1_700_000_000_001_000_000, 1_900_000_000_000_000_000]
            .map(|ns| new_run_id(Timestamp(ns)).as_str().to_owned());
        assert!(names.is_sorted(), "{names:?}");
        assert!(names.iter().all(|name| crate::folder::is_plain_name(name)), "{names:?}");
    }
}
