//! Kinds of errors, across the wire and back.
//!
//! A gRPC code is too coarse to steer by: a version mismatch and a run that cannot be resumed are both
//! `FAILED_PRECONDITION`. So a status carries its kind in the metadata key [`ERROR_KIND_KEY`], and its message is the
//! sentence for people.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// Metadata key of a failed call's [`ErrorKind`].
pub const ERROR_KIND_KEY: &str = "fleetcal-error";

/// What kind of error a call failed with: decides what the caller does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The sides share no protocol version. Trying again does not help: one of them must be upgraded.
    VersionMismatch,
    /// The caller may not call. Trying again does not help.
    Unauthenticated,
    /// The request is wrong as it is: a plan that does not parse, a message that cannot be understood.
    InvalidRequest,
    /// It names a run, task or device that is not there.
    NotFound,
    /// It cannot be done in the present state, for example resuming a run that has ended.
    NotPossible,
    /// The session is not known, most often because the coordinator restarted: say hello again.
    UnknownSession,
    /// The data folder is full. Nothing was lost; try again later.
    StorageFull,
    /// Nobody is there, or it is stopping: try again with backoff.
    Unavailable,
    /// A fault of the other side.
    Internal,
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::VersionMismatch,
        Self::Unauthenticated,
        Self::InvalidRequest,
        Self::NotFound,
        Self::NotPossible,
        Self::UnknownSession,
        Self::StorageFull,
        Self::Unavailable,
        Self::Internal,
    ];

    /// Its name on the wire.
    pub const fn name(self) -> &'static str {
        match self {
            Self::VersionMismatch => "version_mismatch",
            Self::Unauthenticated => "unauthenticated",
            Self::InvalidRequest => "invalid_request",
            Self::NotFound => "not_found",
            Self::NotPossible => "not_possible",
            Self::UnknownSession => "unknown_session",
            Self::StorageFull => "storage_full",
            Self::Unavailable => "unavailable",
            Self::Internal => "internal",
        }
    }

    /// The gRPC code that stands for the kind.
    pub fn code(self) -> Code {
        match self {
            Self::VersionMismatch | Self::NotPossible => Code::FailedPrecondition,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::InvalidRequest => Code::InvalidArgument,
            Self::NotFound => Code::NotFound,
            // The session's stream ended; its successor begins with a hello.
            Self::UnknownSession => Code::Aborted,
            Self::StorageFull => Code::ResourceExhausted,
            Self::Unavailable => Code::Unavailable,
            Self::Internal => Code::Internal,
        }
    }

    /// A status of this kind, with a sentence for people.
    pub fn status(self, sentence: impl Into<String>) -> Status {
        let mut metadata = MetadataMap::new();
        metadata.insert(ERROR_KIND_KEY, MetadataValue::from_static(self.name()));
        Status::with_metadata(self.code(), sentence, metadata)
    }
}

/// The kind that a failed call carries. A status that fleetcal did not make (from the transport, from a proxy, from a
/// newer version) is judged by its code.
pub fn error_kind(status: &Status) -> ErrorKind {
    let named = status.metadata().get(ERROR_KIND_KEY).and_then(|value| value.to_str().ok());
    let known = named.and_then(|name| ErrorKind::ALL.into_iter().find(|kind| kind.name() == name));
    known.unwrap_or_else(|| match status.code() {
        Code::Unauthenticated | Code::PermissionDenied => ErrorKind::Unauthenticated,
        Code::InvalidArgument | Code::OutOfRange => ErrorKind::InvalidRequest,
        Code::NotFound => ErrorKind::NotFound,
        Code::FailedPrecondition | Code::AlreadyExists => ErrorKind::NotPossible,
        Code::ResourceExhausted | Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Aborted => {
            ErrorKind::Unavailable
        }
        // A server that lacks a method is of another version.
        Code::Unimplemented => ErrorKind::VersionMismatch,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => ErrorKind::Internal,
    })
}

/// Whether a call failed because the sides share no protocol version.
pub fn is_version_mismatch(status: &Status) -> bool {
    error_kind(status) == ErrorKind::VersionMismatch
}

impl From<crate::version::VersionMismatch> for Status {
    fn from(mismatch: crate::version::VersionMismatch) -> Self {
        ErrorKind::VersionMismatch.status(mismatch.to_string())
    }
}

impl From<crate::convert::ConvertError> for Status {
    fn from(error: crate::convert::ConvertError) -> Self {
        ErrorKind::InvalidRequest.status(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::v1::VersionRange;
    use crate::version::negotiate;

    #[test]
    fn every_kind_survives_the_headers_of_a_response() {
        for kind in ErrorKind::ALL {
            let headers = kind.status("a sentence").into_http::<()>().into_parts().0.headers;
            let received = Status::from_header_map(&headers).expect("a failed call has a status");
            assert_eq!(error_kind(&received), kind, "{kind:?} was read back as another kind");
            assert_eq!(received.message(), "a sentence");
        }
    }

    #[test]
    fn a_version_mismatch_is_told_from_other_failed_preconditions() {
        let range = |version| VersionRange { min: version, max: version };
        let status = Status::from(negotiate(range(2), range(1)).expect_err("nothing is shared"));
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert!(is_version_mismatch(&status));
        assert!(status.message().contains("upgrade the coordinator"), "{}", status.message());
        assert!(!is_version_mismatch(&ErrorKind::NotPossible.status("the run has ended")));
        assert!(!is_version_mismatch(&Status::failed_precondition("from a proxy")));
    }

    #[test]
    fn a_status_that_is_not_ours_is_judged_by_its_code() {
        assert_eq!(error_kind(&Status::unavailable("connection refused")), ErrorKind::Unavailable);
        assert_eq!(error_kind(&Status::unimplemented("no such method")), ErrorKind::VersionMismatch);
        let mut newer = Status::not_found("gone");
        newer.metadata_mut().insert(ERROR_KIND_KEY, MetadataValue::from_static("a_kind_of_tomorrow"));
        assert_eq!(error_kind(&newer), ErrorKind::NotFound);
    }
}
