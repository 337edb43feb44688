//! Ctrl-C and SIGTERM, as one token.

use std::sync::{Arc, OnceLock};

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, Kind};
use crate::render;

/// What a process hears of signals, and what it says where a second one leaves no time for anything else.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stop {
    token: CancellationToken,
    last_words: Arc<OnceLock<String>>,
}

impl Stop {
    /// A stop at the first SIGINT or SIGTERM. A second one ends the process at once, with code 130.
    ///
    /// # Errors
    /// The signals cannot be listened for.
    pub(crate) fn on_signal() -> Result<Self, Failure> {
        let stop = Self::default();
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
        let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
        let heard = stop.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if heard.token.is_cancelled() {
                    if let Some(words) = heard.last_words.get() {
                        render::say(words);
                    }
                    std::process::exit(Kind::Interrupted as i32);
                }
                heard.token.cancel();
            }
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
