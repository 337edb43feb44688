//! Held-out rows of a pool as points: each predicted from its own counts, or left out with the reason.

use std::collections::BTreeSet;

use super::Point;
use crate::fit::pool::Pool;
use crate::fit::record::Record;
use crate::id::{ClassId, RowId};
use crate::machine::{Machine, Request};
use crate::point::Sweep;
use crate::row::{Origin, Role, Status};
use crate::score::{Kernel, NotPriced};
use crate::units::Seconds;
use crate::vocabulary;

/// Why the rows of a pool are no test of a machine's constants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeldOut {
    /// They are rows of another class or origin.
    #[error("rows of class {found} ({found_origin}) do not test the constants of class {class_id} ({origin})")]
    OtherClass {
        /// Class of the constants.
        class_id: ClassId,
        /// Origin of the constants.
        origin: Origin,
        /// Class of the rows.
        found: ClassId,
        /// Origin of the rows.
        found_origin: Origin,
    },
}

/// Why a held-out row is no point.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Exclusion {
    /// It did not pass, and its time is that of something else.
    #[error("its status is {0}")]
    NotPassed(Status),
    /// It has no estimate that is a positive time.
    #[error("it has no estimate")]
    NoEstimate,
    /// It names no point.
    #[error("{0}")]
    NoPoint(String),
    /// Rows of its shape fed the fits: predicting it would be reading the fit back.
    #[error("rows of its shape, {shape}, were fitted")]
    ShapeFitted {
        /// The shape.
        shape: String,
    },
    /// It was measured under another condition than the constants.
    #[error("it was measured under {name}={found}, and the constants hold under {wanted}")]
    OtherCondition {
        /// Name of the condition.
        name: &'static str,
        /// What the row says.
        found: String,
        /// What the constants say.
        wanted: String,
    },
    /// The constants do not price it.
    #[error("{0}")]
    NotPriced(#[from] NotPriced),
}

vocabulary! {
    /// What is compared with measured times.
    Predicted, "prediction" {
        /// The score and the launch.
        Time => "time",
        /// The score alone, because the constants have no launch latency: short kernels are predicted too fast.
        ScoreWithoutLaunch => "score_without_launch",
    }
}

/// Held-out rows as points.
#[derive(Debug, Clone, PartialEq)]
pub struct HeldOutRows {
    /// What the points' predictions are.
    pub predicted: Predicted,
    /// Rows with a prediction.
    pub points: Vec<Point>,
    /// Rows without one.
    pub excluded: Vec<Excluded>,
}

/// A held-out row that is no point.
#[derive(Debug, Clone, PartialEq)]
pub struct Excluded {
    /// The row.
    pub row_id: RowId,
    /// Why.
    pub reason: Exclusion,
}

impl HeldOutRows {
    /// The pool's held-out rows. Rows of other roles are passed over.
    ///
    /// # Errors
    /// [`NotHeldOut`], where pool and machine are of different classes or origins.
    pub fn of(pool: &Pool, machine: &Machine) -> Result<Self, NotHeldOut> {
        let Request { class_id, origin, .. } = &machine.request;
        if pool.class_id() != class_id || pool.origin() != *origin {
            let (found, found_origin) = (pool.class_id().clone(), pool.origin());
            return Err(NotHeldOut::OtherClass { class_id: class_id.clone(), origin: *origin, found, found_origin });
        }
        let held_out = pool.rows().iter().filter(|row| row.context().role == Role::HeldOut);
        Ok(Self::predict(held_out, &fitted_shapes(pool), machine))
    }

    /// Predicts `rows`, but for those of a shape that was fitted.
    pub(crate) fn predict<'a>(
        rows: impl IntoIterator<Item = &'a Record>,
        fitted: &BTreeSet<String>,
        machine: &Machine,
    ) -> Self {
        let predicted = match machine.launch_latency {
            Ok(_) => Predicted::Time,
            Err(_) => Predicted::ScoreWithoutLaunch,
        };
        let mut held_out = Self { predicted, points: Vec::new(), excluded: Vec::new() };
        let mut rows: Vec<&Record> = rows.into_iter().collect();
        rows.sort_by(|left, right| left.key().cmp(right.key()));
        for row in rows {
            match point(row, machine, fitted, predicted) {
                Ok(point) => held_out.points.push(point),
                Err(reason) => held_out.excluded.push(Excluded { row_id: row.row_id(), reason }),
            }
        }
        held_out
    }
}

/// The shapes of the rows that feed fits. A fleet has many rows of few points: each point is read once.
pub(crate) fn fitted_shapes(pool: &Pool) -> BTreeSet<String> {
    let mut shapes = BTreeSet::new();
    let mut last = None;
    for row in pool.rows().iter().filter(|row| row.feeds_fits()) {
        if last.replace(row.point_number) != Some(row.point_number) {
            shapes.extend(Labels::of(row).map(|labels| labels.shape));
        }
    }
    shapes
}

fn point(row: &Record, machine: &Machine, fitted: &BTreeSet<String>, predicted: Predicted) -> Result<Point, Exclusion> {
    if !matches!(row.context().status, Status::Passed | Status::NoCheck) {
        return Err(Exclusion::NotPassed(row.context().status));
    }
    let estimate_ns = row.estimate_ns().filter(|ns| ns.is_finite() && *ns > 0.0).ok_or(Exclusion::NoEstimate)?;
    let conditions = [("neighbours", &row.context().neighbours), ("load", &row.context().load)];
    for (name, found) in conditions {
        let wanted = machine.request.condition.get(name);
        if let (Some(found), Some(wanted)) = (found, wanted)
            && found != wanted
        {
            return Err(Exclusion::OtherCondition { name, found: found.clone(), wanted: wanted.clone() });
        }
    }
    let Labels { shape, problem, candidate } = Labels::of(row).map_err(Exclusion::NoPoint)?;
    if fitted.contains(&shape) {
        return Err(Exclusion::ShapeFitted { shape });
    }
    let score = machine.score(&Kernel::of_counts(row.counts(), row.work().dtype));
    let predicted = match predicted {
        Predicted::Time => score.time()?,
        Predicted::ScoreWithoutLaunch => score.seconds()?,
    };
    Ok(Point { shape, problem, candidate, predicted, measured: Seconds::from_ns(estimate_ns) })
}

struct Labels {
    shape: String,
    problem: String,
    candidate: String,
}

impl Labels {
    /// The shape is sweep, number format and sizes but the reduction's extent, which sweeps run over. Kernels of the
    /// contraction sweeps solve one problem; those of other sweeps do different work.
    fn of(row: &Record) -> Result<Self, String> {
        let point: crate::point::Point =
            row.work().point.parse().map_err(|error: crate::point::NotAPoint| error.to_string())?;
        let (kernel, candidate) = match point.sweep {
            Sweep::WorkingSet | Sweep::Issue | Sweep::Launch => {
                (String::new(), format!("{}/{}", point.kernel, row.work().solution))
            }
            Sweep::Stream
            | Sweep::Cache
            | Sweep::Peak
            | Sweep::Onchip
            | Sweep::Reduce
            | Sweep::Scan
            | Sweep::Latency
            | Sweep::Transfer => (format!("/{}", point.kernel), row.work().solution.clone()),
        };
        let named = |keep: &dyn Fn(&str) -> bool| {
            let sizes = point.sizes.iter().filter(|(name, _)| keep(name));
            let sizes: String = sizes.map(|(name, value)| format!("/{name}={value}")).collect();
            format!("{}{kernel}/{}{sizes}", point.sweep, point.dtype)
        };
        Ok(Self { shape: named(&|name| name != "k"), problem: named(&|_| true), candidate })
    }
}
