//! What a fresh worker is told of a task that others began, and how a worker says what it is about to do.

use std::fmt;

use fleetcal_model::row::Row;
use serde::{Deserialize, Serialize};

use super::message::RoundPlan;
use crate::harness::budget::Limits;
use crate::harness::monitor::VisitSeen;

/// One (point, solution).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Subject {
    /// The point, as rows spell it.
    pub point: String,
    /// Name of the solution.
    pub solution: String,
}

impl Subject {
    /// What a row is about.
    pub fn of_row(row: &Row) -> Self {
        Self { point: row.work.point.clone(), solution: row.work.solution.clone() }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.solution, self.point)
    }
}

/// What a worker may die of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// The device is opened and its instrument measured.
    Open,
    /// Solutions are compiled and loaded.
    Prepare,
    /// Memory is allocated and filled.
    Data,
    /// Outputs are poisoned and untimed launches run, the first one of unknown duration.
    WarmUp,
    /// Results are compared with the reference.
    Check,
    /// A launch next to unmapped memory: a fault here is the finding, and another try finds the same.
    Bounds,
    /// Launches are timed.
    Timing,
}

impl Stage {
    /// When a death in this stage happened, in words.
    pub fn when(self) -> &'static str {
        match self {
            Self::Open => "while the device was opened",
            Self::Prepare => "while solutions were compiled and loaded",
            Self::Data => "while memory was allocated and filled",
            Self::WarmUp => "during a warm-up",
            Self::Check => "while results were compared",
            Self::Bounds => "during a launch next to unmapped memory",
            Self::Timing => "while launches were timed",
        }
    }
}

/// What a worker is about to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InHand {
    /// What.
    pub stage: Stage,
    /// For whom, where it concerns one solution.
    pub subject: Option<Subject>,
    /// How long it is expected to take, nanoseconds; 0 where nobody knows.
    pub expected_ns: u64,
}

/// A solution that is visited in rounds to come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Chosen {
    /// Which.
    pub subject: Subject,
    /// Rounds that it gets.
    pub plan: RoundPlan,
}

/// What was decided so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// The round that the task began with: 0 where solutions are screened.
    pub first_round: u64,
    /// The round that comes next.
    pub next_round: u64,
    /// Counts in force.
    pub limits: Limits,
    /// Who is visited in rounds to come.
    pub selected: Vec<Chosen>,
    /// Time that the task has taken until then, all workers together, nanoseconds.
    #[serde(default)]
    pub spent_ns: u64,
}

impl Resume {
    /// Time that earlier workers took, nanoseconds: all of it until the last checkpoint, rows that are forgotten since
    /// included, and after it their visits.
    pub fn spent_ns(&self) -> u64 {
        let (spent_ns, since_round) =
            self.checkpoint.as_ref().map_or((0, 0), |checkpoint| (checkpoint.spent_ns, checkpoint.next_round));
        let visits = self.open.iter().flat_map(|row| &row.visits).filter(|visit| visit.round >= since_round);
        visits.fold(spent_ns, |total, visit| total.saturating_add(visit.wall_ns))
    }

    /// Visits that ended.
    pub fn visits_done(&self) -> u64 {
        self.open.iter().map(|row| row.visits.len() as u64).sum()
    }
}

impl Checkpoint {
    /// Whether the first round is over, which settles the rounds to come.
    pub fn is_settled(&self) -> bool {
        self.next_round > self.first_round
    }
}

/// A visit that ended before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownVisit {
    /// Its round.
    pub round: u64,
    /// Median of its accepted samples, nanoseconds a launch; none where none was accepted.
    pub median_ns: Option<f64>,
    /// Time that all its samples took, nanoseconds.
    pub timed_ns: u64,
    /// Its samples.
    pub samples: u64,
    /// From its start to its end, nanoseconds.
    pub wall_ns: u64,
    /// What the monitor saw of it.
    pub seen: Option<Box<VisitSeen>>,
}

/// A row that may get further visits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownRow {
    /// Its index.
    pub row: u64,
    /// What was said of it last.
    pub template: Box<Row>,
    /// Its visits.
    pub visits: Vec<KnownVisit>,
}

/// A solution that is not touched again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Which.
    pub subject: Subject,
    /// How it killed workers.
    pub reason: String,
}

/// What is known of a task that was begun. Empty for a task that was not.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Resume {
    /// Workers that worked on it before: a round that goes on does so in fresh buffers at another offset.
    pub restarts: u64,
    /// Rows opened so far; the next one has this index.
    pub rows_opened: u64,
    /// Rows that are open.
    pub open: Vec<KnownRow>,
    /// Rows that are complete.
    pub closed: Vec<Subject>,
    /// What was decided so far; none before the first round began.
    pub checkpoint: Option<Checkpoint>,
    /// Solutions that killed too many workers. They are not touched again.
    pub set_aside: Vec<SetAside>,
    /// Whether solutions are prepared one by one, because preparing all at once killed a worker.
    pub one_by_one: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::budget::Limits;
    use crate::testing::{lease, template};

    #[test]
    fn what_earlier_workers_took_is_the_last_checkpoint_and_the_visits_since() {
        let visit = |round| KnownVisit { round, median_ns: None, timed_ns: 1, samples: 1, wall_ns: 100, seen: None };
        let visits = (1..=3).map(visit).collect();
        let row = KnownRow { row: 0, template: Box::new(template(&lease("t"), "s0")), visits };
        let limits = Limits { rounds: 5, finalists: 1, samples_min: 1, samples_max: 1 };
        let mut resume = Resume { open: vec![row], ..Resume::default() };
        assert_eq!(resume.spent_ns(), 300, "nothing else is known");
        resume.checkpoint =
            Some(Checkpoint { first_round: 1, next_round: 3, limits, selected: Vec::new(), spent_ns: 10_000 });
        assert_eq!(resume.spent_ns(), 10_100, "rounds 1 and 2 are in the checkpoint, with what else they cost");
        resume.open.clear();
        assert_eq!(resume.spent_ns(), 10_000, "rows that were forgotten were paid for all the same");
    }
}
