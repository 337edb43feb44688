//! Progress of a run: bars on a terminal, plain lines where there is none.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::{LazyLock, Mutex};

use fleetcal_model::units::BytesPerSecond;
use fleetcal_proto::v1::{AgentProgress, RunStatus, TaskChanged, TaskState};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::{counted, harmless, say};

/// All bars of the process. Log lines are written through it, so that they stand above the bars.
static BARS: LazyLock<Mutex<Option<MultiProgress>>> = LazyLock::new(|| Mutex::new(None));

/// Where log lines go: to standard error, above the bars if there are any.
pub(crate) fn log_writer() -> impl Write {
    LogWriter
}

struct LogWriter;

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let bars = BARS.lock().ok().and_then(|bars| bars.clone());
        match bars {
            Some(bars) => bars.suspend(|| std::io::stderr().write_all(bytes))?,
            None => std::io::stderr().write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        std::io::stderr().flush()
    }
}

/// Shows how a run goes.
pub(crate) struct Progress {
    bars: Option<MultiProgress>,
    tasks: BTreeMap<String, Shown>,
    titles: BTreeMap<String, String>,
    /// What was last said of each task: a watcher that fell behind is told everything again.
    said: BTreeMap<String, (TaskState, u64)>,
    counts: Option<(u64, u64, u64)>,
}

/// What is shown of one task.
struct Shown {
    bar: Option<ProgressBar>,
    round: Option<u64>,
    notes: u64,
}

impl Progress {
    /// Bars if standard error is a terminal, else lines.
    pub(crate) fn new() -> Self {
        let bars =
            std::io::stderr().is_terminal().then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        if let Ok(mut shared) = BARS.lock() {
            shared.clone_from(&bars);
        }
        Self { bars, tasks: BTreeMap::new(), titles: BTreeMap::new(), said: BTreeMap::new(), counts: None }
    }

    /// The run's counts changed.
    pub(crate) fn status(&mut self, status: &RunStatus) {
        let counts = (status.done, status.failed, status.set_aside);
        let new = self.counts.replace(counts).is_some_and(|before| before != counts);
        if self.bars.is_none() && new {
            let (tasks, rows) = (counted(status.tasks, "task"), counted(status.rows, "row"));
            self.line(&format!("{} of {tasks} done, {rows}", status.done));
        }
    }

    /// A visit ended.
    pub(crate) fn visit(&mut self, visit: &AgentProgress) {
        let title = self.title(&visit.task_id);
        let bars = self.bars.clone();
        let shown = self.tasks.entry(visit.task_id.clone()).or_insert_with(|| Shown {
            bar: bars.map(|bars| bars.add(new_bar())),
            round: None,
            notes: 0,
        });
        let rate = visit.bytes_per_second.map(|rate| BytesPerSecond(rate).to_string()).unwrap_or_default();
        if let Some(bar) = &shown.bar {
            bar.set_length(visit.visits_planned);
            bar.set_position(visit.visits_done);
            bar.set_prefix(harmless(&title).into_owned());
            let message = format!("{} {} {rate}", round_name(visit.round, visit.rounds_planned), visit.point);
            bar.set_message(harmless(&message).into_owned());
        }
        let plain = shown.bar.is_none();
        let new_round = shown.round.replace(visit.round) != Some(visit.round);
        shown.notes += u64::from(visit.note.is_some());
        if let Some(note) = &visit.note {
            self.line(&format!("{title}: {note}"));
        }
        if plain && new_round {
            let round = round_name(visit.round, visit.rounds_planned);
            self.line(&format!("{title}: {round}, visit {} of {}", visit.visits_done, visit.visits_planned));
        }
    }

    /// A task changed its state.
    pub(crate) fn task(&mut self, task: &TaskChanged) {
        let title = if task.title.is_empty() { task.task_id.clone() } else { task.title.clone() };
        self.titles.insert(task.task_id.clone(), title.clone());
        let state = (task.state(), task.attempt);
        if self.said.insert(task.task_id.clone(), state) == Some(state) {
            return;
        }
        match task.state() {
            TaskState::Done => self.finish(&task.task_id, &format!("{title}: done")),
            TaskState::Failed => self.finish(&task.task_id, &format!("{title}: failed: {}", task.reason)),
            TaskState::SetAside => self.finish(&task.task_id, &format!("{title}: set aside: {}", task.reason)),
            TaskState::Pending if !task.reason.is_empty() => {
                self.finish(&task.task_id, &format!("{title}: to be tried again: {}", task.reason));
            }
            TaskState::Leased if self.bars.is_none() => {
                self.line(&format!("{title}: begun (attempt {})", task.attempt));
            }
            TaskState::Leased | TaskState::Pending | TaskState::Unspecified => {}
        }
    }

    /// The run ended: bars go.
    pub(crate) fn end(&mut self) {
        for shown in self.tasks.values() {
            if let Some(bar) = &shown.bar {
                bar.finish_and_clear();
            }
        }
        if let Ok(mut shared) = BARS.lock() {
            *shared = None;
        }
    }

    fn title(&self, task: &str) -> String {
        self.titles.get(task).cloned().unwrap_or_else(|| task.to_owned())
    }

    fn finish(&mut self, task: &str, sentence: &str) {
        if let Some(Shown { bar: Some(bar), .. }) = self.tasks.remove(task) {
            bar.finish_and_clear();
        }
        self.line(sentence);
    }

    fn line(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| say(text)),
            None => say(text),
        }
    }
}

fn new_bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {eta} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(1).with_style(style)
}

fn round_name(round: u64, planned: u64) -> String {
    if round == 0 { "screening".to_owned() } else { format!("round {round}/{planned}") }
}
