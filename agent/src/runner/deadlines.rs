//! How long a worker may take for what it says it does: launch < visit < task. The lease outlasts them all, as long as
//! the agent lives to renew it.

use std::time::Duration;

use fleetcal_model::policy::{Load, MeasuringPolicy};
use tokio::time::Instant;

use crate::harness::load::LOAD_TIMES_MAX;
use crate::worker::message::Event;
use crate::worker::resume::{InHand, Stage};

/// A stage may take so many times what was expected of it, beyond its floor: a busy host, a cold clock, a wrong guess.
const FACTOR: u32 = 20;

/// A task may take so many times what its plan allows, beyond its grace: the harness shrinks it to fit, and can
/// only do so as well as its first round foretells.
const TASK_FACTOR: u32 = 2;

/// A worker that was told to stop and does not say that it is gone by then cannot be stopped. Its source has given up
/// waiting long before.
const GONE: Duration = Duration::from_secs(30);

/// How long a worker may be silent. A worker that exceeds one of these is killed with all that it started.
///
/// The defaults are far above what a healthy worker takes on a slow, busy machine, and well below two minutes for
/// everything that can be foreseen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Until the device is locked, its library loaded, and its instrument measured.
    pub open: Duration,
    /// Compiling and loading, beyond what so many solutions are expected to take.
    pub prepare: Duration,
    /// Allocating and filling memory.
    pub data: Duration,
    /// One untimed launch, whose duration nobody knows the first time.
    pub warm_up: Duration,
    /// Reading back and comparing; the reference of billions of elements takes a while.
    pub check: Duration,
    /// One launch next to unmapped memory.
    pub bounds: Duration,
    /// One batch of timed launches, beyond what it is expected to take.
    pub timing: Duration,
    /// One visit, beyond what its policy allows it.
    pub visit: Duration,
    /// One task, beyond what its policy allows it.
    pub task: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            open: Duration::from_secs(90),
            prepare: Duration::from_secs(60),
            data: Duration::from_secs(90),
            warm_up: Duration::from_secs(45),
            check: Duration::from_secs(90),
            bounds: Duration::from_secs(45),
            timing: Duration::from_secs(30),
            visit: Duration::from_secs(240),
            task: Duration::from_secs(600),
        }
    }
}

impl Deadlines {
    /// Another patience with launches, and the rest as it is.
    pub fn with_launches(launch: Duration) -> Self {
        Self { warm_up: launch, bounds: launch, timing: launch, ..Self::default() }
    }

    fn stage(&self, in_hand: &InHand, policy: &MeasuringPolicy) -> Duration {
        let floor = match in_hand.stage {
            Stage::Open => self.open,
            Stage::Prepare => self.prepare,
            Stage::Data => self.data,
            Stage::WarmUp => self.warm_up,
            Stage::Check => self.check,
            Stage::Bounds => self.bounds,
            Stage::Timing => self.timing,
        };
        let expected = Duration::from_nanos(in_hand.expected_ns).saturating_mul(FACTOR);
        floor.saturating_add(expected).saturating_add(pauses(policy))
    }

    fn whole_visit(&self, policy: &MeasuringPolicy) -> Duration {
        let timed = Duration::from_nanos(policy.visit_ns_max).saturating_mul(FACTOR);
        self.visit.saturating_add(timed).saturating_add(pauses(policy))
    }

    /// How long all workers of an attempt may take together.
    pub(super) fn whole_task(&self, policy: &MeasuringPolicy) -> Duration {
        self.task.saturating_add(Duration::from_nanos(policy.task_ns_max).saturating_mul(TASK_FACTOR))
    }
}

/// What a policy may have a healthy worker wait for at any time: idleness, load, a cool device.
fn pauses(policy: &MeasuringPolicy) -> Duration {
    let load_ns = match policy.load {
        Some(Load::Sustained) => policy.load_ns.saturating_mul(LOAD_TIMES_MAX),
        Some(Load::Burst) => policy.load_ns,
        None => 0,
    };
    Duration::from_nanos(load_ns.saturating_add(policy.settle_ns_max))
}

/// Watches one worker: what it has in hand, and until when.
#[derive(Debug)]
pub(super) struct Watch<'a> {
    deadlines: &'a Deadlines,
    policy: &'a MeasuringPolicy,
    in_hand: InHand,
    stage_ends: Instant,
    visit_ends: Option<Instant>,
    task_ends: Instant,
    /// Once it was told to stop: when it must be gone.
    gone: Option<Instant>,
}

impl<'a> Watch<'a> {
    /// Watches a worker that starts now.
    pub(super) fn start(
        deadlines: &'a Deadlines,
        policy: &'a MeasuringPolicy,
        now: Instant,
        task_ends: Instant,
    ) -> Self {
        let in_hand = InHand { stage: Stage::Open, subject: None, expected_ns: 0 };
        let stage_ends = later(now, deadlines.stage(&in_hand, policy));
        Self { deadlines, policy, in_hand, stage_ends, visit_ends: None, task_ends, gone: None }
    }

    /// Takes notice of what it said.
    pub(super) fn heard(&mut self, event: &Event, now: Instant) {
        match event {
            Event::InHand(next) => {
                if next.subject.is_none() {
                    self.visit_ends = None;
                } else if self.visit_ends.is_none() || next.subject != self.in_hand.subject {
                    self.visit_ends = Some(later(now, self.deadlines.whole_visit(self.policy)));
                }
                self.in_hand = next.clone();
                self.stage_ends = later(now, self.deadlines.stage(next, self.policy));
            }
            // The visit is over: what comes next is nobody's in particular until it says so.
            Event::Visited(_) | Event::RowClosed { .. } | Event::Decided(_) => self.idle(now),
            Event::Devices(_)
            | Event::Planned { .. }
            | Event::PointDropped { .. }
            | Event::Note(_)
            | Event::RowOpened(_)
            | Event::RowForgotten { .. }
            | Event::Done
            | Event::Lost { .. }
            | Event::Failed { .. } => {}
        }
    }

    fn idle(&mut self, now: Instant) {
        self.in_hand = InHand { stage: Stage::Data, subject: None, expected_ns: 0 };
        self.visit_ends = None;
        self.stage_ends = later(now, self.deadlines.stage(&self.in_hand, self.policy));
    }

    /// It was told to stop.
    pub(super) fn told_to_stop(&mut self, now: Instant) {
        self.gone.get_or_insert(now + GONE);
    }

    /// Whether it was told to stop.
    pub(super) fn is_told_to_stop(&self) -> bool {
        self.gone.is_some()
    }

    /// Until when it must say something, or be gone.
    pub(super) fn due(&self) -> Instant {
        let visit_or_stage = self.visit_ends.map_or(self.stage_ends, |visit| visit.min(self.stage_ends));
        self.gone.unwrap_or_else(|| visit_or_stage.min(self.task_ends))
    }

    /// What it has in hand.
    pub(super) fn in_hand(&self) -> &InHand {
        &self.in_hand
    }

    /// Why it is late now, in words.
    pub(super) fn lateness(&self, now: Instant) -> String {
        let (what, limit) = if now >= self.task_ends {
            ("the whole task", self.deadlines.whole_task(self.policy))
        } else if now >= self.stage_ends {
            ("this", self.deadlines.stage(&self.in_hand, self.policy))
        } else {
            ("one visit", self.deadlines.whole_visit(self.policy))
        };
        format!("{what} took longer than {} s, and the worker was stopped", limit.as_secs_f64().ceil())
    }

    /// Whether the task has no time left.
    pub(super) fn is_task_over(&self, now: Instant) -> bool {
        now >= self.task_ends
    }
}

/// A moment so much later; one beyond what clocks can show is a very late one.
fn later(now: Instant, span: Duration) -> Instant {
    /// A hundred years.
    const NEVER: Duration = Duration::from_secs(3_155_760_000);
    now + span.min(NEVER)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::visit;
    use crate::worker::resume::Subject;

    fn in_hand(stage: Stage, solution: Option<&str>, expected_ns: u64) -> Event {
        let subject = solution.map(|solution| Subject { point: "p".into(), solution: solution.into() });
        Event::InHand(InHand { stage, subject, expected_ns })
    }

    #[test]
    fn deadlines_are_staggered_and_move_with_what_is_said() {
        let (deadlines, now) = (Deadlines::default(), Instant::now());
        let policy = MeasuringPolicy { load_ns: 0, settle_ns_max: 0, ..MeasuringPolicy::default() };
        let task_ends = now + deadlines.whole_task(&policy);
        let mut watch = Watch::start(&deadlines, &policy, now, task_ends);
        assert_eq!(watch.due(), now + deadlines.open);
        watch.heard(&in_hand(Stage::Timing, Some("s0"), 2_000_000_000), now);
        let launch = watch.due();
        assert_eq!(launch, now + deadlines.timing + Duration::from_secs(40), "expected times a factor, and a floor");
        let later = now + Duration::from_secs(255);
        watch.heard(&in_hand(Stage::Timing, Some("s0"), 0), later);
        let visit_ends = watch.due();
        assert_eq!(visit_ends, now + Duration::from_secs(260), "a visit ends however often it says something");
        assert!(launch < visit_ends && visit_ends < task_ends);
        assert!(watch.lateness(visit_ends).contains("one visit took longer than 260 s"));
        watch.heard(&Event::Visited(visit(0, 1)), later);
        assert_eq!((watch.due(), &watch.in_hand().subject), (later + deadlines.data, &None), "that visit is over");
        watch.told_to_stop(later);
        assert_eq!(watch.due(), later + GONE, "told to stop, only its end is waited for");
    }

    #[test]
    fn a_load_that_the_plan_does_not_name_delays_nobody_and_a_sustained_one_may_be_prolonged() {
        let policy = |load| MeasuringPolicy { load, load_ns: 1_000, settle_ns_max: 7, ..MeasuringPolicy::default() };
        let pauses_ns = |load| pauses(&policy(load)).as_nanos();
        assert_eq!([None, Some(Load::Burst), Some(Load::Sustained)].map(pauses_ns), [7, 1_007, 4_007]);
    }

    #[test]
    fn a_duration_beyond_all_clocks_is_no_fault() {
        let (deadlines, now) = (Deadlines::default(), Instant::now());
        let policy = MeasuringPolicy {
            visit_ns_max: u64::MAX,
            task_ns_max: u64::MAX,
            load_ns: u64::MAX,
            ..MeasuringPolicy::default()
        };
        let mut watch = Watch::start(&deadlines, &policy, now, later(now, deadlines.whole_task(&policy)));
        watch.heard(&in_hand(Stage::WarmUp, Some("s0"), u64::MAX), now);
        assert!(watch.due() > now);
    }
}
