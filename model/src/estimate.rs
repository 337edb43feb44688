//! From samples to a row: visits become rounds, rounds become the estimate and its interval, and the row is sealed.
//!
//! A series of launches back to back repeats one state of the caches, and the next visit finds another, percents
//! away. The replicate is therefore the round, never the launch: **the estimate is the median of the rounds' medians,
//! its interval is Student's t on their logarithms**: times are positive, and vary by factors.

use crate::digest::{SetDigest, Sha256Digest};
use crate::id::{DeviceId, RowId, TaskId};
use crate::modes::two_groups;
use crate::pilot::two_stage_interval;
use crate::point::{Point, Solution};
use crate::row::{IntervalMethod, Role, Round, Row, Sample, StopReason, Timing};
use crate::statistics::{Interval, log_t_interval, median, median_absolute_deviation};

#[cfg(test)]
mod tests;

/// What is known of a visit besides its samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// Number of the round; 0 is the screening round.
    pub round: u64,
    /// Position within the round, from 0.
    pub order: u64,
    /// Offset of the buffers within their allocations, bytes.
    pub buffer_offset_bytes: u64,
    /// Launches within one timed interval.
    pub enqueues_per_sample: u64,
    /// Why it ended.
    pub stop_reason: StopReason,
}

impl Visit {
    /// Summarises the visit's accepted samples, per launch. `None` where no sample was accepted, or where an interval
    /// holds no launch: such a visit says nothing, and a row keeps only its samples.
    pub fn summarise(&self, samples: &[Sample]) -> Option<Round> {
        if self.enqueues_per_sample == 0 {
            return None;
        }
        let launch_ns: Vec<f64> = samples
            .iter()
            .filter(|sample| sample.accepted)
            .map(|sample| sample.ns as f64 / self.enqueues_per_sample as f64)
            .collect();
        Some(Round {
            round: self.round,
            order: self.order,
            buffer_offset_bytes: self.buffer_offset_bytes,
            median_ns: median(&launch_ns)?,
            mad_ns: median_absolute_deviation(&launch_ns)?,
            samples: launch_ns.len() as u64,
            stop_reason: self.stop_reason,
        })
    }
}

/// What the rounds of a row say together.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Median of the rounds' medians, nanoseconds a launch; none where no round has a positive median.
    pub estimate_ns: Option<f64>,
    /// Its 95% interval, nanoseconds, widened to hold the estimate where that lies outside.
    pub interval_ns: Option<Interval>,
    /// How the interval was computed, or why there is none.
    pub method: IntervalMethod,
    /// Rounds that entered.
    pub rounds: u64,
}

impl Estimate {
    /// Estimates from rounds.
    ///
    /// The screening round never enters: it chose the row, and the best of many equal solutions reads too fast. Only a
    /// [`Role::Screening`] row, which has nothing else and feeds no fit, is estimated from it. A round whose median is
    /// zero (the clock did not tick) is no replicate. Where the spread of the first `pilot_rounds` set the number of all,
    /// and more followed, the interval heeds that: see [`two_stage_interval`].
    pub fn of_rounds(rounds: &[Round], role: Role, pilot_rounds: Option<u64>) -> Self {
        let mut medians_ns = replicates(rounds, 1, u64::MAX);
        if medians_ns.is_empty() && role == Role::Screening {
            medians_ns = replicates(rounds, 0, 0);
        }
        let estimate_ns = median(&medians_ns);
        let pilot_ns = pilot_rounds.map(|last| replicates(rounds, 1, last));
        let two_stage = pilot_ns
            .filter(|pilot_ns| pilot_ns.len() < medians_ns.len())
            .and_then(|pilot_ns| two_stage_interval(&pilot_ns, &medians_ns));
        let (interval_ns, computed) = match two_stage {
            Some(interval) => (Some(interval), IntervalMethod::StudentTLogTwoStage),
            None => (log_t_interval(&medians_ns), IntervalMethod::StudentTLogRounds),
        };
        let interval_ns = interval_ns.zip(estimate_ns).map(|(interval, estimate_ns)| interval.widened_to(estimate_ns));
        let method = match medians_ns.len() {
            1 => IntervalMethod::SingleVisit,
            _ if interval_ns.is_some() => computed,
            _ => IntervalMethod::TooFewRounds,
        };
        Self { estimate_ns, interval_ns, method, rounds: medians_ns.len() as u64 }
    }

    /// Half-width of the interval, relative to the estimate.
    pub fn relative_half_width(&self) -> Option<f64> {
        let (interval, estimate_ns) = self.interval_ns.zip(self.estimate_ns)?;
        Some((interval.high - interval.low) / 2.0 / estimate_ns)
    }
}

/// Medians of the rounds from `first` to `last` that have a positive one, nanoseconds.
fn replicates(rounds: &[Round], first: u64, last: u64) -> Vec<f64> {
    let wanted = rounds.iter().filter(|round| (first..=last).contains(&round.round));
    wanted.map(|round| round.median_ns).filter(|ns| ns.is_finite() && *ns > 0.0).collect()
}

/// Fills in what rounds and samples in `timing` say together: estimate, interval and its method, whether it met the
/// target, whether rounds fall into two groups, rounds done and samples discarded. Target, pilot and rounds planned stay
/// as they are: they were set before.
pub fn finish(timing: &mut Timing, role: Role) {
    let estimate = Estimate::of_rounds(&timing.rounds, role, timing.pilot_rounds);
    let half_width = estimate.relative_half_width();
    timing.converged = half_width.zip(timing.interval_target).map(|(half_width, target)| half_width <= target);
    let resolution_ns = timing.clock_resolution_ns.unwrap_or(0.0) / timing.enqueues_per_sample.max(1) as f64;
    timing.bimodal = two_groups(&replicates(&timing.rounds, 1, u64::MAX), resolution_ns);
    timing.samples_discarded = timing.samples.iter().filter(|sample| !sample.accepted).count() as u64;
    timing.rounds_done = estimate.rounds;
    timing.estimate_ns = estimate.estimate_ns;
    timing.interval_low_ns = estimate.interval_ns.map(|interval| interval.low);
    timing.interval_high_ns = estimate.interval_ns.map(|interval| interval.high);
    timing.interval_method = estimate.method;
}

/// Takes back what [`finish`] filled in of a row whose solution turned out wrong, or did not run to its end: rounds that
/// looked right before that are kept as they were measured, and nobody can take their median for a result.
pub fn withdraw(timing: &mut Timing) {
    timing.estimate_ns = None;
    timing.interval_low_ns = None;
    timing.interval_high_ns = None;
    timing.interval_method = IntervalMethod::NotSound;
    timing.converged = None;
    timing.bimodal = None;
}

/// The identity of a row: 128 bits of the SHA-256 of what makes it unique, in hexadecimal.
pub fn row_id(task: &TaskId, attempt: u64, device: &DeviceId, point: &Point, solution: &Solution) -> RowId {
    let attempt = attempt.to_string();
    let point = point.to_string();
    let fields = [task.as_str(), &attempt, device.as_str(), &point, &solution.name];
    RowId::new(Sha256Digest::of(fields.join("\u{1f}").as_bytes()).to_hex()[..32].to_owned())
}

/// Digest of a set of rows, whatever their order, from their content hashes.
///
/// A row that was never sealed counts by the digest of its identity and hash as they stand: it is seen, and cannot be
/// mistaken for a sealed one.
pub fn rows_digest<'a>(rows: impl IntoIterator<Item = &'a Row>) -> SetDigest {
    let mut set = SetDigest::default();
    for Row { identity, .. } in rows {
        set.insert(set_member(identity.row_id.as_str(), &identity.content_hash));
    }
    set
}

/// What a row of that identity and content hash adds to the digest of a set.
pub(crate) fn set_member(row_id: &str, content_hash: &str) -> Sha256Digest {
    let unsealed = || Sha256Digest::of(format!("unsealed\u{1f}{row_id}\u{1f}{content_hash}").as_bytes());
    Sha256Digest::from_hex(content_hash).unwrap_or_else(unsealed)
}

#[cfg(feature = "serde")]
mod sealing {
    use super::{Row, RowId, Sha256Digest};
    use crate::row::{Conditions, Counts, DeviceColumns, Identity, Outcome, Timing, Work};

    /// A row as it is hashed: every group in order, under the names of [`Row`].
    #[derive(serde::Serialize)]
    struct Content<'a> {
        identity: Identity,
        device: &'a DeviceColumns,
        work: &'a Work,
        counts: &'a Counts,
        timing: &'a Timing,
        conditions: &'a Conditions,
        outcome: &'a Outcome,
    }

    /// JSON cannot hold a row.
    #[derive(Debug, thiserror::Error)]
    #[error("the row {row} cannot be sealed: {source}. This is a fault of fleetcal: report it")]
    pub struct SealError {
        /// The row.
        pub row: RowId,
        /// What JSON cannot hold of it.
        pub source: serde_json::Error,
    }

    /// Sets the row's content hash: the SHA-256 of its compact JSON, fields in the order of declaration, with the hash
    /// itself empty. Call it last: any later change of the row breaks the seal.
    ///
    /// # Errors
    /// [`SealError`], which none of a row's types gives; the row is then as it was.
    pub fn seal(row: &mut Row) -> Result<(), SealError> {
        let digest = content_digest(row).map_err(|source| SealError { row: row.identity.row_id.clone(), source })?;
        row.identity.content_hash = digest.to_hex();
        Ok(())
    }

    /// Whether the row is as it was when it was sealed.
    pub fn verify_seal(row: &Row) -> bool {
        let stored = Sha256Digest::from_hex(&row.identity.content_hash);
        stored.is_some() && stored == content_digest(row).ok()
    }

    fn content_digest(row: &Row) -> Result<Sha256Digest, serde_json::Error> {
        // Taken apart without `..`, so that a new group cannot be left out of the hash.
        let Row { identity, device, work, counts, timing, conditions, outcome } = row;
        let identity = Identity { content_hash: String::new(), ..identity.clone() };
        let content = Content { identity, device, work, counts, timing, conditions, outcome };
        serde_json::to_vec(&content).map(|json| Sha256Digest::of(&json))
    }
}

#[cfg(feature = "serde")]
pub use sealing::{SealError, seal, verify_seal};
