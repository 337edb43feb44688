//! The end of a session, within two seconds whatever the coordinator and the workers do.

use tokio::time::{Duration, Instant};

use super::Session;
use super::connection::Connection;
use crate::error::AgentError;

/// Workers are gone by then: half a second of grace, then they are killed, and their rows are kept.
const WORKERS_GONE: Duration = Duration::from_millis(900);

/// Rows are uploaded until then; what is left is sent after the next start.
const UPLOADED: Duration = Duration::from_millis(1_500);

/// The coordinator has heard the goodbye by then, or it has not.
const GONE: Duration = Duration::from_millis(1_800);

/// A session that ends.
#[derive(Debug)]
pub(super) struct Stopping {
    since: Instant,
    said_goodbye: bool,
    /// Why it ends by itself, if nobody asked.
    pub(super) cause: Option<AgentError>,
}

impl Stopping {
    /// The next moment at which something must not be waited for any longer.
    pub(super) fn next_deadline(&self, now: Instant) -> Instant {
        let deadlines = [WORKERS_GONE, UPLOADED, GONE].map(|after| self.since + after);
        deadlines.into_iter().find(|deadline| *deadline > now).unwrap_or(now)
    }

    fn is_past(&self, after: Duration, now: Instant) -> bool {
        now >= self.since + after
    }
}

impl Session {
    /// Gives everything back: workers are stopped, and no further task is taken.
    pub(super) fn begin_stopping(&mut self, cause: Option<AgentError>, now: Instant) {
        self.leases.stop_all("the agent is stopping");
        self.stopping = Some(Stopping { since: now, said_goodbye: false, cause });
    }

    /// Says goodbye once there is nothing left to say, or no time left to say it.
    pub(super) fn say_goodbye(&mut self, now: Instant) {
        let Some(stopping) = &self.stopping else { return };
        let is_done = !self.leases.any_running() && self.leases.all_told() && self.chunks.is_empty();
        if !stopping.said_goodbye && (is_done || stopping.is_past(UPLOADED, now)) {
            self.end_stream();
            self.stopping.iter_mut().for_each(|stopping| stopping.said_goodbye = true);
        }
    }

    /// Whether there is nothing to wait for any longer.
    pub(super) fn is_finished(&self, now: Instant) -> bool {
        let Some(stopping) = &self.stopping else { return false };
        let workers_gone = !self.leases.any_running() || stopping.is_past(WORKERS_GONE, now);
        match self.connection {
            // The coordinator ends the stream once it has heard the goodbye.
            Connection::Up(_) => stopping.is_past(GONE, now),
            // Nobody to tell: what was measured is in the spool.
            Connection::None | Connection::Dialling(_) => workers_gone,
        }
    }
}
