//! The fits as the OCANNL calibration defines them, to the letter: what a user of its constants compares ours with.
//!
//! They take one time a point (the best of N), know no devices and no intervals, and believe every point. The robust
//! fits of [`crate::fit`] are what documents are made of; these are the semantics that they keep where data is clean.
//! Formulas: documentation of OCANNL's modules `Calibrate` (gh-ocannl-578, 1253, 1442, 1479) and
//! `Cost_model.Calibration`. Where that is silent, the choice made here is stated and tested.

pub mod capacity;
pub mod envelope;
pub mod fill;
pub mod issue;

/// Whether a time can be divided by.
fn is_time(seconds: f64) -> bool {
    seconds.is_finite() && seconds > 0.0
}
