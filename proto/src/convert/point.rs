//! Points of a sweep.

use fleetcal_model::point::Point;

use super::{ConvertError, name, text};
use crate::v1;

impl From<&Point> for v1::Point {
    fn from(point: &Point) -> Self {
        Self {
            sweep: point.sweep.name().to_owned(),
            kernel: point.kernel.clone(),
            dtype: point.dtype.name().to_owned(),
            sizes: point.sizes.clone(),
        }
    }
}

impl TryFrom<v1::Point> for Point {
    type Error = ConvertError;

    fn try_from(wire: v1::Point) -> Result<Self, ConvertError> {
        Ok(Self {
            sweep: name(&wire.sweep, "Point.sweep")?,
            kernel: text(wire.kernel, "Point.kernel")?,
            dtype: name(&wire.dtype, "Point.dtype")?,
            sizes: wire.sizes,
        })
    }
}
