//! Records of rows, with what they share kept once.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Context, Own, Record, Subject};
use crate::row::{DeviceColumns, Row};

/// Makes records of rows. Rows of one device, of one point, or of one task point to the same.
#[derive(Debug, Default)]
pub struct Recorder {
    devices: BTreeMap<String, Vec<Arc<DeviceColumns>>>,
    subjects: BTreeMap<(String, String), Vec<Arc<Subject>>>,
    contexts: BTreeMap<String, Vec<Arc<Context>>>,
}

impl Recorder {
    /// The record of a row.
    pub fn record(&mut self, row: &Row) -> Record {
        let device = self.device(&row.device);
        let (subject, context) = (self.subject(row), self.context(Context::of(row)));
        let (timing, conditions) = (&row.timing, &row.conditions);
        let own = Own {
            row_id: row.identity.row_id.as_str(),
            content_hash: &row.identity.content_hash,
            estimate_ns: timing.estimate_ns,
            interval_low_ns: timing.interval_low_ns,
            interval_high_ns: timing.interval_high_ns,
            core_clock_khz: conditions.core_clock_khz,
            memory_clock_khz: conditions.memory_clock_khz,
            power_mw: conditions.power_mw,
            temperature_mc: conditions.temperature_mc,
            best_sample_ns: best_sample_ns(row),
            started_utc_ns: row.outcome.started_utc_ns,
        };
        let medians = timing.rounds.iter().map(|round| round.median_ns).collect();
        Record::new(device, subject, context, &own, medians)
    }

    /// The shared form of a device.
    pub fn device(&mut self, device: &DeviceColumns) -> Arc<DeviceColumns> {
        let known = entry(&mut self.devices, device.device_uuid.as_str());
        shared(known, |known| known == device, || device.clone())
    }

    /// The shared form of what a row ran.
    pub fn subject(&mut self, row: &Row) -> Arc<Subject> {
        let key = (row.work.point.clone(), row.work.solution.clone());
        let known = self.subjects.entry(key).or_default();
        let alike = |known: &Subject| known.work == row.work && known.counts == row.counts;
        shared(known, alike, || Subject { work: row.work.clone(), counts: row.counts.clone() })
    }

    /// The shared form of a context.
    pub fn context(&mut self, context: Context) -> Arc<Context> {
        let known = entry(&mut self.contexts, context.task_id.as_str());
        shared(known, |known| *known == context, || context.clone())
    }
}

fn entry<'m, T>(map: &'m mut BTreeMap<String, Vec<Arc<T>>>, key: &str) -> &'m mut Vec<Arc<T>> {
    map.entry(key.to_owned()).or_default()
}

/// How many things of one name are compared with each other; a hostile heap of them must not cost its square.
const ALIKE_MAX: usize = 64;

fn shared<T>(known: &mut Vec<Arc<T>>, alike: impl Fn(&T) -> bool, make: impl FnOnce() -> T) -> Arc<T> {
    if let Some(found) = known.iter().rev().take(ALIKE_MAX).find(|known| alike(known)) {
        return Arc::clone(found);
    }
    let made = Arc::new(make());
    known.push(Arc::clone(&made));
    made
}

/// The shortest accepted sample of a measured round, nanoseconds a launch.
fn best_sample_ns(row: &Row) -> Option<f64> {
    let counted = row.timing.samples.iter().filter(|sample| sample.accepted && sample.round >= 1);
    let enqueues = row.timing.enqueues_per_sample.max(1) as f64;
    counted.map(|sample| sample.ns as f64 / enqueues).reduce(f64::min)
}
