//! Files that appear whole or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::StoreError;

/// Bytes under a temporary name in the folder that they will live in. Removed when dropped.
pub(crate) struct Temporary {
    path: PathBuf,
}

impl Temporary {
    /// Writes the bytes, durably.
    pub(crate) fn write(folder: &Path, bytes: &[u8]) -> Result<Self, StoreError> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".{}-{number}.tmp", std::process::id()));
            match File::create_new(&path) {
                // Of another machine, where the folder is shared; or of a process that died and had this number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(StoreError::at(&path, error)),
                Ok(mut file) => {
                    let temporary = Self { path };
                    let written = file.write_all(bytes).and_then(|()| file.sync_all());
                    return written.map(|()| temporary).map_err(|error| StoreError::at(folder, error));
                }
            }
        }
    }

    /// Gives the bytes this name, unless there is such a file; then answers `false`. Of two that try at the same time
    /// one wins: a hard link is made or not, and never replaces.
    pub(crate) fn link(&self, path: &Path) -> Result<bool, StoreError> {
        match fs::hard_link(&self.path, path) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(StoreError::at(path, error)),
        }
    }

    /// Gives the bytes this name, in place of what has it. A reader sees the old file or the new one.
    pub(crate) fn replace(self, path: &Path) -> Result<(), StoreError> {
        fs::rename(&self.path, path).map_err(|error| StoreError::at(path, error))
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // Best effort, and gone already if it was renamed: a hidden file that is left disturbs nobody.
        let _ = fs::remove_file(&self.path);
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), StoreError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(|error| StoreError::at(folder, error))
}

/// A file's bytes; none if there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, StoreError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(StoreError::at(path, error)),
    }
}

/// Names in a folder, sorted; none if there is no such folder. Names that are no Unicode are nobody's of ours.
pub(crate) fn names(folder: &Path) -> Result<Vec<String>, StoreError> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(StoreError::at(folder, error)),
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry.map_err(|error| StoreError::at(folder, error))?;
        names.extend(entry.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}
