//! The worker process: one request, answered in events, then the end.

use std::fs::File;
use std::io::{Read, Stdin, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use fleetcal_model::device::DeviceFacts;

use super::frame;
use super::lock::{DeviceLock, LOCK_FOLDER};
use super::message::{Event, Request, RowLabels};
use super::resume::{InHand, Resume, Stage};
use crate::device::discovery::{DeviceVisitor, discover, with_device};
use crate::device::sim::SimSpec;
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
            say_last(&mut std::io::stderr(), &format!("the worker ends: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Serves the request.
fn serve_one() -> Result<(), ChildError> {
    let mut events = EventPipe { pipe: take_standard_output()? };
    let interrupt = Arc::new(AtomicBool::new(false));
    let request = read_requests(std::io::stdin(), Arc::clone(&interrupt))?;
    let answered = catch_unwind(AssertUnwindSafe(|| answer(request, Path::new(LOCK_FOLDER), &interrupt, &mut events)));
    let last = answered.unwrap_or_else(|payload| Event::Lost {
        reason: format!("the worker panicked: {}", panic_text(payload.as_ref())),
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
fn answer(request: Request, locks: &Path, interrupt: &AtomicBool, events: &mut dyn Sink) -> Event {
    match request {
        Request::Discover { sim, data_folder } => Event::Devices(discover(Path::new(&data_folder), &sim)),
        Request::Measure { task, devices, sim, labels, resume } => {
            let measuring = Measuring { task: &task, labels: &labels, resume: &resume, interrupt, events };
            match measure_alone(&devices, &sim, locks, measuring) {
                Ok(()) => Event::Done,
                Err(error @ HarnessError::Device(DeviceError::Lost { .. })) => {
                    Event::Lost { reason: error.to_string() }
                }
                Err(error) => Event::Failed { reason: error.to_string(), retry: error.retry_may_help() },
            }
        }
    }
}

/// Takes the device for this process, opens it, and measures.
fn measure_alone(
    devices: &[DeviceFacts],
    sim: &SimSpec,
    locks: &Path,
    measuring: Measuring<'_>,
) -> Result<(), HarnessError> {
    let [device] = devices else { return Err(HarnessError::Devices { count: devices.len() }) };
    let _lock = DeviceLock::acquire(locks, &device.uuid)?;
    measuring.events.event(Event::InHand(InHand { stage: Stage::Open, subject: None, expected_ns: 0 }))?;
    with_device(device, sim, measuring)?
}

/// Measures a task on whichever device was opened.
struct Measuring<'a> {
    task: &'a TaskSpec,
    labels: &'a RowLabels,
    resume: &'a Resume,
    interrupt: &'a AtomicBool,
    events: &'a mut dyn Sink,
}

impl DeviceVisitor for Measuring<'_> {
    type Output = Result<(), HarnessError>;

    fn visit<D: Device>(self, mut device: D) -> Self::Output {
        let clock = SystemClock::start();
        let setting = Setting {
            task: self.task,
            labels: self.labels,
            resume: self.resume,
            interrupt: self.interrupt,
            clock: &clock,
        };
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

/// A panic is an event of its own; on standard error it is one line, without a backtrace.
fn say_panics_in_one_line() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(|place| format!(" at {place}")).unwrap_or_default();
        say_last(&mut std::io::stderr(), &format!("the worker panicked{place}: {}", panic_text(panic.payload())));
    }));
}

/// Says words on standard error as one line. A worker has no logger: the agent keeps these lines for the reason of a
/// crash.
fn say_last(errors: &mut dyn Write, words: &str) {
    let line: Vec<&str> = words.split_whitespace().collect();
    // Where nobody reads them, nobody misses them.
    let _ = writeln!(errors, "{}", line.join(" "));
}

/// The words of a panic.
fn panic_text(payload: &(dyn std::any::Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use fleetcal_model::device::Backend;
    use fleetcal_model::policy::MeasuringPolicy;

    use super::*;
    use crate::testing::{device, labels, lease};

    fn request(devices: Vec<DeviceFacts>) -> Request {
        let lease = lease("task-1");
        let task = TaskSpec {
            task_id: lease.task_id,
            run_id: "run-1".into(),
            plan_digest: "plan".into(),
            attempt: lease.attempt,
            epoch: lease.epoch,
            devices: devices.iter().map(|device| device.uuid.clone()).collect(),
            points: Vec::new(),
            policy: MeasuringPolicy::default(),
            seed: 1,
            label: None,
            selected: Vec::new(),
            alone_on_node: true,
        };
        Request::Measure {
            task: Box::new(task),
            devices,
            sim: SimSpec::default(),
            labels: labels(),
            resume: Box::default(),
        }
    }

    fn answered(locks: &Path, device: DeviceFacts) -> Event {
        answer(request(vec![device]), locks, &AtomicBool::new(false), &mut Vec::new())
    }

    #[test]
    fn what_is_wrong_with_this_node_may_be_right_on_another() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(answered(folder.path(), device("SIM-1")), Event::Done, "nothing is wrong");

        let _held = DeviceLock::acquire(folder.path(), &"SIM-1".into()).expect("nobody has it");
        let no_folder = folder.path().join("file");
        std::fs::write(&no_folder, "").expect("a file can be written");
        let no_library = DeviceFacts { backend: Backend::Hip, ..device("HIP-1") };
        for (locks, device, word) in [
            (folder.path(), device("SIM-1"), "in use"),
            (no_folder.as_path(), device("SIM-2"), "cannot be locked"),
            (folder.path(), no_library, "HIP"),
        ] {
            let said = answered(locks, device);
            let Event::Failed { reason, retry: true } = &said else { panic!("another node may do it: {said:?}") };
            assert!(reason.contains(word), "{reason}");
        }
    }

    #[test]
    fn a_task_that_no_agent_of_this_version_can_do_is_not_tried_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let said = answer(request(Vec::new()), folder.path(), &AtomicBool::new(false), &mut Vec::new());
        assert!(matches!(&said, Event::Failed { retry: false, .. }), "{said:?}");
    }

    #[test]
    fn last_words_are_one_line() {
        let mut errors = Vec::new();
        say_last(&mut errors, "the worker panicked: left != right\n  left: 1\n right: 2");
        assert_eq!(String::from_utf8_lossy(&errors), "the worker panicked: left != right left: 1 right: 2\n");
    }
}
