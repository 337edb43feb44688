//! Identifiers: one newtype each, so that a task can never be passed where a run is meant.

use std::fmt;

/// Declares a textual identifier.
macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[cfg_attr(feature = "serde", serde(transparent))]
        pub struct $name(String);

        impl $name {
            /// Wraps a text that names one such thing.
            pub fn new(text: impl Into<String>) -> Self {
                Self(text.into())
            }

            /// The text itself.
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// Whether the text is empty: an identifier that was never set.
            pub fn is_empty(&self) -> bool {
                self.0.is_empty()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self::new(text)
            }
        }
    };
}

identifier!(
    /// One execution of a plan over the fleet.
    ///
    /// Identifiers of different things do not mix:
    ///
    /// ```compile_fail
    /// use fleetcal_model::id::{RunId, TaskId};
    /// let run: RunId = TaskId::new("task-1");
    /// ```
    RunId
);
identifier!(
    /// One unit of work leased to one agent for a set of its devices.
    TaskId
);
identifier!(
    /// An agent: the identity kept in its data folder.
    AgentId
);
identifier!(
    /// A device: the UUID that its driver (or its data folder, for `cpu` and `sim`) gives it.
    DeviceId
);
identifier!(
    /// A device class: the digest of its key.
    ClassId
);
identifier!(
    /// One row.
    RowId
);
identifier!(
    /// One chunk of rows on its way from an agent's spool to a Parquet part.
    ChunkId
);
