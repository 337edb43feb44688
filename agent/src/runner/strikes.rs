//! Whose fault a worker's death was, and what follows from it.

use std::collections::BTreeMap;

use crate::worker::resume::{InHand, SetAside, Stage, Subject};

/// Workers that a solution may kill before it is set aside.
const STRIKES: usize = 3;

/// Workers that may die in a row without any progress and without a solution in hand.
const BARREN: u64 = 3;

/// Workers that may die in a row without a visit, whatever they had in hand: as many as eight solutions in a row may kill.
/// Then it is the device that kills them, and each further solution would cost three more.
const FRUITLESS: u64 = 8 * STRIKES as u64;

/// How a worker died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It touched memory that it has not, or lost its context: what an access outside of arrays comes to.
    Fault,
    /// In any other way. It was late, it was killed, it ran out of memory: another try may find something else.
    Other,
}

/// How far a worker got before it died; the least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Got {
    /// Nowhere.
    Nothing,
    /// It closed rows, be it only those of solutions that were set aside.
    Rows,
    /// It visited a solution to the end.
    Visits,
}

impl Got {
    /// From visits and closed rows before a worker began to those after its death.
    pub(super) fn between((visits, rows): (u64, u64), (visits_now, rows_now): (u64, u64)) -> Self {
        match (visits_now > visits, rows_now > rows) {
            (true, _) => Self::Visits,
            (false, true) => Self::Rows,
            (false, false) => Self::Nothing,
        }
    }
}

/// What follows from a death.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Consequence {
    /// A fresh worker goes on.
    GoOn,
    /// A fresh worker goes on without this solution.
    SetAside(Subject),
    /// The attempt cannot go on.
    GiveUp,
}

/// What a solution did.
#[derive(Debug, Default)]
struct Struck {
    workers: usize,
    last: String,
    is_set_aside: bool,
}

/// Every death of an attempt's workers.
#[derive(Debug, Default)]
pub(super) struct Strikes {
    struck: BTreeMap<Subject, Struck>,
    barren: u64,
    /// Deaths since the last visit.
    fruitless: u64,
    deaths: u64,
    died_preparing: bool,
}

impl Strikes {
    /// A worker died of this with that in hand, having got so far.
    pub(super) fn take(&mut self, in_hand: &InHand, manner: Manner, reason: &str, got: Got) -> Consequence {
        self.deaths += 1;
        self.died_preparing |= in_hand.stage == Stage::Prepare;
        // A fault at a border is the finding itself.
        let is_finding = in_hand.stage == Stage::Bounds && manner == Manner::Fault;
        if got > Got::Nothing || is_finding {
            self.barren = 0;
        }
        if got == Got::Visits || is_finding {
            self.fruitless = 0;
        }
        self.fruitless += 1;
        if self.fruitless >= FRUITLESS {
            return Consequence::GiveUp;
        }
        let Some(subject) = &in_hand.subject else {
            self.barren += 1;
            return if self.barren >= BARREN { Consequence::GiveUp } else { Consequence::GoOn };
        };
        let struck = self.struck.entry(subject.clone()).or_default();
        struck.workers += 1;
        struck.last = format!("{}: {reason}", in_hand.stage.when());
        let limit = if is_finding { 1 } else { STRIKES };
        if struck.workers < limit {
            return Consequence::GoOn;
        }
        struck.is_set_aside = true;
        Consequence::SetAside(subject.clone())
    }

    /// Workers that died.
    pub(super) fn deaths(&self) -> u64 {
        self.deaths
    }

    /// Whether one died while it prepared solutions: then they are prepared one by one.
    pub(super) fn one_by_one(&self) -> bool {
        self.died_preparing
    }

    /// Solutions that are not touched again.
    pub(super) fn set_aside(&self) -> Vec<SetAside> {
        let gone = self.struck.iter().filter(|(_, struck)| struck.is_set_aside);
        gone.map(|(subject, struck)| SetAside { subject: subject.clone(), reason: struck.sentence() }).collect()
    }
}

impl Struck {
    fn sentence(&self) -> String {
        match self.workers {
            1 => format!("it ended its worker {}", self.last),
            workers => format!("it ended {workers} workers, the last {}", self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_hand(stage: Stage, solution: Option<&str>) -> InHand {
        let subject = solution.map(|solution| Subject { point: "p".into(), solution: solution.into() });
        InHand { stage, subject, expected_ns: 0 }
    }

    #[test]
    fn three_deaths_set_a_solution_aside_whatever_others_do_between() {
        let mut strikes = Strikes::default();
        for solution in ["s0", "s1", "s0"] {
            let consequence =
                strikes.take(&in_hand(Stage::WarmUp, Some(solution)), Manner::Fault, "signal 11", Got::Visits);
            assert_eq!(consequence, Consequence::GoOn);
        }
        let last = strikes.take(&in_hand(Stage::Timing, Some("s0")), Manner::Other, "exit code 139", Got::Nothing);
        assert!(matches!(last, Consequence::SetAside(subject) if subject.solution == "s0"));
        let [aside] = &strikes.set_aside()[..] else { panic!("one is set aside: {:?}", strikes.set_aside()) };
        assert_eq!(aside.reason, "it ended 3 workers, the last while launches were timed: exit code 139");
    }

    #[test]
    fn a_device_that_kills_every_worker_is_given_up_before_every_solution_has_had_its_three() {
        let mut strikes = Strikes::default();
        let mut die = |death: u64, got| {
            let solution = format!("s{}", death / 3);
            strikes.take(&in_hand(Stage::WarmUp, Some(&solution)), Manner::Fault, "device lost", got)
        };
        // Each worker closes the row of the solution that was set aside before it, and gets no further.
        let ended = (0..100).find(|&death| die(death, Got::Rows) == Consequence::GiveUp);
        assert_eq!(ended, Some(23), "24 workers");
        let mut strikes = Strikes::default();
        let mut die = |death: u64, got| {
            let solution = format!("s{}", death / 3);
            strikes.take(&in_hand(Stage::WarmUp, Some(&solution)), Manner::Fault, "device lost", got)
        };
        let got = |death: u64| if death.is_multiple_of(20) { Got::Visits } else { Got::Nothing };
        let ended = (0..100).find(|&death| die(death, got(death)) == Consequence::GiveUp);
        assert_eq!(ended, None, "a worker now and then got somewhere");
        let mut strikes = Strikes::default();
        for solution in 0..100 {
            let bounds = in_hand(Stage::Bounds, Some(&format!("s{solution}")));
            let consequence = strikes.take(&bounds, Manner::Fault, "signal 11", Got::Nothing);
            assert!(matches!(consequence, Consequence::SetAside(_)), "each is a finding: {consequence:?}");
        }
    }

    #[test]
    fn a_fault_next_to_unmapped_memory_is_final() {
        let mut strikes = Strikes::default();
        let consequence = strikes.take(&in_hand(Stage::Bounds, Some("s0")), Manner::Fault, "signal 11", Got::Visits);
        assert!(matches!(consequence, Consequence::SetAside(_)));
        assert_eq!(
            strikes.set_aside()[0].reason,
            "it ended its worker during a launch next to unmapped memory: signal 11"
        );
    }

    #[test]
    fn a_worker_that_is_late_or_killed_next_to_unmapped_memory_is_no_finding() {
        let mut strikes = Strikes::default();
        let mut late = || strikes.take(&in_hand(Stage::Bounds, Some("s0")), Manner::Other, "signal 9", Got::Visits);
        assert_eq!([late(), late()], [Consequence::GoOn, Consequence::GoOn], "a busy host is not the solution's fault");
        assert!(matches!(late(), Consequence::SetAside(_)));
    }

    #[test]
    fn three_deaths_for_nothing_end_the_attempt_and_progress_counts_anew() {
        let mut strikes = Strikes::default();
        let opening = in_hand(Stage::Open, None);
        let taken = [Got::Nothing, Got::Nothing, Got::Rows, Got::Nothing, Got::Nothing]
            .map(|got| strikes.take(&opening, Manner::Other, "no device", got));
        assert_eq!(taken[..4], [Consequence::GoOn, Consequence::GoOn, Consequence::GoOn, Consequence::GoOn]);
        assert_eq!(taken[4], Consequence::GiveUp);
        assert!(!strikes.one_by_one());
        strikes.take(&in_hand(Stage::Prepare, None), Manner::Fault, "signal 11", Got::Visits);
        assert!(strikes.one_by_one(), "the next death in there names its solution");
    }
}
