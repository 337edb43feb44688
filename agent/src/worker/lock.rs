//! Exclusive use of a device on this node, whoever asks: one lock file a device UUID.
//!
//! The folder is the same for every user and every session: one chosen by `XDG_RUNTIME_DIR` or `TMPDIR` would let a
//! service and a shell of the same user measure one device at once. The lock is the kernel's, so it ends with the
//! process that holds it, however that ends; the files stay.

use std::fs::{File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use fleetcal_model::id::DeviceId;
use rustix::fs::OFlags;

/// Where the locks of this node are.
pub const LOCK_FOLDER: &str = "/tmp/fleetcal-locks";

/// Mode of the folder: anybody may add locks, nobody removes another's.
const FOLDER_MODE: u32 = 0o1777;

/// A device that cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("device {device} is in use by another fleetcal process (it holds {path}); try again when that one is done")]
    Held {
        /// The device.
        device: DeviceId,
        /// The lock file.
        path: PathBuf,
    },
    /// The lock file cannot be made or opened.
    #[error("device {device} cannot be locked: {path}: {source}")]
    Unusable {
        /// The device.
        device: DeviceId,
        /// The lock file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A lock on a device; let go of on drop.
#[derive(Debug)]
pub struct DeviceLock {
    /// Held for the lock that lives on it.
    _file: File,
}

impl DeviceLock {
    /// Locks a device, without waiting.
    ///
    /// # Errors
    /// See [`LockError`].
    pub fn acquire(folder: &Path, device: &DeviceId) -> Result<Self, LockError> {
        // A UUID comes from a driver: whatever it holds must not become a path.
        let name: String =
            device.as_str().chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect();
        let path = folder.join(format!("{name}.lock"));
        let unusable = |source| LockError::Unusable { device: device.clone(), path: path.clone(), source };
        let file = open(folder, &path).map_err(unusable)?;
        match file.try_lock() {
            Ok(()) => Ok(Self { _file: file }),
            Err(TryLockError::WouldBlock) => Err(LockError::Held { device: device.clone(), path }),
            Err(TryLockError::Error(source)) => Err(unusable(source)),
        }
    }
}

/// Opens a lock file, making it and its folder where they are missing. An existing file is opened for reading only:
/// that is enough for a lock, and another user's file allows no more.
fn open(folder: &Path, path: &Path) -> std::io::Result<File> {
    match std::fs::create_dir(folder) {
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(FOLDER_MODE))?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    // A symbolic link in a folder that anybody may write to is a trap.
    let no_links = OFlags::NOFOLLOW.bits().cast_signed();
    let create = OpenOptions::new().write(true).create_new(true).mode(0o644).custom_flags(no_links).open(path);
    match create {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            OpenOptions::new().read(true).custom_flags(no_links).open(path)
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_held_once_and_free_again_after() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("locks");
        let (first, other) = (DeviceId::new("GPU-1"), DeviceId::new("GPU-2"));
        let held = DeviceLock::acquire(&folder, &first).expect("nobody holds it");
        let refused = DeviceLock::acquire(&folder, &first).expect_err("it is held");
        assert!(refused.to_string().contains("GPU-1"), "the sentence must name the device: {refused}");
        assert!(DeviceLock::acquire(&folder, &other).is_ok(), "another device is not concerned");
        drop(held);
        assert!(DeviceLock::acquire(&folder, &first).is_ok(), "a lock must end with its holder");
    }

    #[test]
    fn a_uuid_cannot_leave_the_folder_and_links_are_not_followed() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let folder = root.path().join("locks");
        let _held = DeviceLock::acquire(&folder, &DeviceId::new("../../x")).expect("a strange name is still a name");
        assert!(folder.join("------x.lock").exists());
        std::os::unix::fs::symlink("/etc/passwd", folder.join("trap.lock")).expect("a link can be made");
        let trapped = DeviceLock::acquire(&folder, &DeviceId::new("trap"));
        assert!(matches!(trapped, Err(LockError::Unusable { .. })), "{trapped:?}");
    }
}
