//! Why an agent cannot start, or cannot go on.

use std::io;
use std::path::PathBuf;

use crate::identity::IdentityError;
use crate::spool::SpoolError;

/// Why an agent ended by itself. Trouble that may pass (a coordinator that is not there) is none of these.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// Another agent works on the data folder.
    #[error("another agent uses the data folder {}: stop it, or give this one a folder of its own", .folder.display())]
    FolderInUse {
        /// The folder.
        folder: PathBuf,
    },
    /// The data folder cannot be used.
    #[error("the data folder {} cannot be used: {source}. It must be a folder that this user may write to: name another, or mend it", .folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The agent's identity cannot be read or made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The spool cannot be used.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// Devices could not be looked for.
    #[error("devices could not be found: {reason}")]
    Discovery {
        /// Why.
        reason: String,
    },
    /// There is no device to offer.
    #[error("this node has no device to offer: {notes}")]
    NoDevices {
        /// What each backend says.
        notes: String,
    },
    /// The coordinator's address is none.
    #[error("`{address}` is no coordinator's address: {reason}. Give one such as http://127.0.0.1:7600")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The token cannot be sent.
    #[error(transparent)]
    Token(#[from] fleetcal_proto::auth::TokenError),
    /// Coordinator and agent share no protocol version.
    #[error("the coordinator at {coordinator} cannot work with this agent: {reason}")]
    Version {
        /// The coordinator's address.
        coordinator: String,
        /// Which versions, and which side to upgrade.
        reason: String,
    },
    /// The coordinator does not let this agent in.
    #[error("the coordinator at {coordinator} refuses this agent: {reason}")]
    Refused {
        /// The coordinator's address.
        coordinator: String,
        /// Its sentence.
        reason: String,
    },
}
