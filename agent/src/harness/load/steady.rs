//! Whether a device under load has settled: its clock and its power stand still.

use std::collections::VecDeque;

use fleetcal_model::row::RowLoad;

use super::NAP_NS;
use crate::telemetry::{Monitor, Reading};

/// Looks in a row over which nothing may move.
pub(super) const LOOKS: usize = 4;

/// Largest change of the core clock over them, relative. A governor that throttles steps by 15 MHz and more at a time.
const CLOCK_CHANGE_MAX: f64 = 0.01;

/// Largest change of power over them, relative. Sensors average over tens of milliseconds to a second; a device that
/// still heats up gains more than this over the looks.
const POWER_CHANGE_MAX: f64 = 0.03;

/// Longest wait for a reading that was asked for while the device worked.
const READING_WAIT_NS: u64 = 20 * NAP_NS;

/// Judges looks at a device under load.
#[derive(Debug, Default)]
pub(super) struct Steadiness {
    looks: VecDeque<Option<Reading>>,
}

impl Steadiness {
    /// Takes one more look; none where the sensor said nothing.
    pub(super) fn look(&mut self, reading: Option<Reading>) {
        self.looks.push_back(reading);
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
    }

    /// What the last looks say.
    pub(super) fn seen(&self) -> RowLoad {
        let changes = [(self.clock_change(), CLOCK_CHANGE_MAX), (self.power_change(), POWER_CHANGE_MAX)];
        let moves: Vec<bool> = changes.iter().filter_map(|(change, most)| Some(change.as_ref()? > most)).collect();
        match moves[..] {
            [] => RowLoad::SustainedUnverified,
            _ if moves.contains(&true) => RowLoad::Unsettled,
            _ => RowLoad::Sustained,
        }
    }

    /// What there is to say of it after so much load, for people.
    pub(super) fn sentence(&self, worked_ns: u64) -> Option<String> {
        let seconds = worked_ns as f64 / 1e9;
        let percent =
            |change: Option<f64>| change.map_or("unknown".to_owned(), |change| format!("{:.1}%", 100.0 * change));
        match self.seen() {
            RowLoad::Burst | RowLoad::Sustained => None,
            RowLoad::SustainedUnverified => Some(format!(
                "no sensor says clock or power: whether the device is steady under load is not known, and rows say `{}`",
                RowLoad::SustainedUnverified
            )),
            RowLoad::Unsettled => Some(format!(
                "after {seconds:.1} s of load the device is not steady (clock moved by {}, power by {}): rows say `{}`",
                percent(self.clock_change()),
                percent(self.power_change()),
                RowLoad::Unsettled
            )),
        }
    }

    fn clock_change(&self) -> Option<f64> {
        self.change(|reading| reading.core_clock_khz)
    }

    fn power_change(&self) -> Option<f64> {
        self.change(|reading| reading.power_mw)
    }

    /// Largest less smallest, relative to the largest. Unknown unless every look saw it.
    fn change(&self, value: fn(&Reading) -> Option<u64>) -> Option<f64> {
        let values: Vec<u64> = self
            .looks
            .iter()
            .map(|look| value(look.as_ref()?))
            .collect::<Option<_>>()
            .filter(|_| self.looks.len() == LOOKS)?;
        let (most, least) = (*values.iter().max()?, *values.iter().min()?);
        (most > 0).then(|| (most - least) as f64 / most as f64)
    }
}

/// The reading that was asked for, once it is there; none from a sensor that is silent.
pub(super) fn reading(monitor: &Monitor) -> Option<Reading> {
    let wait = std::time::Duration::from_nanos(READING_WAIT_NS);
    monitor.finish_reading(wait).then(|| monitor.readings().pop()).flatten().map(|timed| timed.reading)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(looks: &[(Option<u64>, Option<u64>)]) -> RowLoad {
        let mut steadiness = Steadiness::default();
        for &(core_clock_khz, power_mw) in looks {
            steadiness.look(Some(Reading { core_clock_khz, power_mw, ..Reading::default() }));
        }
        steadiness.seen()
    }

    #[test]
    fn clock_and_power_must_both_stand_still_as_far_as_they_are_known() {
        let at = |mhz: u64, watts: u64| (Some(1_000 * mhz), Some(1_000 * watts));
        assert_eq!(seen(&[at(1980, 600); 4]), RowLoad::Sustained);
        assert_eq!(
            seen(&[at(1980, 500), at(1980, 600), at(1980, 600), at(1980, 600), at(1980, 605)]),
            RowLoad::Sustained
        );
        assert_eq!(
            seen(&[at(1980, 600), at(1980, 600), at(1980, 600), at(1950, 600)]),
            RowLoad::Unsettled,
            "two steps of 15 MHz"
        );
        assert_eq!(
            seen(&[at(1980, 570), at(1980, 580), at(1980, 590), at(1980, 600)]),
            RowLoad::Unsettled,
            "it still heats up"
        );
        assert_eq!(seen(&[(Some(1), None); 4]), RowLoad::Sustained, "a clock alone can tell");
        assert_eq!(seen(&[(None, Some(1)); 4]), RowLoad::Sustained, "power alone can tell");
    }

    #[test]
    fn what_was_not_seen_in_every_look_is_not_known() {
        assert_eq!(seen(&[(Some(1), Some(1)); 3]), RowLoad::SustainedUnverified, "too few looks");
        assert_eq!(seen(&[(None, None); 4]), RowLoad::SustainedUnverified);
        let mut steadiness = Steadiness::default();
        (0..4).for_each(|_| steadiness.look(None));
        assert_eq!(steadiness.seen(), RowLoad::SustainedUnverified);
        assert!(steadiness.sentence(1).is_some_and(|sentence| sentence.contains("`sustained_unverified`")));
    }

    #[test]
    fn the_worst_is_the_largest_and_names_read_back() {
        assert!(RowLoad::Sustained < RowLoad::SustainedUnverified && RowLoad::SustainedUnverified < RowLoad::Unsettled);
        assert_eq!("unsettled".parse(), Ok(RowLoad::Unsettled));
    }
}
