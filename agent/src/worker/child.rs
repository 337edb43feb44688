//! The worker process: one request, answered in events, then the end.

use std::fs::File;
use std::io::{Read, Stdin};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use super::frame;
use super::lock::{DeviceLock, LOCK_FOLDER, LockError};
use super::message::{Event, Request, RowLabels};
use crate::device::discovery::{DeviceVisitor, discover, with_device};
use crate::device::{Device, DeviceError};
use crate::harness::clock::SystemClock;
use crate::harness::{HarnessError, Setting, Sink, measure};
use crate::task::TaskSpec;

/// A worker that was told to stop ends this late at most, even where its driver hangs.
const STOP_GRACE: Duration = Duration::from_millis(1500);

/// Why a worker says no more.
#[derive(Debug, thiserror::Error)]
enum ChildError {
    #[error("the request could not be read: {0}")]
    Request(#[from] frame::FrameError),
    #[error("standard input ended before any request")]
    NoRequest,
    #[error("the standard streams could not be set up: {0}")]
    Streams(#[from] std::io::Error),
}

/// The whole life of a worker process: reads one request from standard input, writes events to standard output.
///
/// The end of standard input, which the death of the agent brings about too, stops it: at the next batch of samples,
/// or, where the driver does not return, by SIGKILL after a grace. (`PR_SET_PDEATHSIG` would fire on the death of the
/// *thread* that spawned it, which an async runtime may end at any time.)
pub fn worker_main() -> ExitCode {
    say_panics_in_one_line();
    match serve_one() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(%error, "worker ends");
            ExitCode::FAILURE
        }
    }
}

/// Serves the request.
fn serve_one() -> Result<(), ChildError> {
    let mut events = EventPipe { pipe: take_standard_output()? };
    let interrupt = Arc::new(AtomicBool::new(false));
    let request = read_requests(std::io::stdin(), Arc::clone(&interrupt))?;
    let answered = catch_unwind(AssertUnwindSafe(|| answer(request, &interrupt, &mut events)));
    let last = answered.unwrap_or_else(|payload| Event::Failed {
        reason: format!("the worker panicked: {}", panic_text(payload.as_ref())),
        retry: true,
    });
    Ok(events.event(last)?)
}

/// Reads the request, and leaves a thread behind that watches for the end of the stream.
fn read_requests(mut input: Stdin, interrupt: Arc<AtomicBool>) -> Result<Request, ChildError> {
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new().name("worker-input".to_owned()).spawn(move || {
        // A request that nobody waits for needs no sender.
        let _ = sender.send(frame::read::<Request>(&mut input));
        let mut rest = [0; 64];
        while input.read(&mut rest).is_ok_and(|bytes| bytes > 0) {}
        interrupt.store(true, Ordering::Relaxed);
        std::thread::sleep(STOP_GRACE);
        // Not `exit`: a driver's exit handlers are just what may hang.
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    })?;
    receiver.recv().map_err(|_| ChildError::NoRequest)??.ok_or(ChildError::NoRequest)
}

/// Does what is asked; the last event is returned, the others are said on the way.
fn answer(request: Request, interrupt: &AtomicBool, events: &mut EventPipe) -> Event {
    match request {
        Request::Discover { sim, data_folder } => Event::Devices(discover(Path::new(&data_folder), &sim)),
        Request::Measure { task, devices, sim, labels } => {
            let [device] = devices.as_slice() else {
                let reason =
                    format!("a task on {} devices was given, this version measures one at a time", devices.len());
                return Event::Failed { reason, retry: false };
            };
            let _lock = match DeviceLock::acquire(Path::new(LOCK_FOLDER), &device.uuid) {
                Ok(lock) => lock,
                Err(error @ LockError::Held { .. }) => return Event::Failed { reason: error.to_string(), retry: true },
                Err(error @ LockError::Unusable { .. }) => {
                    return Event::Failed { reason: error.to_string(), retry: false };
                }
            };
            let measuring = Measuring { task: &task, labels: &labels, interrupt, events };
            match with_device(device, &sim, measuring) {
                Ok(Ok(())) => Event::Done,
                Ok(Err(error)) => Event::Failed { reason: error.to_string(), retry: error.retry_may_help() },
                Err(error) => {
                    let retry = !matches!(error, DeviceError::Library { .. });
                    Event::Failed { reason: error.to_string(), retry }
                }
            }
        }
    }
}

/// Measures a task on whichever device was opened.
struct Measuring<'a> {
    task: &'a TaskSpec,
    labels: &'a RowLabels,
    interrupt: &'a AtomicBool,
    events: &'a mut EventPipe,
}

impl DeviceVisitor for Measuring<'_> {
    type Output = Result<(), HarnessError>;

    fn visit<D: Device>(self, mut device: D) -> Self::Output {
        let clock = SystemClock::start();
        let setting = Setting { task: self.task, labels: self.labels, interrupt: self.interrupt, clock: &clock };
        measure(&mut device, setting, self.events)
    }
}

/// The private pipe to the agent.
struct EventPipe {
    pipe: File,
}

impl Sink for EventPipe {
    fn event(&mut self, event: Event) -> std::io::Result<()> {
        frame::write(&mut self.pipe, &event).map_err(|error| match error {
            frame::FrameError::Pipe(error) => error,
            frame::FrameError::TooLarge { .. }
            | frame::FrameError::Truncated { .. }
            | frame::FrameError::Message(_) => std::io::Error::other(error),
        })
    }
}

/// Takes standard output away for frames, and puts standard error in its place: libraries print.
fn take_standard_output() -> std::io::Result<File> {
    let private = rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 3)?;
    rustix::stdio::dup2_stdout(std::io::stderr())?;
    Ok(File::from(private))
}

/// A panic is an event of its own; on standard error it is one line.
fn say_panics_in_one_line() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked: {}", panic_text(panic.payload()));
    }));
}

/// The words of a panic.
fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}
