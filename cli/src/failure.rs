//! Failures and their exit codes. The codes are an interface: scripts act on them.

use std::process::ExitCode;

use fleetcal_agent::AgentError;
use fleetcal_coordinator::CoordinatorError;
use fleetcal_proto::status::{ErrorKind, error_kind};

/// What kind of failure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A fault of fleetcal itself.
    Internal = 1,
    /// The plan is wrong, asks for more than its own limits or the devices allow, or there is none of that name.
    Plan = 3,
    /// No such device, run or task; or it cannot be done as things stand.
    NotFound = 4,
    /// The data folder cannot be used: unwritable, full, in use, not a folder.
    DataFolder = 5,
    /// The coordinator cannot be reached, or the port cannot be had.
    Network = 6,
    /// The other side speaks another version.
    Version = 7,
    /// Something was not measured, or of what was measured not all could be read, or a result was wrong.
    Incomplete = 8,
    /// Results could not be written to standard output.
    Output = 9,
    /// Somebody pressed Ctrl-C.
    Interrupted = 130,
}

/// A failure on its way to the one place that prints it.
#[derive(Debug)]
pub(crate) struct Failure {
    kind: Kind,
    error: anyhow::Error,
}

impl Failure {
    /// A failure of this kind.
    pub(crate) fn new(kind: Kind, error: impl Into<anyhow::Error>) -> Self {
        Self { kind, error: error.into() }
    }

    /// A failure of this kind, said in one sentence.
    pub(crate) fn said(kind: Kind, sentence: impl Into<String>) -> Self {
        Self { kind, error: anyhow::Error::msg(sentence.into()) }
    }

    /// A fault of fleetcal itself.
    pub(crate) fn internal(error: impl Into<anyhow::Error>) -> Self {
        Self::new(Kind::Internal, error)
    }

    /// Whether it is of this kind.
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.kind == kind
    }

    /// The same failure, with what to do about it.
    pub(crate) fn advise(self, advice: &str) -> Self {
        Self { kind: self.kind, error: anyhow::Error::msg(format!("{}. {advice}", self.sentence())) }
    }

    /// The process's exit code.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.kind as u8)
    }

    /// The sentence, with its causes.
    pub(crate) fn sentence(&self) -> String {
        let mut sentence = String::new();
        for cause in self.error.chain() {
            let cause = cause.to_string();
            // Errors that wrap others often repeat them.
            if !sentence.contains(&cause) {
                if !sentence.is_empty() {
                    sentence.push_str(": ");
                }
                sentence.push_str(&cause);
            }
        }
        sentence
    }
}

impl From<tonic::Status> for Failure {
    fn from(status: tonic::Status) -> Self {
        let kind = match error_kind(&status) {
            ErrorKind::VersionMismatch => Kind::Version,
            ErrorKind::InvalidRequest => Kind::Plan,
            ErrorKind::NotFound | ErrorKind::NotPossible => Kind::NotFound,
            ErrorKind::StorageFull => Kind::DataFolder,
            ErrorKind::Unauthenticated | ErrorKind::Unavailable | ErrorKind::UnknownSession => Kind::Network,
            ErrorKind::Internal => Kind::Internal,
        };
        Self::said(kind, status.message())
    }
}

impl From<CoordinatorError> for Failure {
    fn from(error: CoordinatorError) -> Self {
        let kind = match &error {
            CoordinatorError::FolderInUse { .. } | CoordinatorError::Folder(_) | CoordinatorError::Journal(_) => {
                Kind::DataFolder
            }
            CoordinatorError::NotLoopback { .. }
            | CoordinatorError::PortInUse { .. }
            | CoordinatorError::Listen { .. }
            | CoordinatorError::Server(_) => Kind::Network,
            CoordinatorError::NoSuchRun { .. } => Kind::NotFound,
            CoordinatorError::Replay { .. } => Kind::Version,
            CoordinatorError::BadInterval { .. }
            | CoordinatorError::Constants { .. }
            | CoordinatorError::Stopped { .. } => Kind::Internal,
        };
        Self::new(kind, error)
    }
}

impl From<AgentError> for Failure {
    fn from(error: AgentError) -> Self {
        let kind = match &error {
            AgentError::FolderInUse { .. }
            | AgentError::Folder { .. }
            | AgentError::Identity(_)
            | AgentError::Spool(_) => Kind::DataFolder,
            AgentError::NoDevices { .. } => Kind::NotFound,
            AgentError::Address { .. } | AgentError::Token(_) | AgentError::Refused { .. } => Kind::Network,
            AgentError::Version { .. } => Kind::Version,
            AgentError::Discovery { .. } => Kind::Internal,
        };
        Self::new(kind, error)
    }
}
