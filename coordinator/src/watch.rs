//! News of runs, for whoever watches. Nothing durable hangs on them: who falls behind is told the present state.

use std::collections::BTreeMap;

use fleetcal_core::event::Timestamp;
use fleetcal_model::id::{RunId, TaskId};
use fleetcal_proto::v1;
use tokio::sync::broadcast;

/// News kept for a watcher that is slow, before it is told the present state instead: of a thousand tasks, more than a
/// second's.
const NEWS_KEPT: usize = 16_384;

/// Least time between two visits of a task that are told: a simulated device makes thousands a second, and no eye
/// follows more than these.
const PROGRESS_GAP_NS: u64 = 100_000_000;

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

/// Which progress is told: of each task the first visit of a round, whatever has a note, and else no more than one in
/// [`PROGRESS_GAP_NS`].
#[derive(Debug, Default)]
pub(crate) struct ProgressPace {
    told: BTreeMap<TaskId, (Timestamp, u64)>,
}

impl ProgressPace {
    /// Whether to tell this one.
    pub(crate) fn lets_pass(&mut self, now: Timestamp, progress: &v1::AgentProgress) -> bool {
        let task = TaskId::new(progress.task_id.as_str());
        let soon = |(at, round): &(Timestamp, u64)| *round == progress.round && now < at.after_ns(PROGRESS_GAP_NS);
        if progress.note.is_none() && self.told.get(&task).is_some_and(soon) {
            return false;
        }
        self.told.insert(task, (now, progress.round));
        true
    }

    /// A task moved on: what was told of it no longer matters.
    pub(crate) fn forget(&mut self, task: &TaskId) {
        self.told.remove(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_of_visits_is_thinned_but_for_first_ones_of_rounds_and_notes() {
        let mut pace = ProgressPace::default();
        let visit =
            |task: &str, round: u64| v1::AgentProgress { task_id: task.to_owned(), round, ..Default::default() };
        let mut told = 0;
        for ms in 0..1_000 {
            told += u64::from(pace.lets_pass(Timestamp(ms * 1_000_000), &visit("a", 1)));
        }
        assert_eq!(told, 10, "of a visit each millisecond, ten a second are told");
        let now = Timestamp(1_000_000_000 - 1);
        assert!(pace.lets_pass(now, &visit("a", 2)), "the first of a round");
        assert!(!pace.lets_pass(now, &visit("a", 2)));
        assert!(pace.lets_pass(now, &v1::AgentProgress { note: Some("hot".to_owned()), ..visit("a", 2) }), "a note");
        assert!(pace.lets_pass(now, &visit("b", 2)), "each task has a pace of its own");
        pace.forget(&TaskId::new("a"));
        assert!(pace.lets_pass(now, &visit("a", 2)), "it began anew");
    }
}
