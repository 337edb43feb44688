//! What a visit keeps of its readings: so little that a visit of any length, and a task of many, can be told whole.

use fleetcal_model::throttle::ThrottleReasons;
use serde::{Deserialize, Serialize};

use super::Counters;
use crate::telemetry::processors::Spent;
use crate::telemetry::{ForeignProcess, Reading};

/// Most readings that a visit keeps; medians of more would say the same.
pub const READINGS_KEPT: usize = 32;
/// Most processes of others that a visit names.
const FOREIGN_NAMED: usize = 16;

/// One visit as the monitor saw it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct VisitSeen {
    /// Where readings come from; none where there is no sensor.
    pub source: Option<String>,
    /// Of the readings that overlap its timed part, at most [`READINGS_KEPT`], evenly chosen.
    pub readings: Vec<KeptReading>,
    /// How many there were.
    pub readings_taken: u64,
    /// The largest values of all of them.
    pub most: Extremes,
    /// What was counted meanwhile.
    pub counted: Counters,
    /// Who else was on the device; unknown where that cannot be seen. Of many, the first few.
    pub foreign: Option<Vec<ForeignProcess>>,
    /// How the processors spent their time.
    pub spent: Option<Spent>,
    /// Load average of the host.
    pub host_load: Option<f64>,
    /// Whether others took more of the host's processors than a visit to them bears.
    pub crowded: bool,
}

/// The part of a reading whose medians enter a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct KeptReading {
    /// Clock of the cores, kHz.
    pub core_clock_khz: Option<u64>,
    /// Clock of the memory, kHz.
    pub memory_clock_khz: Option<u64>,
    /// Power, milliwatts.
    pub power_mw: Option<u64>,
    /// Fan, percent of its full speed.
    pub fan_percent: Option<u64>,
}

impl KeptReading {
    fn of(reading: &Reading) -> Self {
        let Reading { core_clock_khz, memory_clock_khz, power_mw, fan_percent, .. } = *reading;
        Self { core_clock_khz, memory_clock_khz, power_mw, fan_percent }
    }
}

/// The largest values of some readings; for throttle reasons, all that were seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extremes {
    /// Temperature of the die's edge, millidegrees Celsius.
    pub temperature_mc: Option<i64>,
    /// Temperature of its hottest spot.
    pub hot_spot_mc: Option<i64>,
    /// Temperature of its memory.
    pub memory_temperature_mc: Option<i64>,
    /// Throttle reasons.
    pub throttle: Option<ThrottleReasons>,
    /// Processes of others at one time.
    pub foreign: Option<u64>,
}

impl Extremes {
    fn of(reading: &Reading) -> Self {
        let Reading { temperature_mc, hot_spot_mc, memory_temperature_mc, throttle, .. } = *reading;
        let foreign = reading.foreign.as_ref().map(|processes| processes.len() as u64);
        Self { temperature_mc, hot_spot_mc, memory_temperature_mc, throttle, foreign }
    }

    /// Those of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let throttle = match (self.throttle, other.throttle) {
            (Some(these), Some(those)) => Some(these.union(those)),
            (these, those) => these.or(those),
        };
        Self {
            temperature_mc: self.temperature_mc.max(other.temperature_mc),
            hot_spot_mc: self.hot_spot_mc.max(other.hot_spot_mc),
            memory_temperature_mc: self.memory_temperature_mc.max(other.memory_temperature_mc),
            throttle,
            foreign: self.foreign.max(other.foreign),
        }
    }
}

impl VisitSeen {
    /// What remains of a visit's readings, and of who was there when it ended.
    pub fn of(readings: &[Reading], foreign_at_end: Option<Vec<ForeignProcess>>) -> Self {
        let end = Reading { foreign: foreign_at_end, ..Reading::default() };
        let mut foreign: Option<Vec<ForeignProcess>> = None;
        for process in readings.iter().chain([&end]).filter_map(|reading| reading.foreign.as_ref()) {
            let named = foreign.get_or_insert_default();
            named.extend(process.iter().cloned());
            named.sort_unstable();
            named.dedup();
            named.truncate(FOREIGN_NAMED);
        }
        let mut seen = Self {
            readings: readings.iter().map(KeptReading::of).collect(),
            readings_taken: readings.len() as u64,
            most: readings.iter().map(Extremes::of).fold(Extremes::of(&end), Extremes::and),
            foreign,
            ..Self::default()
        };
        seen.thin(READINGS_KEPT);
        seen
    }

    /// Keeps at most so many readings, evenly chosen.
    pub fn thin(&mut self, most: usize) {
        let all = self.readings.len();
        if all > most {
            // The middle of each of `most` parts.
            let chosen = (0..most).filter_map(|part| self.readings.get((2 * part + 1) * all / (2 * most)).copied());
            self.readings = chosen.collect();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32) -> ForeignProcess {
        ForeignProcess { pid, name: None }
    }

    #[test]
    fn of_many_readings_a_few_are_kept_and_the_largest_values_of_all() {
        let reading = |number: u64| Reading {
            core_clock_khz: Some(number),
            temperature_mc: Some(if number == 1 { 90_000 } else { 50_000 }),
            throttle: (number == 3).then_some(ThrottleReasons::POWER_CAP),
            foreign: Some(if number == 5 { (0..100).map(process).collect() } else { Vec::new() }),
            ..Reading::default()
        };
        let readings: Vec<Reading> = (0..1000).map(reading).collect();
        let seen = VisitSeen::of(&readings, None);
        assert_eq!((seen.readings.len(), seen.readings_taken), (READINGS_KEPT, 1000));
        let clocks: Vec<u64> = seen.readings.iter().filter_map(|reading| reading.core_clock_khz).collect();
        assert_eq!((clocks[0], clocks[16], clocks[31]), (15, 515, 984), "evenly chosen: {clocks:?}");
        assert_eq!(seen.most.temperature_mc, Some(90_000), "though that reading was not kept");
        assert_eq!(seen.most.throttle, Some(ThrottleReasons::POWER_CAP));
        assert_eq!((seen.most.foreign, seen.foreign.map(|named| named.len())), (Some(100), Some(FOREIGN_NAMED)));
    }

    #[test]
    fn few_readings_are_all_kept_and_unknown_is_not_none() {
        let readings = vec![Reading { power_mw: Some(5), ..Reading::default() }; READINGS_KEPT];
        let seen = VisitSeen::of(&readings, None);
        assert_eq!((seen.readings.len(), seen.foreign, seen.most), (READINGS_KEPT, None, Extremes::default()));
        let nobody = VisitSeen::of(&[], Some(Vec::new()));
        assert_eq!((nobody.foreign, nobody.most.foreign), (Some(Vec::new()), Some(0)));
    }
}
