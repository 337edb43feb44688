//! One leg of a score or bound: no work, a time, or the reason why there is no time.

use crate::constants::Missing;
use crate::units::Seconds;

/// Why work has no price.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotPriced {
    /// A constant is missing.
    #[error(transparent)]
    Constant(#[from] Missing),
    /// There are re-reads, and nobody said how large the working set is: the cache may serve them or not.
    #[error("the kernel reads bytes again, and its working set is not given")]
    NoWorkingSet,
    /// There are scalar operations, and no launch context has any, or one has some and launches nothing.
    #[error("the kernel has scalar operations, and its launch contexts do not say how they fill the device")]
    NoFill,
    /// Counts may be too low.
    #[error("the kernel's counts may be too low")]
    Opaque,
    /// The numbers are beyond double precision, or a rate of a machine made by hand is none.
    #[error("the time is not a finite number: a rate is none, or the numbers are too far apart")]
    NotFinite,
}

/// One part of a time.
#[derive(Debug, Clone, PartialEq)]
pub enum Leg {
    /// The kernel has no such work. It takes no time, whatever the machine.
    NoWork,
    /// The time that the work takes.
    Priced(Seconds),
    /// There is work, and its time is not known.
    NotPriced {
        /// Why.
        reason: NotPriced,
        /// A time that it takes at least, if something says one.
        at_least: Option<Seconds>,
    },
}

impl Leg {
    pub(super) fn of(time: Result<Seconds, NotPriced>) -> Self {
        Self::at_least(time, None)
    }

    /// The time, or why there is none with what it is at least.
    pub(super) fn at_least(time: Result<Seconds, NotPriced>, at_least: Option<Seconds>) -> Self {
        match time {
            Ok(time) => Self::Priced(time),
            Err(reason) => Self::NotPriced { reason, at_least },
        }
    }

    /// The time; zero where there is no work.
    ///
    /// # Errors
    /// [`NotPriced`].
    pub fn time(&self) -> Result<Seconds, NotPriced> {
        match self {
            Self::NoWork => Ok(Seconds(0.0)),
            Self::Priced(time) => Ok(*time),
            Self::NotPriced { reason, .. } => Err(reason.clone()),
        }
    }

    /// The time, or a time that it takes at least, if something says one.
    pub fn known(&self) -> Option<Seconds> {
        match self {
            Self::NoWork => None,
            Self::Priced(time) => Some(*time),
            Self::NotPriced { at_least, .. } => *at_least,
        }
    }
}

/// Work over rate, if the rate is one and the quotient a duration.
pub(super) fn at_rate(work: f64, rate: f64) -> Result<Seconds, NotPriced> {
    if rate.is_finite() && rate > 0.0 { duration(Seconds(work / rate)) } else { Err(NotPriced::NotFinite) }
}

/// A number that is a duration.
pub(super) fn duration(time: Seconds) -> Result<Seconds, NotPriced> {
    if time.0.is_finite() && time.0 >= 0.0 { Ok(time) } else { Err(NotPriced::NotFinite) }
}
