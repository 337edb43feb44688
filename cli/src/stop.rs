//! Ctrl-C, SIGTERM and a terminal that goes away, as one token.

use std::process::ExitCode;
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, Kind};
use crate::render;

/// Cancelled at a second signal. Of the process, as signals are.
static AT_ONCE: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);

/// How long the process may take to let go of everything after a second signal.
const LET_GO_MAX: Duration = Duration::from_millis(500);

/// What a process hears of signals, and what it says where a second one leaves no time for anything else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    last_words: Arc<OnceLock<String>>,
}

impl Stop {
    /// A stop at the first SIGINT, SIGTERM or SIGHUP. A second one ends the process at once, with code 130. A SIGHUP that
    /// whoever started the process had it ignore, as `nohup` does, stays ignored.
    ///
    /// # Errors
    /// The signals cannot be listened for.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        let stop = Self::default();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
        let mut hangup =
            if ignores_hangup() { None } else { Some(signal(SignalKind::hangup()).map_err(Failure::internal)?) };
        let heard = stop.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                    () = next(hangup.as_mut()) => {}
                }
                if heard.token.is_cancelled() {
                    break;
                }
                heard.token.cancel();
            }
            if let Some(words) = heard.last_words.get() {
                render::say(words);
            }
            AT_ONCE.cancel();
            tokio::time::sleep(LET_GO_MAX).await;
            std::process::exit(Kind::Interrupted as i32);
        });
        Ok(stop)
    }

    /// What a second signal leaves behind; the first words count.
    pub(crate) fn say_at_last(&self, words: String) {
        let _ = self.last_words.set(words);
    }

    /// The token.
    pub(crate) fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Returns once a signal came.
    pub(crate) async fn cancelled(&self) {
        self.token.cancelled().await;
    }
}

/// Returns at the next such signal; never, where it is not listened for.
async fn next(listener: Option<&mut Signal>) {
    match listener {
        Some(listener) => {
            let _ = listener.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether this process was started with SIGHUP ignored.
fn ignores_hangup() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|status| ignores(&status, SignalKind::hangup()))
}

/// Whether a process of this `/proc/PID/status` ignores a signal: `SigIgn` is a mask, signal 1 its lowest bit (proc(5)).
fn ignores(status: &str, kind: SignalKind) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

/// Returns once a second signal came, with the code to end with. Whoever then lets go of the runtime kills its workers: a
/// process that exits by itself would leave them at their devices until they notice.
pub(crate) async fn at_once() -> ExitCode {
    AT_ONCE.cancelled().await;
    ExitCode::from(Kind::Interrupted as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nohup_ignores_is_seen() {
        let status = "Name:\tfleetcal\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SignalKind::hangup()));
        assert!(!ignores(status, SignalKind::interrupt()));
        assert!(!ignores("Name:\tfleetcal\n", SignalKind::hangup()));
    }
}
