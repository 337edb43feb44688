//! The document as JSON: keys in the order of declaration, maps sorted, floats in their shortest exact form.

use super::{DOCUMENT_SCHEMA_VERSION, Document};
use crate::digest::Sha256Digest;

/// A text that is no document, or a document that is no text.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// It is no JSON.
    #[error("the constants document is no JSON: {source}")]
    NotJson {
        /// What the parser said, with line and column.
        source: serde_json::Error,
    },
    /// It is JSON, but names no version where a document does.
    #[error("this JSON is no constants document: it has no whole number at body.schema_version")]
    NoVersion,
    /// It is a document of another version.
    #[error(
        "the constants document has schema version {found}, and this program reads version \
         {DOCUMENT_SCHEMA_VERSION}: use the fleetcal that wrote it, or fit the rows again"
    )]
    UnknownVersion {
        /// The version found.
        found: u64,
    },
    /// It has the right version and the wrong form.
    #[error("the constants document is not of schema version {DOCUMENT_SCHEMA_VERSION}: {source}")]
    WrongForm {
        /// What is missing or wrong.
        source: serde_json::Error,
    },
    /// It could not be written.
    #[error("the constants document cannot be written as JSON: {source}")]
    Unwritable {
        /// What the writer said.
        source: serde_json::Error,
    },
}

impl Document {
    /// Pretty JSON with a final newline: the same document gives the same bytes.
    ///
    /// # Errors
    /// [`DocumentError::Unwritable`], which no value of these types is known to cause.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        let mut text = serde_json::to_string_pretty(self).map_err(|source| DocumentError::Unwritable { source })?;
        text.push('\n');
        Ok(text)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], where the text is no JSON, no document, of an unknown version, or of the wrong form.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        let value: serde_json::Value =
            serde_json::from_str(text).map_err(|source| DocumentError::NotJson { source })?;
        let version = value.pointer("/body/schema_version").and_then(serde_json::Value::as_u64);
        match version.ok_or(DocumentError::NoVersion)? {
            DOCUMENT_SCHEMA_VERSION => {
                serde_json::from_value(value).map_err(|source| DocumentError::WrongForm { source })
            }
            found => Err(DocumentError::UnknownVersion { found }),
        }
    }

    /// SHA-256 of the body's compact JSON. The envelope does not enter: the same rows give the same digest.
    ///
    /// # Errors
    /// [`DocumentError::Unwritable`], which no value of these types is known to cause.
    pub fn body_digest(&self) -> Result<Sha256Digest, DocumentError> {
        let json = serde_json::to_vec(&self.body).map_err(|source| DocumentError::Unwritable { source })?;
        Ok(Sha256Digest::of(&json))
    }
}
