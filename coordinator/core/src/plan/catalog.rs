//! What plans can name: sweeps with their kernels and number formats, and the sizes that depend on the device.

use fleetcal_kernels::Family;
use fleetcal_model::device::{DeviceFacts, UNKNOWN_LAST_LEVEL_CACHE_BYTES};
use fleetcal_model::fit;
use fleetcal_model::point::{Dtype, Sweep};

use super::error::{PlanProblem, nearest};
use super::quantity::Size;

/// Fewest elements that `dram` means, however small the cache: every family takes it.
pub(super) const DRAM_ELEMENTS_MIN: u64 = 1 << 20;

/// The family that a plan names.
///
/// # Errors
/// [`PlanProblem::UnknownName`] for a name of no family, or of one that has no kernels in this version.
pub(super) fn family_of(name: &str) -> Result<&'static dyn Family, PlanProblem> {
    let family = name.parse::<Sweep>().ok().and_then(fleetcal_kernels::family);
    family.ok_or_else(|| {
        let known = Sweep::ALL.iter().filter(|sweep| fleetcal_kernels::family(**sweep).is_some());
        unknown("family", name, known.map(|sweep| sweep.name()).collect())
    })
}

/// The kernel of a family that a plan names.
pub(super) fn kernel_of(family: &dyn Family, name: &str) -> Result<String, PlanProblem> {
    let known = family.kernels();
    if known.contains(&name) { Ok(name.to_owned()) } else { Err(unknown("kernel", name, known.to_vec())) }
}

/// The number format of a family that a plan names.
pub(super) fn dtype_of(family: &dyn Family, name: &str) -> Result<Dtype, PlanProblem> {
    let known = family.dtypes();
    let found = known.iter().copied().find(|dtype| dtype.name() == name);
    found.ok_or_else(|| unknown("dtype", name, known.iter().map(|dtype| dtype.name()).collect()))
}

/// What a size means on a device; `dram` is as large as the fit's rule wants it.
pub(super) fn size_on(size: Size, family: &dyn Family, dtype: Dtype, device: &DeviceFacts, fit: &fit::Options) -> u64 {
    match size {
        Size::Elements(elements) => elements,
        Size::Dram => {
            let cache_bytes = device.last_level_cache_bytes.unwrap_or(UNKNOWN_LAST_LEVEL_CACHE_BYTES);
            let footprint_bytes = cache_bytes.saturating_mul(fit.footprint_factor);
            let elements = footprint_bytes.div_ceil(family.arrays_min().max(1) * dtype.bytes());
            elements.max(DRAM_ELEMENTS_MIN).checked_next_power_of_two().unwrap_or(1 << 63)
        }
    }
}

fn unknown(what: &'static str, name: &str, known: Vec<&'static str>) -> PlanProblem {
    PlanProblem::UnknownName {
        what,
        name: name.to_owned(),
        nearest: nearest(name, known.iter().copied()),
        known: known.join(", "),
    }
}
