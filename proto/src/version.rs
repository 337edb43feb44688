//! Which version of the protocol two sides speak.

use crate::v1::VersionRange;

/// Oldest version of the protocol that this build speaks.
pub const PROTOCOL_MIN: u32 = 1;

/// Newest version of the protocol that this build speaks.
pub const PROTOCOL_MAX: u32 = 1;

/// The range that this build says in a hello or a submission.
pub fn supported() -> VersionRange {
    VersionRange { min: PROTOCOL_MIN, max: PROTOCOL_MAX }
}

/// No version is spoken by both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", sentence(*.theirs, *.ours))]
pub struct VersionMismatch {
    /// What the caller speaks.
    pub theirs: VersionRange,
    /// What the coordinator speaks.
    pub ours: VersionRange,
}

/// The newest version that both the caller (`theirs`) and the coordinator (`ours`) speak.
///
/// # Errors
/// The ranges do not meet, or the caller named none (0 is no version).
pub fn negotiate(theirs: VersionRange, ours: VersionRange) -> Result<u32, VersionMismatch> {
    let newest_shared = theirs.max.min(ours.max);
    if is_a_range(theirs) && newest_shared >= theirs.min.max(ours.min) {
        Ok(newest_shared)
    } else {
        Err(VersionMismatch { theirs, ours })
    }
}

/// Whether the two ends are versions, in order.
fn is_a_range(range: VersionRange) -> bool {
    range.min >= 1 && range.min <= range.max
}

fn sentence(theirs: VersionRange, ours: VersionRange) -> String {
    let words = |range: VersionRange| match (is_a_range(range), range.min == range.max) {
        (false, _) => "no known protocol version".to_owned(),
        (true, true) => format!("protocol version {}", range.min),
        (true, false) => format!("protocol versions {} to {}", range.min, range.max),
    };
    let older = if is_a_range(theirs) && theirs.min > ours.max { "the coordinator" } else { "the agent or client" };
    format!("the agent or client speaks {}, the coordinator speaks {}: upgrade {older}", words(theirs), words(ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: u32, max: u32) -> VersionRange {
        VersionRange { min, max }
    }

    #[test]
    fn the_newest_shared_version_is_chosen() {
        assert_eq!(negotiate(supported(), supported()), Ok(PROTOCOL_MAX));
        assert_eq!(negotiate(range(1, 4), range(2, 3)), Ok(3));
        assert_eq!(negotiate(range(3, 9), range(1, 3)), Ok(3));
        assert_eq!(negotiate(range(1, 2), range(2, 5)), Ok(2));
    }

    #[test]
    fn the_sentence_names_both_ranges_and_the_older_side() {
        let newer = negotiate(range(3, 4), range(1, 2)).expect_err("nothing is shared");
        assert_eq!(
            newer.to_string(),
            "the agent or client speaks protocol versions 3 to 4, the coordinator speaks protocol versions 1 to 2: \
             upgrade the coordinator"
        );
        let older = negotiate(range(1, 1), range(2, 2)).expect_err("nothing is shared");
        assert_eq!(
            older.to_string(),
            "the agent or client speaks protocol version 1, the coordinator speaks protocol version 2: \
             upgrade the agent or client"
        );
    }

    #[test]
    fn no_range_and_a_reversed_range_are_no_versions() {
        for theirs in [range(0, 0), range(0, 5), range(3, 1)] {
            let error = negotiate(theirs, range(1, 5)).expect_err("no version was named");
            assert!(error.to_string().contains("speaks no known protocol version"), "{theirs:?}: {error}");
        }
    }
}
