//! Writing a part so that it is there whole, or not at all.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use arrow_array::RecordBatch;
use fleetcal_model::id::ChunkId;
use fleetcal_model::row::ROW_SCHEMA_VERSION;
use fleetcal_proto::rows::{SCHEMA_VERSION_KEY, schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use super::{CHUNKS_KEY, WRITER_VERSION_KEY};
use crate::error::FolderError;

/// A part as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartInfo {
    /// Its file name within its folder, for example `part-000001-9f3c2a10.parquet`.
    pub file_name: String,
    /// Its rows.
    pub rows: u64,
    /// Its size, bytes.
    pub bytes: u64,
}

/// A part that could not be written. Nothing of it is left in the folder.
#[derive(Debug, thiserror::Error)]
pub enum PartError {
    /// The disk is full, the folder may not be written, or something else is wrong with it: each a kind of its own.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// There is a part of that name. Parts are never overwritten.
    #[error("{} is there already, and parts are never overwritten", path.display())]
    Exists {
        /// The part.
        path: PathBuf,
    },
    /// The rows cannot be encoded: the batches are not of the row schema.
    #[error("the rows cannot be written as Parquet: {0}")]
    Encode(#[from] ParquetError),
    /// The chunk identifiers cannot be encoded.
    #[error("the chunks cannot be named in the footer: {0}")]
    Footer(#[from] serde_json::Error),
}

/// Writes `NAME.parquet` into an existing folder, and returns once it would survive a power cut. `chunk_ids` go into
/// the footer.
///
/// # Errors
/// [`PartError::Folder`] for a full disk (trying again later helps) or an unwritable folder, [`PartError::Exists`],
/// [`PartError::Encode`] for batches of another schema. In every case no file of that name, and no other, is left.
pub fn write_part(
    folder: &Path,
    name: &str,
    batches: &[RecordBatch],
    chunk_ids: &[ChunkId],
) -> Result<PartInfo, PartError> {
    let file_name = format!("{name}.parquet");
    let path = folder.join(&file_name);
    if path.exists() {
        return Err(PartError::Exists { path });
    }
    // A part is a few megabytes. Encoded first, so that the system's errors reach us as they are.
    let bytes = encode(batches, chunk_ids)?;
    write_durably(&folder.join(format!(".{file_name}.tmp")), &path, &bytes, sync_folder)?;
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    Ok(PartInfo { file_name, rows, bytes: bytes.len() as u64 })
}

fn encode(batches: &[RecordBatch], chunk_ids: &[ChunkId]) -> Result<Vec<u8>, PartError> {
    let footer = [
        (CHUNKS_KEY, serde_json::to_string(chunk_ids)?),
        (SCHEMA_VERSION_KEY, ROW_SCHEMA_VERSION.to_string()),
        (WRITER_VERSION_KEY, env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let footer = footer.into_iter().map(|(key, value)| KeyValue::new(key.to_owned(), value)).collect();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_key_value_metadata(Some(footer))
        .set_created_by(concat!("fleetcal ", env!("CARGO_PKG_VERSION")).to_owned())
        .build();
    let mut writer = ArrowWriter::try_new(Vec::new(), schema(), Some(properties))?;
    for batch in batches {
        writer.write(batch)?;
    }
    Ok(writer.into_inner()?)
}

/// Bytes under a temporary name, then under the final one. The file is durable before it has its name; then its name is
/// made durable by `sync_name`. After a failure neither name is left: nobody has been told of the part, and its chunks
/// come again.
fn write_durably(
    temporary: &Path,
    path: &Path,
    bytes: &[u8],
    sync_name: impl Fn(&Path) -> Result<(), FolderError>,
) -> Result<(), FolderError> {
    // Best effort: what cannot be written cannot always be removed, and the next start moves it aside.
    let remove = |path: &Path| drop(fs::remove_file(path));
    let written = File::create(temporary).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    let written = written.map_err(|source| FolderError::at(temporary, source));
    let named = written.and_then(|()| fs::rename(temporary, path).map_err(|source| FolderError::at(path, source)));
    named.inspect_err(|_| remove(temporary))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    sync_name(folder).inspect_err(|_| remove(path))
}

/// Makes the names in a folder durable, as the files already are.
fn sync_folder(folder: &Path) -> Result<(), FolderError> {
    let synced: io::Result<()> = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(|source| FolderError::at(folder, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_whose_name_may_not_survive_is_not_left_behind() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("part.parquet");
        let fails = |folder: &Path| Err(FolderError::at(folder, io::ErrorKind::StorageFull.into()));
        let failed = write_durably(&folder.path().join(".tmp"), &path, b"rows", fails).expect_err("it fails");
        assert!(matches!(failed, FolderError::Full { .. }), "{failed}");
        let left = fs::read_dir(folder.path()).expect("readable").count();
        assert_eq!(left, 0, "a part that nobody names is left in the run's folder");
    }
}
