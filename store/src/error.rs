//! What can go wrong with a store.

use std::io;
use std::path::{Path, PathBuf};

use fleetcal_model::constants::DocumentError;

/// Constants that could not be published or read.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No permission, or a file system mounted for reading only.
    #[error("cannot write {}: {source}; give this user write permission, or choose another store", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// No space left. What was published before is intact.
    #[error("cannot write {}: {source}; free space there and publish again", path.display())]
    Full {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system did not let us read or write for another reason.
    #[error("cannot use {}: {source}", path.display())]
    Other {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file in the place of a document is none.
    #[error("{}: {source}", path.display())]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: DocumentError,
    },
    /// The document cannot be written as JSON.
    #[error(transparent)]
    Encode(#[from] DocumentError),
    /// The class of the document cannot name a folder.
    #[error(
        "the class `{slug}` with identity `{class_id}` cannot name a folder: a name takes letters, digits, `-`, `_` and \
         `.`, an identity at least 8 letters or digits"
    )]
    BadClass {
        /// Its short name.
        slug: String,
        /// Its identity.
        class_id: String,
    },
    /// Another class, or the same one under another origin, lives in the folder: 8 digits of two identities agree.
    #[error("{} holds constants of `{found}`, not of `{wanted}`", path.display())]
    OtherClass {
        /// The document found.
        path: PathBuf,
        /// Class and origin that it is of.
        found: String,
        /// Class and origin that were looked for.
        wanted: String,
    },
}

impl StoreError {
    /// Sorts a system's error by what a person can do about it.
    pub(crate) fn at(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        let kind = source.kind();
        if matches!(kind, io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem) {
            Self::Unwritable { path, source }
        } else if matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            Self::Full { path, source }
        } else {
            Self::Other { path, source }
        }
    }
}
