//! News of runs, for whoever watches. Nothing durable hangs on them: who falls behind is told the present state.

use fleetcal_model::id::RunId;
use fleetcal_proto::v1;
use tokio::sync::broadcast;

/// News kept for a watcher that is slow, before it is told the present state instead.
const NEWS_KEPT: usize = 1024;

/// What happened in a run.
#[derive(Debug, Clone)]
pub(crate) enum News {
    /// An agent measured a visit.
    Progress(v1::AgentProgress),
    /// A task changed; with the run's state after it.
    Task(v1::TaskChanged, v1::RunStatus),
    /// The run ended: its constants can be asked for.
    Ended,
}

/// Hands news to every watcher. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Watchers {
    news: broadcast::Sender<(RunId, News)>,
}

impl Watchers {
    /// Nobody watches yet.
    pub(crate) fn new() -> Self {
        Self { news: broadcast::Sender::new(NEWS_KEPT) }
    }

    /// Tells everybody who watches now.
    pub(crate) fn tell(&self, run: RunId, news: News) {
        // An error means that nobody watches.
        let _ = self.news.send((run, news));
    }

    /// Everything that is told from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<(RunId, News)> {
        self.news.subscribe()
    }
}
