//! Journals of attempts that ended before their task did: the next attempt at the task goes on from them.
//!
//! Their rows were handed in already, under their own attempt. What is kept here is only so that nothing is measured
//! twice: it may be lost at any time, at the cost of measuring anew.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use fleetcal_model::digest::Sha256Digest;
use fleetcal_model::id::TaskId;

use super::SpoolError;
use super::folder::files_of;
use super::journal::{self, Leftover};

/// Most journals kept; the oldest go first.
const COUNT_MAX: usize = 256;

/// A task that was not taken up again by then will not be, or finds its device changed.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The folder of kept journals, one a task.
#[derive(Debug, Clone)]
pub(crate) struct KeptFolder {
    folder: PathBuf,
}

impl KeptFolder {
    /// Opens the folder below the spool's root, and clears what is too old.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`], [`SpoolError::Unreadable`].
    pub(crate) fn open(root: &Path) -> Result<Self, SpoolError> {
        let folder = root.join("kept");
        fs::create_dir_all(&folder).map_err(SpoolError::unwritable(&folder))?;
        let kept = Self { folder };
        kept.clear(SystemTime::now(), COUNT_MAX)?;
        Ok(kept)
    }

    /// Keeps the journal of a task's latest attempt, in place of an earlier one's. It is moved here.
    pub(crate) fn put(&self, journal: &Path, task: &TaskId) {
        if let Err(error) = fs::rename(journal, self.path(task)) {
            tracing::warn!(path = %journal.display(), %error, "a journal cannot be kept: its task will be measured anew");
            let _ = fs::remove_file(journal);
        }
        if let Err(error) = self.clear(SystemTime::now(), COUNT_MAX) {
            tracing::warn!(%error, "old journals cannot be cleared away");
        }
    }

    /// What an earlier attempt at the task left, where it measured the same on the same device: `work` says what.
    pub(crate) fn find(&self, task: &TaskId, work: &str) -> Option<Leftover> {
        let path = self.path(task);
        if !path.exists() {
            return None;
        }
        match journal::read(&path) {
            Ok(left) if left.lease.task_id == *task && left.work == work => Some(left),
            Ok(_) => {
                tracing::info!(
                    task = task.as_str(),
                    "the task was measured in part under other conditions: it begins anew"
                );
                None
            }
            Err(error) => {
                tracing::warn!(%error, "a kept journal cannot be used: its task is measured anew");
                self.remove(task);
                None
            }
        }
    }

    /// Forgets a task: it is done.
    pub(crate) fn remove(&self, task: &TaskId) {
        // It need not be there.
        let _ = fs::remove_file(self.path(task));
    }

    fn path(&self, task: &TaskId) -> PathBuf {
        let task = Sha256Digest::of(task.as_str().as_bytes()).to_hex();
        self.folder.join(format!("{}.jsonl", &task[..16]))
    }

    /// Removes what is too old, and the oldest of what is too much.
    fn clear(&self, now: SystemTime, count_max: usize) -> Result<(), SpoolError> {
        let mut kept: Vec<(SystemTime, PathBuf)> = files_of(&self.folder)?
            .into_iter()
            .filter_map(|path| Some((fs::metadata(&path).and_then(|about| about.modified()).ok()?, path)))
            .collect();
        kept.sort();
        let surplus = kept.len().saturating_sub(count_max);
        for (index, (modified, path)) in kept.iter().enumerate() {
            let age = now.duration_since(*modified).unwrap_or_default();
            if index < surplus || age > AGE_MAX {
                fs::remove_file(path).map_err(SpoolError::unwritable(path))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spool::journal::VisitJournal;
    use crate::testing::lease;

    fn keep(kept: &KeptFolder, root: &Path, task: &str) {
        let lease = lease(task);
        let journal = VisitJournal::create(root, &lease, "work").expect("the folder is there");
        kept.put(journal.path(), &lease.task_id);
    }

    #[test]
    fn a_task_finds_what_was_kept_of_the_same_work_only() {
        let root = tempfile::tempdir().expect("a folder");
        let kept = KeptFolder::open(root.path()).expect("it opens");
        keep(&kept, root.path(), "task-1");
        let task = TaskId::new("task-1");
        assert!(kept.find(&task, "work").is_some());
        assert!(kept.find(&task, "another device").is_none());
        assert!(kept.find(&TaskId::new("task-2"), "work").is_none());
        kept.remove(&task);
        assert!(kept.find(&task, "work").is_none(), "a task that is done leaves nothing");
    }

    #[test]
    fn what_is_kept_is_bounded_in_number_and_age() {
        let root = tempfile::tempdir().expect("a folder");
        let kept = KeptFolder::open(root.path()).expect("it opens");
        (0..5).for_each(|task| keep(&kept, root.path(), &format!("task-{task}")));
        let count = || files_of(&kept.folder).expect("it is there").len();
        kept.clear(SystemTime::now(), 3).expect("it can be cleared");
        assert_eq!(count(), 3);
        kept.clear(SystemTime::now() + AGE_MAX + Duration::from_secs(60), 3).expect("it can be cleared");
        assert_eq!(count(), 0);
    }

    #[test]
    fn a_damaged_journal_costs_only_what_it_held() {
        let root = tempfile::tempdir().expect("a folder");
        let kept = KeptFolder::open(root.path()).expect("it opens");
        let task = TaskId::new("task-1");
        fs::write(kept.path(&task), "{\"Att").expect("it can be written");
        assert!(kept.find(&task, "work").is_none());
        assert!(!kept.path(&task).exists(), "it will not be read again");
    }
}
