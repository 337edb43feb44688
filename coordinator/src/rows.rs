//! Parquet part files: the only place that writes or reads Parquet.
//!
//! A part is one file of rows at `DATA/rows/RUN/NAME.parquet`, in plain folders, so that DuckDB, polars and pyarrow
//! read `rows/**/*.parquet` with no help. It is written once ([`write_part`]) and never changed. Its footer says which
//! chunks it holds ([`CHUNKS_KEY`]): of a part that the journal does not name, that tells what it would repeat.

mod part;
mod read;
mod records;

pub use part::{PartError, PartInfo, write_part};
pub use read::{ReadError, ReadReport, RowFilter, SkippedFile, read_part, read_parts, read_paths};
pub use records::{RecordReport, read_records};

/// Key of the footer's metadata that holds the chunks of a part: a JSON list of their identifiers.
pub const CHUNKS_KEY: &str = "fleetcal.chunks";

/// Key of the footer's metadata that holds the version of the coordinator that wrote the part.
pub const WRITER_VERSION_KEY: &str = "fleetcal.version";

#[cfg(test)]
mod tests;
