//! What the constants in force select, read from the store for runs that measure selected solutions.

use std::collections::BTreeSet;
use std::path::Path;

use fleetcal_core::core::Core;
use fleetcal_core::event::ClassSelection;
use fleetcal_model::device::Backend;
use fleetcal_model::id::ClassId;
use fleetcal_model::row::Origin;
use fleetcal_model::selection::selected;
use fleetcal_store::{FolderStore, StoreError};

/// Classes of a fleet, each with the origin of the numbers that its devices give.
pub(crate) type Classes = BTreeSet<(ClassId, Origin)>;

/// Every class whose devices the core knows.
pub(crate) fn classes(core: &Core) -> Classes {
    core.devices().map(|view| (view.device.class.clone(), origin_of(view.device.facts.backend))).collect()
}

/// Where the numbers of a backend come from. Rows of simulated devices are never pooled with measured ones, and so neither
/// are selections.
fn origin_of(backend: Backend) -> Origin {
    match backend {
        Backend::Cuda | Backend::Hip | Backend::Cpu => Origin::Measured,
        Backend::Sim => Origin::Simulated,
    }
}

/// What the current documents of the classes select. A class without a document is not among them.
///
/// # Errors
/// A document that is there cannot be read: what is in force is then not known, which is not the same as nothing.
pub(crate) fn in_force(store: &Path, classes: &Classes) -> Result<Vec<ClassSelection>, StoreError> {
    // Opening a store makes its folder; where none is, nothing was published.
    if !store.exists() {
        return Ok(Vec::new());
    }
    let store = FolderStore::open(store)?;
    let mut selections = Vec::new();
    for (class, origin) in classes {
        if let Some(current) = store.current(class, *origin)? {
            selections.push(ClassSelection { class: class.clone(), solutions: selected(&current.document) });
        }
    }
    Ok(selections)
}
