//! Ctrl-C and SIGTERM, as one token.

use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::failure::Failure;

/// A token that is cancelled at the first SIGINT or SIGTERM. A second one ends the process at once, with code 130.
///
/// # Errors
/// The signals cannot be listened for.
pub(crate) fn on_signal() -> Result<CancellationToken, Failure> {
    let token = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::internal)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::internal)?;
    let cancelled = token.clone();
    tokio::spawn(async move {
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if cancelled.is_cancelled() {
                std::process::exit(130);
            }
            cancelled.cancel();
        }
    });
    Ok(token)
}
