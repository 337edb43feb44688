//! Before a task: waits until nobody else is on the device, and its clock and temperature no longer move.
//!
//! Programs are compiled meanwhile, which is the host's work: a device that was seen to be settled then is not waited for
//! once more. What follows of its clock is this task's doing.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use super::{HardwareMonitor, REQUESTED_WAIT};
use crate::device::Device;
use crate::harness::HarnessError;
use crate::harness::bench::Bench;
use crate::telemetry::{Reading, TimedReading};
use crate::worker::message::Event;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Looks in a row over which nothing may move.
const LOOKS: usize = 4;
/// Largest change of the clock over them, relative: one step of 15 MHz at 1.5 GHz.
const CLOCK_CHANGE_MAX: f64 = 0.01;
/// Largest change of a temperature over them: sensors show whole degrees.
const TEMPERATURE_CHANGE_MAX_MC: i64 = 1000;
/// A device on which nothing runs is busy for no more of the time than this, percent.
const BUSY_PERCENT_MAX: u64 = 5;

/// What to do after a look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Next {
    /// Look again.
    Wait,
    /// Begin.
    Begin,
    /// Begin although it is not quiet, and say so.
    BeginAnyway(String),
    /// Do not begin: others use the device.
    Busy {
        /// How many.
        processes: usize,
        /// Who.
        who: String,
    },
}

/// Judges looks at a device.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// Whether its clock says anything: that of an idle host processor goes up and down as it pleases.
    pub(super) heeds_clock: bool,
    looks: VecDeque<Reading>,
    /// Whether clock and temperature have stood still over enough looks, once.
    stood_still: bool,
}

impl Quiet {
    /// Takes looks of a time that is over: of `readings`, which are in order, as many as are [`LOOK_EVERY`] apart.
    pub(super) fn look_back(&mut self, readings: Vec<TimedReading>) {
        let mut next = None;
        for timed in readings {
            if next.is_none_or(|next| timed.ended >= next) {
                next = timed.ended.checked_add(LOOK_EVERY);
                self.take(timed.reading);
            }
        }
    }

    /// After one more look, `waited` since the first, of at most `at_most`.
    pub(super) fn look(&mut self, reading: Reading, waited: Duration, at_most: Duration) -> Next {
        self.take(reading);
        let moving = self.moving();
        if moving.is_none() {
            return Next::Begin;
        }
        if waited < at_most {
            return Next::Wait;
        }
        let foreign = self.looks.back().and_then(|reading| reading.foreign.as_deref()).unwrap_or_default();
        if !foreign.is_empty() {
            let who: Vec<String> = foreign.iter().map(ToString::to_string).collect();
            return Next::Busy { processes: foreign.len(), who: who.join(", ") };
        }
        match moving {
            // Nothing moved as far as was looked: a bound of zero leaves one look.
            Some(Moving::Unknown) | None => Next::Begin,
            Some(what) => Next::BeginAnyway(format!(
                "measuring began after {:.1} s although the device was not settled: {}",
                waited.as_secs_f64(),
                what.name()
            )),
        }
    }

    fn take(&mut self, reading: Reading) {
        self.looks.push_back(reading);
        if self.looks.len() > LOOKS {
            self.looks.pop_front();
        }
        self.stood_still |= self.in_use().is_none() && self.unsettled().is_none();
    }

    /// What is not quiet yet, if anything.
    fn moving(&self) -> Option<Moving> {
        self.in_use().or_else(|| if self.stood_still { None } else { self.unsettled() })
    }

    /// Who is on the device by the last look, if anybody.
    fn in_use(&self) -> Option<Moving> {
        let last = self.looks.back()?;
        if last.foreign.as_ref().is_some_and(|processes| !processes.is_empty()) {
            return Some(Moving::Processes);
        }
        last.busy_percent.is_some_and(|percent| percent > BUSY_PERCENT_MAX).then_some(Moving::Load)
    }

    /// What moved over the last looks, if anything.
    fn unsettled(&self) -> Option<Moving> {
        let range = |value: fn(&Reading) -> Option<i64>| {
            let values = || self.looks.iter().filter_map(value);
            values().max().zip(values().min()).map(|(most, least)| (most, most.saturating_sub(least)))
        };
        let clock = range(|reading| i64::try_from(reading.core_clock_khz?).ok());
        if self.heeds_clock && clock.is_some_and(|(most, change)| change as f64 > CLOCK_CHANGE_MAX * most as f64) {
            return Some(Moving::Clock);
        }
        let temperatures: [fn(&Reading) -> Option<i64>; 3] =
            [|reading| reading.temperature_mc, |reading| reading.hot_spot_mc, |reading| reading.memory_temperature_mc];
        let changes = temperatures.into_iter().filter_map(range);
        if changes.into_iter().any(|(_, change)| change > TEMPERATURE_CHANGE_MAX_MC) {
            return Some(Moving::Temperature);
        }
        let says_anything =
            (self.heeds_clock && clock.is_some()) || temperatures.into_iter().any(|of| range(of).is_some());
        (says_anything && self.looks.len() < LOOKS).then_some(Moving::Unknown)
    }
}

/// What keeps a device from being quiet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moving {
    Processes,
    Load,
    Clock,
    Temperature,
    /// Too few looks to tell.
    Unknown,
}

impl Moving {
    fn name(self) -> &'static str {
        match self {
            Self::Processes => "other processes are on it",
            Self::Load => "something that cannot be seen runs on it",
            Self::Clock => "its clock moves",
            Self::Temperature => "its temperature moves",
            Self::Unknown => "it was looked at too briefly",
        }
    }
}

impl HardwareMonitor {
    /// Waits for the device, as long as the policy allows, unless it was seen to be quiet since the monitor was started.
    /// Without a sensor there is nothing to wait for; a device of its own time is looked at once.
    ///
    /// # Errors
    /// [`HarnessError::Busy`], [`HarnessError::Interrupted`], [`HarnessError::Sink`].
    pub(in crate::harness) fn wait_until_quiet<D: Device>(&self, bench: &mut Bench<'_, D>) -> Result<(), HarnessError> {
        let Some(monitor) = &self.monitor else { return Ok(()) };
        let at_most = match self.own_time {
            true => Duration::ZERO,
            false => Duration::from_nanos(bench.setting.task.policy.settle_ns_max),
        };
        let mut quiet = Quiet { heeds_clock: bench.device.processors().is_none(), ..Quiet::default() };
        let began = Instant::now();
        if !self.own_time && !at_most.is_zero() {
            quiet.look_back(monitor.readings());
        }
        loop {
            if bench.interrupted() {
                return Err(HarnessError::Interrupted);
            }
            // A sensor that does not answer cannot keep the task waiting.
            let wait =
                if self.own_time { REQUESTED_WAIT } else { at_most.saturating_sub(began.elapsed()).max(LOOK_EVERY) };
            // An answer of an earlier look is none to this one.
            let answer = monitor.request_and_wait(wait).then(|| monitor.latest()).flatten();
            let reading = answer.map(|timed| timed.reading).unwrap_or_default();
            match quiet.look(reading, began.elapsed(), at_most) {
                Next::Wait => thread::sleep(LOOK_EVERY),
                Next::Begin => return Ok(()),
                Next::BeginAnyway(sentence) => return bench.say(Event::Note(sentence)),
                Next::Busy { processes, who } => return Err(HarnessError::Busy { processes, who }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::ForeignProcess;

    const BOUND: Duration = Duration::from_secs(2);

    fn reading(core_clock_khz: u64, temperature_mc: i64) -> Reading {
        Reading {
            core_clock_khz: Some(core_clock_khz),
            temperature_mc: Some(temperature_mc),
            foreign: Some(Vec::new()),
            ..Reading::default()
        }
    }

    /// What is said after each of these looks, the last of them when the time is up.
    fn looks(readings: &[Reading]) -> Vec<Next> {
        let mut quiet = Quiet { heeds_clock: true, ..Quiet::default() };
        let last = readings.len() - 1;
        let waited = |look| if look == last { BOUND } else { Duration::ZERO };
        readings.iter().enumerate().map(|(look, reading)| quiet.look(reading.clone(), waited(look), BOUND)).collect()
    }

    #[test]
    fn a_device_is_waited_for_until_clock_and_temperature_stand_still() {
        let still = reading(1_980_000, 40_000);
        let said = looks(&[
            reading(345_000, 44_000),
            reading(1_980_000, 43_000),
            still.clone(),
            still.clone(),
            still.clone(),
            still,
        ]);
        assert_eq!(said[..5], [Next::Wait, Next::Wait, Next::Wait, Next::Wait, Next::Wait]);
        assert_eq!(said[5], Next::Begin);
    }

    #[test]
    fn one_that_never_settles_is_measured_and_that_is_said() {
        for (readings, why) in [
            (vec![reading(345_000, 40_000), reading(1_980_000, 40_000)], "its clock moves"),
            (vec![reading(1_980_000, 50_000), reading(1_980_000, 47_000)], "its temperature moves"),
            (vec![Reading { busy_percent: Some(97), ..reading(1_980_000, 40_000) }], "cannot be seen"),
        ] {
            let said = looks(&readings);
            let Some(Next::BeginAnyway(sentence)) = said.last() else { panic!("{why}: {said:?}") };
            assert!(sentence.contains(why) && sentence.contains("2.0 s"), "{sentence}");
        }
    }

    #[test]
    fn other_processes_may_leave_in_time_and_else_the_device_is_busy() {
        let process = ForeignProcess { pid: 77, name: Some("train".to_owned()) };
        let busy = Reading { foreign: Some(vec![process]), ..reading(1_980_000, 40_000) };
        let said = looks(&[busy.clone(), busy.clone()]);
        assert_eq!(said, [Next::Wait, Next::Busy { processes: 1, who: "train (process 77)".to_owned() }]);
        let free = reading(1_980_000, 40_000);
        assert_eq!(looks(&[busy, free.clone(), free.clone(), free.clone(), free]).last(), Some(&Next::Begin));
    }

    #[test]
    fn a_device_that_was_still_while_programs_were_compiled_is_not_waited_for_again() {
        let began = Instant::now();
        let every_20_ms = |readings: &[Reading]| -> Vec<TimedReading> {
            let timed = (0..).zip(readings).map(|(number, reading)| {
                let at = began + number * Duration::from_millis(20);
                TimedReading { began: at, ended: at, reading: reading.clone() }
            });
            timed.collect()
        };
        let look = |earlier: &[Reading], now: Reading| {
            let mut quiet = Quiet { heeds_clock: true, ..Quiet::default() };
            quiet.look_back(every_20_ms(earlier));
            quiet.look(now, Duration::ZERO, BOUND)
        };
        let (still, idle) = (reading(1_980_000, 40_000), reading(345_000, 40_000));
        // Sixteen readings span 300 ms: four looks that are 100 ms apart.
        let settled = vec![still.clone(); 16];
        assert_eq!(look(&settled, idle.clone()), Next::Begin, "it fell idle since, which is no aftermath of others");
        assert_eq!(look(&settled[..15], idle.clone()), Next::Wait, "three looks and one that is another clock");
        assert_eq!(look(&settled[..15], still.clone()), Next::Begin, "three looks and one");
        let load = Reading { busy_percent: Some(97), ..still };
        assert_eq!(look(&settled, load), Next::Wait, "somebody has come");
    }

    #[test]
    fn without_a_value_to_wait_for_nobody_waits() {
        assert_eq!(looks(&[Reading::default(), Reading::default()])[0], Next::Begin);
        let mut host = Quiet::default();
        let clock_only = Reading { core_clock_khz: Some(800_000), ..Reading::default() };
        assert_eq!(host.look(clock_only, Duration::ZERO, BOUND), Next::Begin, "an idle processor's clock says nothing");
        let mut brief = Quiet { heeds_clock: true, ..Quiet::default() };
        assert_eq!(brief.look(reading(1, 1), Duration::ZERO, Duration::ZERO), Next::Begin, "the plan allows no wait");
    }
}
