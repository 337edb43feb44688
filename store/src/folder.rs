//! The folder store.
//!
//! ```text
//! STORE/nvidia-h200-140g-700w-6d1a4ad0/            a class: slug, and 8 digits of its identity
//!                                      1.json      versions: never changed, never overwritten
//!                                      2.json
//!                                      current.json the newest version again, replaced atomically
//! STORE/sim-a-16g-0badcafe-simulated/              the same for an origin other than `measured`
//! ```
//!
//! Several publishers may share a folder: a version is a hard link that is made or not, so two of them never get the
//! same one. Constants of different origins never share a folder: nobody who reads a `current.json` of a measured
//! class can get simulated ones.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use fleetcal_model::constants::Document;
use fleetcal_model::id::ClassId;
use fleetcal_model::row::Origin;

use crate::disk::{Temporary, names, read_if_there, sync_folder};
use crate::error::StoreError;

/// Digits of a class's identity in the name of its folder.
const IDENTITY_DIGITS: usize = 8;

const CURRENT: &str = "current.json";

/// Number of a published document within its class and origin, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version(pub u64);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A document as it was published.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its version.
    pub version: Version,
    /// The document.
    pub document: Document,
}

/// Everything that is current.
#[derive(Debug, Default)]
pub struct Listing {
    /// The newest version of each class and origin, in the order of their folders.
    pub current: Vec<Published>,
    /// What is in the place of documents and cannot be read. The rest is not affected.
    pub problems: Vec<StoreError>,
}

/// Constants in a folder.
#[derive(Debug, Clone)]
pub struct FolderStore {
    root: PathBuf,
}

impl FolderStore {
    /// The store in this folder, which is made if it is not there.
    ///
    /// # Errors
    /// [`StoreError`] by kind, if the folder cannot be made.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fs::create_dir_all(root).map_err(|error| StoreError::at(root, error))?;
        Ok(Self { root: root.to_owned() })
    }

    /// Publishes a document as the next version of its class and origin, and makes it current. Once this returns, it
    /// would survive a power cut. A document whose body is that of the newest version is published already: its
    /// version is returned.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Unwritable`], [`StoreError::BadClass`], [`StoreError::OtherClass`]. Older
    /// versions are intact whatever happens, and `current.json` is one of the versions.
    pub fn publish(&self, document: &Document) -> Result<Version, StoreError> {
        let shelf = self.shelf_of(document)?;
        if let Some(newest) = shelf.newest()?
            && newest.document.body_digest()? == document.body_digest()?
        {
            shelf.refresh_current()?;
            return Ok(newest.version);
        }
        fs::create_dir_all(&shelf.folder).map_err(|error| StoreError::at(&shelf.folder, error))?;
        sync_folder(&self.root)?;
        let temporary = Temporary::write(&shelf.folder, document.to_json()?.as_bytes())?;
        let mut version = shelf.newest_version()?.map_or(1, |newest| newest.0 + 1);
        while !temporary.link(&shelf.path(Version(version)))? {
            version += 1;
        }
        sync_folder(&shelf.folder)?;
        shelf.refresh_current()?;
        Ok(Version(version))
    }

    /// The newest document of a class and origin, if any was published.
    ///
    /// # Errors
    /// It cannot be read, or is none: [`StoreError::Document`].
    pub fn current(&self, class: &ClassId, origin: Origin) -> Result<Option<Published>, StoreError> {
        match self.find_shelf(class, origin)? {
            Some(shelf) => shelf.newest(),
            None => Ok(None),
        }
    }

    /// Every version of a class and origin, oldest first.
    ///
    /// # Errors
    /// One of them cannot be read, or is none.
    pub fn history(&self, class: &ClassId, origin: Origin) -> Result<Vec<Published>, StoreError> {
        let Some(shelf) = self.find_shelf(class, origin)? else { return Ok(Vec::new()) };
        let mut history = Vec::new();
        for version in shelf.versions()? {
            history.extend(shelf.read(version)?);
        }
        Ok(history)
    }

    /// What is current, of every class and origin. Folders without versions are not ours and not listed.
    ///
    /// # Errors
    /// The store's folder itself cannot be read.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for name in names(&self.root)? {
            let folder = self.root.join(name);
            if !folder.is_dir() {
                continue;
            }
            match (Shelf { folder, owner: None }).newest() {
                Ok(newest) => listing.current.extend(newest),
                Err(problem) => listing.problems.push(problem),
            }
        }
        Ok(listing)
    }

    /// Where a document's versions are, or will be.
    fn shelf_of(&self, document: &Document) -> Result<Shelf, StoreError> {
        let body = &document.body;
        let plain = |text: &str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            !text.is_empty() && text.len() <= 128 && !text.starts_with('.') && text.bytes().all(fits)
        };
        let ending = ending(&body.class_id, body.origin).filter(|_| plain(&body.class_slug));
        let ending = ending.ok_or_else(|| StoreError::BadClass {
            slug: body.class_slug.clone(),
            class_id: body.class_id.as_str().to_owned(),
        })?;
        // A class keeps its folder when its slug is made in another way.
        Ok(self.find_shelf(&body.class_id, body.origin)?.unwrap_or_else(|| Shelf {
            folder: self.root.join(format!("{}{ending}", body.class_slug)),
            owner: Some((body.class_id.clone(), body.origin)),
        }))
    }

    /// The folder of a class and origin, if there is one.
    fn find_shelf(&self, class: &ClassId, origin: Origin) -> Result<Option<Shelf>, StoreError> {
        let Some(ending) = ending(class, origin) else { return Ok(None) };
        let name = names(&self.root)?.into_iter().find(|name| name.len() > ending.len() && name.ends_with(&ending));
        Ok(name.map(|name| Shelf { folder: self.root.join(name), owner: Some((class.clone(), origin)) }))
    }
}

/// How the name of the folder of a class and origin ends; none for an identity that is too short or no plain text.
fn ending(class: &ClassId, origin: Origin) -> Option<String> {
    let digits = class.as_str().get(..IDENTITY_DIGITS)?;
    if !digits.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return None;
    }
    Some(if origin == Origin::Measured { format!("-{digits}") } else { format!("-{digits}-{origin}") })
}

/// The folder of one class and origin.
struct Shelf {
    folder: PathBuf,
    /// Whose constants must be in it; none to read whatever is.
    owner: Option<(ClassId, Origin)>,
}

impl Shelf {
    fn path(&self, version: Version) -> PathBuf {
        self.folder.join(format!("{version}.json"))
    }

    /// Every version, oldest first.
    fn versions(&self) -> Result<Vec<Version>, StoreError> {
        let number = |name: String| {
            let number: u64 = name.strip_suffix(".json")?.parse().ok()?;
            // `01.json` and `+1.json` are not what was written.
            (number > 0 && name == format!("{number}.json")).then_some(Version(number))
        };
        let mut versions: Vec<Version> = names(&self.folder)?.into_iter().filter_map(number).collect();
        versions.sort();
        Ok(versions)
    }

    fn newest_version(&self) -> Result<Option<Version>, StoreError> {
        Ok(self.versions()?.pop())
    }

    fn newest(&self) -> Result<Option<Published>, StoreError> {
        match self.newest_version()? {
            Some(version) => self.read(version),
            None => Ok(None),
        }
    }

    fn read(&self, version: Version) -> Result<Option<Published>, StoreError> {
        let path = self.path(version);
        let Some(text) = read_if_there(&path)? else { return Ok(None) };
        let document =
            Document::from_json(&text).map_err(|source| StoreError::Document { path: path.clone(), source })?;
        if let Some((class, origin)) = &self.owner
            && (document.body.class_id != *class || document.body.origin != *origin)
        {
            let found = format!("{} {}", document.body.class_id, document.body.origin);
            return Err(StoreError::OtherClass { path, found, wanted: format!("{class} {origin}") });
        }
        Ok(Some(Published { version, document }))
    }

    /// Makes `current.json` the newest version. Whoever replaces the file looks again afterwards: so the last
    /// replacement of several publishers is that of the newest version, whichever of them was slow.
    fn refresh_current(&self) -> Result<(), StoreError> {
        let mut shown = None;
        loop {
            let newest = self.newest_version()?;
            let Some(version) = newest.filter(|_| newest != shown) else { return Ok(()) };
            if let Some(text) = read_if_there(&self.path(version))? {
                Temporary::write(&self.folder, text.as_bytes())?.replace(&self.folder.join(CURRENT))?;
                sync_folder(&self.folder)?;
            }
            shown = newest;
        }
    }
}

#[cfg(test)]
mod tests;
