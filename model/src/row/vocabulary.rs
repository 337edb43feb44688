//! The closed vocabularies of a row: the words that its columns, plans and documents share.

use crate::vocabulary;

vocabulary! {
    /// Where a row's numbers come from. Rows of different origins are never pooled.
    Origin, "origin" {
        /// Timed on the device it names.
        Measured => "measured",
        /// Made by the seeded model.
        Simulated => "simulated",
        /// Ran on a stand-in library: right results, meaningless times.
        Emulated => "emulated",
        /// Read from somebody's file.
        Imported => "imported",
    }
}

vocabulary! {
    /// What a row is for.
    Role, "role" {
        /// Feeds fits.
        Fit => "fit",
        /// Predicted, never fitted.
        HeldOut => "held_out",
        /// Measured on every device of a class, to carry the device's own effect.
        Anchor => "anchor",
        /// One arm of a comparison.
        Ab => "ab",
        /// A solution's one visit in the screening round: ranks solutions, feeds no fit.
        Screening => "screening",
    }
}

vocabulary! {
    /// How measuring a row ended. Only `Passed` rows feed fits; `NoCheck` ones do where the plan asked for no check.
    Status, "status" {
        /// Validated against the reference.
        Passed => "passed",
        /// A result was wrong.
        Failed => "failed",
        /// Nothing was compared, as the plan asked.
        NoCheck => "no_check",
        /// It could not run: compile error, launch error, out of memory, crash.
        Invalid => "invalid",
        /// It was not tried, and why is said.
        Skipped => "skipped",
        /// Too many samples fell under a throttle reason.
        Throttled => "throttled",
        /// Another process used the device.
        Contended => "contended",
    }
}

vocabulary! {
    /// Why a visit took no further sample.
    StopReason, "stop reason" {
        /// The interval of its median met the target.
        Converged => "converged",
        /// Its noise no longer changed.
        Stable => "stable",
        /// Its time was up.
        TimeUp => "time_up",
        /// It had as many samples as were allowed or asked for.
        Count => "count",
        /// Somebody stopped it.
        Interrupted => "interrupted",
    }
}

vocabulary! {
    /// What was done about caches before each timed launch.
    FlushMode, "flush mode" {
        /// A buffer larger than the caches was written outside the timed interval.
        Cold => "cold",
        /// Nothing: the data itself is larger than the caches, four times at least.
        Oversized => "oversized",
        /// Nothing, on purpose: caches hold what the launch before left.
        Warm => "warm",
    }
}

vocabulary! {
    /// The load that a row's samples were taken under, where its plan names one. None is ever pooled with another.
    RowLoad, "load" {
        /// After idleness, for a few milliseconds.
        Burst => "burst",
        /// After the plan's time under load, with clock and power seen to stand still.
        Sustained => "sustained",
        /// After the plan's time under load; no sensor says a clock or a power.
        SustainedUnverified => "sustained_unverified",
        /// After several times the plan's time under load, and clock or power still moved.
        Unsettled => "unsettled",
    }
}

vocabulary! {
    /// How launches were timed.
    TimingMode, "timing mode" {
        /// Each in an interval of its own.
        Single => "single",
        /// Several in one interval, queued behind a kernel that holds the device until all of them are there.
        Batched => "batched",
    }
}

vocabulary! {
    /// How an interval was computed.
    IntervalMethod, "interval method" {
        /// Student's t on the logarithms of the rounds' medians.
        StudentTLogRounds => "student_t_log_rounds",
        /// The same, and never narrower than the spread of the rounds that set their number says: see
        /// [`crate::pilot::two_stage_interval`].
        StudentTLogTwoStage => "student_t_log_two_stage",
        /// No interval: one visit says nothing about the next.
        SingleVisit => "single_visit",
        /// No interval: fewer than three rounds.
        TooFewRounds => "too_few_rounds",
        /// No interval and no estimate: the solution is wrong, or could not run to its end.
        NotSound => "not_sound",
    }
}
