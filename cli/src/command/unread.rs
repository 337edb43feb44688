//! Files among the rows that could not be read: each is named, and the exit code tells.

use std::process::ExitCode;

use fleetcal_coordinator::rows::{ReadError, SkippedFile};

use crate::failure::{Failure, Kind};
use crate::render::{self, counted};

/// Names every file that could not be read, or not wholly.
///
/// # Errors
/// [`Kind::DataFolder`] where that left no rows at all.
pub(super) fn name(all_skipped: &[SkippedFile], is_empty: bool) -> Result<(), Failure> {
    for skipped in all_skipped {
        let path = skipped.path.display();
        // Of a file with a broken seal all other rows count.
        let what = if matches!(skipped.reason, ReadError::BrokenSeals { .. }) { "" } else { " was skipped" };
        render::note(&format!("{path}{what}: {}", skipped.reason));
    }
    if !is_empty || all_skipped.is_empty() {
        return Ok(());
    }
    let sentence = format!("no row could be read: {} skipped", counted(all_skipped.len() as u64, "file"));
    Err(Failure::said(Kind::DataFolder, sentence))
}

/// What to end with once rows were printed: what was read is there, and a script hears that it is not all.
pub(super) fn exit_code(skipped: &[SkippedFile]) -> ExitCode {
    if skipped.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(Kind::Incomplete as u8) }
}
