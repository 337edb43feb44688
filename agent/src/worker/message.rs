//! What agent and worker say to each other over the worker's pipes: JSON frames, each behind its length.
//!
//! Both ends are the same binary, so this is no contract with the outside; the contracts stand in `fleetcal-proto`.

use fleetcal_model::device::DeviceFacts;
use fleetcal_model::point::Point;
use fleetcal_model::row::{Row, Sample, StopReason};
use serde::{Deserialize, Serialize};

use super::resume::{Checkpoint, InHand, Resume};
use crate::device::sim::SimSpec;
use crate::harness::monitor::VisitSeen;
use crate::task::TaskSpec;

/// From agent to worker, on its standard input. The end of the stream means: stop now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Request {
    /// Find the devices of this node, and say [`Event::Devices`].
    Discover {
        /// Simulated devices to make.
        sim: SimSpec,
        /// Folder whose identity seeds UUIDs of `cpu` and `sim` devices.
        data_folder: String,
    },
    /// Measure a task on these devices.
    Measure {
        /// The task.
        task: Box<TaskSpec>,
        /// Its devices.
        devices: Vec<DeviceFacts>,
        /// Settings of simulated devices.
        sim: SimSpec,
        /// Labels that go into every row.
        labels: RowLabels,
        /// What earlier workers did of it.
        resume: Box<Resume>,
    },
}

/// What a row says of the agent and its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowLabels {
    /// The agent.
    pub agent_id: String,
    /// Node label.
    pub node: String,
    /// Host name.
    pub host: String,
    /// Rack label.
    pub rack: Option<String>,
}

/// How many measuring rounds a row gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoundPlan {
    /// All of them.
    pub rounds: u64,
    /// The first ones, whose spread set their number; none where the plan alone did.
    pub pilot: Option<u64>,
}

/// Devices of the agent that were measured beside one during a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoRunning {
    /// The fewest at any time.
    pub fewest: u64,
    /// The most at any time.
    pub most: u64,
    /// All that there are, itself not counted.
    pub others: u64,
}

/// A visit as it ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Visit {
    /// Row it belongs to: index of the template, see [`Event::RowOpened`].
    pub row: u64,
    /// Number of the round; 0 is the screening round.
    pub round: u64,
    /// Position within the round.
    pub order: u64,
    /// Offset of the buffers, bytes.
    pub buffer_offset_bytes: u64,
    /// Its samples.
    pub samples: Vec<Sample>,
    /// Why it ended.
    pub stop_reason: StopReason,
    /// Rounds that its row gets, as known then: a row cut short later says what it was cut short of.
    pub plan: RoundPlan,
    /// Start, nanoseconds since 1970 UTC.
    pub started_utc_ns: u64,
    /// End, nanoseconds since 1970 UTC.
    pub ended_utc_ns: u64,
    /// What it took, nanoseconds, by a clock that is never set.
    #[serde(default)]
    pub wall_ns: u64,
    /// Who was measured beside it: the agent's to fill in.
    pub co_running: Option<CoRunning>,
    /// What the monitor saw of it; none where nobody looked.
    pub seen: Option<Box<VisitSeen>>,
    /// Who wanted more of it than there was, and how often, and who wanted its round.
    pub votes: Vec<Vote>,
}

/// How often a listener of the harness said yes to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// The question: another round, another warm-up, more samples.
    pub question: String,
    /// The listener.
    pub listener: String,
    /// How often it said yes.
    pub yes: u64,
}

/// Why a backend has no devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendReport {
    /// `cuda`, `hip`, `cpu`, `sim`.
    pub backend: String,
    /// Devices found.
    pub devices: Vec<DeviceFacts>,
    /// Why there are none, or what is amiss.
    pub note: Option<String>,
}

/// From worker to agent, on its standard output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Event {
    /// Devices of this node, by backend.
    Devices(Vec<BackendReport>),
    /// Planned work: visits to come, for progress. Said again when screening has chosen.
    Planned {
        /// Visits in all.
        visits: u64,
        /// Rounds in all, the screening round not counted.
        rounds: u64,
    },
    /// A point was dropped before measuring, for example because the device has too little memory.
    PointDropped {
        /// The point.
        point: Point,
        /// Why.
        reason: String,
    },
    /// Something that people should know: sizes of visits were shrunk to fit the time, for example.
    Note(String),
    /// A row begins. Its index is its number of order among these events of this task, from 0.
    ///
    /// Rows open late: only once their solution has been validated, so that a row cut short by a crash (opened, visited,
    /// never closed) already carries its true outcome. A solution that is never visited opens and closes at once.
    RowOpened(Box<Row>),
    /// A visit ended, and its results are right. A visit whose results were wrong is never said.
    Visited(Visit),
    /// A row is complete, or will get no further visit: its outcome and conditions.
    RowClosed {
        /// Its index.
        row: u64,
        /// The template again, with outcome, validation and conditions filled in.
        template: Box<Row>,
    },
    /// What it is about to do, so that its death can be told whose fault it was, and its silence be told from work.
    InHand(InHand),
    /// A row that an earlier worker opened rests on other code than this one would run: it is begun anew.
    RowForgotten {
        /// Its index.
        row: u64,
    },
    /// What was decided so far: said before the first round, and at the end of each.
    Decided(Checkpoint),
    /// The task is done.
    Done,
    /// The device context is lost, or the worker panicked: a fresh worker may go on.
    Lost {
        /// How.
        reason: String,
    },
    /// The task cannot go on.
    Failed {
        /// Why.
        reason: String,
        /// Whether another try may help.
        retry: bool,
    },
}
