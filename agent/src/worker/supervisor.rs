//! The agent's hold on a worker process.

use std::collections::VecDeque;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::frame::{Decoder, FrameError, encode};
use super::message::{Event, Request};

/// How long a process may take to go away, once its pipe has ended or SIGKILL was sent.
const EXIT_GRACE: Duration = Duration::from_secs(5);

/// Lines of standard error that are kept for the reason of a crash.
const LAST_WORDS: usize = 8;

/// Bytes read from the pipe at once.
const READ_BYTES: usize = 64 << 10;

/// What became of a worker that did not answer properly.
#[derive(Debug, thiserror::Error)]
pub enum WorkerError {
    /// The process could not be started.
    #[error("the worker process {program} could not be started: {source}")]
    Spawn {
        /// The program.
        program: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// It ended without a last word.
    #[error("{how}{last_words}")]
    Died {
        /// How: its exit status or signal.
        how: String,
        /// The signal that ended it, if one did.
        signal: Option<i32>,
        /// The last lines of its standard error, or nothing.
        last_words: String,
    },
    /// It says what cannot be understood.
    #[error("the worker cannot be understood: {0}")]
    Frame(#[from] FrameError),
    /// It outlived SIGKILL: its thread is stuck in the driver, and its device is lost until the node is seen to.
    #[error("worker process {pid} outlived SIGKILL: it is stuck in the device driver")]
    Stuck {
        /// The process.
        pid: u32,
    },
}

/// A running worker process. Dropped, it is killed with everything it started.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// Holds the worker's input open; dropped, it closes it.
    input: Option<AbortOnDropHandle<()>>,
    output: ChildStdout,
    errors: JoinHandle<()>,
    last_words: Arc<Mutex<VecDeque<String>>>,
    decoder: Decoder,
    finished: bool,
}

impl Worker {
    /// Starts a program with these arguments in a process group of its own and gives it its request, without waiting until
    /// it has read that: a worker that never reads is stopped like any other that says nothing.
    ///
    /// # Errors
    /// [`WorkerError::Spawn`], or [`WorkerError::Frame`] for a request too large to be told. A worker that dies before it
    /// has read the request is found by [`Worker::next_event`].
    pub fn spawn(program: &Path, arguments: &[String], request: &Request) -> Result<Self, WorkerError> {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::start(command, request)
    }

    /// [`Worker::spawn`] with the command given.
    fn start(mut command: Command, request: &Request) -> Result<Self, WorkerError> {
        let frame = encode(request)?;
        let program = PathBuf::from(command.as_std().get_program());
        let failed = |source| WorkerError::Spawn { program: program.clone(), source };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.process_group(0).kill_on_drop(true).spawn().map_err(failed)?;
        let missing = || failed(std::io::Error::other("a standard stream is missing"));
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let stderr = child.stderr.take().ok_or_else(missing)?;
        let last_words = Arc::default();
        let errors = tokio::spawn(pass_on_errors(stderr, child.id(), Arc::clone(&last_words)));
        let input = Some(AbortOnDropHandle::new(tokio::spawn(hold_input(input, frame))));
        Ok(Self { child, input, output, errors, last_words, decoder: Decoder::default(), finished: false })
    }

    /// The next event; `None` once it has said its last one and gone. May be cancelled: no event is lost then.
    ///
    /// # Errors
    /// [`WorkerError::Died`], [`WorkerError::Frame`] or [`WorkerError::Stuck`].
    pub async fn next_event(&mut self) -> Result<Option<Event>, WorkerError> {
        loop {
            if let Some(event) = self.decoder.message::<Event>()? {
                self.finished =
                    matches!(event, Event::Devices(_) | Event::Done | Event::Lost { .. } | Event::Failed { .. });
                return Ok(Some(event));
            }
            let mut chunk = Vec::with_capacity(READ_BYTES);
            match self.output.read_buf(&mut chunk).await {
                Ok(0) => return self.farewell().await.map(|()| None),
                Ok(_) => self.decoder.push(&chunk),
                Err(error) => return Err(FrameError::Pipe(error).into()),
            }
        }
    }

    /// Asks it to stop by closing its input, waits up to `grace`, then kills its process group. Returns what it still
    /// said.
    ///
    /// # Errors
    /// [`WorkerError::Stuck`]. How a stopped worker ended is otherwise nobody's concern.
    pub async fn stop(mut self, grace: Duration) -> Result<Vec<Event>, WorkerError> {
        self.input = None;
        let mut said = Vec::new();
        let ended = timeout(grace, async {
            while let Ok(Some(event)) = self.next_event().await {
                said.push(event);
            }
        });
        if ended.await.is_err() {
            tracing::warn!(pid = self.child.id(), "worker did not stop in time and is killed");
        }
        self.kill().await?;
        Ok(said)
    }

    /// After the end of its output: waits for it, and judges how it went.
    async fn farewell(&mut self) -> Result<(), WorkerError> {
        // It may hang in a driver's exit handlers with its last word said; that costs no more than the wait.
        let status = match timeout(EXIT_GRACE, self.child.wait()).await {
            Ok(status) => status.ok(),
            Err(_) => {
                self.kill().await?;
                None
            }
        };
        if self.finished {
            return Ok(());
        }
        // Its last lines may still be on their way; a grandchild may hold the pipe open for ever.
        let _ = timeout(EXIT_GRACE, &mut self.errors).await;
        let words = self.last_words.lock().unwrap_or_else(PoisonError::into_inner);
        let last_words: String = words.iter().map(|line| format!("\n  {line}")).collect();
        let how = status.map_or_else(
            || "worker closed its pipe without a last word, did not exit, and was killed".to_owned(),
            describe,
        );
        let signal = status.and_then(|status| status.signal());
        Err(WorkerError::Died { how, signal, last_words })
    }

    /// Kills what is left of its process group, and waits for the worker itself.
    async fn kill(&mut self) -> Result<(), WorkerError> {
        let Some(pid) = self.child.id() else { return Ok(()) };
        kill_group(pid);
        match timeout(EXIT_GRACE, self.child.wait()).await {
            Ok(_) => Ok(()),
            Err(_) => Err(WorkerError::Stuck { pid }),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // `id` is none once it was waited for: its number may be another's then.
        if let Some(pid) = self.child.id() {
            kill_group(pid);
        }
        self.errors.abort();
    }
}

/// Writes the request, then keeps the pipe open: its end is what tells a worker to stop.
async fn hold_input(mut input: ChildStdin, frame: Vec<u8>) {
    if let Err(error) = input.write_all(&frame).await {
        tracing::debug!(%error, "worker did not read its request");
    }
    std::future::pending().await
}

/// Sends SIGKILL to a process group; it may be gone already.
fn kill_group(pid: u32) {
    if let Some(group) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Turns lines of standard error into log lines, and keeps the last ones.
async fn pass_on_errors(stderr: ChildStderr, pid: Option<u32>, last_words: Arc<Mutex<VecDeque<String>>>) {
    let mut lines = BufReader::new(stderr).split(b'\n');
    let mut in_backtrace = false;
    while let Ok(Some(line)) = lines.next_segment().await {
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        tracing::info!(target: "fleetcal::worker", pid, "{line}");
        in_backtrace = line == "stack backtrace:" || in_backtrace && line.starts_with(' ');
        // The log has them; as the reason of a crash they would push out what was said before.
        if in_backtrace || line.starts_with("note: Some details are omitted") {
            continue;
        }
        let mut words = last_words.lock().unwrap_or_else(PoisonError::into_inner);
        if words.len() == LAST_WORDS {
            words.pop_front();
        }
        words.push_back(line);
    }
}

/// How a process ended, in words.
fn describe(status: ExitStatus) -> String {
    let name = |signal| match signal {
        2 => "SIGINT",
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        _ => "unnamed",
    };
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("worker died of signal {signal} ({})", name(signal)),
        (None, Some(code)) => format!("worker ended with exit code {code} and without a last word"),
        (None, None) => "worker ended and nobody knows how".to_owned(),
    }
}

#[cfg(test)]
mod tests;
