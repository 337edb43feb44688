//! Real `fleetcal` processes: started, watched, killed, and never left behind.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// Longest wait for anything that a test waits for. Not a measure of speed: a test that reaches it has failed.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The root of the workspace.
pub fn workspace_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// The binary, built in the profile that tests are built in.
///
/// # Panics
/// It does not build.
#[allow(clippy::expect_used)]
pub fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let built = Command::new(env!("CARGO"))
            .current_dir(workspace_root())
            .args(["build", "--offline", "--package", "fleetcal"])
            .output()
            .expect("cargo runs");
        assert!(built.status.success(), "fleetcal does not build: {}", String::from_utf8_lossy(&built.stderr));
        let test = std::env::current_exe().expect("a test knows its own path");
        let folder = test.ancestors().nth(2).expect("test binaries stand in PROFILE/deps");
        folder.join("fleetcal")
    })
}

/// A command of the binary, with an environment that holds no setting of ours.
pub fn fleetcal(arguments: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(arguments).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FLEETCAL_")) {
        command.env_remove(name);
    }
    command
}

/// Runs a command to its end.
///
/// # Panics
/// It cannot be started.
#[allow(clippy::expect_used)]
pub fn output(arguments: &[&str]) -> Output {
    fleetcal(arguments).output().expect("fleetcal starts")
}

/// A process in the background. Killed when dropped.
pub struct Background {
    child: Child,
    lines: Receiver<String>,
    seen: Vec<String>,
}

impl Background {
    /// Starts it; its standard error can be waited on line by line.
    ///
    /// # Panics
    /// It cannot be started.
    #[allow(clippy::expect_used)]
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("fleetcal starts");
        let stderr = child.stderr.take().expect("standard error is a pipe");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, lines, seen: Vec::new() }
    }

    /// Waits for a line of standard error that contains `text`, and returns it.
    ///
    /// # Panics
    /// It does not come.
    #[allow(clippy::panic)]
    pub fn wait_for_line(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    self.seen.push(line.clone());
                    if line.contains(text) {
                        return line;
                    }
                }
                Err(error) => panic!("no line with `{text}` ({error}); seen:\n{}", self.seen.join("\n")),
            }
        }
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal by name, for example `INT`.
    ///
    /// # Panics
    /// There is no `kill`.
    #[allow(clippy::expect_used)]
    pub fn signal(&self, name: &str) {
        let sent =
            Command::new("kill").args([&format!("-{name}"), &self.id().to_string()]).status().expect("kill runs");
        assert!(sent.success(), "signal {name} could not be sent to {}", self.id());
    }

    /// Reads no more of its standard output, as a reader that leaves.
    pub fn close_output(&mut self) {
        self.child.stdout = None;
    }

    /// How it ended, if it has.
    ///
    /// # Panics
    /// It cannot be asked for.
    #[allow(clippy::expect_used)]
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be waited for")
    }

    /// Waits for its end: status, standard output, and all of standard error.
    ///
    /// # Panics
    /// It does not end.
    #[allow(clippy::expect_used)]
    pub fn wait(mut self) -> (ExitStatus, String, String) {
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout).expect("standard output is text");
        }
        let status = self.child.wait().expect("a child can be waited for");
        self.seen.extend(self.lines.iter());
        (status, stdout, self.seen.join("\n"))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // Both fail where the process has ended, which is what is wanted.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Asks again and again until the answer is there.
///
/// # Panics
/// It does not come.
#[allow(clippy::panic)]
pub fn wait_until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("{what}: waited {} s in vain", PATIENCE.as_secs());
}
