//! What families check of a point before anything is made of it.

use fleetcal_model::point::Point;

use crate::family::{Family, PointError};

/// What a size must be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SizeRule {
    pub(crate) name: &'static str,
    pub(crate) least: u64,
    pub(crate) most: u64,
    pub(crate) multiple_of: u64,
}

/// Whether the point names a kernel of the family in a number format that it has, with sizes that follow the rules.
///
/// # Errors
/// The first thing about it that cannot be used.
pub(crate) fn check(family: &dyn Family, point: &Point, rules: &[SizeRule]) -> Result<(), PointError> {
    let sweep = family.sweep();
    if !family.kernels().contains(&point.kernel.as_str()) {
        return Err(PointError::UnknownKernel {
            sweep,
            kernel: point.kernel.clone(),
            known: family.kernels().join(", "),
        });
    }
    if !family.supports(&point.kernel, point.dtype) {
        let known = family.dtypes().iter().filter(|dtype| family.supports(&point.kernel, **dtype));
        let known = known.map(|dtype| dtype.name()).collect::<Vec<_>>().join(", ");
        return Err(PointError::UnsupportedDtype { sweep, dtype: point.dtype, known });
    }
    for &SizeRule { name, least, most, multiple_of } in rules {
        let size = name.to_owned();
        let Some(value) = point.size(name) else {
            return Err(PointError::MissingSize { sweep, kernel: point.kernel.clone(), size });
        };
        let reason = if value < least || value > most {
            format!("it must be from {least} to {most}")
        } else if !value.is_multiple_of(multiple_of) {
            format!("it must be a multiple of {multiple_of}")
        } else {
            continue;
        };
        return Err(PointError::BadSize { size, value, reason });
    }
    Ok(())
}
