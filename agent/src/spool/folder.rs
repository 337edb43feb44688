//! The folder of chunks.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fleetcal_model::id::ChunkId;

use super::SpoolError;
use super::chunk::Chunk;

/// Ending of a chunk's file.
const CHUNK_ENDING: &str = "chunk";

/// Ending of a file that is being written. One found at the start was never finished: its rows still stand in their
/// journals.
const TEMPORARY_ENDING: &str = "tmp";

/// Chunks that wait for their acknowledgement. Clones share the count of bytes.
#[derive(Debug, Clone)]
pub(crate) struct ChunkFolder {
    folder: PathBuf,
    rejected: PathBuf,
    limit_bytes: u64,
    used_bytes: Arc<AtomicU64>,
}

impl ChunkFolder {
    /// Opens the folders below the spool's root; removes unfinished files.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`], [`SpoolError::Unreadable`].
    pub(crate) fn open(root: &Path, limit_bytes: u64) -> Result<Self, SpoolError> {
        let (folder, rejected) = (root.join("chunks"), root.join("rejected"));
        for path in [&folder, &rejected] {
            fs::create_dir_all(path).map_err(SpoolError::unwritable(path))?;
        }
        let mut used_bytes = 0;
        for path in files_of(&folder)? {
            if has_ending(&path, TEMPORARY_ENDING) {
                fs::remove_file(&path).map_err(SpoolError::unwritable(&path))?;
            } else {
                used_bytes += fs::metadata(&path).map_err(SpoolError::unreadable(&path))?.len();
            }
        }
        Ok(Self { folder, rejected, limit_bytes, used_bytes: Arc::new(AtomicU64::new(used_bytes)) })
    }

    /// The chunks that wait, oldest first: their identifiers are ordered by time.
    ///
    /// # Errors
    /// [`SpoolError::Unreadable`].
    pub(crate) fn list(&self) -> Result<Vec<ChunkId>, SpoolError> {
        let mut ids: Vec<ChunkId> = files_of(&self.folder)?
            .iter()
            .filter(|path| has_ending(path, CHUNK_ENDING))
            .filter_map(|path| path.file_stem()?.to_str().map(ChunkId::new))
            .collect();
        ids.sort();
        Ok(ids)
    }

    /// Makes a chunk durable. After an error nothing of it is left, but that one too large to be sent is kept aside.
    ///
    /// # Errors
    /// [`SpoolError::Full`], [`SpoolError::Unwritable`], [`SpoolError::TooLarge`].
    pub(crate) fn write(&self, chunk: &Chunk) -> Result<(), SpoolError> {
        let bytes = chunk.to_bytes()?;
        if let Err(too_large) = chunk.check_size() {
            let path = self.rejected.join(format!("{}.{CHUNK_ENDING}", chunk.id));
            write_synced(&path, &bytes).map_err(SpoolError::unwritable(&path))?;
            return Err(too_large);
        }
        let bytes_long = bytes.len() as u64;
        self.check_room(bytes_long)?;
        let path = self.path(&chunk.id);
        let temporary = path.with_extension(TEMPORARY_ENDING);
        let written = write_synced(&temporary, &bytes)
            .and_then(|()| fs::rename(&temporary, &path))
            .and_then(|()| sync_folder(&self.folder));
        if let Err(source) = written {
            // Best effort: a temporary file is removed at the next start, and a chunk that stays names its rows.
            let _ = fs::remove_file(&temporary);
            let _ = fs::remove_file(&path);
            return Err(SpoolError::Unwritable { path, source });
        }
        self.used_bytes.fetch_add(bytes_long, Ordering::Relaxed);
        Ok(())
    }

    /// Reads a chunk.
    ///
    /// # Errors
    /// [`SpoolError::Unreadable`], [`SpoolError::Corrupt`].
    pub(crate) fn read(&self, id: &ChunkId) -> Result<Chunk, SpoolError> {
        let path = self.path(id);
        let bytes = fs::read(&path).map_err(SpoolError::unreadable(&path))?;
        Chunk::from_bytes(&bytes, &path)
    }

    /// Removes a chunk that was acknowledged.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`]; the chunk is then sent again after the next start, and known by its identifier.
    pub(crate) fn remove(&self, id: &ChunkId) -> Result<(), SpoolError> {
        let path = self.path(id);
        let bytes = fs::metadata(&path).map_err(SpoolError::unreadable(&path))?.len();
        fs::remove_file(&path).map_err(SpoolError::unwritable(&path))?;
        self.forget_bytes(bytes);
        Ok(())
    }

    /// Moves a chunk that nobody can use out of the way; says where it is now.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`], [`SpoolError::Unreadable`].
    pub(crate) fn set_aside(&self, id: &ChunkId) -> Result<PathBuf, SpoolError> {
        let path = self.path(id);
        let bytes = fs::metadata(&path).map_err(SpoolError::unreadable(&path))?.len();
        let target = self.set_aside_file(&path)?;
        self.forget_bytes(bytes);
        Ok(target)
    }

    /// Moves any file of the spool to where people look for what went wrong.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`].
    pub(crate) fn set_aside_file(&self, path: &Path) -> Result<PathBuf, SpoolError> {
        let target = self.rejected.join(path.file_name().unwrap_or_default());
        fs::rename(path, &target).map_err(SpoolError::unwritable(path))?;
        Ok(target)
    }

    /// Whether there is room for a task's rows: an eighth of the whole.
    ///
    /// # Errors
    /// [`SpoolError::Full`].
    pub(crate) fn check_room_for_a_task(&self) -> Result<(), SpoolError> {
        self.check_room(self.limit_bytes / 8)
    }

    /// Whether a file can be written now, tried out.
    ///
    /// # Errors
    /// [`SpoolError::Unwritable`].
    pub(crate) fn check_writable(&self) -> Result<(), SpoolError> {
        let path = self.folder.join("probe").with_extension(TEMPORARY_ENDING);
        write_synced(&path, &[0; 4096]).and_then(|()| fs::remove_file(&path)).map_err(SpoolError::unwritable(&path))
    }

    fn check_room(&self, wanted_bytes: u64) -> Result<(), SpoolError> {
        let used_bytes = self.used_bytes.load(Ordering::Relaxed);
        if used_bytes.saturating_add(wanted_bytes) > self.limit_bytes {
            return Err(SpoolError::Full { folder: self.folder.clone(), used_bytes, limit_bytes: self.limit_bytes });
        }
        Ok(())
    }

    fn forget_bytes(&self, bytes: u64) {
        // `fetch_sub` would wrap if somebody else had changed a file behind our back.
        let _ =
            self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| Some(used.saturating_sub(bytes)));
    }

    fn path(&self, id: &ChunkId) -> PathBuf {
        self.folder.join(format!("{id}.{CHUNK_ENDING}"))
    }
}

/// The files of a folder, in the order of their names.
pub(super) fn files_of(folder: &Path) -> Result<Vec<PathBuf>, SpoolError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(SpoolError::unreadable(folder))? {
        files.push(entry.map_err(SpoolError::unreadable(folder))?.path());
    }
    files.sort();
    Ok(files)
}

fn has_ending(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|found| found == ending)
}

fn write_synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Makes a rename within the folder durable.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
