//! The one Arrow schema of a row, and the check that a table has it.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use arrow_schema::{Schema, SchemaRef};
use fleetcal_model::row::ROW_SCHEMA_VERSION;

use super::groups;

/// Metadata key of the schema's version, in Arrow schemas and in the footers of Parquet files.
pub const SCHEMA_VERSION_KEY: &str = "fleetcal.row_schema";

/// A table that is no table of rows, or one of another version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// It does not say which version of the row schema it has: it is somebody else's.
    #[error("it holds no fleetcal rows: the key `{SCHEMA_VERSION_KEY}` is missing from its metadata")]
    Foreign,
    /// It has another version of the row schema.
    #[error("its row schema is version {found}, this fleetcal reads version {ours}: upgrade the older side")]
    Version {
        /// What it says, as text.
        found: String,
        /// What this build reads.
        ours: u64,
    },
    /// It says it has this version, but its columns are others.
    #[error("its columns are not those of row schema {ours}: {difference}", ours = ROW_SCHEMA_VERSION)]
    Columns {
        /// What differs.
        difference: String,
    },
    /// Its description cannot be read at all.
    #[error("its schema cannot be read: {reason}")]
    Unreadable {
        /// What the reader said.
        reason: String,
    },
}

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    let fields: Vec<_> = groups::all().into_iter().flat_map(|(_, members)| members).collect();
    let metadata = [(SCHEMA_VERSION_KEY.to_owned(), ROW_SCHEMA_VERSION.to_string())];
    Arc::new(Schema::new_with_metadata(fields, metadata))
});

/// The schema: the columns of all groups, flat, with [`SCHEMA_VERSION_KEY`] in its metadata.
pub fn schema() -> SchemaRef {
    Arc::clone(&SCHEMA)
}

/// Whether a table has this schema. The order of its columns and further metadata do not matter.
///
/// # Errors
/// How it differs, version first.
pub fn check_schema(found: &Schema) -> Result<(), SchemaError> {
    let version = found.metadata().get(SCHEMA_VERSION_KEY).ok_or(SchemaError::Foreign)?;
    if *version != ROW_SCHEMA_VERSION.to_string() {
        return Err(SchemaError::Version { found: version.clone(), ours: ROW_SCHEMA_VERSION });
    }
    let theirs: BTreeMap<_, _> = found.fields().iter().map(|field| (field.name(), field)).collect();
    let ours: BTreeMap<_, _> = SCHEMA.fields().iter().map(|field| (field.name(), field)).collect();
    let missing = ours.keys().filter(|name| !theirs.contains_key(*name)).map(|name| format!("`{name}` is missing"));
    let unknown = theirs.keys().filter(|name| !ours.contains_key(*name)).map(|name| format!("`{name}` is unknown"));
    let other = ours.iter().filter_map(|(name, field)| {
        let found = theirs.get(name)?;
        let differs = found.data_type() != field.data_type() || found.is_nullable() != field.is_nullable();
        differs.then(|| format!("`{name}` is {}, not {}", describe(found), describe(field)))
    });
    let mut differences: Vec<String> = missing.chain(unknown).chain(other).collect();
    if found.fields().len() > theirs.len() {
        differences.push("a column is there twice".to_owned());
    }
    if differences.is_empty() {
        return Ok(());
    }
    let count = differences.len();
    differences.truncate(3);
    let mut difference = differences.join(", ");
    if count > differences.len() {
        difference.push_str(&format!(", and {} more", count - differences.len()));
    }
    Err(SchemaError::Columns { difference })
}

/// `UInt64`, `UInt64, nullable`.
fn describe(field: &arrow_schema::Field) -> String {
    format!("{}{}", field.data_type(), if field.is_nullable() { ", nullable" } else { "" })
}
