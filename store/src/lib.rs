//! Where published constants are kept, for the coordinator that publishes them and for whoever uses them.
//!
//! A store holds, for each device class and origin, versions that never change, and says which one is current. This
//! is the folder store: plain JSON files, which need neither this crate nor Rust to be read.
//!
//! ```no_run
//! use fleetcal_model::{id::ClassId, row::Origin};
//! use fleetcal_store::FolderStore;
//!
//! # fn main() -> Result<(), fleetcal_store::StoreError> {
//! let store = FolderStore::open("fleetcal-data/constants".as_ref())?;
//! if let Some(published) = store.current(&ClassId::new("6d1a4ad0c0ffee00"), Origin::Measured)? {
//!     println!("version {}: {} constants", published.version, published.document.body.constants.len());
//! }
//! # Ok(())
//! # }
//! ```

mod disk;
mod error;
mod folder;

pub use error::StoreError;
pub use folder::{FolderStore, Listing, Published, Version};
