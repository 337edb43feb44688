//! Constants of a run: its rows read back, those that count fitted, the documents published and kept.
//!
//! A fit reads what is on disk and nothing else, so the constants of an old run can be made anew at any time, and a
//! coordinator that was killed between a run's end and its fit makes them at the next start.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use fleetcal_core::core::CoreConfig;
use fleetcal_core::event::Timestamp;
use fleetcal_model::constants::{Constant, Document, Envelope};
use fleetcal_model::fit::Options;
use fleetcal_model::id::{RowId, RunId, TaskId};
use fleetcal_model::row::{Origin, Row};
use fleetcal_store::{FolderStore, Published};
use tokio::sync::{OnceCell, mpsc};

use crate::clock::{Clock, SystemClock};
use crate::driver::{Driver, DriverError, replayed};
use crate::error::{CoordinatorError, FolderError};
use crate::folder::Layout;
use crate::journal::Journal;
use crate::rows::{ReadError, RowFilter, SkippedFile, read_parts};
use crate::views;

/// Who made a document, as its envelope says.
const CREATED_BY: &str = "fleetcal coordinator";

/// The attempt of each task whose rows count.
pub(crate) type Winners = BTreeMap<TaskId, u64>;

/// What a fit of a run goes by, as the core says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Study {
    /// Whose rows count.
    pub(crate) winners: Winners,
    /// The parts that hold its rows, as the journal names them.
    pub(crate) parts: BTreeSet<String>,
    /// The plan's options.
    pub(crate) options: Options,
    /// Whether the run has ended. A cancelled run may go on and rows of it may still come, so what is fitted from it
    /// is for who asked, and is neither published nor kept.
    pub(crate) is_final: bool,
}

/// Constants fitted from one run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunConstants {
    /// One document of each device class and origin, JSON.
    pub documents: Vec<String>,
    /// What was left out or could not be kept, in sentences.
    pub problems: Vec<String>,
    /// Parts of the run that could not be read, or not wholly.
    pub unread_parts: u64,
}

/// Fits a run from the data folder alone; a coordinator may be working on it meanwhile. Publishes nothing.
///
/// # Errors
/// The journal cannot be read, or names no such run. Files that cannot be read are no error: they are among the
/// problems.
pub fn fit_folder(data_folder: &Path, run: &RunId) -> Result<RunConstants, CoordinatorError> {
    let layout = Layout::new(data_folder);
    let journal = Journal::open_for_reading(&layout.journal())?;
    // No lease is granted here: their length does not matter.
    let (core, _) = replayed(&journal, CoreConfig::default())?;
    let study = views::study(&core, &journal, run)?
        .ok_or_else(|| CoordinatorError::NoSuchRun { run: run.clone(), folder: data_folder.to_owned() })?;
    let fitted = fit(&layout, run, &study, SystemClock::start().now());
    Ok(RunConstants {
        documents: fitted.documents.iter().map(|(_, json)| json.clone()).collect(),
        problems: fitted.problems,
        unread_parts: fitted.unread_parts,
    })
}

/// The constants of one run, made at most once.
#[derive(Default)]
struct Made {
    constants: OnceCell<Arc<RunConstants>>,
    /// Whether the run has just ended: published whatever was published of it before, for it may have been resumed.
    just_ended: bool,
}

/// Runs that have ended, handed from the driver to [`Fits`]. Cheap to clone.
#[derive(Clone)]
pub(crate) struct EndedRuns {
    made: Arc<Mutex<HashMap<RunId, Arc<Made>>>>,
    runs: mpsc::UnboundedSender<RunId>,
}

impl EndedRuns {
    /// None yet; and where they come out.
    pub(crate) fn new() -> (Self, mpsc::UnboundedReceiver<RunId>) {
        let (runs, ended) = mpsc::unbounded_channel();
        (Self { made: Arc::default(), runs }, ended)
    }

    /// A run has ended: what was made of it before, if it had ended and was resumed, no longer counts.
    pub(crate) fn add(&self, run: &RunId) {
        let made = Made { just_ended: true, ..Made::default() };
        self.made.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone(), Arc::new(made));
        self.again(run);
    }

    /// A run that ended before a restart: its constants are made, and published if they never were.
    pub(crate) fn again(&self, run: &RunId) {
        // An error means that the coordinator stops; the run is fitted at the next start.
        let _ = self.runs.send(run.clone());
    }

    fn made(&self, run: &RunId) -> Arc<Made> {
        Arc::clone(self.made.lock().unwrap_or_else(PoisonError::into_inner).entry(run.clone()).or_default())
    }
}

/// Fits runs as they end or are asked for, each once at a time.
pub(crate) struct Fits {
    layout: Layout,
    driver: Driver,
    clock: Arc<dyn Clock>,
    ended: EndedRuns,
}

impl Fits {
    /// Fits the runs that `ended` holds, and reads their rows from the folder.
    pub(crate) fn new(layout: Layout, driver: Driver, clock: Arc<dyn Clock>, ended: EndedRuns) -> Arc<Self> {
        Arc::new(Self { layout, driver, clock, ended })
    }

    /// The constants of a run that is over. Those of one that has ended are published if they never were, and made
    /// once; those of a cancelled one are made anew each time.
    ///
    /// # Errors
    /// The coordinator stops.
    pub(crate) async fn of(self: &Arc<Self>, run: &RunId) -> Result<Arc<RunConstants>, DriverError> {
        let made = self.ended.made(run);
        let study = self.study(run).await?;
        let (fits, run) = (Arc::clone(self), run.clone());
        // On a task of its own: who asked may go, and others wait for the same.
        let making = tokio::spawn(async move {
            let just_ended = made.just_ended;
            if study.is_final {
                made.constants.get_or_try_init(|| fits.make(run, study, just_ended)).await.cloned()
            } else {
                fits.make(run, study, just_ended).await
            }
        });
        making.await.map_err(|error| DriverError::Failed(format!("fitting stopped: {error}")))?
    }

    /// Makes the constants of runs as they end, until nobody is left to name any.
    pub(crate) async fn make_all(self: Arc<Self>, mut ended: mpsc::UnboundedReceiver<RunId>) {
        while let Some(run) = ended.recv().await {
            if self.study(&run).await.is_ok_and(|study| !study.is_final) {
                tracing::info!(%run, "run cancelled, nothing is published of it");
                continue;
            }
            match self.of(&run).await {
                Ok(made) => {
                    tracing::info!(%run, documents = made.documents.len(), problems = made.problems.len(), "run fitted");
                }
                Err(error) => tracing::warn!(%run, %error, "the run is fitted at the next start"),
            }
        }
    }

    async fn study(&self, run: &RunId) -> Result<Study, DriverError> {
        let wanted = run.clone();
        let study = self.driver.read(move |view| views::study(view.core, view.journal, &wanted)).await?;
        Ok(study.map_err(|error| DriverError::from(&error))?.unwrap_or_default())
    }

    async fn make(&self, run: RunId, study: Study, just_ended: bool) -> Result<Arc<RunConstants>, DriverError> {
        let (layout, now) = (self.layout.clone(), self.clock.now());
        let made = tokio::task::spawn_blocking(move || make(&layout, &run, &study, now, just_ended)).await;
        made.map(Arc::new).map_err(|error| DriverError::Failed(format!("fitting stopped: {error}")))
    }
}

/// Documents with their JSON, and what is to be said of them.
struct Fitted {
    documents: Vec<(Document, String)>,
    problems: Vec<String>,
    unread_parts: u64,
}

/// Fits a run; if it is final, publishes and keeps the documents if it has just ended, or they never were. What cannot
/// be kept is a problem of the run, no failure: the documents are there, and are kept at the next start.
fn make(layout: &Layout, run: &RunId, study: &Study, now: Timestamp, just_ended: bool) -> RunConstants {
    let Fitted { documents, mut problems, unread_parts } = fit(layout, run, study, now);
    if study.is_final && (just_ended || !layout.run_constants(run).exists()) {
        match publish(layout, run, &documents) {
            Ok(losses) => problems.extend(losses),
            Err(error) => {
                tracing::error!(%run, %error, "constants could not be published");
                problems.push(error.to_string());
            }
        }
    }
    RunConstants { documents: documents.into_iter().map(|(_, json)| json).collect(), problems, unread_parts }
}

/// Reads a run's rows and fits those of the attempts that count.
fn fit(layout: &Layout, run: &RunId, study: &Study, now: Timestamp) -> Fitted {
    let filter = RowFilter::Named { run: run.clone(), parts: study.parts.clone() };
    let report = read_parts(layout.root(), &filter);
    // A file that the journal does not name holds nothing of the run's.
    let lacking = |skipped: &&SkippedFile| !matches!(skipped.reason, ReadError::NotNamed);
    let unread_parts = report.skipped.iter().filter(lacking).count() as u64;
    let mut problems = Vec::new();
    for skipped in report.skipped {
        let problem = format!("{} was skipped: {}", skipped.path.display(), skipped.reason);
        tracing::warn!(%run, "{problem}");
        problems.push(problem);
    }
    let rows = rows_that_count(report.rows, &study.winners, &mut problems);
    let emulated = rows.iter().filter(|row| row.identity.origin == Origin::Emulated).count();
    if emulated > 0 {
        problems
            .push(format!("{emulated} rows are emulated: their times mean nothing, and nothing is fitted from them"));
    }
    let envelope = Envelope {
        created_utc_ns: now.0,
        created_by: CREATED_BY.to_owned(),
        run_id: run.clone(),
        coordinator_version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut documents = Vec::new();
    for document in Document::fit(&rows, &study.options, &envelope) {
        match document.to_json() {
            Ok(json) => documents.push((document, json)),
            Err(error) => problems.push(format!("the constants of {}: {error}", document.body.class_slug)),
        }
    }
    Fitted { documents, problems, unread_parts }
}

/// Rows of winning attempts, each once. Rows of superseded attempts are kept, and feed nothing; a row that is there
/// twice came in two chunks.
fn rows_that_count(rows: Vec<Row>, winners: &Winners, problems: &mut Vec<String>) -> Vec<Row> {
    let wins = |row: &Row| winners.get(&row.identity.task_id) == Some(&row.identity.attempt);
    let mut seen: BTreeSet<RowId> = BTreeSet::new();
    let mut twice = 0_u64;
    let mut counted = Vec::new();
    for row in rows.into_iter().filter(wins) {
        if seen.insert(row.identity.row_id.clone()) {
            counted.push(row);
        } else {
            twice += 1;
        }
    }
    if twice > 0 {
        problems.push(format!("{twice} rows came in two chunks, and were counted once"));
    }
    counted
}

/// Publishes documents to the folder store, then keeps them by their run: what is kept was published. What was kept before
/// the run was resumed goes first, so that a failure in between is made good at the next start. Answers what readers of the
/// current documents lose by it.
fn publish(layout: &Layout, run: &RunId, documents: &[(Document, String)]) -> Result<Vec<String>, CoordinatorError> {
    let failed = |reason: String| CoordinatorError::Constants { run: run.clone(), reason };
    let kept = layout.run_constants(run);
    remove(&kept).map_err(|error| failed(error.to_string()))?;
    let store = FolderStore::open(&layout.constants()).map_err(|error| failed(error.to_string()))?;
    let mut losses = Vec::new();
    for (document, _) in documents {
        match store.current(&document.body.class_id, document.body.origin) {
            Ok(before) => losses.extend(before.and_then(|before| loss(&before, document))),
            Err(error) => losses.push(format!("what the new document replaces is not known: {error}")),
        }
        store.publish(document).map_err(|error| failed(error.to_string()))?;
    }
    let texts: Vec<&str> = documents.iter().map(|(_, json)| json.trim_end()).collect();
    keep(&kept, &format!("[{}]\n", texts.join(",\n"))).map_err(|error| failed(error.to_string()))?;
    Ok(losses)
}

/// Says how many constants the document before had a value for that the new one has none for.
fn loss(before: &Published, after: &Document) -> Option<String> {
    let has = |constant: &&Constant| constant.value.is_some();
    let same = |old: &Constant, new: &Constant| old.name == new.name && old.condition == new.condition;
    let lost = before.document.body.constants.iter().filter(has);
    let lost = lost.filter(|old| !after.body.constants.iter().filter(has).any(|new| same(old, new))).count();
    let class = &after.body.class_slug;
    (lost > 0).then(|| {
        format!(
            "{lost} constants of {class} that version {} had are not in the new current document: this run measured less",
            before.version
        )
    })
}

/// Removes a file that may not be there.
fn remove(path: &Path) -> Result<(), FolderError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(FolderError::at(path, error)),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Writes a file whole or not at all.
fn keep(path: &Path, text: &str) -> Result<(), FolderError> {
    let failed = |source| FolderError::at(path, source);
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let temporary = path.with_extension("json.tmp");
    let written =
        File::create(&temporary).and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    written.and_then(|()| fs::rename(&temporary, path)).map_err(failed)
}
