//! Right values that took long to work out, kept for the next check.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Values kept; beyond that all are forgotten, and worked out again by whoever asks.
const VALUES_MAX: usize = 64;

/// A value for each name that a pure function was asked of.
#[derive(Debug)]
pub(crate) struct Memo<Value = f64>(Mutex<BTreeMap<String, Value>>);

impl<Value: Clone> Memo<Value> {
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// The value of this name: kept, or worked out now.
    pub(crate) fn of(&self, name: &str, work_out: impl FnOnce() -> Value) -> Value {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        kept.unwrap_or_else(|| {
            let value = work_out();
            let mut values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if values.len() >= VALUES_MAX {
                values.clear();
            }
            values.insert(name.to_owned(), value.clone());
            value
        })
    }
}
