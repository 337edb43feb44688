//! What a row's visits saw of device and host, and what that makes of the row.

use std::collections::BTreeSet;

use fleetcal_model::row::{Conditions, Sample};
use fleetcal_model::statistics::median;
use fleetcal_model::throttle::{ThrottleReasons, Throttling};
use serde::{Deserialize, Serialize};

use super::seen::{Extremes, KeptReading, VisitSeen};
use crate::harness::record::{Checked, Verdict};
use crate::telemetry::processors::Spent;
use crate::telemetry::{ForeignProcess, Reading};

/// Part of the processors' time that others may take during a visit to the host's own processor. On two shared cores
/// half of one is noise that a median of rounds bears; beyond it a visit times the scheduler.
pub const LOST_SHARE_MAX: f64 = 0.25;

/// Counters of a device that only grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Corrected memory errors.
    pub ecc_corrected: Option<u64>,
    /// Uncorrected memory errors.
    pub ecc_uncorrected: Option<u64>,
    /// Remapped memory rows.
    pub rows_remapped: Option<u64>,
}

impl Counters {
    /// Those of a reading.
    pub fn of(reading: &Reading) -> Self {
        let Reading { ecc_corrected, ecc_uncorrected, rows_remapped, .. } = *reading;
        Self { ecc_corrected, ecc_uncorrected, rows_remapped }
    }

    /// What was counted since an earlier look; unknown where either look did not see it, or where it went back.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        let delta = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        Self {
            ecc_corrected: delta(self.ecc_corrected, earlier.ecc_corrected),
            ecc_uncorrected: delta(self.ecc_uncorrected, earlier.ecc_uncorrected),
            rows_remapped: delta(self.rows_remapped, earlier.rows_remapped),
        }
    }
}

/// What all visits of one row saw.
#[derive(Debug, Clone, Default)]
pub struct Watch {
    source: Option<String>,
    readings: Vec<KeptReading>,
    readings_taken: u64,
    most: Extremes,
    counted: Counters,
    foreign: BTreeSet<ForeignProcess>,
    throttling: Throttling,
    visits: u64,
    crowded_visits: u64,
    /// Of all visits, and of those that were not crowded.
    spent: Option<Spent>,
    spent_uncrowded: Spent,
    lost_share_most: f64,
    host_load: Option<f64>,
    /// Whether all of it is of the screening round.
    screened: bool,
}

impl Watch {
    /// Adds a visit and its samples, as they were marked. The first visit that measures puts those that screened away:
    /// the row's numbers come from later on.
    pub fn add(&mut self, seen: VisitSeen, samples: &[Sample], screening: bool) {
        if self.screened && !screening {
            *self = Self::default();
        }
        self.screened = screening;
        self.visits += 1;
        self.source = self.source.take().or(seen.source);
        samples.iter().for_each(|sample| self.throttling.add(sample));
        let counted = |total: Option<u64>, more: Option<u64>| match (total, more) {
            (Some(total), Some(more)) => Some(total.saturating_add(more)),
            (total, more) => total.or(more),
        };
        self.counted = Counters {
            ecc_corrected: counted(self.counted.ecc_corrected, seen.counted.ecc_corrected),
            ecc_uncorrected: counted(self.counted.ecc_uncorrected, seen.counted.ecc_uncorrected),
            rows_remapped: counted(self.counted.rows_remapped, seen.counted.rows_remapped),
        };
        self.foreign.extend(seen.foreign.into_iter().flatten());
        self.readings.extend(seen.readings);
        self.readings_taken = self.readings_taken.saturating_add(seen.readings_taken);
        self.most = self.most.and(seen.most);
        self.host_load = seen.host_load.or(self.host_load);
        let Some(spent) = seen.spent else { return };
        self.spent = Some(self.spent.unwrap_or_default().and(spent));
        self.lost_share_most = self.lost_share_most.max(spent.lost_share());
        if seen.crowded {
            self.crowded_visits += 1;
        } else {
            self.spent_uncrowded = self.spent_uncrowded.and(spent);
        }
    }

    /// What becomes of a row whose results are right. `on_host` where the device is the host's own processor; `whole`
    /// where no earlier worker took part of the row's samples, which are judged together when the row is put together.
    pub fn verdict(&self, checked: Checked, on_host: bool, whole: bool) -> Option<Verdict> {
        if !self.foreign.is_empty() {
            let who: Vec<String> = self.foreign.iter().map(ToString::to_string).collect();
            return Some(Verdict::Contended { checked, reason: format!("used by {} meanwhile", who.join(", ")) });
        }
        if on_host && let Some(reason) = self.crowded() {
            return Some(Verdict::Contended { checked, reason });
        }
        let reason = self.throttling.verdict().filter(|_| whole)?;
        Some(Verdict::Throttled { checked, reason })
    }

    /// Whether others took too much of the processors: in over half of the visits, or, where visits are too short to
    /// judge one by one, in all that were let pass together.
    fn crowded(&self) -> Option<String> {
        let percent = |share: f64| (share * 100.0).round();
        let limit = percent(LOST_SHARE_MAX);
        if self.crowded_visits.saturating_mul(2) > self.visits {
            return Some(format!(
                "others took more than {limit}% of the processors' time in {} of {} visits, up to {}%",
                self.crowded_visits,
                self.visits,
                percent(self.lost_share_most)
            ));
        }
        let share = self.spent_uncrowded.lost_share();
        (share > LOST_SHARE_MAX)
            .then(|| format!("others took {}% of the processors' time, more than {limit}%", percent(share)))
    }

    /// Writes into a row what was seen. Where no reading overlaps its samples, nothing is said of the device. Without a
    /// visit there is nothing to write: an earlier worker may have left what it saw.
    pub fn apply(&self, conditions: &mut Conditions) {
        if self.visits == 0 {
            return;
        }
        let known = |value: fn(&KeptReading) -> Option<u64>| -> Option<u64> {
            let values: Vec<f64> = self.readings.iter().filter_map(value).map(|value| value as f64).collect();
            median(&values).map(|value| value.round() as u64)
        };
        conditions.core_clock_khz = known(|reading| reading.core_clock_khz);
        conditions.memory_clock_khz = known(|reading| reading.memory_clock_khz);
        conditions.power_mw = known(|reading| reading.power_mw);
        conditions.fan_percent = known(|reading| reading.fan_percent);
        conditions.temperature_mc = self.most.temperature_mc;
        conditions.hot_spot_mc = self.most.hot_spot_mc;
        conditions.memory_temperature_mc = self.most.memory_temperature_mc;
        conditions.throttle_reasons = self.most.throttle.map(ThrottleReasons::bits);
        conditions.ecc_corrected = self.counted.ecc_corrected;
        conditions.ecc_uncorrected = self.counted.ecc_uncorrected;
        conditions.rows_remapped = self.counted.rows_remapped;
        conditions.foreign_processes = self.most.foreign;
        conditions.monitor_source = self.source.clone();
        conditions.monitor_samples = self.readings_taken;
        conditions.host_load = self.host_load;
        conditions.host_steal = self.spent.map(Spent::steal_share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_worker_saw_is_neither_overwritten_nor_judged_by_half() {
        let mut watch = Watch::default();
        let mut conditions = Conditions { core_clock_khz: Some(7), monitor_samples: 3, ..Conditions::default() };
        let before = conditions.clone();
        watch.apply(&mut conditions);
        assert_eq!(conditions, before, "this worker made no visit");
        let bits = Some(ThrottleReasons::HARDWARE_THERMAL.bits());
        let sample = Sample { ns: 1, round: 2, start_ns: 0, accepted: false, throttle_bits: bits, clock_khz: None };
        watch.add(VisitSeen::default(), &[sample], false);
        assert_eq!(watch.verdict(Checked::default(), false, false), None, "the earlier samples are not here");
        let whole = watch.verdict(Checked::default(), false, true);
        assert!(matches!(whole, Some(Verdict::Throttled { .. })), "{whole:?}");
        watch.apply(&mut conditions);
        assert_eq!((conditions.core_clock_khz, conditions.monitor_samples), (None, 0), "this visit saw nothing");
    }
}
