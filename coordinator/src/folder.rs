//! The data folder: who holds it, and where things are in it.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use fleetcal_model::id::RunId;

use crate::error::{CoordinatorError, FolderError};

/// Where things are in a data folder.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// The layout of the folder `root`.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The folder itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The journal.
    pub fn journal(&self) -> PathBuf {
        self.root.join("journal.sqlite")
    }

    /// The folder above every part.
    pub fn rows(&self) -> PathBuf {
        self.root.join("rows")
    }

    /// The folder of a run's parts.
    pub fn run_rows(&self, run: &RunId) -> PathBuf {
        self.rows().join(run.as_str())
    }

    /// The folder of parts that the journal does not name.
    pub fn orphans(&self) -> PathBuf {
        self.root.join("orphans")
    }

    /// The folder of published constants.
    pub fn constants(&self) -> PathBuf {
        self.root.join("constants")
    }

    /// The constants of one run, with what is to be said about them.
    pub fn run_constants(&self, run: &RunId) -> PathBuf {
        self.constants().join("runs").join(format!("{run}.json"))
    }

    fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }
}

/// Whether a text can name a run's folder: no separators, no dots in front, nothing that a shell would read.
pub fn is_plain_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.bytes().all(plain)
}

/// A data folder that nobody else can hold meanwhile. Given back when dropped, by the kernel even after a kill.
#[derive(Debug)]
pub struct HeldFolder {
    layout: Layout,
    _lock: File,
}

impl HeldFolder {
    /// Creates the folder if need be, and holds it.
    ///
    /// # Errors
    /// [`CoordinatorError::FolderInUse`] if another coordinator holds it, [`CoordinatorError::Folder`] if it cannot be
    /// created or written.
    pub fn take(root: &Path) -> Result<Self, CoordinatorError> {
        let layout = Layout::new(root);
        for folder in [layout.root.clone(), layout.rows(), layout.orphans(), layout.constants()] {
            fs::create_dir_all(&folder).map_err(|source| FolderError::at(&folder, source))?;
        }
        let path = layout.lock();
        let failed = |source| FolderError::at(&path, source);
        let mut lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(CoordinatorError::FolderInUse { folder: root.to_owned() }),
            Err(TryLockError::Error(source)) => return Err(failed(source).into()),
        }
        // For people who wonder; written also to find a full disk now rather than at the first row.
        lock.set_len(0).and_then(|()| writeln!(lock, "{}", std::process::id())).map_err(failed)?;
        check_room(root)?;
        Ok(Self { layout, _lock: lock })
    }

    /// Where things are in it.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
}

/// Free space without which a run would only begin in order to stop, bytes.
const FREE_BYTES_MIN: u64 = 16 << 20;

/// Looks whether the folder has room to begin with.
fn check_room(root: &Path) -> Result<(), FolderError> {
    let room = rustix::fs::statvfs(root).map_err(|errno| FolderError::at(root, errno.into()))?;
    let free_bytes = room.f_bavail.saturating_mul(room.f_frsize);
    if free_bytes < FREE_BYTES_MIN {
        return Err(FolderError::NoRoom { path: root.to_owned(), free_bytes, needed_bytes: FREE_BYTES_MIN });
    }
    Ok(())
}

/// Moves every Parquet file under `rows/` that `named` does not hold to `orphans/`, under the same name, and so what a
/// kill left of parts that were being written. Names are relative to `rows/`. Answers the names that were moved.
///
/// Nothing is deleted: an orphan is either a part whose chunks were never acknowledged (their agents send them again),
/// or somebody else's file.
///
/// # Errors
/// A folder that cannot be read, or a file that cannot be moved.
pub fn set_orphans_aside(layout: &Layout, named: &BTreeSet<String>) -> Result<Vec<String>, FolderError> {
    let mut moved = Vec::new();
    for folder in entries(&layout.rows())?.into_iter().filter(|path| path.is_dir()) {
        for path in entries(&folder)? {
            let Some(name) = path.strip_prefix(layout.rows()).ok().and_then(Path::to_str) else { continue };
            let part = path.extension().is_some_and(|extension| extension == "parquet" || extension == "tmp");
            if part && path.is_file() && !named.contains(name) {
                move_to_orphans(layout, name)?;
                moved.push(name.to_owned());
            }
        }
    }
    Ok(moved)
}

/// Moves one file from `rows/` to `orphans/`.
///
/// # Errors
/// If it cannot be moved.
pub fn move_to_orphans(layout: &Layout, name: &str) -> Result<(), FolderError> {
    let (from, to) = (layout.rows().join(name), layout.orphans().join(name));
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).map_err(|source| FolderError::at(parent, source))?;
    }
    fs::rename(&from, &to).map_err(|source| FolderError::at(&from, source))
}

/// What a folder holds, sorted, so that messages come in the same order on every file system.
fn entries(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let failed = |source| FolderError::at(folder, source);
    let mut paths = fs::read_dir(folder)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(failed)?;
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_refused_before_anything_is_begun() {
        // Nothing is ever free in /proc.
        let refused = check_room(Path::new("/proc")).expect_err("there is no room in /proc").to_string();
        assert!(refused.contains("/proc is full: 0 bytes"), "{refused}");
        let roomy = tempfile::tempdir().expect("a temporary folder");
        check_room(roomy.path()).expect("a temporary folder has room");
    }

    #[test]
    fn a_folder_is_held_once_and_free_again_afterwards() {
        let temporary = tempfile::tempdir().expect("a folder");
        let root = temporary.path().join("not/there/yet");
        let held = HeldFolder::take(&root).expect("the first one holds it");
        let refused = HeldFolder::take(&root).expect_err("the second one must not");
        assert!(refused.to_string().contains("not/there/yet"), "the folder is not named: {refused}");
        drop(held);
        HeldFolder::take(&root).expect("free again");
    }

    #[test]
    fn a_file_in_the_place_of_the_folder_is_named() {
        let temporary = tempfile::tempdir().expect("a folder");
        let root = temporary.path().join("file");
        fs::write(&root, "").expect("a file");
        let refused = HeldFolder::take(&root).expect_err("a file is no folder").to_string();
        assert!(refused.contains(root.to_str().expect("UTF-8")), "{refused}");
    }

    #[test]
    fn unnamed_parts_are_moved_and_named_ones_stay() {
        let temporary = tempfile::tempdir().expect("a folder");
        let held = HeldFolder::take(temporary.path()).expect("held");
        let rows = held.layout().run_rows(&RunId::new("run-1"));
        fs::create_dir_all(&rows).expect("rows");
        fs::write(rows.join("named.parquet"), "1").expect("part");
        fs::write(rows.join("unnamed.parquet"), "2").expect("part");
        let named = BTreeSet::from(["run-1/named.parquet".to_owned()]);
        let moved = set_orphans_aside(held.layout(), &named).expect("moved");
        assert_eq!(moved, ["run-1/unnamed.parquet"]);
        assert!(rows.join("named.parquet").exists(), "a named part must stay");
        let orphan = held.layout().orphans().join("run-1/unnamed.parquet");
        assert_eq!(fs::read_to_string(orphan).expect("kept"), "2");
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_no_plain_names() {
        for bad in ["", "..", "../x", "a/b", ".hidden", "a b", "a\0"] {
            assert!(!is_plain_name(bad), "{bad:?}");
        }
        assert!(is_plain_name("0193a1b2c3d4-7f3a"));
    }
}
